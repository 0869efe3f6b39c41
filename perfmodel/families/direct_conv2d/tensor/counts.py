"""Counts, registers and critical path of convolutions on tensor cores."""

from __future__ import annotations

from dataclasses import replace

from ....core.constants import WARP_SIZE
from ....core.counts import Counts
from ....gpus.gpu import Gpu
from ....profiles.kernel_profile import KernelProfile
from ...base import Batch
from ...compiled_members import Traits
from ...matrix.channels_last import ChannelsLastTiles, channels_last_work
from ...matrix.counts import WarpWork, matrix_profile
from ...matrix.tensor_counts import FACTORS, tensor_work
from ...matrix.traits import interpolated_profile
from ...matrix.traits import traits as matrix_traits
from ..configuration import DirectConv2dConfiguration
from ..problem import Conv2d
from ..traffic import compulsory_bytes
from .tiling import KERNEL, ConvolutionTiles, tiles

STEP_READS = 2
"""Shared loads of the steps of a product."""


def profile(problem: Conv2d, tile: ConvolutionTiles | ChannelsLastTiles, gpu: Gpu) -> KernelProfile:
    """Of n configurations; where channels do not lie closest, what the compiler decides is interpolated."""
    work, estimated = _estimate(problem, tile, gpu)
    if isinstance(tile, ChannelsLastTiles):
        return estimated
    own = _traits(problem, tile, work, estimated, gpu)
    return interpolated_profile(KERNEL, problem, tile, own, estimated, gpu)


def closed_form(problem: Conv2d, tile: ConvolutionTiles | ChannelsLastTiles, gpu: Gpu) -> Counts:
    """What follows from tiles alone."""
    return _estimate(problem, tile, gpu)[1].counts


def traits(problem: Conv2d, batch: Batch[DirectConv2dConfiguration], gpu: Gpu) -> Traits | None:
    """What decides the machine code of n configurations, as of all matrix products, and the filter; None with channels last."""
    tile = tiles(problem, batch, gpu)
    if isinstance(tile, ChannelsLastTiles):
        return None
    return _traits(problem, tile, *_estimate(problem, tile, gpu), gpu)


def _traits(problem: Conv2d, tile: ConvolutionTiles, work: WarpWork, estimated: KernelProfile, gpu: Gpu) -> Traits:
    found = matrix_traits(problem, tile, work, estimated, gpu)
    of_filter = {"filter_taps": problem.filter_taps, "filter_vector": tile.filter_vector(problem)}
    # of memory accesses alone those sectors of copies are not counted right that images cut
    estimates = {"async_copy_read_sectors": estimated.counts.async_copy_read_sectors}
    return replace(found, sizes={**found.sizes, **of_filter}, estimates=estimates)


def _estimate(problem: Conv2d, tile: ConvolutionTiles | ChannelsLastTiles, gpu: Gpu) -> tuple[WarpWork, KernelProfile]:
    """Work of a warp, and the profile that follows from it."""
    inside = problem.height / problem.padded_height
    read_bytes, _ = compulsory_bytes(problem)
    if isinstance(tile, ChannelsLastTiles):
        work = channels_last_work(problem, tile, gpu, inside=inside, stride=problem.stride)
        return work, matrix_profile(problem, tile, work, gpu, read_bytes)
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
    return work, matrix_profile(problem, tile, work, gpu, read_bytes)
