"""Counts, registers and critical path of matrix products on tensor cores."""

from __future__ import annotations

from ....core.constants import WARP_SIZE
from ....gpus.gpu import Gpu
from ....profiles.kernel_profile import KernelProfile
from ...matrix.choices import TENSOR_TERMS
from ...matrix.counts import matrix_profile
from ...matrix.layer import position_vector
from ...matrix.tensor_counts import tensor_work
from ..problem import PointwiseConv2d
from .tiling import PointwiseTensorTiles


def profile(problem: PointwiseConv2d, tile: PointwiseTensorTiles, gpu: Gpu) -> KernelProfile:
    """Of n configurations."""
    copied = tile.slab_channels * tile.position_tile / position_vector(problem) / WARP_SIZE
    work = tensor_work(
        problem,
        tile,
        gpu,
        products_of_channel=1 / TENSOR_TERMS,
        input_copies=copied,
        input_words=tile.position_tile,
    )
    return matrix_profile(problem, tile, work, gpu, problem.read_bytes)
