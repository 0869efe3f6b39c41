"""How tiles cover the images: blocks, rows of a patch that lie inside, column spans; sectors from the rows' alignment."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...core.constants import FLOAT_BYTES, LINE_BYTES, WARP_SIZE, ceil_div
from .design import RADIUS, Design
from .problem import Ssim

Integers = NDArray[np.int64]

LINE_FLOATS = LINE_BYTES // FLOAT_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiling:
    """Blocks of the grid in x and y; each block walks through the channels of one image."""

    grid_x: int
    grid_y: int
    batch: int
    channels: int

    @property
    def block_channels(self) -> int:
        """Blocks times the channels that each filters."""
        return self.grid_x * self.grid_y * self.batch * self.channels


def tiling(problem: Ssim, design: Design) -> Tiling:
    """Tiles of the design that cover the problem's images.

    >>> from .configuration import Version
    >>> from .design import DESIGNS
    >>> tiling(Ssim(), DESIGNS[Version.V4])  # 3840 / 64 and 2160 / 72
    Tiling(grid_x=60, grid_y=30, batch=1, channels=3)
    """
    return Tiling(
        grid_x=ceil_div(problem.width, design.tile_width),
        grid_y=ceil_div(problem.height, design.tile_height),
        batch=problem.batch,
        channels=problem.channels,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Spans:
    """Intervals ``[begin, end)`` of columns within the image, one for each warp access (or block) along x; none is empty."""

    begin: Integers
    end: Integers

    def __len__(self) -> int:
        return len(self.begin)


def column_spans(problem: Ssim, design: Design, halo: int, segment: int) -> Spans:
    """Columns that each tile touches with a halo on both sides, cut into segments of ``segment`` columns.

    >>> from .configuration import Version
    >>> from .design import DESIGNS
    >>> column_spans(Ssim(width=40, height=1), DESIGNS[Version.NAIVE], 5, 32).begin  # [0,27) [27,37); [27,40)
    array([ 0, 27, 27])
    """
    width = design.tile_width + 2 * halo
    tiles = np.arange(ceil_div(problem.width, design.tile_width)) * design.tile_width - halo
    offsets = np.arange(0, width, segment)
    begin = tiles[:, None] + offsets
    end = tiles[:, None] + np.minimum(offsets + segment, width)
    begin, end = np.maximum(begin, 0).reshape(-1), np.minimum(end, problem.width).reshape(-1)
    present = begin < end
    return Spans(begin=begin[present], end=end[present])


def cut_segments(problem: Ssim, design: Design) -> int:
    """Warp accesses along x, over all tiles, that have a column of the patch outside of the image."""
    tiles = np.arange(ceil_div(problem.width, design.tile_width)) * design.tile_width - RADIUS
    offsets = np.arange(0, design.patch_width, WARP_SIZE)
    begin = tiles[:, None] + offsets
    end = tiles[:, None] + np.minimum(offsets + WARP_SIZE, design.patch_width)
    return int(((begin < 0) | (end > problem.width)).sum())


def row_alignments(problem: Ssim, design: Design, halo: int) -> Integers:
    """How many rows the tiles touch, over all planes, by the place of the row's first element in a 128-byte line.

    Every tile row (grid row) counts its own rows within the image; the result has shape ``(32,)``. Buffers begin at a line.

    >>> from .configuration import Version
    >>> from .design import DESIGNS
    >>> row_alignments(Ssim(height=3, width=40, channels=1), DESIGNS[Version.NAIVE], 5).nonzero()  # 0, 40, 80 mod 32
    (array([ 0,  8, 16]),)
    """
    first = np.arange(ceil_div(problem.height, design.tile_height)) * design.tile_height
    change = np.zeros(problem.height + 1, np.int64)
    np.add.at(change, np.maximum(first - halo, 0), 1)
    np.add.at(change, np.minimum(first + design.tile_height + halo, problem.height), -1)
    times = np.cumsum(change[:-1])
    rows = np.arange(problem.height, dtype=np.int64) * (problem.width % LINE_FLOATS) % LINE_FLOATS
    in_plane = np.bincount(rows, weights=times, minlength=LINE_FLOATS).astype(np.int64)
    step = problem.height * problem.width % LINE_FLOATS
    rounds, rest = divmod(problem.planes, LINE_FLOATS)  # alignments repeat after as many planes as a line has floats
    begins = np.arange(LINE_FLOATS) * step % LINE_FLOATS
    planes = np.bincount(begins, minlength=LINE_FLOATS) * rounds + np.bincount(begins[:rest], minlength=LINE_FLOATS)
    shift = (np.arange(LINE_FLOATS)[:, None] - np.arange(LINE_FLOATS)) % LINE_FLOATS
    total: Integers = (in_plane[shift] * planes).sum(axis=1)
    return total


def pieces_touched(alignments: Integers, spans: Spans, piece_bytes: int) -> int:
    """Sectors or lines that the spans touch, summed over spans and rows.

    A piece counts once for each span that touches any of its bytes, which is what one warp request does.
    """
    floats = piece_bytes // FLOAT_BYTES
    start = np.arange(LINE_FLOATS)[:, None]
    touched = (start + spans.end - 1) // floats - (start + spans.begin) // floats + 1
    return int((alignments * touched.sum(axis=1)).sum())
