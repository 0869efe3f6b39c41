"""Random inputs of the dense 1-D convolution, the kernels' arguments, and the exact result in float64."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ...launch.launch import Buffer, KernelCall, poisoned
from ..blocked import sizes_of
from .configuration import Conv1dConfiguration, Variant
from .problem import Conv1d

Floats32 = NDArray[np.float32]

RELATIVE_TOLERANCE = 1e-5
UNIT_ROUNDOFF = 2.0**-24


def inputs(problem: Conv1d, rng: np.random.Generator) -> Mapping[str, Floats32]:
    """Uniform numbers in [−1, 1) for input, weights and bias."""
    shapes = {
        "input": (problem.batch, problem.in_channels, problem.length),
        "weights": (problem.out_channels, problem.in_channels, problem.filter_width),
        "bias": (problem.out_channels,),
    }
    return {name: rng.uniform(-1, 1, shape).astype(np.float32) for name, shape in shapes.items()}


def call(problem: Conv1d, configuration: Conv1dConfiguration, arrays: Mapping[str, Floats32]) -> KernelCall:
    """Poisoned output, then the three inputs; of the blocked design `blocked.sizes_of` behind them."""
    shape = (problem.batch, problem.out_channels, problem.output_length)
    output = Buffer(name="output", array=poisoned(shape), output=True)
    buffers = (output, *(Buffer(name=name, array=array) for name, array in arrays.items()))
    if configuration.variant is not Variant.BLOCKED:
        return KernelCall(parameters=buffers)
    block_x, columns = configuration.block_x or 1, configuration.columns_per_thread or 1
    return KernelCall(parameters=(*buffers, *sizes_of(problem.layer, block_x * columns)))


def convolve(problem: Conv1d, signal: Floats32, weights: Floats32, bias: Floats32) -> NDArray[np.float64]:
    """Cross-correlation of shape (batch, out_channels, output_length), summed in float64.

    >>> problem = Conv1d(in_channels=1, out_channels=1, length=3, filter_width=3, padding=1)
    >>> convolve(problem, np.float32([[[1, 2, 3]]]), np.float32([[[1, 10, 100]]]), np.float32([0.5]))
    array([[[210.5, 321.5,  32.5]]])
    """
    padded = np.pad(signal.astype(np.float64), ((0, 0), (0, 0), (problem.padding, problem.padding)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, problem.filter_width, axis=2)
    result: NDArray[np.float64] = np.einsum("nctf,kcf->nkt", windows, weights.astype(np.float64), optimize=True)
    return result + bias.astype(np.float64)[None, :, None]
