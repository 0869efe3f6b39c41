"""Global memory in closed form: loads of image and filter, stores, what leaves L1 and L2."""

from __future__ import annotations

import functools
from functools import cache

import numpy as np
from numpy.typing import NDArray

from ...core.constants import WARP_SIZE, ceil_div
from ...gpus.gpu import Gpu
from ...launch.launch import Launch
from ...memory.request_coalescing import requests_in_step
from ..accesses import WORDS_PER_LINE, WORDS_PER_SECTOR
from ..lanes import over_unique
from ..rows import row_loads, row_starts, runs_touched
from .exchange_plans import executed_plan
from .launch import TAPS_IN_REGISTERS_LIMIT, Integers, Strips, filter_in_constant
from .problem import Conv2d

Floats = NDArray[np.float64]

_REMAINDERS = np.arange(WORDS_PER_LINE)

Run = tuple[Integers, int, int]
"""First elements, lanes of a warp and neighbouring warps of loads or stores of one element by each lane."""


def _with_output(problem: Conv2d, first: Integers, spacing: int) -> list[Run]:
    """Runs where lanes without an output do nothing: full warps and the partial one at the right edge."""
    full, tail = divmod(problem.output_width, WARP_SIZE)
    partial = [(first + full * WARP_SIZE * spacing, tail, 1)] if tail else []
    return [(first, WARP_SIZE, full), *partial]


def _input_runs(problem: Conv2d, columns: bool, rotate: bool) -> list[Run]:
    """What the warps side by side load of one input row."""
    edge, across = np.array([-problem.padding]), ceil_div(problem.output_width, WARP_SIZE)
    if rotate:
        beyond = [(edge + WARP_SIZE, problem.filter_width - 1, across)] if problem.filter_width > 1 else []
        return [(edge, WARP_SIZE, across), *beyond]
    if columns:
        return [(edge + np.array(executed_plan(problem.filter_width).load_offsets), WARP_SIZE, across)]
    return _with_output(problem, edge + np.arange(problem.filter_width), problem.stride)


def _touched(runs: list[Run], spacing: int, width: int) -> tuple[int, Integers, Integers]:
    """Requests of runs in one row, and the sectors and lines that they touch by the remainder of its first element."""
    requests, sectors, lines = 0, np.zeros_like(_REMAINDERS), np.zeros_like(_REMAINDERS)
    for first, lanes, warps in runs:
        per_row, in_sectors = runs_touched(first, spacing, lanes, warps, width, WORDS_PER_SECTOR)
        _, in_lines = runs_touched(first, spacing, lanes, warps, width, WORDS_PER_LINE)
        requests += int(per_row.sum())
        sectors += in_sectors.sum(axis=1)
        lines += in_lines.sum(axis=1)
    return requests, sectors, lines


def _strip_rows(problem: Conv2d, output_rows: int) -> Integers:
    """Loads of the rows of one input plane by strips of so many output rows, by row index modulo 32."""
    step, first, height = output_rows * problem.stride, -problem.padding, problem.height
    strips = ceil_div(problem.output_height, output_rows)
    last = problem.output_height - (strips - 1) * output_rows
    whole, cut = ((rows - 1) * problem.stride + problem.filter_height for rows in (output_rows, last))
    loads = row_loads(first, step, whole, strips - 1, height)
    return loads + row_loads(first + (strips - 1) * step, step, cut, 1, height)


def _row_starts(problem: Conv2d, loads: Integers) -> Integers:
    """Loads of rows of all input planes, by the remainder of the row's first element."""
    return row_starts(loads, problem.width, problem.height, problem.batch * problem.in_channels)


def input_loads(problem: Conv2d, sizes: Strips) -> tuple[Floats, Floats, Floats]:
    """Requests, sectors and lines of the loads of the image, each of shape ``(n,)``."""
    times = 1 if problem.depthwise else problem.out_channels

    @cache
    def starts_of(shared_rows: int) -> Integers:
        return times * _row_starts(problem, _strip_rows(problem, shared_rows))

    @cache
    def touched_by(columns: int, rotate: int) -> tuple[int, Integers, Integers]:
        return _touched(_input_runs(problem, bool(columns), bool(rotate)), problem.stride, problem.width)

    def of_kind(columns: int, rotate: int, shared_rows: int) -> tuple[int, int, int]:
        starts, (requests, sectors, lines) = starts_of(shared_rows), touched_by(columns, rotate)
        return requests * int(starts.sum()), int(starts @ sectors), int(starts @ lines)

    def of_kinds(*kinds: Integers) -> tuple[Floats, ...]:
        return tuple(
            np.array([of_kind(*kind) for kind in zip(*(k.tolist() for k in kinds), strict=True)], np.float64).T
        )

    kinds = (sizes.columns.astype(np.int64), sizes.rotate.astype(np.int64), sizes.shared_rows)
    requests, sectors, lines = over_unique(of_kinds, *kinds)
    return requests, sectors, lines


def filter_fetches(problem: Conv2d, sizes: Strips) -> Floats:
    """Warp-level fetches of filter taps, from constant memory or, of one sector each, from global memory.

    Taps of one channel that fit registers are fetched once by a warp; others in each step, or from global memory at each use.
    """
    many = problem.filter_taps > TAPS_IN_REGISTERS_LIMIT
    selections = sizes.passes if many or problem.filter_channels > 1 else sizes.active_warps
    uses = np.where(sizes.unrolled, sizes.rows_per_thread, 1) if many and not filter_in_constant(problem) else 1
    return np.asarray(selections * uses * problem.filter_taps, np.float64)


