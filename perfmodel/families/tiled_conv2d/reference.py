"""Inputs, the kernel's parameters, and the exact result in float64."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...launch.launch import Buffer, KernelCall, poisoned
from .problem import TiledConv2d


def inputs(problem: TiledConv2d, rng: np.random.Generator) -> dict[str, NDArray[np.float32]]:
    """A padded image and a filter, uniform in [−1, 1)."""
    shapes = {
        "input": (problem.input_height, problem.input_width),
        "filter": (problem.filter_height, problem.filter_width),
    }
    return {name: rng.uniform(-1, 1, shape).astype(np.float32) for name, shape in shapes.items()}


def call(problem: TiledConv2d, given: Mapping[str, NDArray[np.float32]]) -> KernelCall:
    """Parameters ``(output, input)``; the filter lies in constant memory."""
    output = poisoned((problem.height, problem.width))
    return KernelCall(
        parameters=(Buffer(name="output", array=output, output=True), Buffer(name="input", array=given["input"])),
        constants=(Buffer(name="filter", array=given["filter"]),),
    )


def convolve(problem: TiledConv2d, image: NDArray[Any], weights: NDArray[Any]) -> NDArray[np.float64]:
    """Cross-correlation of the padded image with the filter, shape ``(height, width)``.

    >>> tiny = TiledConv2d(height=1, width=1, filter_height=1, filter_width=1)
    >>> convolve(tiny, np.array([[2.0]]), np.array([[3.0]]))
    array([[6.]])
    """
    image = image.astype(np.float64)
    result = np.zeros((problem.height, problem.width))
    for i in range(problem.filter_height):
        for j in range(problem.filter_width):
            result += image[i : i + problem.height, j : j + problem.width] * float(weights[i, j])
    return result
