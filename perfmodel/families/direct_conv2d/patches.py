"""Sectors of the image that a block touches at all: what it asks L2 for where L1 keeps every sector until its last use."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...core.constants import FLOAT_BYTES, SECTOR_BYTES, WARP_SIZE, ceil_div
from ...gpus.gpu import Gpu
from ...launch.launch import Launch
from ...memory.request_coalescing import requests_in_step
from ..lanes import over_unique
from .problem import Conv2d
from .strips import Strips, tiles_per_row
from .touched import LINE_ELEMENTS, Integers, row_loads, row_starts

Floats = NDArray[np.float64]

_SECTOR_ELEMENTS = SECTOR_BYTES // FLOAT_BYTES
_REMAINDERS = np.arange(LINE_ELEMENTS)


def patch_sectors(problem: Conv2d, launch: Launch, sizes: Strips, gpu: Gpu) -> Floats:
    """Sectors of the image read from L2: those that differ within a block, summed over the blocks.

    Blocks that read the same patch for other output channels share requests where all run at once, one on each SM.
    """
    tile_rows = np.minimum(launch.block_y * sizes.rows_per_thread, problem.output_height)
    tile_columns = np.minimum(launch.block_x, WARP_SIZE * sizes.across)

    def of_tiles(rows: Integers, columns: Integers, whole_warps: Integers) -> tuple[Integers]:
        found = [
            _distinct(problem, int(r), int(c), bool(w)) for r, c, w in zip(rows, columns, whole_warps, strict=True)
        ]
        return (np.array(found, np.int64),)

    (distinct,) = over_unique(of_tiles, tile_rows, tile_columns, sizes.columns.astype(np.int64))
    if problem.depthwise:
        return np.asarray(distinct, np.float64)
    tiles = tiles_per_row(problem, tile_columns) * ceil_div(problem.output_height, tile_rows)
    return np.asarray(distinct * problem.out_channels * _asked(problem, tiles, gpu), np.float64)


def _asked(problem: Conv2d, tiles: Integers, gpu: Gpu) -> Floats:
    """Requests for each that an SM misses, for launches of so many tiles in each output plane."""
    blocks = tiles * problem.output_planes

    def share(count: int, patches: int) -> float:
        return requests_in_step(count, gpu, sectors=patches) / count if count <= gpu.sm_count else 1.0

    images = problem.batch
    return np.array([share(int(n), int(t) * images) for n, t in zip(blocks, tiles, strict=True)])


def _distinct(problem: Conv2d, tile_rows: int, tile_columns: int, whole_warps: bool) -> int:
    """Distinct sectors within each tile's patch of the planes that it reads, over the tiles and planes of all images."""
    left, right, times = _columns(problem, tile_columns, whole_warps)
    planes = problem.batch * problem.in_channels
    begins, loaded = (row_starts(rows, problem.width, problem.height, planes) for rows in _rows(problem, tile_rows))
    start, end = ((_REMAINDERS + column[:, None]) // _SECTOR_ELEMENTS for column in (left, right))
    above = (_REMAINDERS - problem.width + right[:, None]) // _SECTOR_ELEMENTS
    fresh = np.maximum(end - np.maximum(start, above + 1) + 1, 0)
    return int(times @ ((end - start + 1) @ begins + fresh @ (loaded - begins)))


def _rows(problem: Conv2d, tile_rows: int) -> tuple[Integers, Integers]:
    """First rows of the tiles' patches, and all of their rows, by row index modulo 32."""
    first, step, height = -problem.padding, tile_rows * problem.stride, problem.height
    tiles = ceil_div(problem.output_height, tile_rows)
    begins = row_loads(first, step, 1, tiles, height)
    begins[0] += min(ceil_div(problem.padding, step), tiles)  # patches that begin above the image
    last_rows = problem.output_height - (tiles - 1) * tile_rows
    whole, cut = ((rows - 1) * problem.stride + problem.filter_height for rows in (tile_rows, last_rows))
    loaded = row_loads(first, step, whole, tiles - 1, height)
    return begins, loaded + row_loads(first + (tiles - 1) * step, step, cut, 1, height)


def _columns(problem: Conv2d, tile_columns: int, whole_warps: bool) -> tuple[Integers, Integers, Integers]:
    """First and last column of the tiles' patches, clipped to the image, and how many tiles have such a patch.

    Tiles that no edge cuts are alike, as all of them begin a multiple of a line further.
    """
    tiles = ceil_div(problem.output_width, tile_columns)
    step = tile_columns * problem.stride
    edge = ceil_div(problem.filter_width + problem.padding, step) + 1
    tile = np.arange(min(tiles, 2 * edge + 1), dtype=np.int64)
    times = np.ones_like(tile)
    if tiles > len(tile):
        tile[edge + 1 :] += tiles - len(tile)
        times = np.where(tile == edge, tiles - 2 * edge, 1)
    outputs = WARP_SIZE * ceil_div(problem.output_width, WARP_SIZE) if whole_warps else problem.output_width
    last = np.minimum((tile + 1) * tile_columns, outputs) - 1
    low = np.clip(tile * step - problem.padding, 0, problem.width - 1)
    high = last * problem.stride - problem.padding + problem.filter_width - 1
    return low, np.clip(high, low, problem.width - 1), times
