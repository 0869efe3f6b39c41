"""Random inputs of the pointwise convolution, the kernel's arguments, and the exact result in float64."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...launch.launch import Buffer, KernelCall, poisoned
from ..precision import image_shape
from .problem import PointwiseConv2d

Elements = NDArray[np.floating[Any]]
"""In the type of the problem's elements."""


def inputs(problem: PointwiseConv2d, rng: np.random.Generator) -> Mapping[str, Elements]:
    """Images and filters, uniform in [−1, 1)."""
    image = image_shape(problem.precision, problem.batch, problem.in_channels, problem.height, problem.width)
    return {
        "input": rng.uniform(-1, 1, image).astype(problem.precision.element_type),
        "filter": rng.uniform(-1, 1, (problem.out_channels, problem.in_channels)).astype(
            problem.precision.element_type
        ),
    }


def output(problem: PointwiseConv2d) -> Buffer:
    """The poisoned output."""
    shape = image_shape(problem.precision, problem.batch, problem.out_channels, problem.height, problem.width)
    return Buffer(name="output", array=poisoned(shape, problem.precision.element_type), output=True)


def call(problem: PointwiseConv2d, arrays: Mapping[str, Elements]) -> KernelCall:
    """Parameters ``(output, input, filter, batch, in_channels, out_channels, positions)``, the output poisoned."""
    sizes = (problem.batch, problem.in_channels, problem.out_channels, problem.image_positions)
    return KernelCall(
        parameters=(
            output(problem),
            Buffer(name="input", array=arrays["input"]),
            Buffer(name="filter", array=arrays["filter"]),
            *(np.uint32(size) for size in sizes),
        )
    )


def convolve(problem: PointwiseConv2d, image: Elements, filters: Elements) -> NDArray[np.float64]:
    """Σ over C of filter[k, c] · input[n, c, h, w], shape N×K×H×W, N×H×W×K where channels lie closest.

    >>> problem = PointwiseConv2d(in_channels=2, out_channels=1, height=1, width=2)
    >>> convolve(problem, np.array([[[[1, 2]], [[10, 20]]]], np.float32), np.array([[3, 1]], np.float32))
    array([[[[13., 26.]]]])
    """
    if problem.precision.channels_last:
        return np.asarray(image.astype(np.float64) @ filters.astype(np.float64).T)
    planes = image.astype(np.float64).reshape(problem.batch, problem.in_channels, problem.image_positions)
    product = filters.astype(np.float64) @ planes
    return np.asarray(product.reshape(problem.batch, problem.out_channels, problem.height, problem.width))
