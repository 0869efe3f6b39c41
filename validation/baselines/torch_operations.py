"""PyTorch's convolutions: cuDNN with its heuristic, cuDNN's fastest algorithm, PyTorch's own kernels; both memory layouts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfmodel.families.conv1d import Conv1d
from perfmodel.families.direct_conv2d import Conv2d
from perfmodel.families.pointwise_conv2d.problem import PointwiseConv2d
from perfmodel.families.ssim import Ssim
from perfmodel.families.ssim.problem import RADIUS
from perfmodel.families.ssim.reference import CONTRAST_CONSTANT, LUMINANCE_CONSTANT, window
from perfmodel.families.tiled_conv2d import TiledConv2d

from .interface import Baseline, BaselineRun, BaselineUnavailableError, Inputs, library

GRAPH_RUNS = 32
WARM_UP_RUNS = 3


class Engine(Enum):
    """Who computes a convolution, and in which arithmetic."""

    CUDNN_HEURISTIC = "cudnn-heuristic"
    CUDNN_FASTEST = "cudnn-fastest"
    """Every algorithm that cuDNN offers is tried, the fastest is taken."""
    CUDNN_FASTEST_TF32 = "cudnn-fastest-tf32"
    """The same with tensor cores allowed: another precision, for comparison."""
    NATIVE = "native"


class MemoryLayout(Enum):
    """Which dimension lies closest together."""

    CHANNELS_FIRST = "channels-first"
    CHANNELS_LAST = "channels-last"


@dataclass(frozen=True, slots=True)
class Operation:
    """A function of PyTorch on uploaded tensors, with the name of its output."""

    function: Callable[..., Any]
    tensors: Mapping[str, NDArray[np.float32]]
    output: str


Describe = Callable[[Any, Any, Inputs], Operation]
"""From torch, problem and inputs to the operation."""


def torch_baselines(describe: Describe, *, layouts: bool) -> tuple[Baseline, ...]:
    """An operation with every engine, and in both layouts where the tensors have channels to lay out."""
    chosen = tuple(MemoryLayout) if layouts else (MemoryLayout.CHANNELS_FIRST,)
    return tuple(
        Baseline(
            name=f"torch {engine.value} {layout.value}",
            start=_starter(describe, engine, layout),
            exact=engine is not Engine.CUDNN_FASTEST_TF32,
        )
        for layout in chosen
        for engine in Engine
    )


def _starter(describe: Describe, engine: Engine, layout: MemoryLayout) -> Callable[[Any, Inputs], BaselineRun]:
    def start(problem: Any, inputs: Inputs) -> BaselineRun:
        torch = library("torch")
        if not torch.cuda.is_available():
            raise BaselineUnavailableError("torch is installed without CUDA")
        _select(torch, engine)
        operation = describe(torch, problem, inputs)
        tensors = [_upload(torch, array, layout) for array in operation.tensors.values()]

        def enqueue() -> Any:
            return operation.function(*tensors)

        with torch.inference_mode():
            for _ in range(WARM_UP_RUNS):
                enqueue()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                for _ in range(GRAPH_RUNS):
                    enqueue()
        return BaselineRun(
            enqueue=_without_gradients(torch, enqueue),
            outputs=lambda: {operation.output: enqueue().detach().cpu().numpy()},
            replay=graph.replay,
            graph_runs=GRAPH_RUNS,
        )

    return start


def _without_gradients(torch: Any, enqueue: Callable[[], Any]) -> Callable[[], Any]:
    def run() -> Any:
        with torch.inference_mode():
            return enqueue()

    return run


def _select(torch: Any, engine: Engine) -> None:
    torch.backends.cudnn.enabled = engine is not Engine.NATIVE
    torch.backends.cudnn.benchmark = engine in (Engine.CUDNN_FASTEST, Engine.CUDNN_FASTEST_TF32)
    torch.backends.cudnn.benchmark_limit = 0
    torch.backends.cudnn.allow_tf32 = engine is Engine.CUDNN_FASTEST_TF32
    torch.backends.cuda.matmul.allow_tf32 = engine is Engine.CUDNN_FASTEST_TF32


def _upload(torch: Any, array: NDArray[np.float32], layout: MemoryLayout) -> Any:
    tensor = torch.from_numpy(np.ascontiguousarray(array)).cuda()
    if layout is MemoryLayout.CHANNELS_LAST and tensor.dim() == 4:
        return tensor.contiguous(memory_format=torch.channels_last)
    return tensor


def direct_operation(torch: Any, problem: Conv2d, inputs: Inputs) -> Operation:
    """2-D convolution, depthwise as one group for each channel."""
    groups = problem.in_channels if problem.depthwise else 1

    def convolve(image: Any, weights: Any) -> Any:
        return torch.nn.functional.conv2d(image, weights, stride=problem.stride, padding=problem.padding, groups=groups)

    return Operation(convolve, {"input": inputs["input"], "filter": inputs["filter"]}, "output")


def tiled_operation(torch: Any, problem: TiledConv2d, inputs: Inputs) -> Operation:
    """One padded image and one filter."""
    tensors = {name: inputs[name][None, None] for name in ("input", "filter")}
    return Operation(lambda image, weights: torch.nn.functional.conv2d(image, weights)[0, 0], tensors, "output")


def pointwise_operation(torch: Any, problem: PointwiseConv2d, inputs: Inputs) -> Operation:
    """1×1 convolution."""
    image = inputs["input"].reshape(problem.batch, problem.in_channels, problem.height, problem.width)
    weights = inputs["filter"].reshape(problem.out_channels, problem.in_channels, 1, 1)
    return Operation(torch.nn.functional.conv2d, {"input": image, "filter": weights}, "output")


def conv1d_operation(torch: Any, problem: Conv1d, inputs: Inputs) -> Operation:
    """1-D convolution with bias."""

    def convolve(signal: Any, weights: Any, bias: Any) -> Any:
        return torch.nn.functional.conv1d(signal, weights, bias, padding=problem.padding)

    return Operation(convolve, {name: inputs[name] for name in ("input", "weights", "bias")}, "output")


def ssim_operation(torch: Any, problem: Ssim, inputs: Inputs) -> Operation:
    """Structural similarity as it is written with PyTorch: five maps filtered by two depthwise convolutions each."""
    if problem.gradients:
        raise BaselineUnavailableError("gradient maps are not part of the PyTorch formulation")
    taps = np.tile(window().astype(np.float32), (problem.channels, 1))
    horizontal, vertical = taps[:, None, None, :], taps[:, None, :, None]

    def similarity(first: Any, second: Any, across: Any, along: Any) -> Any:
        def mean(maps: Any) -> Any:
            wide = torch.nn.functional.conv2d(maps, across, padding=(0, RADIUS), groups=problem.channels)
            return torch.nn.functional.conv2d(wide, along, padding=(RADIUS, 0), groups=problem.channels)

        mu1, mu2 = mean(first), mean(second)
        variance1, variance2 = mean(first * first) - mu1 * mu1, mean(second * second) - mu2 * mu2
        covariance = mean(first * second) - mu1 * mu2
        luminance = (2 * mu1 * mu2 + LUMINANCE_CONSTANT) / (mu1 * mu1 + mu2 * mu2 + LUMINANCE_CONSTANT)
        return luminance * (2 * covariance + CONTRAST_CONSTANT) / (variance1 + variance2 + CONTRAST_CONSTANT)

    tensors = {"image1": inputs["image1"], "image2": inputs["image2"], "across": horizontal, "along": vertical}
    return Operation(similarity, tensors, "map")
