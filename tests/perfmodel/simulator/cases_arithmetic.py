"""Corpus cases about arithmetic: integers, bits, single and double precision, conversions."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfmodel.launch.launch import Launch

from .corpus_case import Case, blank, given, random

N = 64
LAUNCH = Launch(grid_x=2, block_x=32)
WORD = 2**32


def _signed(value: int, bits: int = 32) -> int:
    value %= 1 << bits
    return value - (1 << bits) if value >= 1 << (bits - 1) else value


def _dot_bytes(x: int, y: int, signed: bool) -> int:
    pairs = [((x >> s) & 255, (y >> s) & 255) for s in (0, 8, 16, 24)]
    return sum((_signed(a, 8) * _signed(b, 8)) if signed else a * b for a, b in pairs)


def _permute(x: int, y: int, selector: int) -> int:
    data = (x | y << 32).to_bytes(8, "little")
    return int.from_bytes(bytes(data[(selector >> s) & 7] for s in (0, 4, 8, 12)), "little")


def _find_nth(mask: int, base: int, offset: int) -> int:
    if offset == 0:
        return base if mask >> base & 1 else WORD - 1
    places = range(base, 32) if offset > 0 else range(base, -1, -1)
    found = [p for p in places if mask >> p & 1]
    return found[abs(offset) - 1] if len(found) >= abs(offset) else WORD - 1


def _bits_of(x: int, y: int) -> list[int]:
    """The twelve columns of `bit_operations` by Python's integers."""
    shift, wide = y % 40, x << 32 | y
    sx, sy = _signed(x), _signed(y)
    reverse = int(f"{x:032b}"[::-1], 2)
    left = ((y << 32 | x) << shift % 32 >> 32) % WORD
    right = ((y << 32 | x) >> min(shift, 32)) % WORD
    position, length = y % 32, x % 33
    field = (x >> position) % (1 << length)
    top = min(position + length - 1, 31)
    ones = (1 << min(length, 32 - position)) - 1
    signed_field = 0 if length == 0 else (field | (~ones % WORD if x >> top & 1 else 0)) % WORD
    where, count = x % 32, y % 33
    mask = ((1 << count) - 1 << where) % WORD
    inserted = (y & ~mask) | (x << where & mask)
    lowest = (x & -x).bit_length()
    magnitude = ~sx if sx < 0 else sx
    reverse_wide = int(f"{wide:064b}"[::-1], 2)
    return [
        x.bit_count() + 100 * (32 - x.bit_length()) + 10000 * lowest,
        reverse ^ _permute(x, y, 0x6240),
        left + right,
        _dot_bytes(x, y, True) + 7 + _dot_bytes(x, y, False) + 9,
        (x * y >> 32) + (sx * sy >> 32) + abs(x - y) + 3 + (x % 2**24) * (y % 2**24),
        field,
        signed_field,
        inserted,
        (x << shift) % WORD * (shift < 32) + (y >> shift) + (sx >> (x % 40)),
        wide.bit_count() + 100 * (64 - wide.bit_length()) + (reverse_wide >> 17) + (wide & -wide).bit_length(),
        magnitude.bit_length() - 1,
        _find_nth(x, y % 32, x % 9 - 4),
    ]


def bit_operations() -> Case:
    r = random(40)
    x, y = r.integers(0, WORD, (2, N), dtype=np.uint32)
    x[:4], y[:4] = (0, 1, WORD - 1, 1 << 31), (0, WORD - 1, 33, 64)
    table = np.array(
        [[value % WORD for value in _bits_of(int(a), int(b))] for a, b in zip(x, y, strict=True)], np.uint32
    )
    return Case(
        source="bit_operations",
        launch=LAUNCH,
        parameters=(blank("out", (12, N), np.uint32), given("a", x), given("b", y), np.int32(N)),
        expected={"out": table.T},
    )


