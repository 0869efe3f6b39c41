"""Executed warp instructions: multiply-adds and shuffles exactly, the other classes estimated."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .exchange_plans import executed_plan
from .problem import Conv2d
from .strips import Strips

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def multiply_adds(problem: Conv2d, sizes: Strips) -> Floats:
    """Warp-level fused multiply-adds; a strip's unrolled rows count whether or not they have an output.

    With a filter of one column the compiler moves the last one of a rolling window into the branch of the store, and so
    leaves out those before the first output.
    """
    outputs = np.where(sizes.unrolled, sizes.rows_per_thread, 1)
    return (sizes.passes * outputs * problem.filter_taps).astype(float)


def shuffles(problem: Conv2d, sizes: Strips, warps: Floats) -> Floats:
    """Warp-level shuffles: those of each row read, and one of every launched warp that tells it its row."""
    of_row = np.where(sizes.rotate, problem.filter_width - 1, executed_plan(problem.filter_width).shuffles)
    exchanged = sizes.passes * sizes.step_rows * of_row
    return np.where(sizes.columns, exchanged + warps, 0).astype(float)


THREAD_INTEGERS = 57.0
"""Index arithmetic of a thread outside its loops; these constants: least squares over 1,788 configurations compiled for
sm_75, sm_80 and sm_90, median error 13 %."""
IDLE_THREAD_INTEGERS = 20.0
"""The part of it that a thread without an output executes."""
INTEGERS_PER_TESTED_LOAD = 1.6
"""Predicate and zero of a load that may lie outside of the image."""
INTEGERS_PER_OUTPUT = 15.5
"""Address and predicate of a store, and the loop around it."""
INTEGERS_PER_SHUFFLE = 0.6
"""Selection of the published register."""
INTEGERS_PER_ROTATION = 1.5
"""Selection, its predicate and the source lane of an indexed shuffle."""
CONTROL_PER_OUTPUT = 3.0
"""Branches around a store of unrolled rows."""


def loads_of_row(problem: Conv2d, sizes: Strips) -> Integers:
    """Loads of a lane for one input row."""
    exchanged = np.where(sizes.rotate, min(problem.filter_width, 2), executed_plan(problem.filter_width).loads)
    return np.where(sizes.columns, exchanged, problem.filter_width)


def integer(problem: Conv2d, sizes: Strips, warps: Floats) -> Floats:
    """Estimate of warp-level integer instructions: addresses, predicates, zeros and selections."""
    rows = sizes.passes * sizes.step_rows
    tested = np.where(sizes.columns | (problem.padding > 0), rows * loads_of_row(problem, sizes), 0)
    of_shuffle = np.where(sizes.rotate, INTEGERS_PER_ROTATION, INTEGERS_PER_SHUFFLE)
    outputs = sizes.across * sizes.planes * problem.output_height
    return np.asarray(
        THREAD_INTEGERS * sizes.active_warps
        + IDLE_THREAD_INTEGERS * (warps - sizes.active_warps)
        + INTEGERS_PER_TESTED_LOAD * tested
        + of_shuffle * shuffles(problem, sizes, np.zeros_like(warps))
        + INTEGERS_PER_OUTPUT * outputs
    )


def control(problem: Conv2d, sizes: Strips, warps: Floats) -> Floats:
    """Estimate of warp-level control instructions: exits, branches of the loops and around stores."""
    stores = np.where(sizes.unrolled, sizes.active_warps * sizes.rows_per_thread, 0)
    return np.asarray(2 * warps + sizes.passes + CONTROL_PER_OUTPUT * stores)
