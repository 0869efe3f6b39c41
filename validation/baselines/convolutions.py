"""Convolutions as PyTorch offers them: by cuDNN, by its own kernels, and as matrix products that cuBLAS computes."""

from __future__ import annotations

from typing import Any

import numpy as np

from perfmodel.families.conv1d import Conv1d
from perfmodel.families.direct_conv2d import Conv2d
from perfmodel.families.pointwise_conv2d.problem import PointwiseConv2d
from perfmodel.families.tiled_conv2d import TiledConv2d

from .cublaslt import fastest_matmul
from .interface import BaselineUnavailableError, Describe, Inputs, Operation, Precision, library

MESSAGE_CHARACTERS = 200


def _tensor(torch: Any, array: Any, *, channels_last: bool = False) -> Any:
    tensor = torch.from_numpy(np.ascontiguousarray(array))
    return tensor.contiguous(memory_format=torch.channels_last) if channels_last else tensor


def direct(*, channels_last: bool) -> Describe:
    """2-D convolution, depthwise as one group for each channel."""

    def describe(torch: Any, problem: Conv2d, inputs: Inputs) -> Operation:
        groups = problem.in_channels if problem.depthwise else 1

        def convolve(image: Any, weights: Any) -> tuple[Any, ...]:
            convolved = torch.nn.functional.conv2d(
                image, weights, stride=problem.stride, padding=problem.padding, groups=groups
            )
            return (convolved,)

        tensors = tuple(_tensor(torch, inputs[name], channels_last=channels_last) for name in ("input", "filter"))
        return Operation(function=convolve, tensors=tensors, outputs=("output",))

    return describe


def direct_by_columns(torch: Any, problem: Conv2d, inputs: Inputs) -> Operation:
    """Patches as columns of a matrix (im2col), then one matrix product for each image."""

    def convolve(image: Any, weights: Any) -> tuple[Any, ...]:
        columns = torch.nn.functional.unfold(
            image, (problem.filter_height, problem.filter_width), padding=problem.padding, stride=problem.stride
        )
        return (_products(torch, weights, columns),)

    weights = inputs["filter"].reshape(problem.out_channels, -1)
    tensors = (_tensor(torch, inputs["input"]), _tensor(torch, weights))
    return Operation(function=convolve, tensors=tensors, outputs=("output",))


def _products(torch: Any, weights: Any, columns: Any) -> Any:
    """``weights @ columns`` for each image, in one call."""
    if columns.shape[0] == 1:
        return torch.mm(weights, columns[0])
    return torch.bmm(weights.expand(columns.shape[0], *weights.shape), columns)


def tiled(torch: Any, problem: TiledConv2d, inputs: Inputs) -> Operation:
    """One padded image and one filter."""

    def convolve(image: Any, weights: Any) -> tuple[Any, ...]:
        return (torch.nn.functional.conv2d(image, weights),)

    tensors = tuple(_tensor(torch, inputs[name][None, None]) for name in ("input", "filter"))
    return Operation(function=convolve, tensors=tensors, outputs=("output",))


def tiled_by_cupy(torch: Any, problem: TiledConv2d, inputs: Inputs) -> Operation:
    """``cupyx.scipy.ndimage.correlate`` over the padded image; the family's outputs are its interior."""
    cupy, ndimage = library("cupy"), library("cupyx.scipy.ndimage")
    top, left = problem.filter_height // 2, problem.filter_width // 2

    def correlate(image: Any, weights: Any) -> tuple[Any, ...]:
        result = torch.empty_like(image)
        arrays = [cupy.asarray(one) for one in (image, weights, result)]
        with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
            try:
                ndimage.correlate(*arrays[:2], output=arrays[2], mode="constant")
            except cupy.cuda.compiler.CompileException as error:
                found = next((line for line in str(error).splitlines() if "error" in line), "no reason given")
                raise BaselineUnavailableError(f"CuPy cannot compile it: {found[:MESSAGE_CHARACTERS]}") from error
        return (result[top : top + problem.height, left : left + problem.width],)

    tensors = tuple(_tensor(torch, inputs[name]) for name in ("input", "filter"))
    return Operation(function=correlate, tensors=tensors, outputs=("output",))


def pointwise(*, channels_last: bool) -> Describe:
    """1×1 convolution."""

    def describe(torch: Any, problem: PointwiseConv2d, inputs: Inputs) -> Operation:
        def convolve(image: Any, weights: Any) -> tuple[Any, ...]:
            return (torch.nn.functional.conv2d(image, weights),)

        filters = inputs["filter"].reshape(problem.out_channels, problem.in_channels, 1, 1)
        tensors = tuple(_tensor(torch, array, channels_last=channels_last) for array in (inputs["input"], filters))
        return Operation(function=convolve, tensors=tensors, outputs=("output",))

    return describe


