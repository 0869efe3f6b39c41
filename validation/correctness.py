"""Whether a kernel computed the right thing: its outputs against the float64 reference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfmodel.records.schema import Correctness


def compare_outputs(
    outputs: Mapping[str, NDArray[Any]], reference: Mapping[str, NDArray[np.float64]], tolerance: float
) -> Correctness:
    """Largest error over all outputs, each relative to the largest magnitude of its reference.

    An element that was never written still holds the poison, NaN, and makes the error infinite; so does an output of
    another shape or one that is missing.

    >>> compare_outputs({"y": np.float32([1, 2])}, {"y": np.array([1.0, 2.5])}, 1e-5).max_relative_error
    0.2
    """
    error = max((output_error(outputs.get(name), exact) for name, exact in reference.items()), default=np.inf)
    return Correctness(max_relative_error=float(error), tolerance=tolerance)


def output_error(output: NDArray[Any] | None, exact: NDArray[np.float64]) -> float:
    """Largest absolute difference over the largest magnitude of the exact result; infinite where nothing compares."""
    if output is None or output.shape != exact.shape:
        return float(np.inf)
    if exact.size == 0:
        return 0.0
    difference = np.max(np.abs(output.astype(np.float64) - exact))
    if not np.isfinite(difference):
        return float(np.inf)
    magnitude = np.max(np.abs(exact))
    return float(difference / magnitude) if magnitude > 0 else float(difference)
