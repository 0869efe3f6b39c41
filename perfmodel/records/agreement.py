"""How well predicted counts agree with what the hardware counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..counts import Counts
from .metrics import MeasuredCount


@dataclass(frozen=True, slots=True, kw_only=True)
class CountAgreement:
    """One count over ``n`` launches; errors are |predicted − measured| / max(measured, 1), as fractions."""

    count: str
    n: int
    exact_fraction: float
    median_relative_error: float
    max_relative_error: float


def count_agreement(predicted: Counts, measured: Sequence[MeasuredCount]) -> tuple[CountAgreement, ...]:
    """Agreement of every measured count; launches that were not counted are left out, counts without any too.

    >>> measured = MeasuredCount(count="barriers", metrics=(), launches=np.array([4.0, 8.0, np.nan]))
    >>> count_agreement(Counts(barriers=np.array([4.0, 6.0, 1.0])), [measured])[0].max_relative_error
    0.25
    """
    found = []
    for entry in measured:
        values = np.broadcast_to(np.asarray(getattr(predicted, entry.count), np.float64), entry.launches.shape)
        counted = np.isfinite(entry.launches)
        if counted.any():
            found.append(_agreement(entry.count, values[counted], entry.launches[counted]))
    return tuple(found)


def relative_errors(predicted: NDArray[np.float64], measured: NDArray[np.float64]) -> NDArray[np.float64]:
    """|predicted − measured| / max(measured, 1): where the hardware counted nothing, the predicted number itself.

    >>> relative_errors(np.array([0.0, 7.0, 3.0]), np.array([0.0, 0.0, 2.0])).tolist()
    [0.0, 7.0, 0.5]
    """
    return np.abs(predicted - measured) / np.maximum(np.abs(measured), 1.0)


def _agreement(count: str, predicted: NDArray[np.float64], measured: NDArray[np.float64]) -> CountAgreement:
    errors = relative_errors(predicted, measured)
    return CountAgreement(
        count=count,
        n=len(errors),
        exact_fraction=float(np.mean(errors == 0.0)),
        median_relative_error=float(np.median(errors)),
        max_relative_error=float(np.max(errors)),
    )
