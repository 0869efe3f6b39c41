"""What decides the machine code of the direct kernel, and what of it follows from the algorithm."""

from __future__ import annotations

import numpy as np

from ...core.constants import MAX_THREADS_PER_BLOCK
from ...core.counts import Counts
from ...gpus.gpu import Gpu
from ...launch.launch import Launch
from ..code_estimates import code_estimates
from ..compiled_members import Traits, requests_of
from .exchange_plans import executed_plan
from .launch import TAPS_IN_REGISTERS_LIMIT, Flags, Strips, filter_in_constant
from .problem import Conv2d
from .traffic import filter_fetches

WIDEST_SELECTION = 8
"""Taps among which NVRTC 12.9 selects registers; wider arrays lie in local memory."""
WIDEST_SELECTION_OF_SHARED_ROWS = 11


def _in_local_memory(problem: Conv2d, sizes: Strips, gpu: Gpu) -> Flags:
    """Where the taps that ``dynamic_index`` names by a computed index lie on the stack instead of being selected."""
    if gpu.architecture.compiler_stacks_small_arrays:
        return sizes.dynamic_index & (problem.filter_width > 2)
    widest = np.where(sizes.rows, WIDEST_SELECTION_OF_SHARED_ROWS, WIDEST_SELECTION)
    return sizes.dynamic_index & (problem.filter_width > widest)


def traits(problem: Conv2d, sizes: Strips, launch: Launch, known: Counts, gpu: Gpu) -> Traits:
    """Of every configuration; ``known`` are the counts that closed forms give."""
    about = code_estimates()
    outputs = np.where(sizes.unrolled, sizes.rows_per_thread, 1)
    of_row = np.where(sizes.rotate, problem.filter_width - 1, executed_plan(problem.filter_width).shuffles)
    shuffles = np.where(sizes.columns, sizes.step_rows * of_row, 0)
    multiply_adds, loads = outputs * problem.filter_taps, sizes.step_rows * sizes.row_loads
    fetches = filter_fetches(problem, sizes) / sizes.passes
    step = multiply_adds + loads + shuffles + fetches
    rows = np.minimum(sizes.rows_per_thread, problem.output_height)
    of_plane = np.where(sizes.unrolled, 1, np.where(sizes.rolling, rows + sizes.window - 1, rows))
    passes = of_plane * problem.filter_channels
    idle_warps = np.asarray(launch.blocks * launch.warps_per_block, np.float64) - sizes.active_warps
    tested = np.where(sizes.columns | (problem.padding > 0), loads, 0)
    tests = about.direct_tested_load_instructions * tested
    index_of_warp = about.prologue_instructions + passes * (tests + shuffles) + about.direct_store_instructions * rows
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
            "warps_for_each_active": np.exp2(np.round(np.log2(1.0 + idle_warps / sizes.active_warps))),
        },
        choices={
            "exchanges": sizes.columns,
            "rotates": sizes.rotate,
            "indexes": sizes.dynamic_index,
            "indexes_stack": _in_local_memory(problem, sizes, gpu),
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
        warp_instructions=passes * step + index_of_warp,
        launch_instructions=known.fp32_fma + known.shuffles + requests_of(known),
        index_instructions=index_of_warp * sizes.active_warps + about.direct_idle_warp_instructions * idle_warps,
        code_instructions=step + tests + about.prologue_instructions,
        round_trips=passes * loads,
    )
