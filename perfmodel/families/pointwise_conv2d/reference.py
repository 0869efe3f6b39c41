"""The exact result of a pointwise convolution, in float64."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .problem import PointwiseConv2d


def convolve(problem: PointwiseConv2d, image: NDArray[np.float32], filters: NDArray[np.float32]) -> NDArray[np.float64]:
    """Σ over C of filter[k, c] · input[n, c, h, w], shape N×K×H×W.

    >>> problem = PointwiseConv2d(in_channels=2, out_channels=1, height=1, width=2)
    >>> convolve(problem, np.array([[[[1, 2]], [[10, 20]]]], np.float32), np.array([[3, 1]], np.float32))
    array([[[[13., 26.]]]])
    """
    planes = image.astype(np.float64).reshape(problem.batch, problem.in_channels, problem.image_positions)
    product = filters.astype(np.float64) @ planes
    return np.asarray(product.reshape(problem.batch, problem.out_channels, problem.height, problem.width))