def pointwise_product(*, channels_last: bool) -> Describe:
    """The matrix product that a 1×1 convolution is: one for each image, or one for all where channels lie closest."""

    def describe(torch: Any, problem: PointwiseConv2d, inputs: Inputs) -> Operation:
        if channels_last:

            def multiply(image: Any, weights: Any) -> tuple[Any, ...]:
                return (_planes(torch.mm(image, weights.t()), problem),)

            return Operation(function=multiply, tensors=_last(torch, problem, inputs), outputs=("output",))

        def multiply_planes(image: Any, weights: Any) -> tuple[Any, ...]:
            return (_products(torch, weights, image),)

        return Operation(function=multiply_planes, tensors=_first(torch, problem, inputs), outputs=("output",))

    return describe


def pointwise_cublaslt(*, channels_last: bool, precision: Precision) -> Describe:
    """The same product by the fastest of the algorithms that cuBLASLt's heuristic lists."""

    def describe(torch: Any, problem: PointwiseConv2d, inputs: Inputs) -> Operation:
        if channels_last:
            rows, columns = problem.positions, problem.out_channels
            multiply = fastest_matmul(torch, rows, columns, problem.in_channels, precision, right_transposed=True)

            def product(image: Any, weights: Any) -> tuple[Any, ...]:
                return (_planes(multiply(image, weights), problem),)

            return Operation(function=product, tensors=_last(torch, problem, inputs), outputs=("output",))
        multiply_planes = fastest_matmul(
            torch, problem.out_channels, problem.image_positions, problem.in_channels, precision, batch=problem.batch
        )

        def plane_product(image: Any, weights: Any) -> tuple[Any, ...]:
            return (multiply_planes(weights, image),)

        return Operation(function=plane_product, tensors=_first(torch, problem, inputs), outputs=("output",))

    return describe


def _first(torch: Any, problem: PointwiseConv2d, inputs: Inputs) -> tuple[Any, Any]:
    """Images as matrices of channels × positions, and the filters."""
    planes = inputs["input"].reshape(problem.batch, problem.in_channels, problem.image_positions)
    return _tensor(torch, planes), _tensor(torch, inputs["filter"])


def _last(torch: Any, problem: PointwiseConv2d, inputs: Inputs) -> tuple[Any, Any]:
    """All images as one matrix of positions × channels, and the filters."""
    planes, filters = _first(torch, problem, inputs)
    return planes.transpose(1, 2).reshape(problem.positions, problem.in_channels).contiguous(), filters


def _planes(product: Any, problem: PointwiseConv2d) -> Any:
    """A matrix of positions × channels as images whose channels come first; nothing is moved."""
    return product.view(problem.batch, problem.height, problem.width, problem.out_channels).permute(0, 3, 1, 2)


def row(torch: Any, problem: Conv1d, inputs: Inputs) -> Operation:
    """1-D convolution with bias."""

    def convolve(signal: Any, weights: Any, bias: Any) -> tuple[Any, ...]:
        return (torch.nn.functional.conv1d(signal, weights, bias, padding=problem.padding),)

    tensors = tuple(_tensor(torch, inputs[name]) for name in ("input", "weights", "bias"))
    return Operation(function=convolve, tensors=tensors, outputs=("output",))


def row_channels_last(torch: Any, problem: Conv1d, inputs: Inputs) -> Operation:
    """The same as a 2-D convolution of images of one row, whose channels lie closest."""

    def convolve(signal: Any, weights: Any, bias: Any) -> tuple[Any, ...]:
        return (torch.nn.functional.conv2d(signal, weights, bias, padding=(0, problem.padding)),)

    maps = [_tensor(torch, inputs[name][:, :, None], channels_last=True) for name in ("input", "weights")]
    return Operation(function=convolve, tensors=(*maps, _tensor(torch, inputs["bias"])), outputs=("output",))


def row_by_columns(torch: Any, problem: Conv1d, inputs: Inputs) -> Operation:
    """Windows as columns of a matrix, then one matrix product for each row, to which the bias is added."""

    def convolve(signal: Any, weights: Any, bias: Any) -> tuple[Any, ...]:
        columns = torch.nn.functional.unfold(
            signal[:, :, None], (1, problem.filter_width), padding=(0, problem.padding)
        )
        if problem.batch == 1:
            return (torch.addmm(bias[:, None], weights, columns[0]),)
        return (torch.baddbmm(bias[:, None], weights.expand(problem.batch, *weights.shape), columns),)

    weights = inputs["weights"].reshape(problem.out_channels, -1)
    tensors = (_tensor(torch, inputs["input"]), _tensor(torch, weights), _tensor(torch, inputs["bias"]))
    return Operation(function=convolve, tensors=tensors, outputs=("output",))
