"""Closed forms of the whole launch: requests, sectors and wavefronts of the load phase and the compute phase.

In the load phase a block copies its patch to shared memory, in the compute phase each thread loads its taps, from the patch
or (without ``use_shmem``) from global memory, and stores its outputs. Costs are worked out once for each distinct warp.
"""

from __future__ import annotations

import numpy as np

from ...core.batched import taken
from ...core.constants import WARP_SIZE, ceil_div
from ...core.counts import Counts
from ..accesses import WORDS_PER_LINE, WORDS_PER_SECTOR
from ..lanes import (
    Floats,
    Integers,
    Warps,
    distinct_rows,
    over_unique,
    over_unique_of_all,
    over_warps,
    requests,
    segments_touched,
    wavefronts,
)
from .launch import Flags, Geometry
from .problem import TiledConv2d
from .traffic import compulsory_bytes, patch_sectors

UNROLL = 4
"""Columns of a row of the patch that the compiler copies together; it runs the remainder first."""

ROLLED_MULTIPLY_ADDS = 5400
"""Of a thread, from which NVRTC 12.9 keeps the loop over filter rows: 24 outputs of 15 × 15 taps."""

_ROW_DISTANCE = 1 << 20
"""Words between rows of an image where only runs matter: far more than a patch is wide."""


def closed_form(problem: TiledConv2d, sizes: Geometry) -> Counts:
    """Counts of n configurations; those of the same sizes are worked out once.

    Requests, wavefronts and multiply-adds are exact, sectors and lines averaged over the alignments of rows; what the compiler
    decides is not in them.
    """
    names = ("block_x", "block_y", "tile_x", "tile_y", "row_length", "use_shmem")
    first, inverse = distinct_rows(*(getattr(sizes, name).astype(np.int64) for name in names))
    return taken(_closed_form(problem, taken(sizes, first)), inverse)


def _closed_form(problem: TiledConv2d, sizes: Geometry) -> Counts:
    blocks = (sizes.grid_x * sizes.grid_y).astype(np.float64)
    warps = blocks * ceil_div(sizes.block_x * sizes.block_y, WARP_SIZE)
    fill_requests, fill_sectors, fill_lines, fill_wavefronts = fill_totals(problem, sizes)
    taps = tap_loads(problem, sizes)
    tap_requests, shared = warps * taps, sizes.use_shmem
    sectors, lines = _direct_tap_segments(sizes)
    store_requests, store_sectors = store_totals(problem, sizes)
    fma = warps * sizes.tile_x * sizes.tile_y * problem.filter_height * problem.filter_width
    loads = np.where(shared, fill_requests, tap_requests)
    shared_loads = np.where(shared, tap_requests, 0.0)
    shared_stores = np.where(shared, fill_requests, 0.0)
    load_wavefronts = np.where(shared, blocks * taps * _tap_wavefronts(sizes), 0.0)
    store_wavefronts = np.where(shared, fill_wavefronts, 0.0)
    barriers = np.where(shared, warps, 0.0)
    read_bytes, written_bytes = compulsory_bytes(problem)
    return Counts(
        global_load_requests=loads,
        global_load_sectors=np.where(shared, fill_sectors, blocks * taps * sectors),
        global_load_lines=np.where(shared, fill_lines, blocks * taps * lines),
        global_store_requests=store_requests,
        global_store_sectors=store_sectors,
        shared_load_requests=shared_loads,
        shared_store_requests=shared_stores,
        shared_load_wavefronts=load_wavefronts,
        shared_store_wavefronts=store_wavefronts,
        shared_bank_conflicts=load_wavefronts + store_wavefronts - shared_loads - shared_stores,
        fp32_fma=fma,
        barriers=barriers,
        l2_read_sectors=patch_sectors(problem, sizes),
        l2_write_sectors=store_sectors,
        dram_read_bytes=np.full_like(blocks, read_bytes),
        dram_write_bytes=np.full_like(blocks, written_bytes),
    )


# Load phase


