"""Counts of the whole launch in closed form: memory accesses, multiply-adds and shuffles."""

from __future__ import annotations

import numpy as np

from ...core.counts import Counts
from ...gpus.gpu import Gpu
from ...launch.launch import Launch
from .exchange_plans import executed_plan
from .launch import Strips, filter_in_constant
from .problem import Conv2d
from .traffic import Floats, compulsory_bytes, filter_fetches, input_loads, patch_sectors, stores


def multiply_adds(problem: Conv2d, sizes: Strips) -> Floats:
    """Warp-level fused multiply-adds; a strip's unrolled rows count whether or not they have an output.

    With a filter of one column the compiler moves the last one of a rolling window into the branch of the store, and so
    leaves out those before the first output.
    """
    outputs = np.where(sizes.unrolled, sizes.rows_per_thread, 1)
    return (sizes.passes * outputs * problem.filter_taps).astype(float)


def _shuffles(problem: Conv2d, sizes: Strips, warps: Floats) -> Floats:
    """Warp-level shuffles: exchanges, and one of each warp by which it shares its row."""
    of_row = np.where(sizes.rotate, problem.filter_width - 1, executed_plan(problem.filter_width).shuffles)
    return np.where(sizes.columns, sizes.passes * sizes.step_rows * of_row + warps, 0.0)


def closed_form(problem: Conv2d, sizes: Strips, launch: Launch, gpu: Gpu) -> Counts:
    """Counts of n configurations.

    Requests, sectors, lines, multiply-adds and shuffles are exact, what leaves L1 is an estimate; what the compiler decides
    (integer and control instructions, local memory) is not in them.
    """
    warps = np.asarray(launch.blocks * launch.warps_per_block, np.float64)
    requests, sectors, lines = input_loads(problem, sizes)
    fetches, none = filter_fetches(problem, sizes), np.zeros_like(warps)
    in_constant = filter_in_constant(problem)
    from_global = none if in_constant else fetches
    indexed = fetches if in_constant and problem.out_channels * problem.filter_channels > 1 else none
    store_requests, store_sectors = (np.full_like(warps, total) for total in stores(problem))
    read_bytes, written_bytes = compulsory_bytes(problem)
    return Counts(
        global_load_requests=requests + from_global,
        global_load_sectors=sectors + from_global,
        global_load_lines=lines + from_global,
        global_store_requests=store_requests,
        global_store_sectors=store_sectors,
        constant_load_requests=indexed,
        fp32_fma=multiply_adds(problem, sizes),
        shuffles=_shuffles(problem, sizes, warps),
        l2_read_sectors=patch_sectors(problem, launch, sizes, gpu),
        l2_write_sectors=store_sectors,
        dram_read_bytes=np.full_like(warps, read_bytes),
        dram_write_bytes=np.full_like(warps, written_bytes),
    )
