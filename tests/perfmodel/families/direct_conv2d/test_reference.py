"""The float64 reference against SciPy's correlation, plane by plane."""

import numpy as np
import pytest
from scipy.signal import correlate2d

from perfmodel.families.direct_conv2d import Conv2d
from perfmodel.families.direct_conv2d.reference import convolve


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("padding", [0, 2])
@pytest.mark.parametrize("depthwise", [False, True])
def test_equals_scipy(stride: int, padding: int, depthwise: bool) -> None:
    problem = Conv2d(
        batch=2, in_channels=3, out_channels=3 if depthwise else 4, height=7, width=10, filter_height=3, filter_width=4,
        stride=stride, padding=padding, depthwise=depthwise,
    )  # fmt: skip
    rng = np.random.default_rng(5)
    image = rng.uniform(-1, 1, (2, 3, 7, 10)).astype(np.float32)
    weights = rng.uniform(-1, 1, (problem.out_channels, problem.filter_channels, 3, 4)).astype(np.float32)
    padded = np.pad(image, ((0, 0), (0, 0), (padding, padding), (padding, padding))).astype(np.float64)
    result = convolve(problem, image, weights)
    assert result.shape == (2, problem.out_channels, problem.output_height, problem.output_width)
    for n in range(2):
        for k in range(problem.out_channels):
            planes = [(k, 0)] if depthwise else [(c, c) for c in range(3)]
            plane = sum(correlate2d(padded[n, c], weights[k, f].astype(np.float64), "valid") for c, f in planes)
            np.testing.assert_allclose(result[n, k], plane[::stride, ::stride], rtol=1e-13, atol=1e-13)
