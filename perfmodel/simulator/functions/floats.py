"""Floating-point functions with the roundings of PTX, element by element (PTX ISA 9.7.3, 9.7.4).

``fma.rn.f32`` is an exact double-precision product and one sum; where that sum lies midway between two floats, or is below
2**-126, the error of the sum decides, so that rounding to single precision is the only rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...ir.types import ScalarType

Floats = NDArray[Any]

_SPLITTER = 2.0**27 + 1
_BELOW_SINGLE = np.uint64(2**29 - 1)
"""Bits of a double's significand that a float does not have."""
_HALF_SINGLE_ULP = np.uint64(2**28)
_TINY_F32 = np.float32(np.finfo(np.float32).tiny)
_LARGEST_SAFE, _LEAST_SAFE = 2.0**960, 2.0**-900
"""Doubles between whose products and quotients no error term leaves the range."""
_ROOT_SCALE = 2.0**300


def flush(x: Floats) -> Floats:
    """Subnormal single-precision values become zero of the same sign."""
    return np.where(np.abs(x) < _TINY_F32, np.copysign(np.float32(0), x), x)


def saturate(x: Floats) -> Floats:
    """Values clamped to [0, 1]; NaN becomes 0."""
    clamped: Floats = np.where(
        np.isnan(x), x.dtype.type(0), np.minimum(np.maximum(x, x.dtype.type(0)), x.dtype.type(1))
    )
    return clamped


def least(a: Floats, b: Floats) -> Floats:
    """The smaller of two values; a number rather than NaN, -0 below +0."""
    return _zeros_ordered(np.fmin(a, b), a, b, np.bitwise_or)


def greatest(a: Floats, b: Floats) -> Floats:
    """The larger of two values; a number rather than NaN, +0 above -0."""
    return _zeros_ordered(np.fmax(a, b), a, b, np.bitwise_and)


def least_or_nan(a: Floats, b: Floats) -> Floats:
    """The smaller of two values, -0 below +0; NaN where one is."""
    return _zeros_ordered(np.minimum(a, b), a, b, np.bitwise_or)


def greatest_or_nan(a: Floats, b: Floats) -> Floats:
    """The larger of two values, +0 above -0; NaN where one is."""
    return _zeros_ordered(np.maximum(a, b), a, b, np.bitwise_and)


def _zeros_ordered(found: Floats, a: Floats, b: Floats, join: np.ufunc) -> Floats:
    """What was found, where both are zeros by their signs."""
    zeros = (found == 0) & (a == b)
    if not zeros.any():
        return found
    bits = np.dtype(f"u{found.dtype.itemsize}")
    return np.where(zeros, join(a.view(bits), b.view(bits)).view(found.dtype), found)


def flush_halves(words: NDArray[Any]) -> NDArray[Any]:
    """Subnormal halves of words (or of 16 bits) become zero of the same sign.

    >>> [hex(word) for word in flush_halves(np.array([0x80013C00], np.uint32)).tolist()]
    ['0x80003c00']
    """
    halves = np.ascontiguousarray(words)[..., None].view(np.uint16)
    flushed = np.where(halves & np.uint16(0x7C00), halves, halves & np.uint16(0x8000))
    found: NDArray[Any] = flushed.view(words.dtype)[..., 0]
    return found


def rectify(x: Floats) -> Floats:
    """Negative values and -0 become 0; NaN stays."""
    return np.where(x <= 0, x.dtype.type(0), x)


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
    """``a * b + c`` rounded once to single precision."""
    total = np.multiply(a, b, dtype=np.float64)
    if total.shape == c.shape or c.size == 1:
        total += c
    else:
        total = total + c
    single: Floats = total.astype(np.float32)
    doubtful = (total.view(np.uint64) & _BELOW_SINGLE) == _HALF_SINGLE_ULP
    small = np.abs(single) <= _TINY_F32
    if small.any():
        doubtful = doubtful | (small & (single != total))
    if doubtful.any():
        at = np.nonzero(doubtful)
        few_a, few_b, few_c = (np.broadcast_to(one, single.shape)[at] for one in (a, b, c))
        _, rest = _two_sum(np.multiply(few_a, few_b, dtype=np.float64), few_c.astype(np.float64))
        single[at] = _odd(total[at], rest).astype(np.float32)
    return single


def fma_f64(a: Floats, b: Floats, c: Floats) -> Floats:
    """``a * b + c`` rounded once to double precision."""
    return _fma(a, b, c)[0]


