"""The four levels of blocking, SM → block → warp → thread tile: as the source writes them and in whole numbers.

SPEC section 2. Widths and heights are in outputs of the tile's own axes; which axis holds filters is the layout's choice.
The source's formulas give fractions (half a row for a warp of a small layer). ``source_tiles`` keeps them, so that the
published counts can be reproduced; ``tiles`` rounds every extent up, at least to 1, and is what the kernel runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.constants import WARP_SIZE, ceil_div
from ..base import Batch
from .configuration import Layout, PointwiseConfiguration
from .problem import PointwiseConv2d

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

WARPS_PER_BLOCK = 4
THREADS_PER_BLOCK = WARPS_PER_BLOCK * WARP_SIZE
WARP_COLUMNS = 2
WARP_ROWS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiles:
    """Extents of n configurations, arrays of shape ``(n,)``: fractions from ``source_tiles``, integers from ``tiles``."""

    filters_along_width: NDArray[np.bool_]
    blocks_per_sm: Integers
    channel_lanes: Integers
    sm_width: Any
    sm_height: Any
    block_width: Any
    block_height: Any
    warp_width: Any
    warp_height: Any
    thread_width: Any

    @property
    def element_lanes(self) -> Integers:
        """Ele_count: lanes of a warp that hold different outputs."""
        return WARP_SIZE // self.channel_lanes

    @property
    def accumulators(self) -> Any:
        """R_o: outputs of which a thread sums its share of the channels."""
        return self.warp_height * self.thread_width

    @property
    def filter_tile(self) -> Any:
        """Filters of a block tile."""
        return np.where(self.filters_along_width, self.block_width, self.block_height)

    @property
    def position_tile(self) -> Any:
        """Positions of a block tile."""
        return np.where(self.filters_along_width, self.block_height, self.block_width)

    def blocks(self, problem: PointwiseConv2d) -> Integers:
        """Blocks of the grid (whole tiles)."""
        across, down = grid(problem, self)
        return across * down

    @property
    def thread_filters(self) -> Any:
        """Filters of a thread tile."""
        return np.where(self.filters_along_width, self.thread_width, self.warp_height)

    @property
    def thread_positions(self) -> Any:
        """Positions of a thread tile."""
        return np.where(self.filters_along_width, self.warp_height, self.thread_width)

    @property
    def whole(self) -> NDArray[np.bool_]:
        """Where block, warp and thread tile have whole extents of at least 1, so that they need no rounding."""
        extents = (self.block_width, self.block_height, self.warp_width, self.warp_height, self.thread_width)
        fits = np.ones(len(self.channel_lanes), dtype=bool)
        for extent in extents:
            fits &= (np.abs(extent - np.rint(extent)) < 1e-9) & (extent >= 1)
        return fits


def source_tiles(problem: PointwiseConv2d, batch: Batch[PointwiseConfiguration], sm_count: int) -> Tiles:
    """The source's formulas without rounding; extents are float64.

    >>> batch = Batch.of([PointwiseConfiguration(channel_lanes=4)])
    >>> tile = source_tiles(PointwiseConv2d(in_channels=32, out_channels=64, height=112, width=112), batch, 68)
    >>> float(tile.thread_width[0]), float(tile.warp_height[0])
    (4.0, 4.0)
    """
    sm_size = problem.outputs / sm_count
    along_width = batch.equals("layout", Layout.L1)
    filter_extent = problem.out_channels / batch["filter_split"]
    sm_width = np.where(along_width, filter_extent, sm_size / filter_extent)
    lanes = batch["channel_lanes"].astype(np.int64)
    block_width = sm_width / batch["block_width_split"]
    warp_width = block_width / WARP_COLUMNS
    thread_width = warp_width / (WARP_SIZE // lanes)
    initial_height = sm_size / batch["blocks_per_sm"] / block_width / WARP_ROWS
    warp_height = np.minimum(thread_width, initial_height)
    return Tiles(
        filters_along_width=along_width,
        blocks_per_sm=batch["blocks_per_sm"].astype(np.int64),
        channel_lanes=lanes,
        sm_width=sm_width,
        sm_height=sm_size / sm_width,
        block_width=block_width,
        block_height=WARP_ROWS * warp_height,
        warp_width=warp_width,
        warp_height=warp_height,
        thread_width=thread_width,
    )


def tiles(problem: PointwiseConv2d, batch: Batch[PointwiseConfiguration], sm_count: int) -> Tiles:
    """The same in whole numbers: the thread tile's width, then its height rounded up, the other extents built from them.

    The SM tile stays what the source says (a fraction), because nothing runs at that level.

    >>> batch = Batch.of([PointwiseConfiguration(filter_split=8, block_width_split=2)])
    >>> tile = tiles(PointwiseConv2d(in_channels=1024, out_channels=1024, height=7, width=7), batch, 132)
    >>> int(tile.block_width[0]), int(tile.block_height[0]), int(tile.thread_width[0])
    (64, 4, 8)
    """
    exact = source_tiles(problem, batch, sm_count)
    lanes, splits = exact.channel_lanes, batch["block_width_split"].astype(np.int64)
    filter_split = batch["filter_split"].astype(np.int64)
    thread_parts = WARP_COLUMNS * exact.element_lanes * splits
    thread_width = np.where(
        exact.filters_along_width,
        ceil_div(problem.out_channels, thread_parts * filter_split),
        ceil_div(problem.positions * filter_split, thread_parts * sm_count),
    )
    warp_width = thread_width * exact.element_lanes
    block_width = WARP_COLUMNS * warp_width
    block_parts = sm_count * exact.blocks_per_sm * WARP_ROWS * block_width
    warp_height = np.minimum(thread_width, ceil_div(problem.outputs, block_parts))
    return Tiles(
        filters_along_width=exact.filters_along_width,
        blocks_per_sm=exact.blocks_per_sm,
        channel_lanes=lanes,
        sm_width=exact.sm_width,
        sm_height=exact.sm_height,
        block_width=block_width,
        block_height=WARP_ROWS * warp_height,
        warp_width=warp_width,
        warp_height=warp_height,
        thread_width=thread_width,
    )


def grid(problem: PointwiseConv2d, tile: Tiles) -> tuple[Integers, Integers]:
    """Blocks over the positions and over the filters; their product is M_B."""
    return ceil_div(problem.positions, tile.position_tile), ceil_div(problem.out_channels, tile.filter_tile)
