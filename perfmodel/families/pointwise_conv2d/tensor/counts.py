"""What a warp of a matrix product on tensor cores executes for each channel."""

from __future__ import annotations

from ....core.constants import WARP_SIZE
from ....gpus.gpu import Gpu
from ...matrix.choices import TENSOR_TERMS
from ...matrix.counts import WarpWork
from ...matrix.layer import position_vector
from ...matrix.tensor_counts import tensor_work
from ..problem import PointwiseConv2d
from .tiling import PointwiseTensorTiles


def work_of(problem: PointwiseConv2d, tile: PointwiseTensorTiles, gpu: Gpu) -> WarpWork:
    """Of n configurations."""
    copied = tile.slab_channels * tile.position_tile / position_vector(problem) / WARP_SIZE
    return tensor_work(
        problem,
        tile,
        gpu,
        products_of_channel=1 / TENSOR_TERMS,
        input_copies=copied,
        input_words=tile.position_tile,
    )