def _odd(total: Floats, rest: Floats) -> Floats:
    """Doubles that lack a rest, rounded to that neighbour of the exact value whose last bit is set.

    Rounding it again, to fewer bits or after adding a larger number, gives what rounding the exact value once gives
    (S. Boldo and G. Melquiond, Emulation of FMA and correctly rounded sums, 2008).
    """
    moves = (rest != 0) & (total.view(np.uint64) & np.uint64(1) == 0) & np.isfinite(total)
    return np.where(moves, np.nextafter(total, np.where(rest > 0, np.inf, -np.inf)), total)


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


Near = tuple[Floats, Floats]
"""Values next to the exact ones, and numbers whose signs say on which side of them these lie."""


def _near_single(value: Floats, rest: Floats) -> Near:
    near = value.astype(np.float32)  # rounded twice, it is still one of the two neighbours
    gap = value - near
    return near, np.where(np.isfinite(value), np.where(gap != 0, gap, rest), 0.0)


def _near_double(near: Floats, rest: Floats, exact: Callable[..., Fraction], *operands: Floats) -> Near:
    """Doubles with their rests; where a rest may itself be out of range, both come from exact fractions."""
    given = np.broadcast_arrays(*operands)
    finite = np.logical_and.reduce([np.isfinite(x) for x in given])
    zero = np.logical_and.reduce([x != 0 for x in given[:2]])
    size = np.maximum.reduce([np.abs(x) for x in (*given, near)])
    least = np.minimum.reduce([np.abs(x) for x in (*given[:2], near)])
    hard = finite & zero & ((size > _LARGEST_SAFE) | (least < _LEAST_SAFE))
    rest = np.where(finite & zero, rest, 0.0)
    if hard.any():
        near = np.array(np.broadcast_to(near, hard.shape))
        for place in map(tuple, np.argwhere(hard).tolist()):
            try:
                value = exact(*(Fraction(float(x[place])) for x in given))
            except ZeroDivisionError:
                continue
            near[place], rest[place] = _nearest(value, near[place])
    return near, rest


def _nearest(value: Fraction, near: float) -> tuple[float, float]:
    """The double nearest to a fraction (of the sign of ``near`` where it is zero), and the side on which that lies."""
    try:
        found = float(value) if value else math.copysign(0.0, near)
    except OverflowError:
        sign = 1.0 if value > 0 else -1.0
        return sign * math.inf, -sign
    gap = value - Fraction(found)
    return found, float((gap > 0) - (gap < 0))


def _add(a: Floats, b: Floats) -> Near:
    total, rest = _two_sum(a.astype(np.float64), b.astype(np.float64))
    if a.dtype == np.float32:
        return _near_single(total, rest)
    overflows = np.isinf(total) & np.isfinite(a) & np.isfinite(b)
    return total, np.where(overflows, -np.sign(total), np.where(np.isfinite(total), rest, 0.0))


def _sub(a: Floats, b: Floats) -> Near:
    return _add(a, -b)


def _mul(a: Floats, b: Floats) -> Near:
    if a.dtype == np.float32:
        product = np.multiply(a, b, dtype=np.float64)
        return _near_single(product, np.zeros_like(product))
    return _near_double(*_two_product(a, b), lambda x, y: x * y, a, b)


def _div(a: Floats, b: Floats) -> Near:
    x, y = a.astype(np.float64), b.astype(np.float64)
    result = x / y
    product, error = _two_product(result, y)
    rest = ((x - product) - error) * np.sign(y)
    if a.dtype == np.float32:
        return _near_single(result, np.where(np.isfinite(rest), rest, 0.0))
    return _near_double(result, rest, lambda p, q: p / q, x, y)


def _sqrt(a: Floats) -> Near:
    x = a.astype(np.float64)
    scale = np.where((np.abs(x) < _LEAST_SAFE) & (x != 0), _ROOT_SCALE, 1.0)
    scale = np.where(x > _LARGEST_SAFE, 1.0 / _ROOT_SCALE, scale)
    scaled = x * scale * scale
    result = np.sqrt(scaled)
    product, error = _two_product(result, result)
    rest = (scaled - product) - error
    rest = np.where(np.isfinite(rest), rest, 0.0)
    return _near_single(result / scale, rest) if a.dtype == np.float32 else (result / scale, rest)


def _fma(a: Floats, b: Floats, c: Floats) -> Near:
    if a.dtype == np.float32:
        return _near_single(*_two_sum(np.multiply(a, b, dtype=np.float64), c.astype(np.float64)))
    product, error = _two_product(a, b)
    high, low = _two_sum(c, error)
    total, rest = _two_sum(product, high)
    tail, lost = _two_sum(low, rest)
    rounded = _odd(tail, lost)
    near, gap = _two_sum(total, rounded)
    gap = np.where(gap != 0, gap, np.where(rounded == tail, lost, -lost))
    plain = a * b + c
    finite = np.isfinite(near) & (a != 0) & (b != 0)
    return _near_double(np.where(finite, near, plain), np.where(finite, gap, 0.0), lambda x, y, z: x * y + z, a, b, c)


