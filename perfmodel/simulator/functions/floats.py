"""Floating-point functions with the roundings of PTX, element by element (PTX ISA 9.7.3, 9.7.4).

``fma.rn.f32`` is an exact double-precision product and one sum; where that sum lies midway between two floats, the error of
the sum decides, so that rounding to single precision is the only rounding. Results below 2**-126 are rounded twice, which may
differ from the hardware by one subnormal step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[Any]

_SPLITTER = 2.0**27 + 1
_BELOW_SINGLE = np.uint64(2**29 - 1)
"""Bits of a double's significand that a float does not have."""
_HALF_SINGLE_ULP = np.uint64(2**28)
_TINY_F32 = np.float32(np.finfo(np.float32).tiny)


def flush(x: Floats) -> Floats:
    """Subnormal single-precision values become zero of the same sign."""
    return np.where(np.abs(x) < _TINY_F32, np.copysign(np.float32(0), x), x)


def saturate(x: Floats) -> Floats:
    """Values clamped to [0, 1]; NaN becomes 0."""
    clamped: Floats = np.where(
        np.isnan(x), x.dtype.type(0), np.minimum(np.maximum(x, x.dtype.type(0)), x.dtype.type(1))
    )
    return clamped


def rectify(x: Floats) -> Floats:
    """Negative values become 0."""
    return np.where(x < 0, x.dtype.type(0), x)


def half_of_pair(words: NDArray[np.uint64], half: int) -> Floats:
    """The lower (0) or upper (1) of the two single-precision values in 64 bits."""
    return (words >> np.uint64(32 * half)).astype(np.uint32).view(np.float32)


def pair_of(low: Floats, high: Floats) -> NDArray[np.uint64]:
    """Two single-precision values in 64 bits.

    >>> hex(pair_of(np.float32([1.0]), np.float32([2.0]))[0])
    '0x400000003f800000'
    """
    upper: NDArray[np.uint64] = high.view(np.uint32).astype(np.uint64) << np.uint64(32)
    return upper | low.view(np.uint32)


def fma_f32(a: Floats, b: Floats, c: Floats) -> Floats:
    """``a * b + c`` rounded once to single precision (subnormal results: see the module's text)."""
    total = np.multiply(a, b, dtype=np.float64)
    if total.shape == c.shape or c.size == 1:
        total += c
    else:
        total = total + c
    midway = (total.view(np.uint64) & _BELOW_SINGLE) == _HALF_SINGLE_ULP
    if midway.any():
        total = _toward_exact(total, midway, a, b, c)
    single: Floats = total.astype(np.float32)
    return single


def _toward_exact(total: Floats, midway: NDArray[np.bool_], a: Floats, b: Floats, c: Floats) -> Floats:
    """Sums that lie midway between two floats moved by one double ulp to where the exact sum lies."""
    _, error = _two_sum(np.multiply(a, b, dtype=np.float64), c.astype(np.float64))
    up, down = midway & (error > 0), midway & (error < 0)
    moved = np.where(up, np.nextafter(total, np.inf), total)
    return np.where(down, np.nextafter(total, -np.inf), moved)


