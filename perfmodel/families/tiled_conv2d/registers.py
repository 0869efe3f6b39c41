"""How many registers the compiler will use for the tiled kernel: an estimate for where nothing is compiled.

What was seen in some thousand compiled configurations (NVRTC 12.9): the assembler aims at the registers with which an SM is
full of threads (32 where it holds 2,048 threads, 40 at 1,536, 64 at 1,024) and reorders the multiply-adds so that each loaded
tap is used at once for all outputs. Where rows of the patch serve several filter rows (block_size_y < filter_height) and the
straight code is long, it gives up and keeps taps alive up to the limit of 255.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...gpu import Gpu
from .geometry import Geometry
from .problem import TiledConv2d
from .taps import keeps_row_loop

THREAD_REGISTERS = 24
"""Addresses, indices and taps in flight of a thread with one output."""
REGISTERS_PER_OUTPUT = 6
"""Accumulator and the taps loaded ahead for it."""
REORDERED_OUTPUTS = 16.0
"""Outputs of a thread up to which the assembler still reorders across filter rows, less half a block row each."""
LIMIT = 255
LOOPED_REGISTERS = 22
"""Beside its accumulators, a thread that keeps the filter-row loop."""


def full_occupancy_registers(gpu: Gpu) -> int:
    """Registers per thread with which the SM can be full of threads, in units of 8.

    >>> from perfmodel.gpus import load_gpu
    >>> [full_occupancy_registers(load_gpu(name)) for name in ("rtx-2080-ti", "rtx-3090", "h200")]
    [64, 40, 32]
    """
    return gpu.registers_per_sm // (32 * gpu.max_warps_per_sm) // 8 * 8


def estimate(problem: TiledConv2d, sizes: Geometry, gpu: Gpu) -> NDArray[np.int32]:
    """Registers per thread of each configuration, at least 16 and at most 255."""
    outputs = sizes.tile_x * sizes.tile_y
    target = full_occupancy_registers(gpu)
    reordered = np.minimum(THREAD_REGISTERS + REGISTERS_PER_OUTPUT * outputs, np.maximum(target, outputs + 20))
    shares_rows = (sizes.block_y < problem.filter_height) & (sizes.tile_y > 1)
    looped = keeps_row_loop(problem, sizes)
    gives_up = shares_rows & ~looped & (outputs >= REORDERED_OUTPUTS - sizes.block_y / 2)
    plain = np.where(looped, np.maximum(target, outputs + LOOPED_REGISTERS), reordered)
    return np.clip(np.where(gives_up, LIMIT, plain), 16, LIMIT).astype(np.int32)
