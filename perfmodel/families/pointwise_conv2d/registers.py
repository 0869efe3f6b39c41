"""How many registers the compiler will take, and how many blocks it is asked to leave room for.

The formulas follow the plan of the thread tile: sums, operands of a group, words on their way (none where slabs are copied
asynchronously), and a constant for addresses and predicates. What the kernel can be held to without spills decides its launch
bound. Where that leaves room, the compiler reads the operands of a slab's next groups early, and takes more: the estimate,
fitted to 227 kernels (sm_75, sm_80, sm_90; CUDA 12.9, robust least squares), none of which spilled, misses half of them by at
most 3 registers and four fifths by at most 8.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...core.constants import WARP_SIZE, ceil_div, round_up
from ...gpus.gpu import Gpu
from .blocking import THREADS_PER_BLOCK, WARPS_PER_BLOCK, Floats, Integers, Tiles
from .fetch import Fetch
from .problem import PointwiseConv2d

HELD_CONSTANT = 20.0
HELD_FOR_SUM = 1.05
HELD_FOR_OPERAND = 0.55
HELD_FOR_EARLY_OPERAND = 0.65
HELD_FOR_DOUBLED_GROUPS = 4.25
HELD_FOR_CHANNEL_TAIL = 3.0
TAKEN_CONSTANT = 25.0
TAKEN_FOR_SUM = 0.8
TAKEN_FOR_OPERAND = 0.7
TAKEN_FOR_EARLY_OPERAND = 1.4
"""… for each doubling of the groups."""
FOR_FETCHED_WORD = 1.1
SMALL_KERNEL = 64
SAVED = 7
SAVED_BY_LARGE = 2
"""Registers that the compiler finds it can do without when the launch bound asks: many in a small kernel, few in a large
one, which would spill."""


def held_registers(problem: PointwiseConv2d, tile: Tiles, fetched: Fetch) -> Floats:
    """What the compiler takes where little room is left, a fraction; arrays of shape ``(n,)``."""
    operands = tile.warp_height + tile.thread_width
    several = fetched.slab_groups > 1
    tail = problem.in_channels % fetched.slab_channels != 0
    total: Floats = (
        HELD_CONSTANT
        + HELD_FOR_SUM * tile.accumulators
        + operands * (HELD_FOR_OPERAND + HELD_FOR_EARLY_OPERAND * several)
        + FOR_FETCHED_WORD * fetched.words
        + HELD_FOR_DOUBLED_GROUPS * np.log2(fetched.slab_groups)
        + HELD_FOR_CHANNEL_TAIL * tail
    )
    return total


def taken_registers(tile: Tiles, fetched: Fetch) -> Floats:
    """What the compiler takes without a limit, a fraction; arrays of shape ``(n,)``."""
    operands = tile.warp_height + tile.thread_width
    early = TAKEN_FOR_EARLY_OPERAND * np.log2(fetched.slab_groups)
    total: Floats = (
        TAKEN_CONSTANT
        + TAKEN_FOR_SUM * tile.accumulators
        + operands * (TAKEN_FOR_OPERAND + early)
        + FOR_FETCHED_WORD * fetched.words
    )
    return total


def _allocated(problem: PointwiseConv2d, tile: Tiles, fetched: Fetch, gpu: Gpu) -> Integers:
    """Whole allocation units that the kernel can be held to."""
    held = held_registers(problem, tile, fetched)
    saved = np.where(held <= SMALL_KERNEL, SAVED, SAVED_BY_LARGE)
    allocated: Integers = round_up(np.ceil(held - saved).astype(np.int64), _unit(gpu))
    return allocated


def _unit(gpu: Gpu) -> int:
    """Registers per thread of an allocation unit, which the hardware gives to a whole warp."""
    return gpu.register_allocation_unit // WARP_SIZE


def resident_blocks(problem: PointwiseConv2d, tile: Tiles, fetched: Fetch, gpu: Gpu) -> Integers:
    """Blocks of an SM that the kernel's launch bound asks for: those of the plan, or more where the estimate has room.

    Never more than the grid gives an SM: registers beyond are free.
    """
    by_registers = gpu.registers_per_sm // (_allocated(problem, tile, fetched, gpu) * THREADS_PER_BLOCK)
    most = min(gpu.max_warps_per_sm // WARPS_PER_BLOCK, gpu.max_blocks_per_sm)
    wanted = np.maximum(tile.blocks_per_sm, np.minimum(by_registers, most))
    blocks: Integers = np.minimum(wanted, ceil_div(tile.blocks(problem), gpu.sm_count))
    return blocks


def estimate(problem: PointwiseConv2d, tile: Tiles, fetched: Fetch, gpu: Gpu) -> NDArray[np.int32]:
    """Estimate of the registers per thread: what the compiler would take, within what the launch bound leaves."""
    taken = np.rint(taken_registers(tile, fetched))
    blocks = resident_blocks(problem, tile, fetched, gpu)
    left = gpu.registers_per_sm // (blocks * THREADS_PER_BLOCK * _unit(gpu)) * _unit(gpu)
    left = np.minimum(left, gpu.max_registers_per_thread)
    return np.minimum(taken, left).astype(np.int32)
