"""What generated code calls beyond the functions of PTX: arithmetic with the semantics of machine instructions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.constants import WARP_SIZE
from ...ir.instruction import Space
from ..block_classes.classes import NotFollowedError
from ..block_classes.values import permuted
from ..functions.floats import flush, greatest, half_as_double, least, narrow
from ..global_memory import is_in_space
from ..machine import CLUSTER_RANK_UNIT, Lanes
from ..plan import Mask, both, rows_and_warps
from ..transfer import checked, generic_parts, hold, index_of, storage
from .matrices import eight_bit_floats
from .parted_warps import bits_of_warps

Values = NDArray[Any]
_SHIFT = np.uint64(32)


def lower_half(pair: NDArray[np.uint64]) -> NDArray[np.uint32]:
    """The lower 32 bits."""
    return pair.astype(np.uint32)


def upper_half(pair: NDArray[np.uint64]) -> NDArray[np.uint32]:
    """The upper 32 bits."""
    return (pair >> _SHIFT).astype(np.uint32)


def join_halves(low: NDArray[np.uint32], high: NDArray[np.uint32]) -> NDArray[np.uint64]:
    """A 64-bit value from a pair of registers.

    >>> hex(join_halves(np.array([1], np.uint32), np.array([2], np.uint32))[0])
    '0x200000001'
    """
    upper = high.astype(np.uint64)
    upper <<= _SHIFT
    if upper.shape == np.broadcast_shapes(upper.shape, low.shape):
        upper += low
        return upper
    return upper + low


# ---- lanes and warps


def whole_warps(lanes: Lanes, mask: Mask) -> Mask:
    """All lanes of the warps that have a lane in a mask."""
    return np.repeat(rows_and_warps(mask, lanes.threads), WARP_SIZE, axis=1)


def of_first_active(lanes: Lanes, values: Values, guard: Mask | None) -> Values:
    """The value of each warp's first active lane, for all its lanes."""
    if values.shape[1] == 1:
        return values
    effective = both(lanes.active, guard)
    by_warp = np.broadcast_to(True if effective is None else effective, lanes.shape).reshape(lanes.rows, -1, WARP_SIZE)
    first = by_warp.argmax(axis=2)[:, :, None]

    def pick(held: Values) -> Values:
        full = np.broadcast_to(held, lanes.shape).reshape(lanes.rows, -1, WARP_SIZE)
        return np.repeat(np.take_along_axis(full, first, axis=2)[:, :, 0], WARP_SIZE, axis=1)

    picked: Values = permuted(values, pick)
    return picked


def first_active_lane(lanes: Lanes, guard: Mask | None) -> Mask:
    """Whether each lane is the first active one of its warp."""
    effective = both(lanes.active, guard)
    if effective is None:
        first_of_warp: Mask = lanes.batch.thread % WARP_SIZE == 0
        return first_of_warp
    by_warp = np.broadcast_to(effective, lanes.shape).reshape(lanes.rows, -1, WARP_SIZE)
    before = np.logical_or.accumulate(by_warp, axis=2)
    first = by_warp.copy()
    first[:, :, 1:] &= ~before[:, :, :-1]
    return first.reshape(lanes.shape)


def any_of_warp(lanes: Lanes, predicate: Mask) -> Mask:
    """Whether the predicate holds for any active lane of the warp."""
    holds = predicate if lanes.active is None else predicate & lanes.active
    if holds.shape[1] == 1:
        return holds
    return np.repeat(rows_and_warps(holds, lanes.threads), WARP_SIZE, axis=1)


def parted(lanes: Lanes, members: NDArray[np.uint32]) -> Mask:
    """Whether some lane that a mask names, and that has not ended, does not run here (``BRA.DIV``)."""
    live = lanes.batch.live
    if live is None or lanes.active is None:
        return np.zeros((1, 1), np.bool_)
    elsewhere = np.broadcast_to(live, (lanes.batch.rows, lanes.threads))[lanes.row_index] & ~lanes.active
    named_apart: Mask = (members & bits_of_warps(elsewhere, lanes.threads)) != 0
    return named_apart


def without_lanes(lanes: Lanes, members: NDArray[np.uint32], leaving: Mask | None) -> NDArray[np.uint32]:
    """A convergence barrier's mask without the active lanes that leave it (``BREAK``)."""
    effective = both(lanes.active, leaving)
    if effective is None:
        return np.zeros((1, 1), np.uint32)
    staying: NDArray[np.uint32] = members & ~bits_of_warps(effective, lanes.threads)
    return staying


