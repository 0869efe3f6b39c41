"""Closed-form counts of the direct kernel for the whole launch."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...core.counts import Counts
from ...gpus.gpu import Gpu
from ...launch.launch import Launch
from .instructions import control, integer, multiply_adds, shuffles
from .patches import patch_sectors
from .problem import Conv2d
from .source import filter_in_constant
from .stack_array import local_accesses
from .strips import Strips
from .traffic import compulsory_bytes, filter_fetches, input_loads, stores

Floats = NDArray[np.float64]


def closed_form(problem: Conv2d, sizes: Strips, launch: Launch, gpu: Gpu) -> Counts:
    """Counts of n configurations.

    Requests, sectors, lines, multiply-adds and shuffles are exact; integer and control instructions, local memory and what
    leaves L1 are estimates.
    """
    warps = np.asarray(launch.blocks * launch.warps_per_block, np.float64)
    image = input_loads(problem, sizes)
    fetches = filter_fetches(problem, sizes)
    in_constant = filter_in_constant(problem)
    from_global = np.zeros_like(fetches) if in_constant else fetches
    indexed = fetches if in_constant and problem.out_channels * problem.filter_channels > 1 else np.zeros_like(fetches)
    store_requests, store_sectors = (np.full_like(warps, total) for total in stores(problem))
    classes = {
        "fp32_fma": multiply_adds(problem, sizes),
        "integer": integer(problem, sizes, warps),
        "control": control(problem, sizes, warps),
        "shuffles": shuffles(problem, sizes, warps),
    }
    local_requests, local_load_sectors, local_store_sectors = local_accesses(problem, sizes, gpu)
    memory = image.requests + from_global + store_requests + indexed + local_requests
    read_bytes, written_bytes = compulsory_bytes(problem)
    return Counts(
        global_load_requests=image.requests + from_global,
        global_load_sectors=image.sectors + from_global,
        global_load_lines=image.lines + from_global,
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
