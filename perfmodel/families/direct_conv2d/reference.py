"""Inputs, the kernel's parameters, and the exact result in float64."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.constants import ceil_div
from ...launch.launch import Buffer, KernelCall, poisoned
from ..blocked import sizes_of
from ..precision import channels_first, channels_last, image_shape
from . import plane
from .configuration import DirectConv2dConfiguration, Reuse
from .launch import filter_in_constant, reciprocal
from .problem import Conv2d

Elements = NDArray[np.floating[Any]]
"""In the type of the problem's elements."""


def inputs(problem: Conv2d, rng: np.random.Generator) -> dict[str, Elements]:
    """Images and filters, uniform in [0.5, 1.5): sums without cancellation, so that errors stay relative to them."""
    filters = (problem.out_channels, problem.filter_channels, problem.filter_height, problem.filter_width)
    shapes = {
        "input": image_shape(problem.precision, problem.batch, problem.in_channels, problem.height, problem.width),
        "filter": image_shape(problem.precision, *filters),
    }
    return {name: rng.uniform(0.5, 1.5, shape).astype(problem.precision.element_type) for name, shape in shapes.items()}


def call(problem: Conv2d, configuration: DirectConv2dConfiguration, given: Mapping[str, Elements]) -> KernelCall:
    """Parameters ``(output, input, [filter,] height, width, tiles of a row, its reciprocal and shift)``.

    Behind output, input and filter, those of whole planes have `plane.parameters`, blocked ones `blocked.sizes_of`, those on
    tensor cores the numbers of images and channels, where channels lie closest also that of positions.
    """
    size = (problem.out_channels, problem.output_height, problem.output_width)
    shape = image_shape(problem.precision, problem.batch, *size)
    output = Buffer(name="output", array=poisoned(shape, problem.precision.element_type), output=True)
    image, weights = (Buffer(name=name, array=given[name]) for name in ("input", "filter"))
    if configuration.reuse is Reuse.PLANE:
        return KernelCall(parameters=(output, image, weights, *plane.parameters(problem)))
    if configuration.reuse is Reuse.TENSOR:
        sizes_of_kernel: tuple[int, ...] = (problem.batch, problem.in_channels, problem.out_channels)
        if problem.precision.channels_last:
            sizes_of_kernel += (problem.image_positions,)
        return KernelCall(parameters=(output, image, weights, *map(np.uint32, sizes_of_kernel)))
    tile_columns = (configuration.block_x or 1) * (configuration.columns_per_thread or 1)
    if configuration.reuse is Reuse.BLOCKED:
        return KernelCall(parameters=(output, image, weights, *sizes_of(problem.layer, tile_columns)))
    tiles_per_row = ceil_div(problem.output_width, tile_columns)
    multiplier, shift = reciprocal(tiles_per_row)
    sizes = (np.int32(problem.height), np.int32(problem.width), np.int32(tiles_per_row))
    divisor = (np.uint32(multiplier), np.int32(shift))
    if filter_in_constant(problem):
        return KernelCall(parameters=(output, image, *sizes, *divisor), constants=(weights,))
    return KernelCall(parameters=(output, image, weights, *sizes, *divisor))


def convolve(problem: Conv2d, image: Elements, weights: Elements) -> NDArray[np.float64]:
    """Output planes of shape ``(batch, out_channels, output_height, output_width)``, or with the channels last.

    One tap of the filter after the other, each on the window of the padded image that it slides over.

    >>> problem = Conv2d(height=2, width=3, filter_height=2, filter_width=2)
    >>> convolve(problem, np.ones((1, 1, 2, 3), np.float32), np.ones((1, 1, 2, 2), np.float32))
    array([[[[4., 4.]]]])
    """
    if problem.precision.channels_last:
        image, weights = channels_first(image), channels_first(weights)
    edge = (problem.padding, problem.padding)
    padded = np.pad(image.astype(np.float64), ((0, 0), (0, 0), edge, edge))
    reach = tuple((extent - 1) * problem.stride + 1 for extent in (problem.output_height, problem.output_width))
    windows = np.lib.stride_tricks.sliding_window_view(padded, reach, (2, 3))
    subscripts = "nkhw,k->nkhw" if problem.depthwise else "nchw,kc->nkhw"
    exact = np.zeros((problem.batch, problem.out_channels, problem.output_height, problem.output_width))
    for row in range(problem.filter_height):
        for column in range(problem.filter_width):
            window = windows[:, :, row, column, :: problem.stride, :: problem.stride]
            tap = weights[:, 0, row, column] if problem.depthwise else weights[:, :, row, column]
            exact += np.einsum(subscripts, window, tap.astype(np.float64), optimize=True)
    return channels_last(exact) if problem.precision.channels_last else exact