# ---- floating point


_SPECIAL: dict[str, Callable[[Values], Values]] = {
    "RCP": lambda x: 1.0 / x,
    "RSQ": lambda x: 1.0 / np.sqrt(x),
    "SQRT": np.sqrt,
    "EX2": np.exp2,
    "LG2": np.log2,
    "SIN": lambda x: np.sin(2 * np.pi * np.fmod(x, 1.0)),
    "COS": lambda x: np.cos(2 * np.pi * np.fmod(x, 1.0)),
    "TANH": np.tanh,
}
"""Functions of the special-function unit, of numbers in double precision."""


def approximate(function: str, x: NDArray[np.float32]) -> NDArray[np.float32]:
    """A function of the special-function unit: subnormal operands and results become zero of their sign.

    >>> float(approximate("RCP", np.array([4.0], np.float32))[0])
    0.25
    """
    result = _SPECIAL[function](flush(x).astype(np.float64))
    return flush(result.astype(np.float32))


def approximate_half(function: str, words: NDArray[np.uint32], half: int, kind: str) -> NDArray[np.uint32]:
    """The same of a half of packed values; the result is the lower half. Powers of bfloat16 alone become zero where subnormal.

    >>> hex(approximate_half("EX2", np.array([0x4000_0000], np.uint32), 1, "f16")[0])  # 2 ** 2
    '0x4400'
    """
    bits = (words >> np.uint32(16 * half)).astype(np.uint16)
    if kind != "bf16" or function != "EX2":
        return narrow(_SPECIAL[function], kind, False, False, False, bits).astype(np.uint32)
    result = narrow(_SPECIAL[function], kind, False, False, False, _without_subnormals(bits))
    return _without_subnormals(result).astype(np.uint32)


def _without_subnormals(bits: NDArray[np.uint16]) -> NDArray[np.uint16]:
    """Bits of bfloat16 with zeros of their sign in place of subnormal numbers."""
    return np.where(bits & np.uint16(0x7F80), bits, bits & np.uint16(0x8000))


