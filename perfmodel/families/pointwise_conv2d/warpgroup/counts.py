"""What a warp of a matrix product of warpgroups executes for each channel."""

from __future__ import annotations

import numpy as np

from ....core.constants import WARP_SIZE
from ....gpus.gpu import Gpu
from ...matrix.counts import WarpWork
from ...matrix.warpgroups import FACTORS, warpgroup_work
from ...precision import Precision
from ..problem import PointwiseConv2d
from .tiling import PointwiseWarpgroupTiles


def work_of(problem: PointwiseConv2d, tile: PointwiseWarpgroupTiles, gpu: Gpu) -> WarpWork:
    """Of n configurations."""
    half = problem.precision is Precision.FLOAT16
    return warpgroup_work(
        problem,
        tile,
        gpu,
        reads=1 if half else FACTORS,  # one read turns four matrices (``ldmatrix.x4.trans``)
        wavefronts=np.full(tile.threads.shape, float(FACTORS)),
        ideal=FACTORS,
        integers=1 if half else FACTORS,
        input_copies=tile.slab_channels * tile.position_tile / tile.input_vector(problem) / WARP_SIZE,
        input_elements=tile.position_tile,
    )
