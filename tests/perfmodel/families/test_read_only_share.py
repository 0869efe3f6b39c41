"""Which part of a kernel's global loads go by the read-only path: closed forms against the executed block."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from perfmodel.compiler.compiled import compile_kernel
from perfmodel.families.base import Batch
from perfmodel.families.conv1d import Conv1d, Conv1dConfiguration, Variant
from perfmodel.families.direct_conv2d import Accumulators, Conv2d, DirectConv2dConfiguration, Exchange, Reuse
from perfmodel.families.pointwise_conv2d import PointwiseConfiguration, PointwiseConv2d
from perfmodel.families.registry import family
from perfmodel.families.ssim import Ssim, SsimConfiguration, Version
from perfmodel.families.tiled_conv2d import TiledConv2d, TiledConv2dConfiguration
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.profiles.blocks.launch_counts import count_launch
from perfmodel.profiles.executed_profile import parsed
from perfmodel.profiles.slowest_warp import slowest_warp

SMALL_TILED = TiledConv2d(width=96, height=64, filter_width=5, filter_height=5)
CONV1D = Conv1d(batch=1, in_channels=8, out_channels=8, length=64, filter_width=3)
KERNELS: list[tuple[str, Any, Any]] = [
    *(
        (
            "tiled_conv2d",
            SMALL_TILED,
            TiledConv2dConfiguration(block_size_x=32, block_size_y=4, read_only=read_only),
        )
        for read_only in (0, 1)
    ),
    *(("ssim", Ssim(height=100, width=80), SsimConfiguration(version=version)) for version in Version),
    (
        "direct_conv2d",
        Conv2d(batch=1, in_channels=2, height=40, width=70, out_channels=2, filter_height=3, filter_width=3),
        DirectConv2dConfiguration(
            reuse=Reuse.COLUMN_ROW,
            exchange=Exchange.SELECT,
            accumulators=Accumulators.ROLLING,
            rows_per_thread=4,
            block_x=32,
            block_y=2,
        ),
    ),
    (
        "pointwise_conv2d",
        PointwiseConv2d(batch=1, in_channels=128, out_channels=128, height=14, width=14),
        PointwiseConfiguration(),
    ),
    ("conv1d", CONV1D, Conv1dConfiguration(variant=Variant.OPTIMIZED)),
    ("conv1d", CONV1D, Conv1dConfiguration(variant=Variant.NAIVE, channels_per_thread=None)),
]


@pytest.mark.compiler
@pytest.mark.parametrize("gpu_id", ["rtx-2080-ti", "h200"], ids=["loads", "copies"])
@pytest.mark.parametrize(("name", "problem", "configuration"), KERNELS, ids=[str(one[2]) for one in KERNELS])
def test_closed_forms_are_what_the_compiled_kernel_executes(
    name: str, problem: Any, configuration: Any, gpu_id: str
) -> None:
    chosen, gpu = family(name), load_gpu(gpu_id)
    batch = Batch.of([configuration])
    kernel = compile_kernel(chosen.compile_request(problem, configuration, gpu), gpu.architecture.name)
    launch = chosen.launch(problem, batch, gpu).at(0)
    call = chosen.call(problem, configuration, gpu, chosen.inputs(problem, np.random.default_rng(0)))
    counted = count_launch(parsed(kernel), launch, call)
    path = slowest_warp(counted.kernel, counted.watched)
    closed = np.broadcast_to(chosen.profile(problem, batch, gpu).read_only_share, 1)
    assert path.read_only_share == closed[0]
