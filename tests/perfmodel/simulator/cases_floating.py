"""Corpus cases about floating point beyond plain arithmetic: directed rounding, half precision, comparisons with NaN."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .cases_arithmetic import LAUNCH, N
from .corpus_case import Case, blank, given, random


def _rounded(value: Fraction, direction: str, kind: type[np.floating[Any]]) -> Any:
    near = kind(float(value))
    if Fraction(float(near)) == value:
        return near
    if direction == "zero":
        direction = "down" if value > 0 else "up"
    if direction == "down":
        return near if Fraction(float(near)) < value else np.nextafter(near, kind(-np.inf))
    return near if Fraction(float(near)) > value else np.nextafter(near, kind(np.inf))


def directed_rounding() -> Case:
    x, y = random(45).uniform(-2, 2, (2, N)).astype(np.float32)
    rows: list[list[Any]] = []
    wide: list[list[Any]] = []
    tenth = Fraction(float(np.float32(0.1)))
    for a, b in zip(x, y, strict=True):
        p, q = Fraction(float(a)), Fraction(float(b))
        root = Fraction(int((abs(p) * 4**60).__floor__() ** 0.5)) if p == 0 else _root(abs(p))
        pairs = [
            (p + q, "zero"),
            (p + q, "down"),
            (p * q, "up"),
            (p * q + tenth, "zero"),
            (p / q, "down"),
            (root, "up"),
            (1 / q, "zero"),
        ]
        rows.append([_rounded(value, way, np.float32) for value, way in pairs])
        wide.append(
            [
                _rounded(p + Fraction(1e-20), "up", np.float64),
                _rounded(p * Fraction(0.1), "down", np.float64),
            ]
        )
    return Case(
        source="directed_rounding",
        launch=LAUNCH,
        parameters=(
            blank("out", (7, N), np.float32),
            blank("wide", (2, N), np.float64),
            given("a", x),
            given("b", y),
            np.int32(N),
        ),
        expected={"out": np.array(rows, np.float32).T, "wide": np.array(wide).T},
    )


def _root(value: Fraction) -> Fraction:
    """Square root to far more digits than a float has; rounded down, so never exact unless the root is rational."""
    from math import isqrt

    scaled = value * 4**100
    return Fraction(isqrt(scaled.numerator * scaled.denominator), scaled.denominator * 2**100)


def half_arithmetic() -> Case:
    a, b = random(46).uniform(-3, 3, (2, N, 2)).astype(np.float16)
    x, y = a.astype(np.float64), b.astype(np.float64)

    def half(values: NDArray[Any]) -> NDArray[Any]:
        return values.astype(np.float16).astype(np.float64)

    r = half(x * y + half(x + y))
    r = half(r - half(x * 0.5))
    r = np.maximum(r, -y)
    low, high = x[:, 0], y[:, 1]
    single = np.where(low > high, half(low + high), low / half(np.abs(high) + 1))
    return Case(
        source="half_arithmetic",
        launch=LAUNCH,
        parameters=(blank("out", (N, 2), np.float16), given("a", a), given("b", b), blank("single", N, np.float16)),
        expected={"out": r.astype(np.float16), "single": single.astype(np.float16)},
        tolerance=1e-3,
    )


def bfloat_arithmetic() -> Case:
    a, b = random(47).uniform(-3, 3, (2, N, 2)).astype(np.float32)

    def rounded(values: NDArray[Any]) -> NDArray[np.uint16]:
        bits = values.astype(np.float32).view(np.uint32).astype(np.uint64)
        return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)

    def value(bits: NDArray[np.uint16]) -> NDArray[np.float64]:
        return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)

    x, y = value(rounded(a)), value(rounded(b))
    return Case(
        source="bfloat_arithmetic",
        architecture="compute_80",
        launch=LAUNCH,
        parameters=(blank("out", (N, 2), np.uint16), given("a", a), given("b", b)),
        expected={"out": rounded(x * y + x)},
    )


def select_and_set() -> Case:
    x, y = random(48).integers(-2, 3, (2, N)).astype(np.float32)
    x[:4], y[2:6] = np.nan, (np.nan, 1.0, np.inf, -np.inf)
    i = np.arange(N)
    with np.errstate(invalid="ignore"):
        less = x < y
        unordered_less = ~(x >= y)
        flags = less + 2 * (x <= y) + 4 * (x == y) + 8 * (x != y) + 16 * ~less + 32 * np.isnan(x) + 64 * np.isinf(y)
        both = ((x > 0) & (y > 0)) ^ (less | (x == 1))
        out = [np.where(x > y, x, y * 2), np.fmin(x, y) + np.fmax(y, 0), np.copysign(x, y)]
    columns = [-unordered_less.astype(int) + 2 * np.where(x >= 0, i, -i), flags, both]
    return Case(
        source="select_and_set",
        launch=LAUNCH,
        parameters=(
            blank("out", (3, N), np.float32),
            blank("flags", (3, N), np.int32),
            given("a", x),
            given("b", y),
            np.int32(N),
        ),
        expected={"out": np.stack(out), "flags": np.stack(columns)},
    )


CASES = [directed_rounding, half_arithmetic, bfloat_arithmetic, select_and_set]
