"""What a tile is planned to take of an SM, the limits it must keep, and the two figures of merit (SPEC section 2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.constants import FLOAT_BYTES
from ...gpus.gpu import Gpu
from .blocking import THREADS_PER_BLOCK, Floats, Integers, Tiles

SOURCE_CONSTANT = 20
"""Registers for addresses and counters in the source's plan."""
SOURCE_SHARED_BYTES_PER_SM = 65_536
SOURCE_REGISTERS_PER_SM = 65_536
STAGES = 2
"""Slabs in shared memory at the least: one is read while the next is written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a thread and a block may take so that ``blocks_per_sm`` blocks share an SM, arrays of shape ``(n,)``."""

    registers_per_thread: Any
    shared_bytes_per_block: Any


def limits(blocks_per_sm: Integers, gpu: Gpu) -> Limits:
    """Limit_R and Limit_S from the GPU: whole allocation units, the encoding's maximum, the driver's reservation.

    >>> from perfmodel.gpus.catalogue import load_gpu
    >>> limits(np.array([2, 4, 6]), load_gpu("h200")).registers_per_thread
    array([255, 128,  80])
    """
    threads = blocks_per_sm * THREADS_PER_BLOCK
    unit = gpu.register_allocation_unit // 32
    registers = gpu.registers_per_sm // threads // unit * unit
    return Limits(
        registers_per_thread=np.minimum(registers, gpu.max_registers_per_thread),
        shared_bytes_per_block=gpu.shared_bytes_per_sm // blocks_per_sm - gpu.shared_reserved_bytes_per_block,
    )


def source_limits(blocks_per_sm: Integers) -> Limits:
    """The source's limits: 64 Ki registers and 64 KiB of shared memory for each SM, whatever the GPU.

    >>> source_limits(np.array([2, 4, 6])).shared_bytes_per_block.round(1).tolist()
    [32768.0, 16384.0, 10922.7]
    """
    registers = SOURCE_REGISTERS_PER_SM // (blocks_per_sm * THREADS_PER_BLOCK) // 8 * 8
    return Limits(
        registers_per_thread=np.minimum(registers, 255),
        shared_bytes_per_block=SOURCE_SHARED_BYTES_PER_SM / blocks_per_sm,
    )


def prefetch_registers(tile: Tiles) -> tuple[Floats, Floats]:
    """R_tmpW and R_tmpH: words of the next slab that each thread holds, unrounded, for the width and the height."""
    width: Floats = tile.channel_lanes * tile.block_width / THREADS_PER_BLOCK
    height: Floats = tile.channel_lanes * tile.block_height / THREADS_PER_BLOCK
    return width, height


def planned_registers(tile: Tiles, constant: int) -> Floats:
    """R_o + Warp_H + T_num + ⌈R_tmpW⌉ + ⌈R_tmpH⌉ + constant."""
    width, height = prefetch_registers(tile)
    operands = tile.warp_height + tile.thread_width
    total: Floats = tile.accumulators + operands + np.ceil(width) + np.ceil(height) + constant
    return total


def planned_shared_bytes(tile: Tiles) -> Floats:
    """(Block_H + Block_W)·C_num words, twice; without the padding that the kernel adds."""
    total: Floats = (tile.block_height + tile.block_width) * tile.channel_lanes * FLOAT_BYTES * STAGES
    return total


def feasible(tile: Tiles, limit: Limits, constant: int) -> NDArray[np.bool_]:
    """Where the plan keeps both limits."""
    fits: NDArray[np.bool_] = planned_registers(tile, constant) <= limit.registers_per_thread
    fits &= planned_shared_bytes(tile) <= limit.shared_bytes_per_block
    return fits


def arithmetic_intensity(tile: Tiles, sub_tiles: int = 1) -> Floats:
    """M_A: multiplications of a thread for each word that it fetches, where ``sub_tiles`` along H share a filter tile.

    The kernel has one sub-tile; then M_A is the harmonic mean of the warp tile's extents, 2·H·W / (H + W).
    """
    width, height = prefetch_registers(tile)
    ratio: Floats = tile.accumulators * sub_tiles / (width + sub_tiles * height)
    return ratio


def source_blocks(tile: Tiles, sm_count: int) -> Floats:
    """M_B as the source writes it: block tiles of an SM tile, a fraction, times the SMs."""
    return np.asarray(tile.sm_height / tile.block_height * (tile.sm_width / tile.block_width) * sm_count, np.float64)
