"""How many registers the compiler will take, and how many blocks it is asked to leave room for.

The formula follows the plan of the thread tile: sums, operands of a group, words on their way, and a constant for addresses
and predicates. Where a slab has several groups, the compiler reads the next group's operands early. The coefficients are
fitted to 393 compiled kernels (sm_75, sm_80, sm_90; CUDA 12.9, robust least squares). The kernel's launch bound is then set
so that the compiler stays within one allocation unit.

Where slabs are copied asynchronously no word is on its way through registers, which leaves the formula as it is: of 36 such
kernels each on sm_80 and sm_90 the estimate missed half by at most 4 and 2 registers.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...definitions import WARP_SIZE, round_up
from ...gpu import Gpu
from .blocking import THREADS_PER_BLOCK, WARPS_PER_BLOCK, Floats, Integers, Tiles
from .fetch import Fetch
from .problem import PointwiseConv2d

CONSTANT = 20.0
FOR_SUM = 1.05
FOR_OPERAND = 0.55
FOR_EARLY_OPERAND = 0.65
FOR_FETCHED_WORD = 1.15
FOR_DOUBLED_GROUPS = 4.25
FOR_CHANNEL_TAIL = 3.0
SMALL_KERNEL = 64
SAVED = 7
SAVED_BY_LARGE = 2
"""Registers that the compiler finds it can do without when the launch bound asks: many in a small kernel, few in a large
one, which would spill."""


def natural_registers(problem: PointwiseConv2d, tile: Tiles, fetched: Fetch) -> Floats:
    """What the compiler would take without a limit, a fraction; arrays of shape ``(n,)``."""
    operands = tile.warp_height + tile.thread_width
    several = fetched.slab_groups > 1
    tail = problem.in_channels % fetched.slab_channels != 0
    total: Floats = (
        CONSTANT
        + FOR_SUM * tile.accumulators
        + operands * (FOR_OPERAND + FOR_EARLY_OPERAND * several)
        + FOR_FETCHED_WORD * fetched.words
        + FOR_DOUBLED_GROUPS * np.log2(fetched.slab_groups)
        + FOR_CHANNEL_TAIL * tail
    )
    return total


def _allocated(problem: PointwiseConv2d, tile: Tiles, fetched: Fetch, gpu: Gpu) -> Integers:
    """Whole allocation units that the kernel can be held to."""
    natural = natural_registers(problem, tile, fetched)
    saved = np.where(natural <= SMALL_KERNEL, SAVED, SAVED_BY_LARGE)
    allocated: Integers = round_up(np.ceil(natural - saved).astype(np.int64), _unit(gpu))
    return allocated


def _unit(gpu: Gpu) -> int:
    """Registers per thread of an allocation unit, which the hardware gives to a whole warp."""
    return gpu.register_allocation_unit // WARP_SIZE


def resident_blocks(problem: PointwiseConv2d, tile: Tiles, fetched: Fetch, gpu: Gpu) -> Integers:
    """Blocks of an SM that the kernel's launch bound asks for: those of the plan, or more where the estimate has room."""
    by_registers = gpu.registers_per_sm // (_allocated(problem, tile, fetched, gpu) * THREADS_PER_BLOCK)
    most = min(gpu.max_warps_per_sm // WARPS_PER_BLOCK, gpu.max_blocks_per_sm)
    blocks: Integers = np.maximum(tile.blocks_per_sm, np.minimum(by_registers, most))
    return blocks


def estimate(problem: PointwiseConv2d, tile: Tiles, fetched: Fetch, gpu: Gpu) -> NDArray[np.int32]:
    """Estimate of the registers per thread: what the compiler would take, within what the launch bound leaves."""
    natural = np.rint(natural_registers(problem, tile, fetched))
    blocks = resident_blocks(problem, tile, fetched, gpu)
    left = gpu.registers_per_sm // (blocks * THREADS_PER_BLOCK * _unit(gpu)) * _unit(gpu)
    left = np.minimum(left, gpu.max_registers_per_thread)
    least = _allocated(problem, tile, fetched, gpu) - _unit(gpu) + 1
    return np.minimum(np.maximum(natural, least), left).astype(np.int32)
