"""The four levels of blocking, SM → block → warp → thread tile, and the limits that a tile must keep.

Widths and heights are in outputs of the tile's own axes; which axis holds filters is the layout's choice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....core.constants import FLOAT_BYTES, WARP_SIZE, ceil_div
from ....gpus.gpu import Gpu
from ....gpus.occupancy import registers_left
from ...base import Batch
from ..configuration import Layout, PointwiseConfiguration
from ..problem import PointwiseConv2d

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

WARPS_PER_BLOCK = 4
THREADS_PER_BLOCK = WARPS_PER_BLOCK * WARP_SIZE
WARP_COLUMNS = 2
WARP_ROWS = 2
PLANNED_FOR_ADDRESSES = 20
"""Registers for addresses and counters in the plan."""
STAGES = 2
"""Slabs in shared memory at the least: one is read while the next is written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiles:
    """Extents of n configurations, integer arrays of shape ``(n,)``."""

    filters_along_width: Flags
    blocks_per_sm: Integers
    channel_lanes: Integers
    thread_width: Integers
    warp_height: Integers

    @property
    def element_lanes(self) -> Integers:
        """Lanes of a warp that hold different outputs."""
        return WARP_SIZE // self.channel_lanes

    @property
    def block_width(self) -> Integers:
        """Outputs of a block tile along its width."""
        return WARP_COLUMNS * self.thread_width * self.element_lanes

    @property
    def block_height(self) -> Integers:
        """Outputs of a block tile along its height."""
        return WARP_ROWS * self.warp_height

    @property
    def accumulators(self) -> Integers:
        """Outputs of which a thread sums its share of the channels."""
        return self.warp_height * self.thread_width

    @property
    def filter_tile(self) -> Integers:
        """Filters of a block tile."""
        return np.where(self.filters_along_width, self.block_width, self.block_height)

    @property
    def position_tile(self) -> Integers:
        """Positions of a block tile."""
        return np.where(self.filters_along_width, self.block_height, self.block_width)

    @property
    def thread_filters(self) -> Integers:
        """Filters of a thread tile."""
        return np.where(self.filters_along_width, self.thread_width, self.warp_height)

    @property
    def thread_positions(self) -> Integers:
        """Positions of a thread tile."""
        return np.where(self.filters_along_width, self.warp_height, self.thread_width)

    def grid(self, problem: PointwiseConv2d) -> tuple[Integers, Integers]:
        """Blocks over the positions and over the filters."""
        return ceil_div(problem.positions, self.position_tile), ceil_div(problem.out_channels, self.filter_tile)

    def blocks(self, problem: PointwiseConv2d) -> Integers:
        """Blocks of the grid."""
        across, down = self.grid(problem)
        return across * down


def tiles(problem: PointwiseConv2d, batch: Batch[PointwiseConfiguration], sm_count: int) -> Tiles:
    """The thread tile's width, then its height, both rounded up; the other extents are built from them.

    An SM tile holds an SM's share of the outputs; a warp tile is at most as high as a thread tile is wide.

    >>> batch = Batch.of([PointwiseConfiguration(filter_split=8, block_width_split=2)])
    >>> tile = tiles(PointwiseConv2d(in_channels=1024, out_channels=1024, height=7, width=7), batch, 132)
    >>> int(tile.block_width[0]), int(tile.block_height[0]), int(tile.thread_width[0])
    (64, 4, 8)
    """
    along_width = batch.equals("layout", Layout.L1)
    blocks_per_sm, lanes, filter_split, splits = (
        batch[name].astype(np.int64) for name in ("blocks_per_sm", "channel_lanes", "filter_split", "block_width_split")
    )
    thread_parts = WARP_COLUMNS * (WARP_SIZE // lanes) * splits
    thread_width = np.where(
        along_width,
        ceil_div(problem.out_channels, thread_parts * filter_split),
        ceil_div(problem.positions * filter_split, thread_parts * sm_count),
    )
    block_width = WARP_COLUMNS * thread_width * (WARP_SIZE // lanes)
    warp_height = ceil_div(problem.outputs, sm_count * blocks_per_sm * WARP_ROWS * block_width)
    return Tiles(
        filters_along_width=along_width,
        blocks_per_sm=blocks_per_sm,
        channel_lanes=lanes,
        thread_width=thread_width,
        warp_height=np.minimum(thread_width, warp_height),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a thread and a block may take so that ``blocks_per_sm`` blocks share an SM, arrays of shape ``(n,)``."""

    registers_per_thread: Any
    shared_bytes_per_block: Any


def limits(blocks_per_sm: Integers, gpu: Gpu) -> Limits:
    """Limits from the GPU: whole allocation units, the encoding's maximum, the driver's reservation.

    >>> from perfmodel.gpus.catalogue import load_gpu
    >>> limits(np.array([2, 4, 6]), load_gpu("h200")).registers_per_thread
    array([255, 128,  80])
    """
    return Limits(
        registers_per_thread=registers_left(gpu, gpu.registers_per_sm, blocks_per_sm * THREADS_PER_BLOCK),
        shared_bytes_per_block=gpu.shared_bytes_per_sm // blocks_per_sm - gpu.shared_reserved_bytes_per_block,
    )


def planned_registers(tile: Tiles) -> Integers:
    """Sums, operands, words of the next group of channels, and what addresses need."""
    extents = (tile.block_width, tile.block_height)
    fetched: Integers = sum(ceil_div(tile.channel_lanes * extent, THREADS_PER_BLOCK) for extent in extents)
    return tile.accumulators + tile.warp_height + tile.thread_width + fetched + PLANNED_FOR_ADDRESSES


def planned_shared_bytes(tile: Tiles) -> Integers:
    """One group of channels of both operands, twice; without the padding that the kernel adds."""
    words: Integers = (tile.block_height + tile.block_width) * tile.channel_lanes
    return words * FLOAT_BYTES * STAGES


def feasible(tile: Tiles, limit: Limits) -> Flags:
    """Where the plan keeps both limits."""
    fits: Flags = planned_registers(tile) <= limit.registers_per_thread
    fits &= planned_shared_bytes(tile) <= limit.shared_bytes_per_block
    return fits
