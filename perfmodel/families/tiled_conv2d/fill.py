"""The load phase of the tiled kernel, counted: which lanes copy which element of the patch in which step.

The compiler unrolls the loop over a row's columns by four and runs the remainder first, so that lanes with different trip
counts are at different columns in the same instruction. With this order the requests equal the hardware counter to the unit.
"""

from __future__ import annotations

import numpy as np

from ...definitions import LINE_BYTES, SECTOR_BYTES
from ..lanes import Floats, Integers, over_unique, requests, segments_touched, warp_kinds, wavefronts
from .geometry import Geometry
from .problem import TiledConv2d

UNROLL = 4
_WORD_BYTES = 4
_TARGET_LANES = 4_000_000


def _row_pass(
    block_x: Integers, rows: Integers, patch_width: Integers, valid_width: Integers, row_length: Integers,
    alignment: Integers,
) -> tuple[Floats, ...]:  # fmt: skip
    """Requests, sectors, lines, wavefronts of one pass of ``rows`` thread rows over as many rows of the patch."""
    kinds = warp_kinds(block_x, rows)
    wide = block_x[:, None, None]
    trips = -(-(patch_width[:, None, None] - kinds.x) // wide)
    remainder, quads = trips % UNROLL, trips // UNROLL
    totals = [np.zeros(len(block_x)) for _ in range(4)]
    steps = UNROLL - 1 + UNROLL * int(quads.max(initial=0))
    for step in range(steps):
        if step < UNROLL - 1:
            taken, trip = remainder > step, np.full_like(remainder, step)
        else:
            quad, inner = divmod(step - (UNROLL - 1), UNROLL)
            taken, trip = quads > quad, remainder + UNROLL * quad + inner
        column = np.asarray(kinds.x + trip * wide, np.int64)
        active = kinds.present & taken & (column < valid_width[:, None, None])
        if not active.any():
            continue
        distant: Integers = column + kinds.y * (1 << 20)
        totals[0] += requests(kinds, active)
        totals[1] += segments_touched(kinds, distant, active, SECTOR_BYTES // _WORD_BYTES, alignment)
        totals[2] += segments_touched(kinds, distant, active, LINE_BYTES // _WORD_BYTES, alignment)
        totals[3] += wavefronts(kinds, column + kinds.y * row_length[:, None, None], active)
    return tuple(totals)


def _in_chunks(*columns: Integers) -> tuple[Floats, ...]:
    """``_row_pass`` on as many rows at a time as keep the lane arrays small."""
    block_x = columns[0]
    kinds = int((block_x // np.gcd(block_x, 32)).max()) + 1
    size = max(1, _TARGET_LANES // (32 * kinds))
    parts = [_row_pass(*(c[i : i + size] for c in columns)) for i in range(0, len(block_x), size)]
    return tuple(np.concatenate(p) for p in zip(*parts, strict=True))


def fill_totals(problem: TiledConv2d, sizes: Geometry) -> tuple[Floats, Floats, Floats, Floats]:
    """Global load requests, sectors, lines and shared store wavefronts of the load phase, for the whole launch.

    Requests and wavefronts are exact; sectors and lines are averages over the alignment of the input's rows.
    """
    last_width = np.minimum(sizes.patch_width, problem.input_width - (sizes.grid_x - 1) * sizes.outputs_x)
    last_height = np.minimum(sizes.patch_height, problem.input_height - (sizes.grid_y - 1) * sizes.outputs_y)
    inner_rows, last_rows = sizes.grid_y - 1, np.ones_like(sizes.grid_y)
    passes = (
        (sizes.block_y, inner_rows * (sizes.patch_height // sizes.block_y) + last_height // sizes.block_y),
        (sizes.patch_height % sizes.block_y, inner_rows),
        (last_height % sizes.block_y, last_rows),
    )
    alignment = np.gcd(np.gcd(sizes.outputs_x, problem.input_width), 32)
    totals = [np.zeros(len(sizes.block_x)) for _ in range(4)]
    for valid_width, column_blocks in ((sizes.patch_width, sizes.grid_x - 1), (last_width, np.ones_like(last_width))):
        for rows, times in passes:
            parts = over_unique(
                _in_chunks, sizes.block_x, rows, sizes.patch_width, valid_width, sizes.row_length, alignment
            )
            for total, part in zip(totals, parts, strict=True):
                total += part * times * column_blocks
    return totals[0], totals[1], totals[2], totals[3]


def _row_round_trips(block_x: Integers, block_y: Integers, patch_width: Integers, guarded: Integers) -> tuple[Integers]:
    kinds = warp_kinds(block_x, block_y)
    trips = -(-(patch_width[:, None, None] - kinds.x) // block_x[:, None, None])
    remainder = np.where(kinds.present, trips % UNROLL, 0)
    quads = np.where(kinds.present, trips // UNROLL, 0)
    waits = (remainder >= 1).any(axis=2).astype(np.int64) + (remainder >= 2).any(axis=2)
    waits += (guarded[:, None] > 0) & (remainder >= 3).any(axis=2)
    waits += quads.max(axis=2)
    return (np.where(kinds.weight > 0, waits, 0).max(axis=1),)


def round_trips(sizes: Geometry) -> Integers:
    """Groups of loads that the slowest warp of a block issues and waits for, one group after the other.

    Each remainder step waits for its load (two of three are merged where no edge is tested); four unrolled loads go
    together. A warp whose lanes have different trip counts walks through the steps of all of them.
    """
    guarded = sizes.guarded.astype(np.int64)
    (waits,) = over_unique(_row_round_trips, sizes.block_x, sizes.block_y, sizes.patch_width, guarded)
    passes = -(-sizes.patch_height // sizes.block_y)
    return np.asarray(passes * waits, np.int64)
