"""Inputs, the kernel's parameters, and the exact result in float64."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from perfmodel.launch.launch import Buffer, KernelCall

from .problem import Stencil1d


def inputs(problem: Stencil1d, rng: np.random.Generator) -> dict[str, NDArray[np.float32]]:
    """Numbers in [−1, 1)."""
    return {"input": rng.uniform(-1, 1, problem.input_length).astype(np.float32)}


def call(problem: Stencil1d, given: Mapping[str, NDArray[np.float32]]) -> KernelCall:
    """Parameters ``(output, input)``; the output holds NaN until the kernel has written it."""
    poisoned = np.full(problem.length, np.nan, np.float32)
    output = Buffer(name="output", array=poisoned, output=True)
    return KernelCall(parameters=(output, Buffer(name="input", array=given["input"])))


def means(problem: Stencil1d, values: NDArray[np.float32]) -> NDArray[np.float64]:
    """Means of windows, shape ``(length,)``."""
    windows = np.lib.stride_tricks.sliding_window_view(values.astype(np.float64), problem.taps)
    return np.asarray(windows.mean(axis=1))
