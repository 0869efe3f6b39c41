"""Fused sums of generated code against exact fractions, where drawn bits seldom come: near the middle of two floats."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from perfmodel.simulator.functions import floats

SINGLES = st.floats(-(2.0**60), 2.0**60, width=32, allow_nan=False, allow_subnormal=False)
DOUBLES = st.floats(-1e100, 1e100, allow_nan=False, allow_subnormal=False).filter(lambda x: x == 0 or abs(x) > 1e-100)


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
