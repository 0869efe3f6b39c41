"""The exact result of the tiled convolution in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .problem import TiledConv2d


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
            window = image[i : i + problem.height, j : j + problem.width]
            result += window * float(weights[i, j])
    return result