def approximate_upper(function: str, high: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Upper half of the reciprocal (square root) of a double given by its upper half."""
    wide = (high.astype(np.uint64) << _SHIFT).view(np.float64)
    tiny = np.abs(wide) < np.finfo(np.float64).tiny
    wide = np.where(tiny, np.copysign(0.0, wide), wide)
    result = 1.0 / (wide if function == "RCP64H" else np.sqrt(wide))
    result = np.where(np.abs(result) < np.finfo(np.float64).tiny, np.copysign(0.0, result), result)
    return upper_half(result.view(np.uint64))


_QUOTIENT_EXPONENTS = (-125, 126)
_RESIDUAL_EXPONENT = 24


def needs_slow_division(a: NDArray[np.float32], b: NDArray[np.float32]) -> Mask:
    """Whether a quotient's operands lie outside of what the short sequence of fused multiply-adds divides exactly (``FCHK``)."""
    bits_a, bits_b = a.view(np.uint32), b.view(np.uint32)
    exponent_a = ((bits_a >> np.uint32(23)) & np.uint32(255)).astype(np.int32)
    exponent_b = ((bits_b >> np.uint32(23)) & np.uint32(255)).astype(np.int32)
    difference = exponent_a - exponent_b
    low, high = _QUOTIENT_EXPONENTS
    strange = (exponent_a == 255) | (exponent_b == 255) | (exponent_b == 0) | (exponent_b > 252)
    slow: Mask = strange | (difference < low) | (difference > high) | (exponent_a < _RESIDUAL_EXPONENT)
    return slow


def minimum_or_maximum(a: Values, b: Values, smaller: Mask) -> Values:
    """The smaller of two values where a predicate holds, else the larger; a number rather than NaN, -0 below +0."""
    low, high = (least, greatest) if np.issubdtype(a.dtype, np.floating) else (np.minimum, np.maximum)
    if smaller.size == 1:
        return low(a, b) if smaller.item() else high(a, b)
    return np.where(smaller, low(a, b), high(a, b))


def propagate_nan(result: Values, a: Values, b: Values) -> Values:
    """A result that is NaN where an operand is."""
    return np.where(np.isnan(a) | np.isnan(b), result.dtype.type(np.nan), result)


# ---- integers


def shift_left(low: Values, high: Values, amount: NDArray[np.uint32], limit: int, wrap: bool, upper: bool) -> Values:
    """One half of the 64 bits ``high:low`` shifted left; the amount is clamped to a limit, or wraps around at it."""
    value = join_halves(low, high)
    shift = amount & np.uint32(limit - 1) if wrap else np.minimum(amount, np.uint32(limit))
    shifted = value << shift.astype(np.uint64)
    return upper_half(shifted) if upper else lower_half(shifted)


def shift_right(
    low: Values, high: Values, amount: NDArray[np.uint32], limit: int, wrap: bool, upper: bool, signed: bool
) -> Values:
    """The same to the right, with the sign where that is asked for."""
    value = join_halves(low, high)
    shift = (amount & np.uint32(limit - 1) if wrap else np.minimum(amount, np.uint32(limit))).astype(np.uint64)
    shifted: Values
    if signed:
        # NumPy leaves a shift by 64 undefined; the sign alone is what is left from 63 on
        shifted = (value.view(np.int64) >> np.minimum(shift, np.uint64(63)).astype(np.int64)).view(np.uint64)
    else:
        shifted = np.where(shift >= np.uint64(64), np.uint64(0), value >> np.minimum(shift, np.uint64(63)))
    return upper_half(shifted) if upper else lower_half(shifted)


def shift_word_left(value: NDArray[np.uint32], amount: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """32 bits shifted left by any amount; nothing is left from 32 on."""
    return np.where(amount >= np.uint32(32), np.uint32(0), value << np.minimum(amount, np.uint32(31)))


def shift_word_right(value: NDArray[np.uint32], amount: NDArray[np.uint32], signed: bool) -> NDArray[np.uint32]:
    """32 bits shifted right by any amount."""
    shift = np.minimum(amount, np.uint32(31))
    if signed:
        return (value.view(np.int32) >> shift.astype(np.int32)).view(np.uint32)
    return np.where(amount >= np.uint32(32), np.uint32(0), value >> shift)


def wide_sum(*terms: Values) -> NDArray[np.uint64]:
    """Sum of 32-bit values without losing its carries."""
    total: NDArray[np.uint64] = terms[0].astype(np.uint64)
    for term in terms[1:]:
        total = total + term.astype(np.uint64)
    return total


def negated_for_sum(value: NDArray[np.uint32]) -> NDArray[np.uint64]:
    """What subtracting adds, so that the carry out says that there is no borrow: 2**32 less the value."""
    return np.uint64(2**32) - value.astype(np.uint64)


def product_wide(a: Values, b: Values, c: NDArray[np.uint64] | None, signed: bool) -> NDArray[np.uint64]:
    """``a * b + c`` in 64 bits.

    >>> int(product_wide(np.array([2**32 - 1], np.uint32), np.array([2], np.uint32), None, True)[0]) == 2**64 - 2
    True
    """
    product: NDArray[np.uint64]
    if signed:
        product = (a.view(np.int32).astype(np.int64) * b.view(np.int32).astype(np.int64)).view(np.uint64)
    else:
        product = a.astype(np.uint64) * b.astype(np.uint64)
    return product if c is None else product + c


def sign_extended(values: NDArray[np.uint32], bits: NDArray[np.uint32], signed: bool, wrap: bool) -> NDArray[np.uint32]:
    """The low bits of a width, extended by sign or by zeros (``SGXT``)."""
    width = bits & np.uint32(31) if wrap else np.minimum(bits, np.uint32(32))
    shift = np.uint32(32) - width
    moved = shift_word_left(values, shift)
    back = shift_word_right(moved, shift, signed)
    return np.where(width == 0, np.uint32(0), back)


def absolute_difference(a: Values, b: Values) -> Values:
    """How far integers of 8 or 16 bits are apart."""
    return np.abs(a.astype(np.int32) - b.astype(np.int32))


def succeeded(before: Values, expected: Values) -> NDArray[np.uint32]:
    """1 where an atomic comparison held (``ATOMS.CAST``)."""
    held: NDArray[np.uint32] = (before == expected).astype(np.uint32)
    return held


# ---- half precision


def both_halves(words: NDArray[np.uint32], half: int) -> NDArray[np.uint32]:
    """The lower (0) or upper (1) half in both places.

    >>> hex(both_halves(np.array([0x12345678], np.uint32), 1)[0])
    '0x12341234'
    """
    if half:
        upper = words & np.uint32(0xFFFF0000)
        return upper | (upper >> np.uint32(16))
    lower = words & np.uint32(0xFFFF)
    return lower | (lower << np.uint32(16))


def lower_as_float(words: NDArray[np.uint32], kind: str) -> NDArray[np.float32]:
    """The lower half of packed values as single precision."""
    return half_as_double(words, 0, kind).astype(np.float32)


def packed_nan(
    result: NDArray[np.uint32], a: NDArray[np.uint32], b: NDArray[np.uint32], kind: str
) -> NDArray[np.uint32]:
    """Packed results that are NaN where an operand's half is."""
    for half in (0, 1):
        nan = np.isnan(half_as_double(a, half, kind)) | np.isnan(half_as_double(b, half, kind))
        mask = np.uint32(0xFFFF << 16 * half)
        result = np.where(nan, (result & ~mask) | np.uint32(0x7FFF << 16 * half), result)
    return result


# ---- matrices


def matrix_fragments(
    lanes: Lanes, words: list[NDArray[np.uint32]], count: int, transposed: bool
) -> list[NDArray[np.uint32]]:
    """Fragments of 8 x 8 matrices (PTX ISA, ``ldmatrix``) from the rows of four words that lanes 8k … 8k+7 read of matrix k."""
    rows = max(word.shape[0] for word in words)
    full = np.stack([np.broadcast_to(word, (rows, lanes.threads)) for word in words], axis=2)
    halves = np.ascontiguousarray(full).view(np.uint16).reshape(rows, -1, 4, 8, 8)
    fragments = []
    for k in range(count):
        matrix = halves[:, :, k]
        if transposed:
            matrix = np.ascontiguousarray(matrix.transpose(0, 1, 3, 2))
        fragments.append(np.ascontiguousarray(matrix).view(np.uint32).reshape(rows, lanes.threads))
    return fragments


def exchange_wide(
    lanes: Lanes,
    instruction: int,
    space: Space,
    base: NDArray[np.uint64],
    offset: int,
    words: tuple[NDArray[np.uint32], ...],
    guard: Mask | None,
) -> tuple[NDArray[np.uint32], ...]:
    """Exchange of 16 bytes, lane after lane; with eight words, where the first four are there. Gives the words before."""
    if lanes.batch.classes is not None:
        raise NotFollowedError(f"results of atomic operations ({lanes.environment.instructions[instruction].text})")
    before = np.zeros((4, *lanes.shape), np.uint32)
    for _, where, address, part in (
        generic_parts(lanes, base, offset, guard) if space is Space.GENERIC else [(0, space, base, guard)]
    ):
        plan = lanes.plan(address, part)
        if plan.empty:
            continue
        safe, shift = checked(lanes, instruction, where, plan, offset, 16)
        cells = storage(lanes, where, np.uint32)
        hold(lanes, where, safe, shift, 16, written=True)
        index, moved = index_of(lanes, where, safe, 4)
        first = safe.chosen(index) + (moved + shift // 4)
        given = np.stack([safe.chosen(word) for word in words], axis=1)
        found = np.zeros((len(first), 4), np.uint32)
        for k, place in enumerate(first.tolist()):
            found[k] = cells[place : place + 4]
            if len(words) == 4 or (found[k] == given[k, :4]).all():
                cells[place : place + 4] = given[k, -4:]
        mask = np.ones(lanes.shape, np.bool_) if safe.mask is None else np.broadcast_to(safe.mask, lanes.shape)
        before[:, mask] = found.T
    return tuple(before)


def leads_to(lanes: Lanes, addresses: NDArray[np.uint64], space: str) -> Mask:
    """Whether generic addresses lead to the block's shared memory (S), another block's of the cluster (D), or elsewhere."""
    names = {"L": "local", "G": "global", "C": "const"}
    if space in names:
        return is_in_space(addresses, names[space])
    shared = is_in_space(addresses, "shared")
    rank = (addresses & np.uint64(2**32 - 1)) >> np.uint64(CLUSTER_RANK_UNIT.bit_length() - 1)
    own: Mask = rank == lanes.special["%cluster_ctarank"]
    return shared & own if space == "S" else shared & ~own


def pack_eight_bits(
    high: NDArray[np.floating[Any]], low: NDArray[np.floating[Any]], above: NDArray[np.uint32], kind: str, relu: bool
) -> NDArray[np.uint32]:
    """Two numbers as 8-bit floats, rounded to the nearest and kept finite, below the lower half of another word."""
    upper, lower = (to_eight_bits(np.maximum(x, 0) if relu else x, kind) for x in (high, low))
    return upper << np.uint32(8) | lower | above << np.uint32(16)


def to_eight_bits(values: NDArray[np.floating[Any]], kind: str) -> NDArray[np.uint32]:
    """Numbers as ``e4m3`` or ``e5m2`` (PTX ISA 9.7.9.21, ``cvt.rn.satfinite``): ties to even, the largest for what is beyond.

    >>> [hex(code) for code in to_eight_bits(np.array([1.0, -1e9, 17.0]), "e4m3").tolist()]
    ['0x38', '0xfe', '0x58']
    """
    table = eight_bit_floats(kind)[: 127 if kind == "e4m3" else 124]
    size = np.abs(values.astype(np.float64))
    above = np.clip(np.searchsorted(table, size), 1, len(table) - 1)
    middle = (table[above - 1] + table[above]) / 2
    up = (size > middle) | ((size == middle) & (above % 2 == 0))
    code = np.where(np.isnan(values), 127, np.where(up, above, above - 1)).astype(np.uint32)
    sign = np.signbit(values) & ~np.isnan(values)
    packed: NDArray[np.uint32] = code | sign.astype(np.uint32) << np.uint32(7)
    return packed


def unpack_eight_bits(word: NDArray[np.uint32], kind: str, relu: bool) -> NDArray[np.uint32]:
    """The two lowest bytes, 8-bit floats, as packed halves."""
    values = eight_bit_floats(kind)[np.stack([word & np.uint32(255), word >> np.uint32(8) & np.uint32(255)], axis=-1)]
    halves = (np.maximum(values, 0) if relu else values).astype(np.float16).view(np.uint16)
    packed: NDArray[np.uint32] = np.where(np.isnan(values), np.uint16(0x7FFF), halves).view(np.uint32)[..., 0]
    return packed


def to_tf32(values: NDArray[np.float32]) -> NDArray[np.uint32]:
    """The nearest ``tf32``, ties to even."""
    bits = values.view(np.uint32)
    rounded = (bits + np.uint32(0xFFF) + (bits >> np.uint32(13) & np.uint32(1))) & np.uint32(0xFFFFE000)
    return np.where(np.isnan(values), np.uint32(0x7FFFFFFF), rounded)


def matrix_rows(
    lanes: Lanes, words: tuple[NDArray[np.uint32], ...], transposed: bool
) -> tuple[NDArray[np.uint32], ...]:
    """The four words of the row that each lane stores (PTX ISA, ``stmatrix``): lanes 8k … 8k+7 hold the rows of matrix k."""
    rows = max(word.shape[0] for word in words)
    stored = np.zeros((rows, lanes.threads // WARP_SIZE, 4, 8, 4), np.uint32)
    for k, word in enumerate(words):
        matrix = (
            np.ascontiguousarray(np.broadcast_to(word, (rows, lanes.threads))).view(np.uint16).reshape(rows, -1, 8, 8)
        )
        if transposed:
            matrix = np.ascontiguousarray(matrix.transpose(0, 1, 3, 2))
        stored[:, :, k] = matrix.view(np.uint32)
    flat = stored.reshape(rows, lanes.threads, 4)
    return tuple(np.ascontiguousarray(flat[:, :, k]) for k in range(4))


def transposed_matrix(lanes: Lanes, word: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Fragments of the transposed 8 x 8 matrices of 16-bit elements (PTX ISA, ``movmatrix``)."""
    full = np.ascontiguousarray(np.broadcast_to(word, (word.shape[0], lanes.threads))).view(np.uint16)
    turned = full.reshape(word.shape[0], -1, 8, 8).transpose(0, 1, 3, 2)
    return np.ascontiguousarray(turned).view(np.uint32).reshape(word.shape[0], lanes.threads)