def integer_division() -> Case:
    r = random(41)
    a, b = r.integers(-(2**31), 2**31, (2, N)).astype(np.int32)
    la, lb = r.integers(-(2**62), 2**62, (2, N))
    b[:8], lb[:8] = (1, -1, 7, -7, 2, 3, 5, -(2**31)), (1, -1, 7, -7, 2, 3, 5, -(2**40))
    a[8], la[8] = 5, 5

    def divided(x: NDArray[Any], y: NDArray[Any]) -> tuple[list[int], list[int]]:
        pairs = [(int(p), int(q)) for p, q in zip(x, y, strict=True)]
        quotients = [abs(p) // abs(q) * (1 if (p < 0) == (q < 0) else -1) for p, q in pairs]
        return quotients, [p - q * k for (p, q), k in zip(pairs, quotients, strict=True)]

    quotient, rest = divided(a, b)
    long_quotient, long_rest = divided(la, lb)
    high = [((int(p) % 2**64) * (int(q) % 2**64) >> 64) + (int(p) * int(q) >> 64) for p, q in zip(la, lb, strict=True)]
    return Case(
        source="integer_division",
        launch=LAUNCH,
        parameters=(
            blank("q", N, np.int32),
            blank("r", N, np.int32),
            blank("uq", N, np.uint32),
            blank("lq", N, np.int64),
            blank("lr", N, np.int64),
            blank("high", N, np.uint64),
            given("a", a),
            given("b", b),
            given("la", la),
            given("lb", lb),
        ),
        expected={
            "q": np.array(quotient),
            "r": np.array(rest),
            "uq": a.view(np.uint32) // b.view(np.uint32),
            "lq": np.array(long_quotient),
            "lr": np.array(long_rest),
            "high": np.array([h % 2**64 for h in high], np.uint64),
        },
    )


def double_arithmetic() -> Case:
    x, y = random(42).uniform(-3, 3, (2, N))
    exact = [float(Fraction(p) * Fraction(q) + Fraction(1.0 / 3.0)) for p, q in zip(x, y, strict=True)]
    columns = [
        np.array(exact),
        x / y + np.sqrt(np.abs(x)),
        np.exp(x) + np.log(np.abs(y) + 1) + np.sin(x) * np.cos(y),
        np.fmin(x, y) + np.fmax(x, 0.5) + np.floor(y) + np.rint(x) + np.abs(x) ** 1.5,
    ]
    return Case(
        source="double_arithmetic",
        launch=LAUNCH,
        parameters=(blank("out", (4, N), np.float64), given("a", x), given("b", y), np.int32(N)),
        expected={"out": np.stack(columns)},
        tolerance=1e-14,
    )


def approximate_functions() -> Case:
    x = random(43).uniform(0.05, 3, N).astype(np.float32)
    d = x.astype(np.float64)
    erf = np.array([__import__("math").erf(v) for v in d])
    columns = [np.sin(d), np.cos(d), np.exp(d), np.log(d), 1 / np.sqrt(d), 1 / d, np.log2(d), np.sqrt(d)]
    columns += [np.exp(d) + np.log(d) + np.sin(d) + np.tanh(d) + d**0.3 + erf + np.cbrt(d), 1 / d]
    return Case(
        source="approximate_functions",
        launch=LAUNCH,
        parameters=(blank("out", (10, N), np.float32), given("in", x), np.int32(N)),
        expected={"out": np.stack(columns).astype(np.float32)},
        tolerance=2e-6,
    )


def conversions() -> Case:
    r = random(44)
    x = r.uniform(-100, 100, N).astype(np.float32)
    x[:6] = np.nan, np.inf, -np.inf, 2.5, -2.5, 3e9
    d = r.uniform(-100, 100, N)
    integers = r.integers(-(2**31), 2**31, N).astype(np.int32)
    integers[:4] = -5, 300, 127, -200

    def clamped(values: NDArray[Any], low: int, high: int) -> NDArray[Any]:
        return np.where(np.isnan(x), 0, np.clip(np.nan_to_num(values, nan=0, posinf=1e30, neginf=-1e30), low, high))

    wide = x.astype(np.float64)
    s32 = (-(2**31), 2**31 - 1)
    rounded = [np.rint(wide), np.floor(wide), np.ceil(wide), np.trunc(wide)]
    table = [clamped(column, *s32) for column in rounded]
    table.append(clamped(np.rint(wide), 0, 2**32 - 1).astype(np.int64).astype(np.uint32).view(np.int32))
    table.append(integers.astype(np.int8).astype(int) + integers.astype(np.uint8) + integers.astype(np.int16))
    table.append(np.clip(integers, 0, 255))

    def toward(values: NDArray[Any], direction: str) -> NDArray[np.float32]:
        near = values.astype(np.float32)
        down = np.where(near.astype(np.float64) > values, np.nextafter(near, np.float32(-np.inf)), near)
        up = np.where(near.astype(np.float64) < values, np.nextafter(near, np.float32(np.inf)), near)
        chosen = {"down": down, "up": up, "zero": np.where(values < 0, up, down)}[direction]
        return chosen.astype(np.float32)

    exact = integers.astype(np.float64)
    with np.errstate(all="ignore"):
        floats = [
            toward(exact, "zero"),
            toward(exact, "up"),
            toward(d, "down"),
            d.astype(np.float32) + np.nan_to_num(np.clip(x, 0, 1), nan=0),
            np.rint(x) + np.floor(x) + np.ceil(x) + np.trunc(x),
            np.trunc(d * 1e6).astype(np.float32) + np.trunc(np.abs(d)).astype(np.float32),
        ]
    return Case(
        source="conversions",
        launch=LAUNCH,
        parameters=(
            blank("out", (7, N), np.int32),
            blank("floats", (6, N), np.float32),
            given("in", x),
            given("doubles", d),
            given("integers", integers),
            np.int32(N),
        ),
        expected={
            "out": np.stack([np.asarray(t).astype(np.int64).astype(np.int32) for t in table]),
            "floats": np.stack(floats),
        },
        tolerance=1e-7,
    )


CASES = [
    bit_operations,
    integer_division,
    double_arithmetic,
    approximate_functions,
    conversions,
]
