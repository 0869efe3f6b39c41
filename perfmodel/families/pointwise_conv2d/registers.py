"""How many registers the compiler will take, and how many blocks it is asked to leave room for.

Both estimates follow the plan of the thread tile: sums, operands of a group, words on their way (none where slabs are copied
asynchronously), and a constant for addresses and predicates. What the kernel can be held to without spills decides its launch
bound; where that leaves room, the compiler reads the operands of a slab's next groups early, and takes more. The numbers are in
``perfmodel/data/registers/pointwise_conv2d.toml``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...core.constants import WARP_SIZE, ceil_div, round_up
from ...gpus.gpu import Gpu
from ..fitted_numbers import register_coefficients
from .blocking.fetch import Fetch
from .blocking.tiles import THREADS_PER_BLOCK, WARPS_PER_BLOCK, Floats, Integers, Tiles
from .problem import PointwiseConv2d


@dataclass(frozen=True, slots=True, kw_only=True)
class Coefficients:
    """Fitted numbers; the data file says what each one means."""

    held_constant: float
    held_per_sum: float
    held_per_operand: float
    held_per_early_operand: float
    held_per_doubled_groups: float
    held_for_channel_tail: float
    taken_constant: float
    taken_per_sum: float
    taken_per_operand: float
    taken_per_early_operand: float
    per_fetched_word: float
    small_kernel: int
    saved_by_small: int
    saved_by_large: int


def _fit() -> Coefficients:
    return register_coefficients("pointwise_conv2d", Coefficients)


def held_registers(problem: PointwiseConv2d, tile: Tiles, fetched: Fetch) -> Floats:
    """What the compiler takes where little room is left, a fraction; arrays of shape ``(n,)``."""
    fit, operands = _fit(), tile.warp_height + tile.thread_width
    total: Floats = (
        fit.held_constant
        + fit.held_per_sum * tile.accumulators
        + operands * (fit.held_per_operand + fit.held_per_early_operand * (fetched.slab_groups > 1))
        + fit.per_fetched_word * fetched.words
        + fit.held_per_doubled_groups * np.log2(fetched.slab_groups)
        + fit.held_for_channel_tail * (problem.in_channels % fetched.slab_channels != 0)
    )
    return total


def resident_blocks(problem: PointwiseConv2d, tile: Tiles, fetched: Fetch, gpu: Gpu) -> Integers:
    """Blocks of an SM that the kernel's launch bound asks for: those of the plan, or more where the estimate has room.

    Never more than the grid gives an SM: registers beyond are free.
    """
    fit, held = _fit(), held_registers(problem, tile, fetched)
    saved = np.where(held <= fit.small_kernel, fit.saved_by_small, fit.saved_by_large)
    allocated = round_up(np.ceil(held - saved).astype(np.int64), _unit(gpu))
    by_registers = gpu.registers_per_sm // (allocated * THREADS_PER_BLOCK)
    most = min(gpu.max_warps_per_sm // WARPS_PER_BLOCK, gpu.max_blocks_per_sm)
    wanted = np.maximum(tile.blocks_per_sm, np.minimum(by_registers, most))
    blocks: Integers = np.minimum(wanted, ceil_div(tile.blocks(problem), gpu.sm_count))
    return blocks


def _unit(gpu: Gpu) -> int:
    """Registers per thread of an allocation unit, which the hardware gives to a whole warp."""
    return gpu.register_allocation_unit // WARP_SIZE


def estimated_registers(tile: Tiles, fetched: Fetch, resident: Integers, gpu: Gpu) -> NDArray[np.int32]:
    """Estimate of the registers per thread: what the compiler would take, within what ``resident`` blocks leave."""
    fit, operands = _fit(), tile.warp_height + tile.thread_width
    taken = (
        fit.taken_constant
        + fit.taken_per_sum * tile.accumulators
        + operands * (fit.taken_per_operand + fit.taken_per_early_operand * np.log2(fetched.slab_groups))
        + fit.per_fetched_word * fetched.words
    )
    left = gpu.registers_per_sm // (resident * THREADS_PER_BLOCK * _unit(gpu)) * _unit(gpu)
    return np.minimum(np.rint(taken), np.minimum(left, gpu.max_registers_per_thread)).astype(np.int32)
