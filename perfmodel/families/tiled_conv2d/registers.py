"""How many registers the compiler will use for the tiled kernel: an estimate for where nothing is compiled.

What was seen in some thousand compiled configurations (NVRTC and ptxas 12.9, 15 × 15 taps):

- The assembler aims at the registers with which an SM is full of threads: 32 where it holds 2,048 threads, 40 at 1,536, 64 at
  1,024. It needs fewer for few outputs.
- Up to 8.x it reorders the multiply-adds so that each loaded tap is used at once for all outputs. Where rows of the patch serve
  several filter rows (``block_size_y < filter_height``) and the straight code is long, it gives up and keeps taps.
- From 9.0 on it does not reorder: taps of rows that serve later outputs stay in registers from their first use.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...gpus.gpu import Gpu
from .geometry import Tiling
from .problem import TiledConv2d
from .taps import distinct_offsets, keeps_row_loop

LIMIT = 255
ADDRESSES = 22
"""Indices, addresses and taps in flight beside accumulators."""
BESIDE_ACCUMULATORS = 14
"""What even the tightest code needs beside its accumulators."""
PLAIN_LIMIT = 48
"""Registers at which code without shared rows settles where the SM has more to give."""
SHARED_ROWS = 50
SHARED_ROWS_ONE_COLUMN = 60
"""The same where rows serve several outputs, of several columns and of one."""
REORDERED_OUTPUTS = 16.0
"""Outputs of a thread up to which the assembler reorders across filter rows, less half a block row each."""
REORDERS_AGAIN = 18
"""Outputs from which, with 64 registers to give, narrow blocks are reordered again."""
KEEPS_TAPS_FROM = (9, 0)
ONE_COLUMN_TAPS = 68
"""Taps that a thread with one column of outputs keeps at most when its block has one row."""
LOOPED = 40
LOOPED_ONE_ROW = 72
LONG_LOOP_OUTPUTS = 28
"""Code that keeps the filter-row loop: in general, with blocks of one row, and when even those run out of registers."""


def full_occupancy_registers(gpu: Gpu) -> int:
    """Registers per thread with which the SM can be full of threads, in units of 8.

    >>> from perfmodel.gpus.catalogue import load_gpu
    >>> [full_occupancy_registers(load_gpu(name)) for name in ("rtx-2080-ti", "rtx-3090", "h200")]
    [64, 40, 32]
    """
    return gpu.registers_per_sm // (32 * gpu.max_warps_per_sm) // 8 * 8


def _reordered(sizes: Tiling, shares_rows: NDArray[np.bool_], target: int) -> NDArray[np.int64]:
    """Registers of unrolled code whose taps are used at once."""
    outputs = sizes.tile_x * sizes.tile_y
    plain = np.minimum(PLAIN_LIMIT, ADDRESSES + 5 + 5 * outputs)
    shared = np.where(sizes.tile_x == 1, SHARED_ROWS_ONE_COLUMN, SHARED_ROWS)
    wanted = np.minimum(np.where(shares_rows, shared, plain), target)
    return np.asarray(np.maximum(wanted, outputs + BESIDE_ACCUMULATORS), np.int64)


def estimate(problem: TiledConv2d, sizes: Tiling, gpu: Gpu) -> NDArray[np.int32]:
    """Registers per thread of each configuration, at least 16 and at most 255."""
    outputs = sizes.tile_x * sizes.tile_y
    target = full_occupancy_registers(gpu)
    shares_rows = (sizes.block_y < problem.filter_height) & (sizes.tile_y > 1)
    looped = keeps_row_loop(problem, sizes)
    registers = _reordered(sizes, shares_rows, target)
    if gpu.compute_capability >= KEEPS_TAPS_FROM:
        columns = distinct_offsets(sizes.block_x, sizes.tile_x, problem.filter_width)
        kept = (sizes.tile_y - 1) * sizes.block_y * columns
        kept = np.where((sizes.block_y == 1) & (sizes.tile_x == 1), np.minimum(kept, ONE_COLUMN_TAPS), kept)
        kept = kept + np.where(sizes.tile_x > 1, outputs, 0)
        registers = np.where(shares_rows & ~looped, np.maximum(registers, kept + 4), registers)
    else:
        gives_up = shares_rows & ~looped & (outputs >= REORDERED_OUTPUTS - sizes.block_y / 2)
        if target >= 64:
            gives_up &= (outputs < REORDERS_AGAIN) | (sizes.block_y >= 8)
        registers = np.where(gives_up, LIMIT, registers)
    registers = np.where(looped, _looped(sizes, target, gpu.compute_capability >= KEEPS_TAPS_FROM), registers)
    return np.clip(registers, 16, LIMIT).astype(np.int32)


def _looped(sizes: Tiling, target: int, keeps_taps: bool) -> NDArray[np.int64]:
    """Registers of code that keeps the filter-row loop: low blocks hold taps over, down to where nothing overlaps."""
    one_row = np.where(sizes.tile_x * sizes.tile_y < LONG_LOOP_OUTPUTS, LOOPED_ONE_ROW, LIMIT)
    low = np.where(sizes.block_y == 1, LIMIT if keeps_taps else one_row, LIMIT)
    overlaps = (sizes.tile_y > 1) & (sizes.block_y <= 2)
    return np.asarray(np.where(overlaps, low, np.maximum(target, LOOPED)), np.int64)
