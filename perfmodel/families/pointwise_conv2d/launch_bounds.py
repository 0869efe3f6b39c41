"""How many blocks of an SM the compiler is asked to leave room for.

What the kernel can be held to without spills decides its launch bound: sums, operands of a group, words on their way (none where
slabs are copied asynchronously), and a constant for addresses and predicates. The numbers are in
``perfmodel/data/launch_bounds/pointwise_conv2d.toml``.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np

from ...core.constants import WARP_SIZE, ceil_div, round_up
from ...gpus.gpu import Gpu
from ...gpus.occupancy import registers_left
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
    per_fetched_word: float
    small_kernel: int
    saved_by_small: int
    saved_by_large: int


@cache
def _fit() -> Coefficients:
    text = (files("perfmodel.data") / "launch_bounds" / "pointwise_conv2d.toml").read_text(encoding="utf-8")
    return Coefficients(**tomllib.loads(text)["coefficients"])


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


def most_registers(resident: Integers, gpu: Gpu) -> Integers:
    """Registers per thread that ``resident`` blocks of an SM leave, which the launch bound tells the compiler."""
    return registers_left(gpu, gpu.registers_per_sm, resident * THREADS_PER_BLOCK)
