"""Counts, registers and critical path of convolutions by products of warpgroups."""

from __future__ import annotations

from ....core.constants import FLOAT_BYTES, WARP_SIZE
from ....gpus.gpu import Gpu
from ....profiles.kernel_profile import KernelProfile
from ...matrix.counts import matrix_profile
from ...matrix.warpgroups import FACTORS, warpgroup_work
from ..problem import Conv2d
from ..traffic import compulsory_bytes
from .tiling import WarpgroupTiles

STEP_READS = 2
"""Shared loads of the steps of a product."""


def profile(problem: Conv2d, tile: WarpgroupTiles, gpu: Gpu) -> KernelProfile:
    """Of n configurations."""
    inside = problem.height / problem.padded_height
    read_bytes, _ = compulsory_bytes(problem)
    term_reads = FACTORS * (FLOAT_BYTES // problem.element_bytes)
    work = warpgroup_work(
        problem,
        tile,
        gpu,
        reads=term_reads + STEP_READS,
        wavefronts=term_reads * tile.column_wavefronts(problem) + STEP_READS,
        ideal=term_reads + STEP_READS,
        integers=term_reads + FACTORS,
        input_copies=tile.slab_channels * tile.patch_vectors(problem) * inside / WARP_SIZE,
        input_elements=tile.patch_rows * problem.width * inside,
    )
    return matrix_profile(problem, tile, work, gpu, read_bytes)
