"""The serial structure of one warp: what it waits for, one after the other."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...core.constants import INSTRUCTION_BYTES
from .instructions import loads_of_row
from .problem import Conv2d
from .strips import Strips

Floats = NDArray[np.float64]

REGISTERS_BESIDE_LOADS = 15
"""Registers that hold no load in flight: measured on the code of sm_75 and sm_90, where the rest holds one load each."""


def _steps(problem: Conv2d, sizes: Strips) -> NDArray[np.int64]:
    """Passes of one warp through the code of one step, channels included."""
    looped = np.where(sizes.rolling, sizes.rows_per_thread + sizes.window - 1, sizes.rows_per_thread)
    return np.where(sizes.unrolled, 1, looped) * problem.filter_channels


def global_round_trips(problem: Conv2d, sizes: Strips, registers: NDArray[np.int32]) -> Floats:
    """Groups of loads that a warp issues together and waits for: in every step as many as it has loads per free register.

    Where loads do not fit together, each is issued as an earlier one is used, so that the waits are a share of a group.
    """
    of_row = loads_of_row(problem, sizes)
    exchanged = np.where(sizes.columns, problem.filter_width - of_row, 0)
    in_flight = np.maximum(registers - REGISTERS_BESIDE_LOADS - exchanged, of_row)
    return np.asarray(_steps(problem, sizes) * np.maximum(sizes.step_rows * of_row / in_flight, 1.0), np.float64)


def independent_chains(sizes: Strips) -> Floats:
    """Accumulators that one input row feeds."""
    unrolled = np.minimum(sizes.rows_per_thread, sizes.window)
    return np.where(sizes.rolling, sizes.window, np.where(sizes.rows, unrolled, 1)).astype(float)


def loop_code_bytes(problem: Conv2d, sizes: Strips) -> Floats:
    """Code of one step: multiply-adds, loads with their predicates, exchanges."""
    outputs = np.where(sizes.unrolled, sizes.rows_per_thread, 1)
    exchanges = np.where(sizes.columns, 2 * problem.filter_width, 0)
    row = 4 + 3 * loads_of_row(problem, sizes) + exchanges
    instructions = outputs * problem.filter_taps + sizes.step_rows * row
    return np.asarray(INSTRUCTION_BYTES * instructions, np.float64)
