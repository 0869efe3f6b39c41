"""How many registers the compiler will take, and how many blocks it is asked to leave room for.

The formula follows the plan of the thread tile: sums, operands of a group, words on their way, and a constant for addresses
and predicates. Where a slab has several groups, the compiler reads the next group's operands early. The coefficients are
fitted to 393 compiled kernels (sm_75, sm_80, sm_90; CUDA 12.9, robust least squares) and the constant lowered by 3, because
the launch bound that follows from the estimate holds the compiler to it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...definitions import WARP_SIZE, round_up
from ...gpu import Gpu
from .blocking import THREADS_PER_BLOCK, WARPS_PER_BLOCK, Floats, Integers, Tiles
from .fetch import Fetch
from .problem import PointwiseConv2d

CONSTANT = 17.0
FOR_SUM = 1.05
FOR_OPERAND = 0.55
FOR_EARLY_OPERAND = 0.65
FOR_FETCHED_WORD = 1.15
FOR_DOUBLED_GROUPS = 4.25
FOR_CHANNEL_TAIL = 3.0
SMALL_KERNEL = 64
MARGIN = 2


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


def allocated_registers(problem: PointwiseConv2d, tile: Tiles, fetched: Fetch, gpu: Gpu) -> Integers:
    """Registers that the launch bound leaves a thread beyond the plan's blocks: the estimate in whole allocation units.

    A small kernel saves the last few registers over a unit when it is asked to, a large one would spill, so its unit is
    taken with a margin.
    """
    natural = natural_registers(problem, tile, fetched)
    margin = np.where(natural <= SMALL_KERNEL, -MARGIN, MARGIN)
    whole = np.ceil(natural + margin).astype(np.int64)
    allocated: Integers = round_up(whole, gpu.register_allocation_unit // WARP_SIZE)
    return allocated


def estimate(
    problem: PointwiseConv2d, tile: Tiles, fetched: Fetch, gpu: Gpu, limit_registers: Integers
) -> NDArray[np.int32]:
    """Estimate of the registers per thread, at most what the launch bound leaves."""
    natural = np.rint(natural_registers(problem, tile, fetched))
    bound = np.minimum(allocated_registers(problem, tile, fetched, gpu), limit_registers)
    return np.minimum(natural, bound).astype(np.int32)


def resident_blocks(problem: PointwiseConv2d, tile: Tiles, fetched: Fetch, gpu: Gpu) -> Integers:
    """Blocks of an SM that the kernel's launch bound asks for: those of the plan, or more where the estimate has room."""
    allocated = allocated_registers(problem, tile, fetched, gpu)
    by_registers = gpu.registers_per_sm // (allocated * THREADS_PER_BLOCK)
    most = min(gpu.max_warps_per_sm // WARPS_PER_BLOCK, gpu.max_blocks_per_sm)
    blocks: Integers = np.maximum(tile.blocks_per_sm, np.minimum(by_registers, most))
    return blocks
