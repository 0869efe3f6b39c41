"""Functions that generated code calls, against Python's integers and exact fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from perfmodel.simulator.functions import bits, conversions, floats

WORDS = st.integers(0, 2**32 - 1)
LONGS = st.integers(0, 2**64 - 1)
SINGLES = st.floats(-(2.0**60), 2.0**60, width=32, allow_nan=False, allow_subnormal=False)
DOUBLES = st.floats(-1e100, 1e100, allow_nan=False, allow_subnormal=False).filter(lambda x: x == 0 or abs(x) > 1e-100)


def word(value: int) -> np.ndarray:
    return np.array([[value]], np.uint32)


def long(value: int, kind: type = np.uint64) -> np.ndarray:
    return np.array([[value % 2**64]], np.uint64).view(kind)


@given(a=LONGS, b=LONGS)
def test_high_products(a: int, b: int) -> None:
    assert bits.high_product(long(a), long(b)).item() == a * b >> 64
    signed = [x - 2**64 if x >= 2**63 else x for x in (a, b)]
    result = bits.high_product(long(a, np.int64), long(b, np.int64)).item()
    assert result == signed[0] * signed[1] >> 64


@given(a=LONGS, b=LONGS, carry=st.integers(0, 1))
def test_carries(a: int, b: int, carry: int) -> None:
    total, out = bits.add_with_carry(long(a), long(b), word(carry))
    assert (total.item(), out.item()) == ((a + b + carry) % 2**64, (a + b + carry) >> 64)
    rest, borrow = bits.subtract_with_borrow(long(a), long(b), word(carry))
    assert (rest.item(), borrow.item()) == ((a - b - carry) % 2**64, int(a < b + carry))


@given(low=WORDS, high=WORDS, amount=st.integers(0, 80), left=st.booleans(), wrap=st.booleans())
def test_funnel_shifts(low: int, high: int, amount: int, left: bool, wrap: bool) -> None:
    count = amount % 32 if wrap else min(amount, 32)
    pair = high << 32 | low
    expected = (pair << count >> 32) % 2**32 if left else (pair >> count) % 2**32
    assert bits.funnel_shift(word(low), word(high), word(amount), left, wrap).item() == expected


@given(value=WORDS)
def test_counting_bits(value: int) -> None:
    assert bits.count_ones(word(value)).item() == value.bit_count()
    assert bits.leading_zeros(word(value)).item() == 32 - value.bit_length()
    assert bits.find_leading(word(value)).item() == (value.bit_length() - 1) % 2**32
    shift = 32 - value.bit_length() if value else 2**32 - 1
    assert bits.find_leading_shift(word(value)).item() == shift
    assert bits.reverse_bits(word(value)).item() == int(f"{value:032b}"[::-1], 2)


@given(position=st.integers(0, 40), length=st.integers(0, 40), wrap=st.booleans())
def test_bit_masks(position: int, length: int, wrap: bool) -> None:
    at, count = (position % 32, length % 32) if wrap else (min(position, 32), min(length, 32))
    expected = (((1 << count) - 1) << at) % 2**32
    assert bits.bit_mask(word(position), word(length), wrap).item() == expected


@pytest.mark.parametrize(
    ("mode", "selector", "expected"),
    [
        ("f4e", 1, 0x44332211),
        ("b4e", 1, 0x66770011),
        ("rc8", 2, 0x22222222),
        ("ecl", 1, 0x33221111),
        ("ecr", 2, 0x22221100),
        ("rc16", 1, 0x33223322),
    ],
)
def test_permute_modes(mode: str, selector: int, expected: int) -> None:
    assert bits.permute_bytes(word(0x33221100), word(0x77665544), word(selector), mode).item() == expected


def test_permuted_signs() -> None:
    assert bits.permute_bytes(word(0x00FF7F80), word(0), word(0xBA98), "").item() == 0x00FF00FF


@given(a=DOUBLES, b=DOUBLES, c=DOUBLES)
@settings(max_examples=200)
def test_double_fma_is_within_one_ulp_and_mostly_exact(a: float, b: float, c: float) -> None:
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    result = floats.fma_f64(*(np.array([[x]]) for x in (a, b, c))).item()
    assert abs(Fraction(result) - exact) <= Fraction(float(np.spacing(abs(result) or 1e-300))) / 2 * Fraction(
        1001, 1000
    )


def nearest_single(exact: Fraction) -> float:
    """The float nearest to a fraction, ties to even, found among the neighbours of its double."""
    near = np.float32(float(exact))
    candidates = [near, np.nextafter(near, np.float32(np.inf)), np.nextafter(near, np.float32(-np.inf))]
    return float(min(candidates, key=lambda x: (abs(Fraction(float(x)) - exact), int(x.view(np.uint32)) & 1)))


@given(a=SINGLES, b=SINGLES, c=SINGLES)
@settings(max_examples=200)
def test_single_fma_rounds_once(a: float, b: float, c: float) -> None:
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    assume(exact == 0 or abs(exact) > Fraction(1, 2**120))
    result = floats.fma_f32(*(np.array([[x]], np.float32) for x in (a, b, c))).item()
    assert result == nearest_single(exact)


@given(odd=st.integers(2**23, 2**24 - 1), tiny=st.integers(-3, 3), scale=st.integers(60, 90))
def test_single_fma_near_the_middle_of_two_floats(odd: int, tiny: int, scale: int) -> None:
    # (2k + 1) / 2 is midway between two floats of 24 bits; the addend decides although a double does not hold it
    a, b = float(2 * odd + 1), 0.5
    factors = [(x, y) for x in range(3, 2000, 2) for y in [int(a) // x] if x * y == int(a) and y < 2**24]
    assume(factors)
    x, y = factors[0]
    c = tiny * 2.0**-scale
    result = floats.fma_f32(*(np.array([[v]], np.float32) for v in (x, y * b, c))).item()
    assert result == nearest_single(Fraction(x) * Fraction(y * b) + Fraction(c))


DIRECTED = floats.directed_functions()


@given(a=SINGLES, b=SINGLES)
def test_directed_sums_and_products_enclose(a: float, b: float) -> None:
    x, y = np.array([[a]], np.float32), np.array([[b]], np.float32)
    for name, exact in (("add", Fraction(a) + Fraction(b)), ("mul", Fraction(a) * Fraction(b))):
        down, up = (DIRECTED[f"{name}_{way}"](x, y).item() for way in ("downward", "upward"))
        if not np.isfinite([down, up]).all():
            continue
        assert Fraction(down) <= exact <= Fraction(up)
        if Fraction(down) == exact:
            assert down == up
        else:
            assert np.nextafter(np.float32(down), np.float32(np.inf)) == np.float32(up)
        assert DIRECTED[f"{name}_toward_zero"](x, y).item() == (down if exact > 0 else up)


@given(value=st.floats(allow_nan=True, allow_infinity=True))
def test_integers_from_floats_clamp(value: float) -> None:
    for kind in (np.int32, np.uint32, np.int64, np.uint64, np.int16, np.uint8):
        limits = np.iinfo(kind)
        with np.errstate(all="ignore"):
            result = conversions.float_to_integer(np.trunc(np.array([[value]])), kind).item()
        if np.isnan(value):  # from double precision
            assert result % 2**limits.bits == 1 << (limits.bits - 1)
        elif np.isinf(value):
            assert result == (limits.max if value > 0 else limits.min)
        else:
            assert result == min(max(int(value), int(limits.min)), int(limits.max))


@given(value=st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_bfloat16_is_nearest(value: float) -> None:
    bits16 = floats.to_bfloat16(np.array([value], np.float32))
    back = float(floats.bfloat16_to_f32(bits16)[0])
    if np.isfinite(back):
        neighbours = [float(floats.bfloat16_to_f32((bits16 + np.uint16(d)).astype(np.uint16))[0]) for d in (1, 65535)]
        assert all(abs(back - value) <= abs(other - value) for other in neighbours if np.isfinite(other))


def test_saturation_and_flushing() -> None:
    values = np.array([-1.0, 0.5, 2.0, np.nan], np.float32)
    assert floats.saturate(values).tolist() == [0.0, 0.5, 1.0, 0.0]
    assert floats.flush(np.array([1e-40, -1e-40, 1e-30], np.float32)).tolist() == [0.0, -0.0, np.float32(1e-30)]
