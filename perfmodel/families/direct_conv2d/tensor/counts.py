"""Counts, registers and critical path of convolutions on tensor cores."""

from __future__ import annotations

from ....core.constants import WARP_SIZE
from ....gpus.gpu import Gpu
from ....profiles.kernel_profile import KernelProfile
from ...matrix.counts import matrix_profile
from ...matrix.tensor_counts import FACTORS, tensor_work
from ...precision import Precision
from ..problem import Conv2d
from ..traffic import compulsory_bytes
from .tiling import ConvolutionTiles

STEP_READS = 2
"""Shared loads of the steps of a product."""


def profile(problem: Conv2d, tile: ConvolutionTiles, gpu: Gpu) -> KernelProfile:
    """Of n configurations."""
    of_columns = FACTORS[1] * tile.columns
    paired = 2 if problem.precision is Precision.FLOAT16 else 1
    inside = problem.height / problem.padded_height
    read_bytes, _ = compulsory_bytes(problem)
    work = tensor_work(
        problem,
        tile,
        gpu,
        products_of_channel=tile.slab_products(problem) / tile.slab_channels,
        input_copies=tile.slab_channels * tile.patch_vectors(problem) * inside / WARP_SIZE,
        input_elements=tile.patch_rows * problem.width * inside,
        column_reads=paired * of_columns,
        column_wavefronts=paired * of_columns,
        column_conflicts=paired * of_columns * (tile.column_wavefronts(problem) - 1.0),
        step_reads=STEP_READS,
        step_wavefronts=STEP_READS,
        step_integers=(2 * paired - 1) * of_columns + STEP_READS,
    )
    return matrix_profile(problem, tile, work, gpu, read_bytes)
