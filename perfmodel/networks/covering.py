"""Which family covers a convolution as frameworks describe it, or why none does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from ..core.constants import FLOAT_BYTES
from ..errors import InputError
from ..families.conv1d.problem import Conv1d
from ..families.direct_conv2d.problem import Conv2d
from ..families.pointwise_conv2d.problem import PointwiseConv2d
from .graph import Demand, Layer, LayerKind

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
            f"{name} {sizes_text(values)}"
            for name, values, usual in (("stride", self.stride, 1), ("dilation", self.dilation, 1))
            if any(value != usual for value in values)
        ]
        if self.groups > 1 and not self.is_depthwise:
            extras.append(f"groups {self.groups}")
        channels = f"{self.in_channels} to {self.out_channels} channels"
        return ", ".join((f"{kind} {sizes_text(self.kernel)}", channels, f"input {sizes_text(self.spatial)}", *extras))

    @property
    def outputs(self) -> Sizes:
        """Sizes of the result along the spatial axes.

        >>> pointwise(1, 8, 16, (7, 7)).outputs
        (7, 7)
        """
        around = [before + after for before, after in zip(self.padding_before, self.padding_after, strict=True)]
        spans = [dilation * (taps - 1) + 1 for dilation, taps in zip(self.dilation, self.kernel, strict=True)]
        axes = zip(self.spatial, around, spans, self.stride, strict=True)
        if self.transposed:
            return tuple((size - 1) * stride - more + span for size, more, span, stride in axes)
        return tuple(max((size + more - span) // stride + 1, 0) for size, more, span, stride in axes)

    @property
    def demand(self) -> Demand:
        """Each tensor moved once; a multiply-add for each tap of each output (transposed: input), those on padding, too.

        >>> pointwise(1, 8, 16, (7, 7)).demand  # 4 * (8 * 49 + 8 * 16 + 16 * 49), 2 * 49 * 8 * 16
        Demand(dram_bytes=5216, flops=12544)
        """
        weights = self.in_channels * self.out_channels // self.groups * prod(self.kernel)
        applied = prod(self.spatial if self.transposed else self.outputs)
        read, written = self.in_channels * prod(self.spatial), self.out_channels * prod(self.outputs)
        return Demand(
            dram_bytes=FLOAT_BYTES * (self.batch * (read + written) + weights), flops=2 * self.batch * applied * weights
        )

    @property
    def is_depthwise(self) -> bool:
        """One filter for each channel and nothing summed over channels."""
        return 1 < self.groups == self.in_channels == self.out_channels


def pointwise(batch: int, in_channels: int, out_channels: int, spatial: Sizes) -> Convolution:
    """A 1×1 convolution of stride 1, as which a fully connected layer counts too (``spatial`` all 1)."""
    return _even(batch, in_channels, out_channels, spatial, kernel=(1,) * len(spatial))


def _even(
    batch: int, in_channels: int, out_channels: int, spatial: Sizes, kernel: Sizes, *,
    stride: int = 1, padding: int = 0, groups: int = 1,
) -> Convolution:  # fmt: skip
    """A convolution that is the same along all axes but for its kernel, without dilation."""
    rank = len(spatial)
    return Convolution(
        batch=batch,
        in_channels=in_channels,
        out_channels=out_channels,
        spatial=spatial,
        kernel=kernel,
        stride=(stride,) * rank,
        padding_before=(padding,) * rank,
        padding_after=(padding,) * rank,
        dilation=(1,) * rank,
        groups=groups,
    )


def covered_layer(name: str, convolution: Convolution, operation: str | None = None) -> Layer:
    """The layer of a convolution, with its problem where a family covers it and the reason where none does.

    >>> layer = covered_layer("head", pointwise(1, 320, 1280, (7, 7)))
    >>> layer.problem.in_channels, layer.problem.out_channels
    (320, 1280)
    """
    shown = operation or convolution.operation
    kind = LayerKind.CONVOLUTION if operation is None else LayerKind.MATRIX_PRODUCT
    reason = _obstacle(convolution)
    if reason is None:
        try:
            return Layer(name=name, operation=shown, problem=_problem(convolution), kind=kind)
        except InputError as error:
            reason = str(error)
    return Layer(name=name, operation=shown, uncovered=reason, kind=kind, demand=convolution.demand)


def describe(problem: Any) -> str:
    """The text of a convolution's problem, as ``Convolution.operation`` gives it; empty for any other problem.

    >>> describe(Conv1d(in_channels=2, out_channels=256, length=16))
    'conv 5, 2 to 256 channels, input 16'
    """
    if not isinstance(problem, Conv1d | Conv2d | PointwiseConv2d):
        return ""
    channels = (problem.batch, problem.in_channels, problem.out_channels)
    if isinstance(problem, Conv1d):
        return _even(*channels, (problem.length,), (problem.filter_width,), padding=problem.padding).operation
    spatial = (problem.height, problem.width)
    if isinstance(problem, PointwiseConv2d):
        return pointwise(*channels, spatial).operation
    kernel, groups = (problem.filter_height, problem.filter_width), problem.in_channels if problem.depthwise else 1
    return _even(*channels, spatial, kernel, stride=problem.stride, padding=problem.padding, groups=groups).operation


def _obstacle(convolution: Convolution) -> str | None:
    """Why no family covers the convolution, in one line, if so."""
    rank = len(convolution.spatial)
    if rank not in (1, 2):
        return f"rank {rank}: families convolve along 1 or 2 spatial axes"
    if convolution.transposed:
        return "transposed convolution: families compute direct ones"
    if any(value != 1 for value in convolution.dilation):
        return f"dilation {sizes_text(convolution.dilation)}: families cover 1"
    if convolution.padding_before != convolution.padding_after:
        before, after = sizes_text(convolution.padding_before), sizes_text(convolution.padding_after)
        return f"padding {before} before and {after} after: must be equal"
    if rank == 1 and convolution.groups != 1:
        return f"groups {convolution.groups} with 1 spatial axis: conv1d is dense over channels"
    if rank == 1 and convolution.stride != (1,):
        return f"stride {convolution.stride[0]} with 1 spatial axis: conv1d covers 1"
    if convolution.groups != 1 and not convolution.is_depthwise:
        channels = f"{convolution.in_channels} to {convolution.out_channels} channels"
        return f"groups {convolution.groups} of {channels}: direct_conv2d covers 1, or one for each of as many outputs"
    for name, values in (("stride", convolution.stride), ("padding", convolution.padding_before)):
        if len(set(values)) != 1:
            return f"{name} {sizes_text(values)}: must be equal along both axes"
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


def sizes_text(values: Sequence[int]) -> str:
    """Sizes as tables and messages show them.

    >>> sizes_text((3, 224, 224))
    '3x224x224'
    """
    return "x".join(map(str, values))


def first_line(error: BaseException) -> str:
    """The first line of what an error of a framework says, or its name where it says nothing."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
