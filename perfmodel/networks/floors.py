"""Floors that no time can be below with a cold L2: moving every tensor once, and the multiply-adds at full rate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..core.constants import FLOAT_BYTES
from ..families.conv1d.problem import Conv1d
from ..families.direct_conv2d.problem import Conv2d
from ..families.pointwise_conv2d.problem import PointwiseConv2d
from ..families.ssim.problem import MAPS, WINDOW, Ssim
from ..gpus.gpu import Gpu
from ..launch.launch import L2State
from .work import Demand

SSIM_PRODUCTS_PER_PIXEL = MAPS * 2 * WINDOW
"""Filtered maps, two passes of the window's taps each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Floors:
    """Seconds that a layer takes at least on a GPU."""

    dram_s: float
    fp32_s: float


def _inner_taps(size: int, taps: int, stride: int, padding: int) -> int:
    """Pairs of an output and a tap along one axis that lie on an input element and not on padding.

    >>> _inner_taps(4, 5, 1, 2)  # 3 + 4 + 4 + 3
    14
    """
    outputs = (size + 2 * padding - taps) // stride + 1
    starts = (output * stride - padding for output in range(outputs))
    return sum(max(0, min(start + taps, size) - max(start, 0)) for start in starts)


def demand(problem: Any) -> Demand | None:
    """Bytes and operations of a layer's problem, none on padding; None where the problem is of a family that others brought.

    >>> demand(PointwiseConv2d(in_channels=2, out_channels=3, height=4, width=5))  # 4 * (40 + 6 + 60), 2 * 20 * 2 * 3
    Demand(dram_bytes=424, flops=240)
    """
    if isinstance(problem, Conv1d):
        words = problem.batch * problem.input_words + problem.out_channels * (problem.weight_words + 1)
        outputs = problem.blocks * problem.output_length
        products = problem.blocks * problem.in_channels * problem.products_per_channel
    elif isinstance(problem, PointwiseConv2d):
        words = problem.positions * problem.in_channels + problem.in_channels * problem.out_channels
        outputs = problem.outputs
        products = problem.outputs * problem.in_channels
    elif isinstance(problem, Conv2d):
        words = problem.batch * problem.in_channels * problem.height * problem.width + problem.filter_elements
        outputs = problem.batch * problem.out_channels * problem.output_height * problem.output_width
        rows = _inner_taps(problem.height, problem.filter_height, problem.stride, problem.padding)
        columns = _inner_taps(problem.width, problem.filter_width, problem.stride, problem.padding)
        products = problem.batch * problem.out_channels * problem.filter_channels * rows * columns
    elif isinstance(problem, Ssim):
        words = 2 * problem.pixels
        outputs = problem.output_maps * problem.pixels
        products = SSIM_PRODUCTS_PER_PIXEL * problem.pixels
    else:
        return None
    return Demand(dram_bytes=FLOAT_BYTES * (words + outputs), flops=2 * products)


def floors(needed: Demand, gpu: Gpu, l2: L2State = L2State.COLD) -> Floors:
    """The DRAM floor by the bandwidth of the data sheet, the arithmetic floor by all FP32 lanes at the GPU's boost clock.

    What a warm L2 holds needs no DRAM.

    >>> from perfmodel.gpus.catalogue import load_gpu
    >>> needed = demand(PointwiseConv2d(in_channels=1024, out_channels=1024, height=7, width=7))
    >>> least = floors(needed, load_gpu("h200"))
    >>> 0.9e-6 < least.dram_s < 1.0e-6  # 4 * (2 * 49 * 1024 + 1024 * 1024) bytes at 4.8 TB/s
    True
    """
    flops_per_s = 2 * gpu.sm_count * gpu.fp32_lanes_per_sm * gpu.boost_clock_hz
    in_l2 = l2 is L2State.WARM and needed.dram_bytes <= gpu.l2_bytes
    return Floors(dram_s=0.0 if in_l2 else needed.dram_bytes / gpu.dram_bytes_per_s, fp32_s=needed.flops / flops_per_s)
