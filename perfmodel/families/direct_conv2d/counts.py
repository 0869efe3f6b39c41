"""Counts of the whole launch in closed form; instructions but multiply-adds and shuffles, and local memory, are estimates."""

from __future__ import annotations

import numpy as np

from ...core.counts import Counts
from ...gpus.gpu import Gpu
from ...launch.launch import Launch
from ..fitted_numbers import fit_file, weighted
from .exchange_plans import executed_plan
from .launch import Strips, filter_in_constant
from .problem import Conv2d
from .registers import Floats, in_local_memory
from .traffic import compulsory_bytes, filter_fetches, input_loads, patch_sectors, stores

_SECTORS_OF_A_WORD_PER_LANE = 4


def multiply_adds(problem: Conv2d, sizes: Strips) -> Floats:
    """Warp-level fused multiply-adds; a strip's unrolled rows count whether or not they have an output.

    With a filter of one column the compiler moves the last one of a rolling window into the branch of the store, and so
    leaves out those before the first output.
    """
    outputs = np.where(sizes.unrolled, sizes.rows_per_thread, 1)
    return (sizes.passes * outputs * problem.filter_taps).astype(float)


def _instructions(problem: Conv2d, sizes: Strips, warps: Floats) -> dict[str, Floats]:
    """Executed warp instructions that access no memory, by class."""
    fit, rows = fit_file("instructions", "direct_conv2d")["coefficients"], sizes.passes * sizes.step_rows
    of_row = np.where(sizes.rotate, problem.filter_width - 1, executed_plan(problem.filter_width).shuffles)
    exchanged = np.where(sizes.columns, rows * of_row, 0)
    integers = {
        "active_warps": sizes.active_warps,
        "idle_warps": warps - sizes.active_warps,
        "tested_loads": np.where(sizes.columns | (problem.padding > 0), rows * sizes.row_loads, 0),
        "shuffles": exchanged * ~sizes.rotate,
        "rotations": exchanged * sizes.rotate,
        "outputs": sizes.across * problem.output_planes * problem.output_height,
    }
    unrolled_outputs = sizes.active_warps * sizes.rows_per_thread * sizes.unrolled
    control = {"warps": warps, "passes": sizes.passes, "unrolled_outputs": unrolled_outputs}
    return {
        "fp32_fma": multiply_adds(problem, sizes),
        "integer": weighted(fit["integer"], integers),
        "control": weighted(fit["control"], control),
        "shuffles": np.where(sizes.columns, exchanged + warps, 0.0),  # one of each warp shares its row
    }


def _local_accesses(problem: Conv2d, sizes: Strips, gpu: Gpu) -> tuple[Floats, Floats, Floats]:
    """Warp-level requests to local memory, load sectors and store sectors, where ``dynamic_index`` lies there.

    Each exchange loads one element by a lane-dependent index. Lanes that differ in bit 3 or 4 lie in different sectors
    anyway; for the lower bits a request touches the sectors of both candidates. Each tap that is a candidate is stored once
    for a row.
    """
    steps = executed_plan(problem.filter_width).steps
    rows = np.where(in_local_memory(problem, sizes, gpu), sizes.passes * sizes.step_rows, 0.0)
    candidates = len({tap for step in steps for tap in (step.tap - step.mask, step.tap + step.mask)})
    load_sectors = sum(_SECTORS_OF_A_WORD_PER_LANE * (1 if step.mask >= 8 else 2) for step in steps)
    return rows * (len(steps) + candidates), rows * load_sectors, rows * candidates * _SECTORS_OF_A_WORD_PER_LANE


def closed_form(problem: Conv2d, sizes: Strips, launch: Launch, gpu: Gpu) -> Counts:
    """Counts of n configurations.

    Requests, sectors, lines, multiply-adds and shuffles are exact; integer and control instructions, local memory and what
    leaves L1 are estimates.
    """
    warps = np.asarray(launch.blocks * launch.warps_per_block, np.float64)
    requests, sectors, lines = input_loads(problem, sizes)
    fetches, none = filter_fetches(problem, sizes), np.zeros_like(warps)
    in_constant = filter_in_constant(problem)
    from_global = none if in_constant else fetches
    indexed = fetches if in_constant and problem.out_channels * problem.filter_channels > 1 else none
    store_requests, store_sectors = (np.full_like(warps, total) for total in stores(problem))
    classes = _instructions(problem, sizes, warps)
    local_requests, local_load_sectors, local_store_sectors = _local_accesses(problem, sizes, gpu)
    memory = requests + from_global + store_requests + indexed + local_requests
    read_bytes, written_bytes = compulsory_bytes(problem)
    return Counts(
        global_load_requests=requests + from_global,
        global_load_sectors=sectors + from_global,
        global_load_lines=lines + from_global,
        global_store_requests=store_requests,
        global_store_sectors=store_sectors,
        constant_load_requests=indexed,
        local_load_sectors=local_load_sectors,
        local_store_sectors=local_store_sectors,
        warp_instructions=memory + sum(classes.values()),
        l2_read_sectors=patch_sectors(problem, launch, sizes, gpu),
        l2_write_sectors=store_sectors,
        dram_read_bytes=np.full_like(warps, read_bytes),
        dram_write_bytes=np.full_like(warps, written_bytes),
        **classes,
    )