def stores(problem: Conv2d) -> tuple[int, int]:
    """Requests and sectors of the stores, the same for every configuration."""
    once = row_loads(0, 1, 1, problem.output_height, problem.output_height)
    starts = row_starts(once, problem.output_width, problem.output_height, problem.output_planes)
    requests, sectors, _ = _touched(_with_output(problem, np.array([0]), 1), 1, problem.output_width)
    return requests * int(starts.sum()), int(starts @ sectors)


def patch_sectors(problem: Conv2d, launch: Launch, sizes: Strips, gpu: Gpu) -> Floats:
    """Sectors of the image read from L2, where L1 keeps every sector until its last use: those that differ within a block.

    Blocks that read the same patch for other output channels share requests where all run at once, one on each SM.
    """
    tile_rows = np.minimum(launch.block_y * sizes.rows_per_thread, problem.output_height)
    tile_columns = np.minimum(launch.block_x, WARP_SIZE * sizes.across)

    starts_of = cache(functools.partial(_patch_starts, problem))
    sectors_of = cache(functools.partial(_patch_row_sectors, problem))

    def of_tile(rows: int, columns: int, whole_warps: int) -> int:
        (begins, others), (of_first, of_others) = starts_of(rows), sectors_of(columns, whole_warps)
        return int(of_first @ begins + of_others @ others)

    def of_tiles(*tiles: Integers) -> tuple[Floats]:
        return (np.array([of_tile(*tile) for tile in zip(*(t.tolist() for t in tiles), strict=True)], np.float64),)

    (distinct,) = over_unique(of_tiles, tile_rows, tile_columns, sizes.columns.astype(np.int64))
    if problem.depthwise:
        return np.asarray(distinct)
    tiles = ceil_div(problem.output_width, tile_columns) * ceil_div(problem.output_height, tile_rows)

    @cache
    def asked(patches: int) -> float:
        blocks = patches * problem.output_planes
        if blocks > gpu.sm_count:
            return 1.0
        return requests_in_step(blocks, gpu, sectors=patches * problem.batch) / blocks

    return np.asarray(distinct * problem.out_channels * [asked(count) for count in tiles.tolist()])


def _patch_starts(problem: Conv2d, tile_rows: int) -> tuple[Integers, Integers]:
    """First rows of the patches of all tiles and images, and the rows below them, by the remainder of their first element."""
    first, step = -problem.padding, tile_rows * problem.stride
    tiles = ceil_div(problem.output_height, tile_rows)
    begins = row_loads(first, step, 1, tiles, problem.height)
    begins[0] += _patches_from_above(problem, tile_rows, min(ceil_div(problem.padding, step), tiles))
    begins, loaded = (_row_starts(problem, rows) for rows in (begins, _strip_rows(problem, tile_rows)))
    return begins, loaded - begins


def _patch_row_sectors(problem: Conv2d, tile_columns: int, whole_warps: int) -> tuple[Integers, Integers]:
    """Sectors of a row of the patches side by side, and those that the row above does not have, by that remainder."""
    left, right, times = _patch_columns(problem, tile_columns, whole_warps)
    start, end = ((_REMAINDERS + column[:, None]) // WORDS_PER_SECTOR for column in (left, right))
    above = (_REMAINDERS - problem.width + right[:, None]) // WORDS_PER_SECTOR
    fresh = np.maximum(end - np.maximum(start, above + 1) + 1, 0)
    return times @ (end - start + 1), times @ fresh


def _patches_from_above(problem: Conv2d, tile_rows: int, tiles: int) -> int:
    """Of the uppermost tiles, whose patches begin above the image, those whose patches reach it."""
    rows = np.minimum((np.arange(tiles) + 1) * tile_rows, problem.output_height)
    return int(np.count_nonzero((rows - 1) * problem.stride + problem.filter_height > problem.padding))


def _patch_columns(problem: Conv2d, tile_columns: int, whole_warps: int) -> tuple[Integers, Integers, Integers]:
    """First and last column of the tiles' patches, clipped to the image, and how many tiles have such a patch.

    Tiles that no edge cuts are alike, as all of them begin a multiple of a line further. No tile has a patch of padding alone.
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
    low = tile * step - problem.padding
    high = last * problem.stride - problem.padding + problem.filter_width - 1
    times = np.where((high >= 0) & (low < problem.width), times, 0)
    low = np.clip(low, 0, problem.width - 1)
    return low, np.clip(high, low, problem.width - 1), times


def compulsory_bytes(problem: Conv2d) -> tuple[float, float]:
    """Bytes that DRAM must deliver and take at least: image rows and columns that some output needs, filters; output."""

    def needed(extent: int, outputs: int, taps: int) -> int:
        reach = min(extent, (outputs - 1) * problem.stride + taps - problem.padding)
        if taps >= problem.stride:
            return max(reach, 0)
        return len(range(problem.padding % problem.stride, reach, problem.stride))  # every other one

    rows = needed(problem.height, problem.output_height, problem.filter_height)
    columns = needed(problem.width, problem.output_width, problem.filter_width)
    read = problem.batch * problem.in_channels * rows * columns + problem.filter_elements
    written = problem.output_planes * problem.output_height * problem.output_width
    return float(read * problem.element_bytes), float(written * problem.element_bytes)
