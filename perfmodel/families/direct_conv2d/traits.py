"""What decides the machine code of the direct kernel, and what of it follows from the algorithm."""

from __future__ import annotations

import numpy as np

from ...core.constants import MAX_THREADS_PER_BLOCK
from ...core.counts import Counts
from ...launch.launch import Launch
from ..compiled_members import Traits
from .exchange_plans import executed_plan
from .launch import TAPS_IN_REGISTERS_LIMIT, Strips, filter_in_constant
from .problem import Conv2d
from .traffic import filter_fetches

_OF_PROLOGUE = 60
"""Instructions of a thread outside its loops, about."""


def traits(problem: Conv2d, sizes: Strips, launch: Launch, known: Counts) -> Traits:
    """Of every configuration; ``known`` are the counts that closed forms give."""
    outputs = np.where(sizes.unrolled, sizes.rows_per_thread, 1)
    of_row = np.where(sizes.rotate, problem.filter_width - 1, executed_plan(problem.filter_width).shuffles)
    shuffles = np.where(sizes.columns, sizes.step_rows * of_row, 0)
    multiply_adds, loads = outputs * problem.filter_taps, sizes.step_rows * sizes.row_loads
    fetches = filter_fetches(problem, sizes) / sizes.passes
    step = multiply_adds + loads + shuffles + fetches
    rows = np.minimum(sizes.rows_per_thread, problem.output_height)
    of_plane = np.where(sizes.unrolled, 1, np.where(sizes.rolling, rows + sizes.window - 1, rows))
    passes = of_plane * problem.filter_channels
    warps = np.asarray(launch.blocks * launch.warps_per_block, np.float64)
    requests = known.global_load_requests + known.global_store_requests + known.constant_load_requests
    return Traits(
        sizes={
            "passes": passes,
            "step": step,
            "multiply_adds": multiply_adds,
            "loads": loads,
            "shuffles": 1 + shuffles,
            "fetches": 1 + fetches,
            "filter_width": problem.filter_width,
            "filter_height": problem.filter_height,
            "outputs": outputs,
            "window": np.where(sizes.rolling, sizes.window, 1),
            "threads": np.minimum(sizes.threads, MAX_THREADS_PER_BLOCK),
            "idle_warps": warps / sizes.active_warps,
        },
        choices={
            "exchanges": sizes.columns,
            "rotates": sizes.rotate,
            "indexes": sizes.dynamic_index,
            "selects": sizes.selects,
            "rolls": sizes.rolling,
            "unrolls": sizes.unrolled,
            "pads": problem.padding > 0,
            "strides": problem.stride > 1,
            "sums_channels": problem.filter_channels > 1,
            "one_filter": problem.filter_elements == problem.filter_taps,
            "filters_in_constant": filter_in_constant(problem),
            "taps_in_registers": problem.filter_taps <= TAPS_IN_REGISTERS_LIMIT,
        },
        warp_instructions=passes * step + _OF_PROLOGUE,
        launch_instructions=known.fp32_fma + known.shuffles + requests + warps * _OF_PROLOGUE,
        code_instructions=step + _OF_PROLOGUE,
        round_trips=passes,
    )
