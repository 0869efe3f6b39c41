"""Integer and bit operations that NumPy does not have, element by element (PTX ISA 9.7.1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...ir.types import ScalarType, is_signed, unsigned_of

Integers = NDArray[Any]
Words = NDArray[np.uint32]


def _bits_of(values: Integers) -> int:
    return 8 * int(values.dtype.itemsize)


def _unsigned(values: Integers) -> Integers:
    bits: Integers = values.view(unsigned_of(int(values.dtype.itemsize)))
    return bits


def clamp_s32(values: NDArray[np.int64]) -> NDArray[np.int32]:
    """Values clamped to 32-bit signed integers."""
    return np.clip(values, -(2**31), 2**31 - 1).astype(np.int32)


def add_with_carry(a: Integers, b: Integers, carry: Words | None) -> tuple[Integers, Words]:
    """Sum with a carry into it, and the carry out of it.

    >>> top = np.array([2**32 - 1], np.uint32)
    >>> [int(x[0]) for x in add_with_carry(top, top, np.array([1], np.uint32))]
    [4294967295, 1]
    """
    x, y = _unsigned(a), _unsigned(b)
    total = x + y
    out = total < x
    if carry is not None:
        again = total + carry.astype(total.dtype)
        out = out | (again < total)
        total = again
    return total.view(a.dtype), out.astype(np.uint32)


def subtract_with_borrow(a: Integers, b: Integers, borrow: Words | None) -> tuple[Integers, Words]:
    """Difference with a borrow into it, and the borrow out of it."""
    x, y = _unsigned(a), _unsigned(b)
    rest = x - y
    out = x < y
    if borrow is not None:
        again = rest - borrow.astype(rest.dtype)
        out = out | (again > rest)
        rest = again
    return rest.view(a.dtype), out.astype(np.uint32)


def quotient(a: Integers, b: Integers) -> Integers:
    """Quotient towards zero; all ones where the divisor is zero.

    >>> quotient(np.array([-7, 7, 7]), np.array([2, -2, 0])).tolist()
    [-3, -3, -1]
    """
    safe = np.where(b == 0, b.dtype.type(1), b)
    result = a // safe
    if np.issubdtype(a.dtype, np.signedinteger):
        result = result + ((result < 0) & (result * safe != a)).astype(a.dtype)
    return np.where(b == 0, np.array(-1).astype(a.dtype), result)


def remainder(a: Integers, b: Integers) -> Integers:
    """Remainder with the sign of the dividend; the dividend where the divisor is zero.

    >>> remainder(np.array([-7, 7, 7]), np.array([2, -2, 0])).tolist()
    [-1, 1, 7]
    """
    return np.where(b == 0, a, a - quotient(a, b) * b)


def high_product(a: Integers, b: Integers) -> Integers:
    """Upper 64 bits of the 128-bit product.

    >>> int(high_product(np.array([2**63], np.uint64), np.array([6], np.uint64))[0])
    3
    """
    low_mask, shift = np.uint64(2**32 - 1), np.uint64(32)
    x, y = _unsigned(a), _unsigned(b)
    x0, x1, y0, y1 = x & low_mask, x >> shift, y & low_mask, y >> shift
    middle = x1 * y0 + ((x0 * y0) >> shift)
    cross = x0 * y1 + (middle & low_mask)
    result = x1 * y1 + (middle >> shift) + (cross >> shift)
    if is_signed(a.dtype.type):
        result = result - np.where(a < 0, y, np.uint64(0)) - np.where(b < 0, x, np.uint64(0))
    high: Integers = result.view(a.dtype)
    return high


def low_24(values: Integers) -> NDArray[np.int64]:
    """The low 24 bits, extended as the sign of the type says."""
    low = values.astype(np.int64) & 0xFFFFFF
    if is_signed(values.dtype.type):
        low = np.where(low >= 1 << 23, low - (1 << 24), low)
    return low


def count_ones(values: Integers) -> Words:
    """Number of set bits."""
    return np.bitwise_count(_unsigned(values)).astype(np.uint32)


def leading_zeros(values: Integers) -> Words:
    """Number of zero bits above the highest set bit; the width where no bit is set.

    >>> leading_zeros(np.array([1, 0], np.uint32)).tolist()
    [31, 32]
    """
    filled = _unsigned(values).copy()
    step = 1
    while step < _bits_of(values):
        filled |= filled >> filled.dtype.type(step)
        step *= 2
    return (np.uint32(_bits_of(values)) - np.bitwise_count(filled)).astype(np.uint32)


def find_leading(values: Integers) -> Words:
    """Position of the most significant bit that is not a sign bit; all ones where there is none."""
    magnitude = np.where(values < 0, ~values, values) if is_signed(values.dtype.type) else values
    return (np.uint32(_bits_of(values) - 1) - leading_zeros(magnitude)).astype(np.uint32)


def find_leading_shift(values: Integers) -> Words:
    """How far to shift the bit that `find_leading` finds to the top; all ones where there is none."""
    leading = find_leading(values)
    return np.where(leading == np.uint32(2**32 - 1), leading, np.uint32(_bits_of(values) - 1) - leading).astype(
        np.uint32
    )


def reverse_bits(values: Integers) -> Integers:
    """Bits in reverse order.

    >>> hex(reverse_bits(np.array([1], np.uint32))[0])
    '0x80000000'
    """
    work = _unsigned(values)
    kind, bits = work.dtype.type, _bits_of(values)
    step, full = bits // 2, (1 << bits) - 1
    while step:
        mask = kind(full // ((1 << step) + 1))
        work = ((work >> kind(step)) & mask) | ((work & mask) << kind(step))
        step //= 2
    return work.view(values.dtype)


def extract_field(values: Integers, position: Words, length: Words) -> Integers:
    """Bit field of a position and length, extended by its highest bit where the type is signed.

    >>> int(extract_field(np.array([0xF0], np.int32), np.array([4], np.uint32), np.array([4], np.uint32))[0])
    -1
    """
    bits = _bits_of(values)
    kind = unsigned_of(int(values.dtype.itemsize))
    start = np.minimum(position & np.uint32(0xFF), np.uint32(bits)).astype(kind)
    count = np.minimum(length & np.uint32(0xFF), np.uint32(bits)).astype(kind)
    mask = np.where(count >= kind(bits), kind((1 << bits) - 1), (kind(1) << count) - kind(1))
    field: Integers = (_unsigned(values) >> start) & mask
    if not is_signed(values.dtype.type):
        return field
    top = np.minimum(start.astype(np.int64) + count.astype(np.int64) - 1, bits - 1).clip(0).astype(kind)
    sign = (_unsigned(values) >> top) & kind(1)
    beyond = np.where(start >= kind(bits), kind(0), kind((1 << bits) - 1) >> np.minimum(start, kind(bits - 1)))
    extended: Integers = np.where((sign == 1) & (count > 0), field | ~(mask & beyond), field).view(values.dtype)
    return extended


def insert_field(field: Integers, into: Integers, position: Words, length: Words) -> Integers:
    """A value with a bit field replaced by the low bits of another."""
    bits = _bits_of(into)
    kind = into.dtype.type
    start = np.minimum(position & np.uint32(0xFF), np.uint32(bits)).astype(kind)
    count = np.minimum(length & np.uint32(0xFF), np.uint32(bits)).astype(kind)
    mask = np.where(count >= kind(bits), kind((1 << bits) - 1), (kind(1) << count) - kind(1)) << start
    result: Integers = (into & ~mask) | ((field << start) & mask)
    return result


def bit_mask(position: Words, length: Words, wrap: bool) -> Words:
    """Ones from a position for a length."""
    limit = np.uint32(31)
    if wrap:
        position, length = position & limit, length & limit
    start, count = (np.minimum(x, np.uint32(32)).astype(np.uint64) for x in (position, length))
    return ((((np.uint64(1) << count) - np.uint64(1)) << start) & np.uint64(2**32 - 1)).astype(np.uint32)


def extend(values: Integers, width: Words) -> Integers:
    """The low bits of a width, extended as the sign of the type says."""
    count = np.minimum(width, np.uint32(32))
    return extract_field(values, np.zeros_like(count), count)


def nth_set(mask: Words, base: Words, offset: NDArray[np.int32]) -> Words:
    """Place of the n-th set bit from a base, counted upwards (offset above 0) or downwards; all ones where there is none.

    >>> one = np.ones((1,), np.uint32)
    >>> int(nth_set(one * 0b1010, one * 0, np.array([2], np.int32))[0])
    3
    """
    mask, base, offset = np.broadcast_arrays(mask, base, offset)
    nth = np.full(mask.shape, 2**32 - 1, np.uint32)
    seen_up, seen_down = np.zeros(mask.shape, np.int64), np.zeros(mask.shape, np.int64)
    for place in range(32):
        bit = (mask >> np.uint32(place)) & np.uint32(1) == 1
        seen_up += bit & (place >= base)
        nth = np.where(bit & (place >= base) & (offset > 0) & (seen_up == offset), np.uint32(place), nth)
        down = 31 - place
        bit = (mask >> np.uint32(down)) & np.uint32(1) == 1
        seen_down += bit & (down <= base)
        nth = np.where(
            bit & (down <= base) & (offset < 0) & (seen_down == -offset.astype(np.int64)), np.uint32(down), nth
        )
    at_base = (mask >> np.minimum(base, np.uint32(31))) & np.uint32(1) == 1
    return np.where((offset == 0) & at_base, base, nth).astype(np.uint32)


def _selector_of(mode: str, selector: Words) -> list[Words]:
    """Four byte choices of a mode's selector (PTX ISA 9.7.9.7)."""
    low = selector & np.uint32(3)
    if not mode:
        return [(selector >> np.uint32(4 * k)) & np.uint32(15) for k in range(4)]
    tables = {
        "f4e": [[0, 1, 2, 3], [1, 2, 3, 4], [2, 3, 4, 5], [3, 4, 5, 6]],
        "b4e": [[0, 7, 6, 5], [1, 0, 7, 6], [2, 1, 0, 7], [3, 2, 1, 0]],
        "rc8": [[k] * 4 for k in range(4)],
        "ecl": [[0, 1, 2, 3], [1, 1, 2, 3], [2, 2, 2, 3], [3, 3, 3, 3]],
        "ecr": [[0, 0, 0, 0], [0, 1, 1, 1], [0, 1, 2, 2], [0, 1, 2, 3]],
        "rc16": [[0, 1, 0, 1], [2, 3, 2, 3], [0, 1, 0, 1], [2, 3, 2, 3]],
    }
    table = np.array(tables[mode], np.uint32)
    return [table[low.astype(np.intp), k] for k in range(4)]


