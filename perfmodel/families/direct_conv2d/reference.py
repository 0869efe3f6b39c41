"""The exact result, in float64."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .problem import Conv2d


def convolve(problem: Conv2d, image: NDArray[np.float32], weights: NDArray[np.float32]) -> NDArray[np.float64]:
    """Output planes of shape ``(batch, out_channels, output_height, output_width)``.

    One tap of the filter after the other, each on the window of the padded image that it slides over.

    >>> problem = Conv2d(height=2, width=3, filter_height=2, filter_width=2)
    >>> convolve(problem, np.ones((1, 1, 2, 3), np.float32), np.ones((1, 1, 2, 2), np.float32))
    array([[[[4., 4.]]]])
    """
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
    return exact
