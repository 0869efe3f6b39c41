"""What a warp of a matrix product on tensor cores executes for each channel."""

from __future__ import annotations

from ....core.constants import WARP_SIZE, ceil_div
from ....gpus.gpu import Gpu
from ...matrix.counts import WarpWork
from ...matrix.tensor_counts import FACTORS, tensor_work
from ...matrix.tensor_tiles import product_terms
from ...precision import Precision
from ..problem import PointwiseConv2d
from .tiling import PointwiseTensorTiles

TURNED_COLUMNS = 2
"""Tiles of positions whose factors in half precision one read turns (``ldmatrix.x4.trans``)."""


def work_of(problem: PointwiseConv2d, tile: PointwiseTensorTiles, gpu: Gpu) -> WarpWork:
    """Of n configurations."""
    copied = tile.slab_channels * tile.position_tile / tile.input_vector(problem) / WARP_SIZE
    of_columns = FACTORS[1] * tile.columns
    half = problem.precision is Precision.FLOAT16
    return tensor_work(
        problem,
        tile,
        gpu,
        products_of_channel=1 / product_terms(problem),
        input_copies=copied,
        input_elements=tile.position_tile,
        column_reads=ceil_div(tile.columns, TURNED_COLUMNS) if half else of_columns,
        column_wavefronts=of_columns,
    )