def _two_sum(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    total = a + b
    rest = total - a
    return total, (a - (total - rest)) + (b - rest)


def _two_product(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    product = a * b
    x, y = _SPLITTER * a, _SPLITTER * b
    a_high, b_high = x - (x - a), y - (y - b)
    a_low, b_low = a - a_high, b - b_high
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def _exact_fma(a: Floats, b: Floats, c: Floats) -> tuple[Floats, Floats]:
    product, error = _two_product(a, b)
    total, rest = _two_sum(product, c)
    return total, np.where(np.isfinite(error), rest + error, 0.0)


def fma_f64(a: Floats, b: Floats, c: Floats) -> Floats:
    """``a * b + c`` in double precision through an error-free product and sum."""
    total, error = _exact_fma(a, b, c)
    return np.where(np.isfinite(total), total + error, a * b + c)


Split = tuple[Floats, Floats]
"""A value as a double and the (tiny) rest that it lacks."""


def _split_add(a: Floats, b: Floats) -> Split:
    return _two_sum(a.astype(np.float64), b.astype(np.float64))


def _split_mul(a: Floats, b: Floats) -> Split:
    if a.dtype == np.float32:
        product = np.multiply(a, b, dtype=np.float64)
        return product, np.zeros_like(product)
    return _two_product(a, b)


def _split_div(a: Floats, b: Floats) -> Split:
    x, y = a.astype(np.float64), b.astype(np.float64)
    result = x / y
    product, error = _two_product(result, y)
    return result, ((x - product) - error) / y


def _split_sqrt(a: Floats) -> Split:
    x = a.astype(np.float64)
    result = np.sqrt(x)
    product, error = _two_product(result, result)
    return result, np.where(result > 0, ((x - product) - error) / (2 * np.where(result > 0, result, 1.0)), 0.0)


def _split_fma(a: Floats, b: Floats, c: Floats) -> Split:
    return _exact_fma(a.astype(np.float64), b.astype(np.float64), c.astype(np.float64))


def _directed(split: Split, target: np.dtype[Any], toward: float | None) -> Floats:
    """Round a split value down (toward -inf), up (inf), or toward zero (None)."""
    value, rest = split
    rest = np.where(np.isfinite(rest), rest, 0.0)
    near = value.astype(target)
    above = (near.astype(np.float64) > value) | ((near.astype(np.float64) == value) & (rest < 0))
    below = (near.astype(np.float64) < value) | ((near.astype(np.float64) == value) & (rest > 0))
    down = np.where(above, np.nextafter(near, target.type(-np.inf)), near)
    up = np.where(below, np.nextafter(near, target.type(np.inf)), near)
    nearer_zero = np.where(value < 0, up, down)
    chosen = nearer_zero if toward is None else (up if toward > 0 else down)
    return np.where(np.isfinite(value), chosen, near)


def _rounded(split: Callable[..., Split], toward: float | None) -> Callable[..., Floats]:
    def function(*operands: Floats) -> Floats:
        return _directed(split(*operands), operands[0].dtype, toward)

    return function


def _split_sub(a: Floats, b: Floats) -> Split:
    return _split_add(a, -b)


def directed_functions() -> dict[str, Callable[..., Floats]]:
    """``add_downward`` and its like, by name."""
    splits: dict[str, Callable[..., Split]] = {
        "add": _split_add,
        "sub": _split_sub,
        "mul": _split_mul,
        "div": _split_div,
        "sqrt": _split_sqrt,
        "fma": _split_fma,
    }
    directions: dict[str, float | None] = {"downward": -np.inf, "upward": np.inf, "toward_zero": None}
    return {
        f"{name}_{way}": _rounded(split, toward) for name, split in splits.items() for way, toward in directions.items()
    }


def _through_double(function: Callable[[Floats], Floats]) -> Callable[[Floats], Floats]:
    def rounded(x: Floats) -> Floats:
        return function(x.astype(np.float64)).astype(x.dtype)

    return rounded


def approximate_quotient(a: Floats, b: Floats) -> Floats:
    """Quotient rounded to nearest: within the 2 ulp that ``div.approx`` and ``div.full`` document."""
    return a / b


reciprocal = _through_double(lambda x: 1.0 / x)
square_root = _through_double(np.sqrt)
reciprocal_square_root = _through_double(lambda x: 1.0 / np.sqrt(x))
power_of_two = _through_double(np.exp2)
logarithm = _through_double(np.log2)
sine = _through_double(np.sin)
cosine = _through_double(np.cos)
hyperbolic_tangent = _through_double(np.tanh)


def add_wide(a: Floats, b: Floats) -> Floats:
    """Sum of widened values."""
    return a + b


def sub_wide(a: Floats, b: Floats) -> Floats:
    """Difference of widened values."""
    return a - b


def mul_wide(a: Floats, b: Floats) -> Floats:
    """Product of widened values."""
    return a * b


def fma_wide(a: Floats, b: Floats, c: Floats) -> Floats:
    """Product and sum of widened values; the product of half-precision values is exact in double precision."""
    return a * b + c


def bfloat16_to_f32(bits: NDArray[np.uint16]) -> NDArray[np.float32]:
    """Values of bfloat16 bits.

    >>> float(bfloat16_to_f32(np.array([0x3F80], np.uint16))[0])
    1.0
    """
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def to_bfloat16(values: Floats) -> NDArray[np.uint16]:
    """Bits of the nearest bfloat16, ties to even; NaN becomes the canonical 0x7FFF."""
    single = values.astype(np.float32)
    bits = single.view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    return np.where(np.isnan(single), np.uint32(0x7FFF), rounded).astype(np.uint16)


def _widen(bits: NDArray[np.uint16], kind: str) -> Floats:
    return (bits.view(np.float16) if kind == "f16" else bfloat16_to_f32(bits)).astype(np.float64)


def _narrowed(values: Floats, kind: str) -> NDArray[np.uint16]:
    if kind == "bf16":
        return to_bfloat16(values)
    half = values.astype(np.float16)
    return np.where(np.isnan(half), np.uint16(0x7FFF), half.view(np.uint16))


def narrow(
    function: Callable[..., Floats], kind: str, packed: bool, relu: bool, sat: bool, *operands: NDArray[Any]
) -> NDArray[Any]:
    """A function of half-precision or bfloat16 bits (packed: of both halves), computed in double precision."""

    def one(*bits: NDArray[np.uint16]) -> NDArray[np.uint16]:
        result = function(*(_widen(b, kind) for b in bits))
        result = saturate(result) if sat else result
        return _narrowed(rectify(result) if relu else result, kind)

    if not packed:
        return one(*operands)
    low = one(*((x & np.uint32(0xFFFF)).astype(np.uint16) for x in operands))
    high = one(*((x >> np.uint32(16)).astype(np.uint16) for x in operands))
    return low.astype(np.uint32) | (high.astype(np.uint32) << np.uint32(16))


def test_finite(x: Floats) -> NDArray[np.bool_]:
    """Neither infinite nor NaN."""
    return np.isfinite(x)


def test_infinite(x: Floats) -> NDArray[np.bool_]:
    """Infinite."""
    return np.isinf(x)


def test_number(x: Floats) -> NDArray[np.bool_]:
    """Not NaN."""
    return ~np.isnan(x)


def test_notanumber(x: Floats) -> NDArray[np.bool_]:
    """NaN."""
    return np.isnan(x)


def test_normal(x: Floats) -> NDArray[np.bool_]:
    """Finite and not below the smallest normal number."""
    result: NDArray[np.bool_] = np.logical_and(np.isfinite(x), np.abs(x) >= np.finfo(x.dtype).tiny)
    return result


def test_subnormal(x: Floats) -> NDArray[np.bool_]:
    """Below the smallest normal number, and not zero."""
    result: NDArray[np.bool_] = np.logical_and(x != 0, np.abs(x) < np.finfo(x.dtype).tiny)
    return result
