"""The compute phase of the tiled kernel, counted: what a thread loads of its taps, and what it stores."""

from __future__ import annotations

import numpy as np

from ...core.constants import LINE_BYTES, SECTOR_BYTES
from ..lanes import Floats, Integers, Warps, over_unique, over_warps, requests, segments_touched, wavefronts
from .geometry import Geometry, Tiling
from .problem import TiledConv2d

_WORD_BYTES = 4
_ROW_DISTANCE = 1 << 20
FULL_UNROLL_LIMIT = 5400
"""Multiply-adds of a thread from which the front end keeps the filter-row loop (NVRTC 12.9: 24 outputs of 15 × 15 taps)."""


def distinct_offsets(block: Integers, tile: Integers, taps: int) -> Integers:
    """Size of the union of the intervals [t·block, t·block + taps), t < tile: distinct rows or columns of a thread.

    >>> distinct_offsets(np.array([4, 32]), np.array([3, 3]), 5)
    array([13, 15])
    """
    return np.asarray((tile - 1) * np.minimum(block, taps) + taps, np.int64)


def keeps_row_loop(problem: TiledConv2d, sizes: Tiling) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Where the compiler is expected to keep the loop over filter rows, so that rows are loaded anew for each."""
    work = sizes.tile_x * sizes.tile_y * problem.filter_height * problem.filter_width
    return np.asarray(work >= FULL_UNROLL_LIMIT)


def tap_loads(problem: TiledConv2d, sizes: Tiling) -> Integers:
    """Loads of input taps by each thread: what has been loaded is kept in registers within the unrolled code.

    Without a shared patch and with tiles that do not divide the image it is a lower bound: the compiler does not always
    see that clamped coordinates of two outputs coincide.
    """
    columns = distinct_offsets(sizes.block_x, sizes.tile_x, problem.filter_width)
    rows = distinct_offsets(sizes.block_y, sizes.tile_y, problem.filter_height)
    looped = sizes.tile_y * problem.filter_height
    return np.asarray(columns * np.where(keeps_row_loop(problem, sizes), looped, rows), np.int64)


def _tap_wavefronts(warps: Warps, block_x: Integers, row_length: Integers) -> tuple[Floats, ...]:
    return (wavefronts(warps.x + warps.y * row_length[:, None], warps.present),)


def tap_wavefronts(sizes: Geometry) -> Floats:
    """Wavefronts of one shared tap load by all warps of a block."""
    (total,) = over_unique(_tap_block, sizes.block_x, sizes.block_y, sizes.row_length)
    return np.asarray(total)


def _tap_block(block_x: Integers, block_y: Integers, row_length: Integers) -> tuple[Floats, ...]:
    return over_warps(_tap_wavefronts, block_x, block_y, row_length)


def _direct_taps(warps: Warps, block_x: Integers) -> tuple[Floats, ...]:
    word, unaligned = warps.x + warps.y * _ROW_DISTANCE, np.ones_like(block_x)
    return (
        segments_touched(word, warps.present, SECTOR_BYTES // _WORD_BYTES, unaligned),
        segments_touched(word, warps.present, LINE_BYTES // _WORD_BYTES, unaligned),
    )


def _direct_block(block_x: Integers, block_y: Integers) -> tuple[Floats, ...]:
    return over_warps(_direct_taps, block_x, block_y)


def direct_tap_segments(sizes: Geometry) -> tuple[Floats, Floats]:
    """Sectors and lines of one global tap load by all warps of a block, averaged over alignments (no shared patch)."""
    sectors, lines = over_unique(_direct_block, sizes.block_x, sizes.block_y)
    return sectors, lines


def _stores(warps: Warps, block_x: Integers, columns: Integers, alignment: Integers) -> tuple[Floats, ...]:
    active = warps.present & (warps.x < columns[:, None])
    word = warps.x + warps.y * _ROW_DISTANCE
    return requests(active), segments_touched(word, active, SECTOR_BYTES // _WORD_BYTES, alignment)


def _store_block(block_x: Integers, rows: Integers, columns: Integers, alignment: Integers) -> tuple[Floats, ...]:
    return over_warps(_stores, block_x, rows, columns, alignment)


def store_totals(problem: TiledConv2d, sizes: Geometry) -> tuple[Floats, Floats]:
    """Global store requests and sectors of the whole launch; blocks at the edges store what lies inside the image."""
    requests_total, sectors_total = np.zeros(len(sizes.block_x)), np.zeros(len(sizes.block_x))
    alignment = np.gcd(sizes.block_x, np.gcd(problem.width, 8))
    for columns, across in _parts(problem.width, sizes.outputs_x, sizes.block_x, sizes.grid_x, sizes.tile_x):
        for rows, down in _parts(problem.height, sizes.outputs_y, sizes.block_y, sizes.grid_y, sizes.tile_y):
            each, sectors = over_unique(_store_block, sizes.block_x, rows, columns, alignment)
            requests_total += each * across * down
            sectors_total += sectors * across * down
    return requests_total, sectors_total


def _parts(
    extent: int, outputs: Integers, block: Integers, grid: Integers, tile: Integers
) -> tuple[tuple[Integers, Integers], tuple[Integers, Integers]]:
    """How often a block-wide run of outputs is stored whole, and the one partial run: pairs of width and times."""
    inside = extent - (grid - 1) * outputs
    whole = (grid - 1) * tile + inside // block
    return (block, whole), (inside % block, (inside % block > 0).astype(np.int64))
