"""Device functions that kernels of Torch's Inductor call, for machines without Torch; the names are Torch's."""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language import math
from triton.language.extra import libdevice


@triton.jit
def promote_to_tensor(x):
    """A scalar as a tensor of one element."""
    return x + tl.zeros((1,), tl.int1)


@triton.jit
def maximum(a, b):
    """The larger value; NaN where one is."""
    first = a > b
    if a.dtype.is_floating():
        first |= a != a
    return tl.where(first, a, b)


@triton.jit
def minimum(a, b):
    """The smaller value; NaN where one is."""
    first = a < b
    if a.dtype.is_floating():
        first |= a != a
    return tl.where(first, a, b)


@triton.jit
def max2(a, dim):
    """The largest value along an axis."""
    return tl.reduce(a, dim, maximum)


@triton.jit
def min2(a, dim):
    """The smallest value along an axis."""
    return tl.reduce(a, dim, minimum)


@triton.jit
def _either(a, b):
    return a | b


@triton.jit
def any(a, dim):  # noqa: A001  # the name that generated code calls
    """Whether something along an axis is true."""
    return tl.reduce(a, dim, _either)


@triton.jit
def _times(a, b):
    return a * b


@triton.jit
def prod(a, dim):
    """The product along an axis."""
    return tl.reduce(a, dim, _times)


@triton.jit
def div_floor_integer(a, b):
    """The quotient, rounded down."""
    quotient, remainder = a // b, a % b
    return tl.where((remainder != 0) & ((a < 0) != (b < 0)), quotient - 1, quotient)


@triton.jit
def remainder_integer(a, b):
    """What is left of a division that rounds down."""
    remainder = a % b
    return tl.where((remainder != 0) & ((a < 0) != (b < 0)), remainder + b, remainder)


@triton.jit
def welford_reduce(value, mean, m2, weight, first_iteration):
    """Mean, sum of squared deviations and weight with one more value (Welford's recurrence)."""
    if first_iteration:
        return value, tl.zeros_like(m2), tl.full(weight.shape, 1, weight.dtype)
    deviation = value - mean
    new_weight = weight + 1
    new_mean = mean + deviation / new_weight
    return new_mean, m2 + deviation * (value - new_mean), new_weight


@triton.jit
def welford_combine(mean_1, m2_1, weight_1, mean_2, m2_2, weight_2):
    """Mean, sum of squared deviations and weight of two parts together."""
    deviation = mean_2 - mean_1
    weight = weight_1 + weight_2
    share = tl.where(weight == 0.0, 0.0, weight_2 / weight)
    return mean_1 + deviation * share, m2_1 + m2_2 + deviation * deviation * weight_1 * share, weight


@triton.jit
def welford(mean, m2, weight, dim):
    """Mean, sum of squared deviations and weight along an axis."""
    return tl.reduce((mean, m2, weight), dim, welford_combine)


__all__ = [
    "any",
    "div_floor_integer",
    "libdevice",
    "math",
    "max2",
    "maximum",
    "min2",
    "minimum",
    "prod",
    "promote_to_tensor",
    "remainder_integer",
    "welford",
    "welford_combine",
    "welford_reduce",
]