_ZERO_SIGNS: dict[str, Callable[..., NDArray[np.bool_]]] = {
    "add": lambda a, b: np.signbit(a) | np.signbit(b),
    "sub": lambda a, b: np.signbit(a) | ~np.signbit(b),
    "fma": lambda a, b, c: (np.signbit(a) ^ np.signbit(b)) | np.signbit(c),
}
"""Whether a sum that is exactly zero is negative when it is rounded down."""


def _directed(name: str, near: Near, toward: float | None, operands: tuple[Floats, ...]) -> Floats:
    """Round down (toward -inf), up (inf), or toward zero (None)."""
    value, rest = near
    if toward is None:
        return np.where(np.signbit(value), _moved(value, rest > 0, np.inf), _moved(value, rest < 0, -np.inf))
    if toward > 0:
        return _moved(value, rest > 0, np.inf)
    down = _moved(value, rest < 0, -np.inf)
    if name in _ZERO_SIGNS:
        zero = (value == 0) & (rest == 0) & _ZERO_SIGNS[name](*operands)
        down = np.where(zero, value.dtype.type(-0.0), down)
    return down


def _moved(value: Floats, wrong: NDArray[np.bool_], toward: float) -> Floats:
    """The values, some of them one place further."""
    return np.where(wrong, np.nextafter(value, value.dtype.type(toward)), value)


def _rounded(name: str, function: Callable[..., Near], toward: float | None) -> Callable[..., Floats]:
    def directed(*operands: Floats) -> Floats:
        return _directed(name, function(*operands), toward, operands)

    return directed


def directed_functions() -> dict[str, Callable[..., Floats]]:
    """``add_downward`` and its like, by name."""
    functions: dict[str, Callable[..., Near]] = {
        "add": _add,
        "sub": _sub,
        "mul": _mul,
        "div": _div,
        "sqrt": _sqrt,
        "fma": _fma,
    }
    directions: dict[str, float | None] = {"downward": -np.inf, "upward": np.inf, "toward_zero": None}
    return {
        f"{name}_{way}": _rounded(name, function, toward)
        for name, function in functions.items()
        for way, toward in directions.items()
    }


def convert_directed(values: NDArray[Any], target: ScalarType, rounding: str) -> NDArray[Any]:
    """Numbers as floats of a type, rounded toward zero (``rz``), down (``rm``) or up (``rp``).

    >>> float(convert_directed(np.array([1 + 2.0**-30]), np.float32, "rp")[0]) > 1.0
    True
    """
    if values.dtype.itemsize == 8 and values.dtype.kind in "iu":
        upper = (values >> values.dtype.type(32)).astype(np.float64) * 2.0**32
        value, rest = _two_sum(upper, (values & values.dtype.type(2**32 - 1)).astype(np.float64))
    else:
        value, rest = values.astype(np.float64), np.zeros(values.shape)
    near = value if target is np.float64 else _odd(value, rest).astype(target)
    gap = np.where(np.isfinite(value), value - near, 0.0)
    toward = {"rz": None, "rm": -np.inf, "rp": np.inf}[rounding]
    return _directed("convert", (near, np.where(gap != 0, gap, rest)), toward, (values,))


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


def half_as_double(words: NDArray[np.uint32], half: int, kind: str) -> NDArray[np.float64]:
    """One half of packed values as double precision."""
    bits = (words >> np.uint32(16 * half)).astype(np.uint16)
    if kind == "f16":
        return bits.view(np.float16).astype(np.float64)
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)


def to_bfloat16(values: Floats) -> NDArray[np.uint16]:
    """Bits of the nearest bfloat16, ties to even; NaN becomes the canonical 0x7FFF."""
    single = values.astype(np.float32)
    if values.dtype == np.float64:
        beyond = np.where(values > single, np.float32(np.inf), np.float32(-np.inf))
        moves = (single != values) & (single.view(np.uint32) & np.uint32(1) == 0) & np.isfinite(single)
        single = np.where(moves, np.nextafter(single, beyond), single)  # rounded to odd: rounded once in the end
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
    """Finite and not subnormal; zero counts as normal."""
    result: NDArray[np.bool_] = np.logical_and(np.isfinite(x), (np.abs(x) >= np.finfo(x.dtype).tiny) | (x == 0))
    return result


def test_subnormal(x: Floats) -> NDArray[np.bool_]:
    """Below the smallest normal number, and not zero."""
    result: NDArray[np.bool_] = np.logical_and(x != 0, np.abs(x) < np.finfo(x.dtype).tiny)
    return result
