"""PTX arithmetic in exact numbers (PTX ISA 9.7.1 to 9.7.9): an oracle that shares nothing with the simulator.

Integers are Python's, floating-point values are fractions that are rounded once. Values are the bits that a register holds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Format:
    """A binary floating-point format: bits in all, and of the significand without the leading one."""

    bits: int
    fraction: int

    @property
    def bias(self) -> int:
        """What is added to exponents."""
        return 2 ** (self.bits - self.fraction - 2) - 1

    @property
    def infinity(self) -> int:
        """Bits of infinity."""
        return (2 ** (self.bits - self.fraction - 1) - 1) << self.fraction

    @property
    def sign(self) -> int:
        """The sign bit."""
        return 1 << (self.bits - 1)


F16, BF16, F32, F64 = Format(16, 10), Format(16, 7), Format(32, 23), Format(64, 52)
FORMATS = {"f16": F16, "bf16": BF16, "f32": F32, "f64": F64}
NAN = "NaN"
"""Any NaN: its bits are not compared."""
Number = Fraction | float
"""A finite value but for negative zero, or one of -0.0, infinities and NaN as Python's floats."""


def signed(value: int, bits: int) -> int:
    """The integer that bits stand for in two's complement."""
    value %= 1 << bits
    return value - (1 << bits) if value >> (bits - 1) else value


def clamp(value: int, bits: int, is_signed: bool) -> int:
    """The nearest integer of a type."""
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if is_signed else (0, (1 << bits) - 1)
    return max(low, min(high, value))


def number(bits: int, form: Format) -> Number:
    """The value of bits.

    >>> number(0x3FC00000, F32), number(0x8000, F16)
    (Fraction(3, 2), -0.0)
    """
    bits %= 1 << form.bits
    sign = -1 if bits & form.sign else 1
    magnitude = bits & (form.sign - 1)
    if magnitude > form.infinity:
        return math.nan
    if magnitude == form.infinity:
        return sign * math.inf
    if magnitude == 0:
        return -0.0 if sign < 0 else Fraction(0)
    exponent, fraction = magnitude >> form.fraction, magnitude & ((1 << form.fraction) - 1)
    if exponent:
        fraction += 1 << form.fraction
    shift = max(exponent, 1) - form.bias - form.fraction
    return sign * fraction * Fraction(2) ** shift


def is_nan(value: Number) -> bool:
    """Whether a value is NaN."""
    return isinstance(value, float) and math.isnan(value)


def is_infinite(value: Number) -> bool:
    """Whether a value is an infinity."""
    return isinstance(value, float) and math.isinf(value)


def is_negative(value: Number) -> bool:
    """Whether the sign of a value is set."""
    return math.copysign(1.0, value) < 0 if isinstance(value, float) else value < 0


def to_integer(value: Fraction, mode: str) -> int:
    """A fraction rounded to an integer: to nearest even (``n``), toward zero (``z``), down (``m``) or up (``p``)."""
    floor = value.numerator // value.denominator
    rest = value - floor
    if rest == 0 or mode == "m" or (mode == "z" and value > 0):
        return floor
    if mode in "pz":
        return floor + 1
    up = rest > Fraction(1, 2) or (rest == Fraction(1, 2) and floor % 2)
    return floor + 1 if up else floor


def rounded(value: Number, form: Format, mode: str = "n", zero: int = 0, largest: int | None = None) -> int | str:
    """Bits of a value rounded once; ``zero`` is the sign bit of a result that is exactly zero.

    ``largest`` are the bits of what stands for values beyond it (``.satfinite``).

    >>> hex(rounded(Fraction(1, 3), F32)), hex(rounded(Fraction(1, 3), F32, "p"))
    ('0x3eaaaaab', '0x3eaaaaab')
    """
    if isinstance(value, float):
        if math.isnan(value):
            return NAN
        sign = form.sign if is_negative(value) else 0
        return sign | ((largest or form.infinity) if math.isinf(value) else 0)
    if value == 0:
        return form.sign if zero else 0
    sign, size = (form.sign, -value) if value < 0 else (0, value)
    way = mode if not sign else {"m": "p", "p": "m"}.get(mode, mode)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if size < Fraction(2) ** exponent:
        exponent -= 1
    exponent = max(exponent, 1 - form.bias)
    scaled = to_integer(size / Fraction(2) ** (exponent - form.fraction), way)
    bits = scaled + ((exponent + form.bias - 1) << form.fraction)
    if largest is not None:
        return sign | min(bits, largest)
    if bits >= form.infinity:
        bits = form.infinity if way in "np" else form.infinity - 1
    return sign | bits


def flushed(bits: int | str, form: Format) -> int | str:
    """Subnormal values become zero of their sign."""
    if isinstance(bits, str):
        return bits
    small = 0 < bits & (form.sign - 1) < 1 << form.fraction
    return bits & form.sign if small else bits