def fill_totals(problem: TiledConv2d, sizes: Geometry) -> tuple[Floats, Floats, Floats, Floats]:
    """Global load requests, sectors, lines and shared store wavefronts of the load phase, each of shape ``(n,)``."""
    last_width = np.minimum(sizes.patch_width, problem.input_width - (sizes.grid_x - 1) * sizes.outputs_x)
    last_height = np.minimum(sizes.patch_height, problem.input_height - (sizes.grid_y - 1) * sizes.outputs_y)
    inner_rows, one = sizes.grid_y - 1, np.ones_like(sizes.grid_y)
    passes = (
        (sizes.block_y, inner_rows * (sizes.patch_height // sizes.block_y) + last_height // sizes.block_y),
        (sizes.patch_height % sizes.block_y, inner_rows),
        (last_height % sizes.block_y, one),
    )
    alignment = np.gcd(sizes.outputs_x, np.gcd(problem.input_width, WORDS_PER_LINE))
    cases = [
        ((sizes.block_x, rows, sizes.patch_width, valid_width, sizes.row_length, alignment), times * column_blocks)
        for valid_width, column_blocks in ((sizes.patch_width, sizes.grid_x - 1), (last_width, one))
        for rows, times in passes
    ]
    costs = over_unique_of_all(
        lambda block_x, rows, *columns: over_warps(_warp_pass, block_x, rows, *columns),
        [columns for columns, _ in cases],
    )
    weighted = [[part * weight for part in parts] for parts, (_, weight) in zip(costs, cases, strict=True)]
    requests_total, sectors, lines, wavefronts_total = (sum(parts) for parts in zip(*weighted, strict=True))
    return np.asarray(requests_total), np.asarray(sectors), np.asarray(lines), np.asarray(wavefronts_total)


def _warp_pass(
    warps: Warps, block_x: Integers, patch_width: Integers, valid_width: Integers, row_length: Integers,
    alignment: Integers,
) -> tuple[Floats, ...]:  # fmt: skip
    """Requests, sectors, lines, wavefronts of one pass of single warps over the rows of the patch that they copy.

    Lanes with different trip counts are at different columns in the same instruction.
    """
    wide = block_x[:, None]
    trips = ceil_div(patch_width[:, None] - warps.x, wide)
    remainder, quads = trips % UNROLL, trips // UNROLL
    totals = [np.zeros(len(block_x)) for _ in range(4)]
    for step in range(UNROLL - 1 + UNROLL * int(quads.max(initial=0))):
        if step < UNROLL - 1:
            runs, trip = remainder > step, np.full_like(remainder, step)
        else:
            quad, inner = divmod(step - (UNROLL - 1), UNROLL)
            runs, trip = quads > quad, remainder + UNROLL * quad + inner
        column = np.asarray(warps.x + trip * wide, np.int64)
        active = warps.present & runs & (column < valid_width[:, None])
        distant = column + warps.y * _ROW_DISTANCE
        totals[0] += requests(active)
        totals[1] += segments_touched(distant, active, WORDS_PER_SECTOR, alignment)
        totals[2] += segments_touched(distant, active, WORDS_PER_LINE, alignment)
        totals[3] += wavefronts(column + warps.y * row_length[:, None], active)
    return tuple(totals)


# Compute phase


def distinct_offsets(block: Integers, tile: Integers, taps: int) -> Integers:
    """Size of the union of the intervals [t·block, t·block + taps), t < tile: distinct rows or columns of a thread.

    >>> distinct_offsets(np.array([4, 32]), np.array([3, 3]), 5)
    array([13, 15])
    """
    return np.asarray((tile - 1) * np.minimum(block, taps) + taps, np.int64)


def keeps_row_loop(problem: TiledConv2d, sizes: Geometry) -> Flags:
    """Where the compiler is expected to keep the loop over filter rows, so that rows are loaded anew for each."""
    return np.asarray(
        sizes.tile_x * sizes.tile_y * problem.filter_height * problem.filter_width >= ROLLED_MULTIPLY_ADDS
    )


def tap_loads(problem: TiledConv2d, sizes: Geometry) -> Integers:
    """Loads of input taps by each thread: what has been loaded is kept in registers within the unrolled code.

    Without a shared patch and with tiles that do not divide the image it is a lower bound: the compiler does not always
    see that clamped coordinates of two outputs coincide.
    """
    columns = distinct_offsets(sizes.block_x, sizes.tile_x, problem.filter_width)
    rows = distinct_offsets(sizes.block_y, sizes.tile_y, problem.filter_height)
    looped = sizes.tile_y * problem.filter_height
    return np.asarray(columns * np.where(keeps_row_loop(problem, sizes), looped, rows), np.int64)


def _tap_wavefronts(sizes: Geometry) -> Floats:
    """Wavefronts of one shared tap load by all warps of a block."""

    def of_warps(warps: Warps, block_x: Integers, row_length: Integers) -> tuple[Floats, ...]:
        return (wavefronts(warps.x + warps.y * row_length[:, None], warps.present),)

    (total,) = over_unique(lambda *sizes: over_warps(of_warps, *sizes), sizes.block_x, sizes.block_y, sizes.row_length)
    return np.asarray(total)


def _direct_tap_segments(sizes: Geometry) -> tuple[Floats, Floats]:
    """Sectors and lines of one global tap load by all warps of a block, averaged over alignments (no shared patch)."""

    def of_warps(warps: Warps, block_x: Integers) -> tuple[Floats, ...]:
        word, unaligned = warps.x + warps.y * _ROW_DISTANCE, np.ones_like(block_x)
        return tuple(
            segments_touched(word, warps.present, words, unaligned) for words in (WORDS_PER_SECTOR, WORDS_PER_LINE)
        )

    sectors, lines = over_unique(lambda *sizes: over_warps(of_warps, *sizes), sizes.block_x, sizes.block_y)
    return sectors, lines


def store_totals(problem: TiledConv2d, sizes: Geometry) -> tuple[Floats, Floats]:
    """Global store requests and sectors of the whole launch; blocks at the edges store what lies inside the image."""

    def of_warps(warps: Warps, block_x: Integers, columns: Integers, alignment: Integers) -> tuple[Floats, ...]:
        active = warps.present & (warps.x < columns[:, None])
        word = warps.x + warps.y * _ROW_DISTANCE
        return requests(active), segments_touched(word, active, WORDS_PER_SECTOR, alignment)

    totals = [np.zeros(len(sizes.block_x)), np.zeros(len(sizes.block_x))]
    alignment = np.gcd(sizes.block_x, np.gcd(problem.width, WORDS_PER_SECTOR))
    for columns, across in _runs(problem.width, sizes.outputs_x, sizes.block_x, sizes.grid_x, sizes.tile_x):
        for rows, down in _runs(problem.height, sizes.outputs_y, sizes.block_y, sizes.grid_y, sizes.tile_y):
            cases = (sizes.block_x, rows, columns, alignment)
            for total, each in zip(totals, over_unique(lambda *c: over_warps(of_warps, *c), *cases), strict=True):
                total += each * across * down
    return totals[0], totals[1]


def _runs(
    extent: int, outputs: Integers, block: Integers, grid: Integers, tile: Integers
) -> tuple[tuple[Integers, Integers], tuple[Integers, Integers]]:
    """How often a block-wide run of outputs is stored whole, and the one partial run: pairs of width and times."""
    inside = extent - (grid - 1) * outputs
    whole = (grid - 1) * tile + inside // block
    return (block, whole), (inside % block, (inside % block > 0).astype(np.int64))
