"""What leaves L1 and L2, and the groups of loads that a warp waits for."""

from __future__ import annotations

import numpy as np

from ...core.constants import FLOAT_BYTES, SECTOR_BYTES, ceil_div
from ..accesses import WORDS_PER_LINE, WORDS_PER_SECTOR
from ..code_estimates import code_estimates
from ..lanes import Floats, Integers, Warps, over_unique, slowest_warp
from .launch import Geometry
from .problem import TiledConv2d


def patch_sectors(problem: TiledConv2d, sizes: Geometry) -> Floats:
    """Sectors that all blocks together read when each reads its patch once, shape ``(n,)``: what L1 asks of L2."""

    def of_row(width: Integers) -> Floats:
        return _segments_of_row(problem, sizes, width, WORDS_PER_SECTOR)

    last_height = np.minimum(sizes.patch_height, problem.input_height - (sizes.grid_y - 1) * sizes.outputs_y)
    last_width = np.minimum(sizes.patch_width, problem.input_width - (sizes.grid_x - 1) * sizes.outputs_x)
    rows = (sizes.grid_y - 1) * sizes.patch_height + last_height
    return np.asarray(rows * ((sizes.grid_x - 1) * of_row(sizes.patch_width) + of_row(last_width)), np.float64)


def reloaded_lines(problem: TiledConv2d, sizes: Geometry) -> Floats:
    """Lines that a block loads from global memory for each row of the filter, shape ``(n,)``: for the next row nearly the same.

    0 with a patch in shared memory, for which each is loaded once.
    """
    lines = sizes.outputs_y * _segments_of_row(problem, sizes, sizes.patch_width, WORDS_PER_LINE)
    return np.where(sizes.use_shmem, 0.0, lines)


def _segments_of_row(problem: TiledConv2d, sizes: Geometry, width: Integers, words: int) -> Floats:
    """Sectors or lines, of so many words, that so many words of a row of the image touch, averaged over where rows begin."""
    step = np.gcd(sizes.outputs_x, np.gcd(problem.input_width, words))
    return np.asarray((ceil_div(width, step) * step + words - step) / words)


def compulsory_bytes(problem: TiledConv2d) -> tuple[float, float]:
    """Bytes that DRAM must deliver and take at least: the padded image once; rows of the output in whole sectors."""
    read = FLOAT_BYTES * problem.input_height * problem.input_width
    written = SECTOR_BYTES * ceil_div(problem.width, WORDS_PER_SECTOR) * problem.height
    return float(read), float(written)


def round_trips(sizes: Geometry, tap_loads: Integers) -> Floats:
    """Groups of loads that the slowest warp of a block issues and waits for, one group after the other, shape ``(n,)``.

    In the load phase each remainder step waits for its load (two of three are merged where no edge is tested); four unrolled
    loads go together. A warp whose lanes have different trip counts walks through the steps of all of them.
    """
    guarded = sizes.guarded.astype(np.int64)
    cases = (sizes.block_x, sizes.block_y, sizes.patch_width, guarded)
    (waits,) = over_unique(lambda *c: slowest_warp(_waits, *c), *cases)
    passes = ceil_div(sizes.patch_height, sizes.block_y)
    return np.where(sizes.use_shmem, passes * waits, 1 + tap_loads / code_estimates().tiled_loads_in_flight)


def _waits(warps: Warps, block_x: Integers, patch_width: Integers, guarded: Integers) -> tuple[Floats, ...]:
    trips = ceil_div(patch_width[:, None] - warps.x, block_x[:, None])
    remainder, quads = (np.where(warps.present, part, 0) for part in (trips % 4, trips // 4))
    waits = (remainder >= 1).any(axis=1).astype(np.float64) + (remainder >= 2).any(axis=1)
    waits += (guarded > 0) & (remainder >= 3).any(axis=1)
    return (waits + quads.max(axis=1),)
