"""The load phase of the tiled kernel, counted: which lanes copy which element of the patch in which step.

The compiler unrolls the loop over a row's columns by four and runs the remainder first, so that lanes with different trip
counts are at different columns in the same instruction. With this order the requests equal the hardware counter to the unit.
"""

from __future__ import annotations

import numpy as np

from ...core.constants import LINE_BYTES, SECTOR_BYTES
from ..lanes import (
    Floats,
    Integers,
    Warps,
    over_unique,
    over_unique_of_all,
    over_warps,
    requests,
    segments_touched,
    slowest_warp,
    wavefronts,
)
from .geometry import Geometry
from .problem import TiledConv2d

UNROLL = 4
_WORD_BYTES = 4
_ROW_DISTANCE = 1 << 20
"""Words between rows of the input, for telling runs apart: far more than a patch is wide."""


def _warp_pass(
    warps: Warps, block_x: Integers, patch_width: Integers, valid_width: Integers, row_length: Integers,
    alignment: Integers,
) -> tuple[Floats, ...]:  # fmt: skip
    """Requests, sectors, lines, wavefronts of one pass of single warps over the rows of the patch that they copy."""
    wide = block_x[:, None]
    trips = -(-(patch_width[:, None] - warps.x) // wide)
    remainder, quads = trips % UNROLL, trips // UNROLL
    totals = [np.zeros(len(block_x)) for _ in range(4)]
    for step in range(UNROLL - 1 + UNROLL * int(quads.max(initial=0))):
        if step < UNROLL - 1:
            taken, trip = remainder > step, np.full_like(remainder, step)
        else:
            quad, inner = divmod(step - (UNROLL - 1), UNROLL)
            taken, trip = quads > quad, remainder + UNROLL * quad + inner
        column = np.asarray(warps.x + trip * wide, np.int64)
        active = warps.present & taken & (column < valid_width[:, None])
        distant = column + warps.y * _ROW_DISTANCE
        totals[0] += requests(active)
        totals[1] += segments_touched(distant, active, SECTOR_BYTES // _WORD_BYTES, alignment)
        totals[2] += segments_touched(distant, active, LINE_BYTES // _WORD_BYTES, alignment)
        totals[3] += wavefronts(column + warps.y * row_length[:, None], active)
    return tuple(totals)


def _block_pass(block_x: Integers, rows: Integers, *columns: Integers) -> tuple[Floats, ...]:
    return over_warps(_warp_pass, block_x, rows, *columns)


def fill_totals(problem: TiledConv2d, sizes: Geometry) -> tuple[Floats, Floats, Floats, Floats]:
    """Global load requests, sectors, lines and shared store wavefronts of the load phase, for the whole launch.

    Requests and wavefronts are exact; sectors and lines are averages over the alignment of the input's rows.
    """
    last_width = np.minimum(sizes.patch_width, problem.input_width - (sizes.grid_x - 1) * sizes.outputs_x)
    last_height = np.minimum(sizes.patch_height, problem.input_height - (sizes.grid_y - 1) * sizes.outputs_y)
    inner_rows, one = sizes.grid_y - 1, np.ones_like(sizes.grid_y)
    passes = (
        (sizes.block_y, inner_rows * (sizes.patch_height // sizes.block_y) + last_height // sizes.block_y),
        (sizes.patch_height % sizes.block_y, inner_rows),
        (last_height % sizes.block_y, one),
    )
    alignment = np.gcd(sizes.outputs_x, np.gcd(problem.input_width, LINE_BYTES // _WORD_BYTES))
    cases = [
        ((sizes.block_x, rows, sizes.patch_width, valid_width, sizes.row_length, alignment), times * column_blocks)
        for valid_width, column_blocks in ((sizes.patch_width, sizes.grid_x - 1), (last_width, one))
        for rows, times in passes
    ]
    totals = [np.zeros(len(sizes.block_x)) for _ in range(4)]
    for parts, (_, weight) in zip(
        over_unique_of_all(_block_pass, [columns for columns, _ in cases]), cases, strict=True
    ):
        for total, part in zip(totals, parts, strict=True):
            total += part * weight
    return totals[0], totals[1], totals[2], totals[3]


def _warp_round_trips(warps: Warps, block_x: Integers, patch_width: Integers, guarded: Integers) -> tuple[Floats, ...]:
    trips = -(-(patch_width[:, None] - warps.x) // block_x[:, None])
    remainder = np.where(warps.present, trips % UNROLL, 0)
    quads = np.where(warps.present, trips // UNROLL, 0)
    waits = (remainder >= 1).any(axis=1).astype(np.float64) + (remainder >= 2).any(axis=1)
    waits += (guarded > 0) & (remainder >= 3).any(axis=1)
    return (waits + quads.max(axis=1),)


def _block_round_trips(block_x: Integers, block_y: Integers, *columns: Integers) -> tuple[Floats, ...]:
    return slowest_warp(_warp_round_trips, block_x, block_y, *columns)


def round_trips(sizes: Geometry) -> Integers:
    """Groups of loads that the slowest warp of a block issues and waits for, one group after the other.

    Each remainder step waits for its load (two of three are merged where no edge is tested); four unrolled loads go
    together. A warp whose lanes have different trip counts walks through the steps of all of them.
    """
    guarded = sizes.guarded.astype(np.int64)
    (waits,) = over_unique(_block_round_trips, sizes.block_x, sizes.block_y, sizes.patch_width, guarded)
    passes = -(-sizes.patch_height // sizes.block_y)
    return np.asarray(passes * waits, np.int64)
