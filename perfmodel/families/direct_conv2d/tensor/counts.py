"""Counts, registers and critical path of convolutions on tensor cores."""

from __future__ import annotations

from ....core.constants import WARP_SIZE
from ....gpus.gpu import Gpu
from ....profiles.kernel_profile import KernelProfile
from ...matrix.channels_last import ChannelsLastTiles, channels_last_work
from ...matrix.counts import matrix_profile
from ...matrix.tensor_counts import FACTORS, tensor_work
from ..problem import Conv2d
from ..traffic import compulsory_bytes
from .tiling import ConvolutionTiles

STEP_READS = 2
"""Shared loads of the steps of a product."""


def profile(problem: Conv2d, tile: ConvolutionTiles | ChannelsLastTiles, gpu: Gpu) -> KernelProfile:
    """Of n configurations."""
    inside = problem.height / problem.padded_height
    read_bytes, _ = compulsory_bytes(problem)
    if isinstance(tile, ChannelsLastTiles):
        work = channels_last_work(problem, tile, gpu, inside=inside, stride=problem.stride)
        return matrix_profile(problem, tile, work, gpu, read_bytes)
    of_columns = FACTORS[1] * tile.columns
    work = tensor_work(
        problem,
        tile,
        gpu,
        products_of_channel=tile.slab_products(problem) / tile.slab_channels,
        input_copies=tile.slab_channels * tile.patch_vectors(problem) * inside / WARP_SIZE,
        input_elements=tile.patch_rows * problem.width * inside,
        column_reads=of_columns,
        column_wavefronts=of_columns,
        column_conflicts=of_columns * (tile.column_wavefronts(problem) - 1.0),
        step_reads=STEP_READS,
        step_wavefronts=STEP_READS,
        step_integers=of_columns + STEP_READS,
    )
    return matrix_profile(problem, tile, work, gpu, read_bytes)
