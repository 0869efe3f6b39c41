"""What a warp of a matrix product on tensor cores executes for each channel."""

from __future__ import annotations

from ....core.constants import WARP_SIZE
from ....gpus.gpu import Gpu
from ...matrix.channels_last import ChannelsLastTiles, channels_last_work
from ...matrix.counts import WarpWork
from ...matrix.tensor_counts import FACTORS, tensor_work
from ...matrix.tensor_tiles import product_terms
from ..problem import PointwiseConv2d
from .tiling import PointwiseTensorTiles


def work_of(problem: PointwiseConv2d, tile: PointwiseTensorTiles | ChannelsLastTiles, gpu: Gpu) -> WarpWork:
    """Of n configurations."""
    if isinstance(tile, ChannelsLastTiles):
        return channels_last_work(problem, tile, gpu)
    copied = tile.slab_channels * tile.position_tile / tile.input_vector(problem) / WARP_SIZE
    of_columns = FACTORS[1] * tile.columns
    return tensor_work(
        problem,
        tile,
        gpu,
        products_of_channel=1 / product_terms(problem),
        input_copies=copied,
        input_elements=tile.position_tile,
        column_reads=of_columns,
        column_wavefronts=of_columns,
    )