def permute_bytes(a: Words, b: Words, selector: Words, mode: str) -> Words:
    """Four bytes picked from eight; a choice with bit 3 set gives eight copies of the byte's sign.

    >>> words = [np.array([v], np.uint32) for v in (0x33221100, 0x77665544, 0x7531)]
    >>> hex(permute_bytes(*words, "")[0])
    '0x77553311'
    """
    both = a.astype(np.uint64) | (b.astype(np.uint64) << np.uint64(32))
    result = np.zeros((1, 1), np.uint32) if a.ndim == 2 else np.zeros(1, np.uint32)
    for k, choice in enumerate(_selector_of(mode, selector)):
        byte = ((both >> ((choice & np.uint32(7)) * np.uint32(8)).astype(np.uint64)) & np.uint64(0xFF)).astype(
            np.uint32
        )
        sign = np.where(byte & np.uint32(0x80), np.uint32(0xFF), np.uint32(0))
        result = result | (np.where(choice & np.uint32(8), sign, byte) << np.uint32(8 * k))
    return result


def funnel_shift(low: Words, high: Words, amount: Words, left: bool, wrap: bool) -> Words:
    """Upper (left) or lower (right) word of the shifted pair."""
    count = (amount & np.uint32(31) if wrap else np.minimum(amount, np.uint32(32))).astype(np.uint64)
    pair = low.astype(np.uint64) | (high.astype(np.uint64) << np.uint64(32))
    shifted = (pair << count) >> np.uint64(32) if left else pair >> count
    return (shifted & np.uint64(2**32 - 1)).astype(np.uint32)


