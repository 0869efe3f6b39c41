"""Which family covers a convolution as frameworks describe it, or why none does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..errors import InputError
from ..families.conv1d.problem import Conv1d
from ..families.direct_conv2d.problem import Conv2d
from ..families.pointwise_conv2d.problem import PointwiseConv2d
from .layer import Layer

Sizes = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Convolution:
    """A convolution with one value for each spatial axis; ``padding_before`` and ``padding_after`` are zeros beyond the ends."""

    batch: int
    in_channels: int
    out_channels: int
    spatial: Sizes
    kernel: Sizes
    stride: Sizes
    padding_before: Sizes
    padding_after: Sizes
    dilation: Sizes
    groups: int = 1
    transposed: bool = False

    @property
    def operation(self) -> str:
        """Short text for tables.

        >>> pointwise(1, 8, 16, (7, 7)).operation
        'conv 1x1, 8 to 16 channels, input 7x7'
        """
        kind = "transposed conv" if self.transposed else "depthwise conv" if self.is_depthwise else "conv"
        extras = [
            f"{name} {_by(values)}"
            for name, values, usual in (("stride", self.stride, 1), ("dilation", self.dilation, 1))
            if any(value != usual for value in values)
        ]
        if self.groups > 1 and not self.is_depthwise:
            extras.append(f"groups {self.groups}")
        channels = f"{self.in_channels} to {self.out_channels} channels"
        return ", ".join((f"{kind} {_by(self.kernel)}", channels, f"input {_by(self.spatial)}", *extras))

    @property
    def is_depthwise(self) -> bool:
        """One filter for each channel and nothing summed over channels."""
        return 1 < self.groups == self.in_channels == self.out_channels


def pointwise(batch: int, in_channels: int, out_channels: int, spatial: Sizes) -> Convolution:
    """A 1×1 convolution of stride 1, as which a fully connected layer counts too (``spatial`` all 1)."""
    ones, zeros = (1,) * len(spatial), (0,) * len(spatial)
    return Convolution(
        batch=batch,
        in_channels=in_channels,
        out_channels=out_channels,
        spatial=spatial,
        kernel=ones,
        stride=ones,
        padding_before=zeros,
        padding_after=zeros,
        dilation=ones,
    )


def covered_layer(name: str, convolution: Convolution, operation: str | None = None) -> Layer:
    """The layer of a convolution, with its problem where a family covers it and the reason where none does.

    >>> covered_layer("head", pointwise(1, 320, 1280, (7, 7))).problem
    PointwiseConv2d(batch=1, in_channels=320, out_channels=1280, height=7, width=7)
    """
    shown = operation or convolution.operation
    reason = _obstacle(convolution)
    if reason is not None:
        return Layer(name=name, operation=shown, uncovered=reason)
    try:
        return Layer(name=name, operation=shown, problem=_problem(convolution))
    except InputError as error:
        return Layer(name=name, operation=shown, uncovered=str(error))


def describe(problem: Any) -> str:
    """The text of a convolution's problem, as ``Convolution.operation`` gives it; empty for any other problem.

    >>> describe(Conv1d(in_channels=2, out_channels=256, length=16))
    'conv 5, 2 to 256 channels, input 16'
    """
    if isinstance(problem, Conv1d):
        return _convolution(problem, (problem.length,), (problem.filter_width,), 1, problem.padding, 1).operation
    if isinstance(problem, PointwiseConv2d):
        return pointwise(
            problem.batch, problem.in_channels, problem.out_channels, (problem.height, problem.width)
        ).operation
    if isinstance(problem, Conv2d):
        kernel = (problem.filter_height, problem.filter_width)
        groups = problem.in_channels if problem.depthwise else 1
        spatial = (problem.height, problem.width)
        return _convolution(problem, spatial, kernel, problem.stride, problem.padding, groups).operation
    return ""


def _convolution(
    problem: Conv1d | Conv2d, spatial: Sizes, kernel: Sizes, stride: int, padding: int, groups: int
) -> Convolution:
    rank = len(spatial)
    return Convolution(
        batch=problem.batch,
        in_channels=problem.in_channels,
        out_channels=problem.out_channels,
        spatial=spatial,
        kernel=kernel,
        stride=(stride,) * rank,
        padding_before=(padding,) * rank,
        padding_after=(padding,) * rank,
        dilation=(1,) * rank,
        groups=groups,
    )


def _obstacle(convolution: Convolution) -> str | None:
    """Why no family covers the convolution, in one line, if so."""
    rank = len(convolution.spatial)
    if rank not in (1, 2):
        return f"rank {rank}: families convolve along 1 or 2 spatial axes"
    if convolution.transposed:
        return "transposed convolution: families compute direct ones"
    if any(value != 1 for value in convolution.dilation):
        return f"dilation {_by(convolution.dilation)}: families cover 1"
    if convolution.padding_before != convolution.padding_after:
        return f"padding {_by(convolution.padding_before)} before and {_by(convolution.padding_after)} after: must be equal"
    if rank == 1:
        return _obstacle_of_rank_1(convolution)
    return _obstacle_of_rank_2(convolution)


def _obstacle_of_rank_1(convolution: Convolution) -> str | None:
    if convolution.groups != 1:
        return f"groups {convolution.groups} with 1 spatial axis: conv1d is dense over channels"
    if convolution.stride != (1,):
        return f"stride {convolution.stride[0]} with 1 spatial axis: conv1d covers 1"
    return None


def _obstacle_of_rank_2(convolution: Convolution) -> str | None:
    if convolution.groups != 1 and not convolution.is_depthwise:
        channels = f"{convolution.in_channels} to {convolution.out_channels} channels"
        return f"groups {convolution.groups} of {channels}: direct_conv2d covers 1, or one for each of as many outputs"
    if len(set(convolution.stride)) != 1:
        return f"stride {_by(convolution.stride)}: must be equal along both axes"
    if len(set(convolution.padding_before)) != 1:
        return f"padding {_by(convolution.padding_before)}: must be equal along both axes"
    return None


def _problem(convolution: Convolution) -> Any:
    common: dict[str, Any] = {
        "batch": convolution.batch,
        "in_channels": convolution.in_channels,
        "out_channels": convolution.out_channels,
    }
    padding, stride = convolution.padding_before[0], convolution.stride[0]
    if len(convolution.spatial) == 1:
        return Conv1d(length=convolution.spatial[0], filter_width=convolution.kernel[0], padding=padding, **common)
    height, width = convolution.spatial
    if convolution.kernel == (1, 1) and stride == 1 and padding == 0 and not convolution.is_depthwise:
        return PointwiseConv2d(height=height, width=width, **common)
    filter_height, filter_width = convolution.kernel
    return Conv2d(
        height=height,
        width=width,
        filter_height=filter_height,
        filter_width=filter_width,
        stride=stride,
        padding=padding,
        depthwise=convolution.is_depthwise,
        **common,
    )


def _by(values: Sizes) -> str:
    return "x".join(str(value) for value in values)
