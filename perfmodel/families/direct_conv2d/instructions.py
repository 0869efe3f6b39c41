"""Executed warp instructions: multiply-adds and shuffles exactly, the other classes estimated."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .exchange_plans import executed_plan
from .problem import Conv2d
from .strips import Strips

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def _passes(problem: Conv2d, sizes: Strips) -> Integers:
    """Passes of all warps through the code of one step for one input channel."""
    passes: Integers = sizes.across * sizes.planes * sizes.steps_down * problem.filter_channels
    return passes


def rows_in_step(problem: Conv2d, sizes: Strips) -> Integers:
    """Input rows that the code of one step reads, inside of the image or not."""
    unrolled = (sizes.rows_per_thread - 1) * problem.stride + problem.filter_height
    return np.where(sizes.rolling, problem.stride, np.where(sizes.rows, unrolled, problem.filter_height))


def multiply_adds(problem: Conv2d, sizes: Strips) -> Floats:
    """Warp-level fused multiply-adds; a strip's unrolled rows count whether or not they have an output."""
    outputs = np.where(sizes.rows & ~sizes.rolling, sizes.rows_per_thread, 1)
    return (_passes(problem, sizes) * outputs * problem.filter_taps).astype(float)


def shuffles(problem: Conv2d, sizes: Strips, warps: Floats) -> Floats:
    """Warp-level shuffles: those of each row read, and one of every launched warp that tells it its row."""
    of_row = np.where(sizes.rotate, problem.filter_width - 1, executed_plan(problem.filter_width).shuffles)
    exchanged = _passes(problem, sizes) * rows_in_step(problem, sizes) * of_row
    return np.where(sizes.columns, exchanged + warps, 0).astype(float)


THREAD_INTEGERS = 45.0
"""Index arithmetic of a thread outside its loops."""
IDLE_THREAD_INTEGERS = 20.0
"""The part of it that a thread without an output executes."""


def integer(problem: Conv2d, sizes: Strips, warps: Floats) -> Floats:
    """Estimate of warp-level integer instructions: addresses, predicates, zeros and selections."""
    return THREAD_INTEGERS * sizes.active_warps + IDLE_THREAD_INTEGERS * (warps - sizes.active_warps)


def control(problem: Conv2d, sizes: Strips, warps: Floats) -> Floats:
    """Estimate of warp-level control instructions: exits and the branches of the loops."""
    return 2 * warps + sizes.across * sizes.planes * sizes.steps_down * (1.0 + (problem.filter_channels > 1))