def _field(words: Words, width: int, place: int, signed: bool) -> NDArray[np.int64]:
    value = (words.astype(np.int64) >> (width * place)) & ((1 << width) - 1)
    return np.where(value >= 1 << (width - 1), value - (1 << width), value) if signed else value


def dot_bytes(a: Words, b: Words, c: Words, a_signed: bool, b_signed: bool) -> Words:
    """Sum of four products of bytes and a word."""
    total = c.astype(np.int64)
    for place in range(4):
        total = total + _field(a, 8, place, a_signed) * _field(b, 8, place, b_signed)
    return (total & 0xFFFFFFFF).astype(np.uint32)


def dot_halves(a: Words, b: Words, c: Words, a_signed: bool, b_signed: bool, high: bool) -> Words:
    """Sum of two products of halves with bytes and a word."""
    total = c.astype(np.int64)
    for place in range(2):
        total = total + _field(a, 16, place, a_signed) * _field(b, 8, place + 2 * high, b_signed)
    return (total & 0xFFFFFFFF).astype(np.uint32)


def of_parts(function: Callable[..., Integers], part: ScalarType, *words: Words) -> Words:
    """A function of the halves or bytes of words, each for itself.

    >>> hex(of_parts(np.add, np.uint8, np.array([0x01FF], np.uint32), np.array([0x0101], np.uint32))[0])
    '0x200'
    """
    parts = [np.ascontiguousarray(word)[..., None].view(part) for word in words]
    found: Words = np.ascontiguousarray(function(*parts).astype(part)).view(np.uint32)[..., 0]
    return found
