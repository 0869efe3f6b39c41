"""What L2 is asked for by a launch: the sectors that L1 does not hold, and requests that serve several SMs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...core.constants import FLOAT_BYTES, LINE_BYTES, SECTOR_BYTES, ceil_div
from ...gpus.gpu import Gpu
from ...memory.request_coalescing import shares_in_turns
from ..accesses import GlobalAccesses
from .blocking.tiles import Floats
from .launch import Candidates
from .problem import PointwiseConv2d


def l2_read_sectors(
    problem: PointwiseConv2d,
    chosen: Candidates,
    gpu: Gpu,
    filters: Sequence[GlobalAccesses],
    inputs: Sequence[GlobalAccesses],
) -> Floats:
    """Estimate of the sectors that L2 is asked for: of copies past L1 all, of filters through L1 what it does not hold.

    L1 holds the lines of one slab for the next, which may take the rest of a sector, if those of the resident blocks fit in
    half of what their shared memory leaves of it; it holds a whole filter tile for the next blocks of the SM if that fits.
    Blocks of a row of the grid read the same filters, those of a column the same input: some requests serve several SMs.
    """
    tile, (across, down), blocks = chosen.tile, chosen.tile.grid(problem), chosen.resident
    every = ceil_div(problem.out_channels * problem.in_channels * FLOAT_BYTES, SECTOR_BYTES)
    room = (gpu.l1_bytes_per_sm - np.minimum(blocks * chosen.shared_bytes, gpu.shared_bytes_per_sm)) / 2
    by_slab = tile.filter_tile * LINE_BYTES * blocks <= room
    by_tile = tile.filter_tile * problem.in_channels * FLOAT_BYTES <= room
    cached = np.array([accesses.sectors for accesses in filters])
    missed = np.where(by_slab, np.minimum(cached, across * every), cached)
    missed = np.where(by_tile, np.minimum(missed, np.minimum(across, gpu.sm_count) * every), missed)
    past_l1 = np.array([accesses.uncached_sectors for accesses in filters])
    loaded = np.array([accesses.uncached_sectors or accesses.sectors for accesses in inputs])
    of_filters, of_inputs = shares_in_turns(across, down, blocks, gpu)
    total: Floats = np.where(past_l1 > 0, past_l1, missed) * of_filters + loaded * of_inputs
    return total
