"""The design whose warpgroups multiply what bulk tensor copies bring, in half precision or TF32."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...compiler.request import CompileRequest
from ...gpus.gpu import Gpu
from ...launch.launch import Buffer, KernelCall, Launch
from ...profiles.kernel_profile import KernelProfile
from ..base import Batch, Check
from ..matrix.bulk_tiles import bulk_checks, bulk_maps, bulk_profile, bulk_request, bulk_tiles
from . import reference
from .configuration import PointwiseConfiguration
from .problem import PointwiseConv2d

Configurations = Batch[PointwiseConfiguration]


def checks(problem: PointwiseConv2d, batch: Configurations, gpu: Gpu) -> tuple[Check, ...]:
    """Limits of configurations with ``layout=bulk``; all of the batch are such."""
    return bulk_checks(problem, bulk_tiles(problem, batch, gpu), gpu, "layout=bulk")


def launch(problem: PointwiseConv2d, batch: Configurations, gpu: Gpu) -> Launch:
    """Blocks that run at once and share the tiles."""
    return bulk_tiles(problem, batch, gpu).launch(problem, gpu)


def profile(problem: PointwiseConv2d, batch: Configurations, gpu: Gpu) -> KernelProfile:
    """Estimates."""
    return bulk_profile(problem, bulk_tiles(problem, batch, gpu), gpu, problem.read_bytes)


def compile_request(problem: PointwiseConv2d, configuration: PointwiseConfiguration, gpu: Gpu) -> CompileRequest:
    """Source, kernel and macros."""
    return bulk_request(problem, bulk_tiles(problem, Batch.of([configuration]), gpu))


def call(
    problem: PointwiseConv2d,
    configuration: PointwiseConfiguration,
    gpu: Gpu,
    arrays: Mapping[str, reference.Elements],
) -> KernelCall:
    """Parameters ``(output, map of the input, map of the filter, in_channels, out_channels, positions)``."""
    tile = bulk_tiles(problem, Batch.of([configuration]), gpu)
    factors = (Buffer(name=name, array=arrays[name]) for name in ("input", "filter"))
    sizes = (problem.in_channels, problem.out_channels, problem.positions)
    return KernelCall(
        parameters=(reference.output(problem), *bulk_maps(problem, tile, *factors), *map(np.uint32, sizes))
    )
