"""The exact result of the dense 1-D convolution in float64."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .problem import Conv1d


def conv1d_reference(
    problem: Conv1d, signal: NDArray[np.float32], weights: NDArray[np.float32], bias: NDArray[np.float32]
) -> NDArray[np.float64]:
    """Cross-correlation of shape (batch, out_channels, output_length), summed in float64.

    >>> problem = Conv1d(in_channels=1, out_channels=1, length=3, filter_width=3, padding=1)
    >>> conv1d_reference(problem, np.float32([[[1, 2, 3]]]), np.float32([[[1, 10, 100]]]), np.float32([0.5]))
    array([[[210.5, 321.5,  32.5]]])
    """
    padded = np.pad(signal.astype(np.float64), ((0, 0), (0, 0), (problem.padding, problem.padding)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, problem.filter_width, axis=2)
    result: NDArray[np.float64] = np.einsum("nctf,kcf->nkt", windows, weights.astype(np.float64), optimize=True)
    return result + bias.astype(np.float64)[None, :, None]