def saturated(bits: int | str, form: Format) -> int | str:
    """Values clamped to [0, 1]; NaN becomes 0."""
    one = form.bias << form.fraction
    if isinstance(bits, str) or bits & form.sign:
        return 0
    return min(bits, one)


def _exact(value: Number) -> Fraction:
    return Fraction(0) if value == 0 else Fraction(value)


def add(a: Number, b: Number, form: Format, mode: str = "n") -> int | str:
    """A sum."""
    if is_nan(a) or is_nan(b) or (is_infinite(a) and is_infinite(b) and a != b):
        return NAN
    for infinite in (a, b):
        if is_infinite(infinite):
            return rounded(infinite, form)
    negative_zero = a == b == 0 and is_negative(a) and is_negative(b)
    opposite = (a != 0 or is_negative(a) != is_negative(b)) and mode == "m"
    return rounded(_exact(a) + _exact(b), form, mode, zero=negative_zero or opposite)


def fma(a: Number, b: Number, c: Number, form: Format, mode: str = "n") -> int | str:
    """A product and a sum, rounded once."""
    if is_nan(a) or is_nan(b) or is_nan(c):
        return NAN
    negative = is_negative(a) != is_negative(b)
    if is_infinite(a) or is_infinite(b):
        if a == 0 or b == 0:
            return NAN
        product: Number = -math.inf if negative else math.inf
    elif a == 0 or b == 0:
        product = -0.0 if negative else Fraction(0)
    else:
        product = _exact(a) * _exact(b)
    return add(product, c, form, mode)


def mul(a: Number, b: Number, form: Format, mode: str = "n") -> int | str:
    """A product."""
    if is_nan(a) or is_nan(b) or (is_infinite(a) and b == 0) or (a == 0 and is_infinite(b)):
        return NAN
    negative = is_negative(a) != is_negative(b)
    if is_infinite(a) or is_infinite(b):
        return rounded(-math.inf if negative else math.inf, form)
    return rounded(_exact(a) * _exact(b), form, mode, zero=negative)


def div(a: Number, b: Number, form: Format, mode: str = "n") -> int | str:
    """A quotient."""
    if is_nan(a) or is_nan(b) or (is_infinite(a) and is_infinite(b)) or (a == 0 and b == 0):
        return NAN
    negative = is_negative(a) != is_negative(b)
    if is_infinite(a) or b == 0:
        return rounded(-math.inf if negative else math.inf, form)
    if a == 0 or is_infinite(b):
        return rounded(Fraction(0), form, zero=negative)
    return rounded(_exact(a) / _exact(b), form, mode)


def sqrt(a: Number, form: Format, mode: str = "n") -> int | str:
    """A square root: its integer part in so many bits that what is left out decides only whether it is exact."""
    if is_nan(a) or (is_negative(a) and a != 0):
        return NAN
    if is_infinite(a) or a == 0:
        return rounded(a, form)
    value, shift = Fraction(a), 2**12
    scaled = value.numerator * (1 << 2 * shift) // value.denominator
    root = math.isqrt(scaled)
    exact = root * root * value.denominator == value.numerator * (1 << 2 * shift)
    return rounded(Fraction(2 * root + (not exact), 1 << (shift + 1)), form, mode)


def minimum(a: int, b: int, form: Format, larger: bool = False, nan: bool = False) -> int | str:
    """The smaller or larger of two values by their bits; a number rather than NaN unless ``nan``."""
    x, y = number(a, form), number(b, form)
    if is_nan(x) or is_nan(y):
        if nan or (is_nan(x) and is_nan(y)):
            return NAN
        return b if is_nan(x) else a
    if x == y == 0:
        return (a & b if larger else a | b) & form.sign
    return a if (x > y) == larger else b


def compare(operator: str, x: Number, y: Number) -> bool:
    """A comparison of PTX; those that end in ``u`` hold for NaN."""
    unordered = is_nan(x) or is_nan(y)
    if operator in ("num", "nan"):
        return unordered == (operator == "nan")
    if unordered:
        return operator.endswith("u")
    name = operator[:2]
    found = {"eq": x == y, "ne": x != y, "lt": x < y, "le": x <= y, "gt": x > y, "ge": x >= y}
    return found[name]


def float_to_integer(value: Number, bits: int, is_signed: bool, mode: str, wide: bool) -> int:
    """A conversion to an integer: clamped; NaN gives zero, or the top bit where a type has 64 bits (``wide``)."""
    if is_nan(value):
        return 1 << (bits - 1) if wide else 0
    if is_infinite(value):
        return clamp(-(1 << 80) if value < 0 else 1 << 80, bits, is_signed)
    return clamp(to_integer(_exact(value), mode), bits, is_signed)
