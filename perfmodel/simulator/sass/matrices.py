"""Matrix products on fragments: which lane and register holds which element (PTX ISA 9.7.14, figures of ``mma``)."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.constants import WARP_SIZE
from ...machine_code.matrix_products import ELEMENT_BITS
from ..functions.floats import bfloat16_to_f32
from ..machine import Lanes

Words = NDArray[np.uint32]
_SUMS: dict[str, type[np.generic]] = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "s32": np.int32}


@cache
def eight_bit_floats(kind: str) -> NDArray[np.float64]:
    """Values of all bytes as ``e4m3`` or ``e5m2`` (PTX ISA 5.2.3).

    >>> eight_bit_floats("e4m3")[[0x38, 0x7E]], eight_bit_floats("e5m2")[0x3C]
    (array([  1., 448.]), np.float64(1.0))
    """
    bits = np.arange(256)
    if kind == "e5m2":
        return (bits.astype(np.uint16) << np.uint16(8)).view(np.float16).astype(np.float64)
    exponent, fraction = bits >> 3 & 15, bits & 7
    magnitude = np.where(exponent == 0, fraction / 8 * 2.0**-6, (1 + fraction / 8) * 2.0 ** (exponent - 7.0))
    magnitude = np.where((exponent == 15) & (fraction == 7), np.nan, magnitude)
    return np.where(bits >> 7 == 1, -magnitude, magnitude)


def elements_of(flat: NDArray[Any], kind: str) -> NDArray[np.float64]:
    """Elements as double precision, which holds all of them exactly, from words or from elements of their own width."""
    if kind == "f16":
        return flat.view(np.float16).astype(np.float64)
    if kind == "bf16":
        return bfloat16_to_f32(flat.view(np.uint16)).astype(np.float64)
    if kind == "tf32":
        return (flat & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)
    if kind in ("e4m3", "e5m2"):
        return eight_bit_floats(kind)[flat.view(np.uint8)]
    if kind in ("s4", "u4"):
        halves = np.stack([flat.view(np.uint8) & np.uint8(15), flat.view(np.uint8) >> np.uint8(4)], axis=-1)
        values = halves.reshape(*halves.shape[:-2], -1).astype(np.float64)
        return np.where(values > 7, values - 16, values) if kind == "s4" else values
    if kind == "b1":
        return np.unpackbits(flat.view(np.uint8), axis=-1, bitorder="little").astype(np.float64)
    views: dict[str, type[np.generic]] = {"s8": np.int8, "u8": np.uint8, **_SUMS}
    return flat.view(views[kind]).astype(np.float64)


@cache
def places(which: str, rows: int, columns: int, element_bits: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Row and column of each element by lane and place in the lane's fragment.

    A lane holds groups of consecutive elements of four bytes (or one of eight) at a time: lane / 4 is the row (for B the
    column), lane % 4 the group; further groups lie 8 rows below, then half the depth to the right.
    """
    per_group = max(1, 32 // element_bits) if which != "c" else 2
    lane = np.arange(WARP_SIZE)[:, None]
    count = rows * columns // WARP_SIZE
    k = np.arange(count)[None, :]
    group, inside = k // per_group, k % per_group
    if which == "b":
        # B is K x N, its columns are spread as the rows of A
        row = lane % 4 * per_group + inside + group * 4 * per_group
        return row, np.broadcast_to(lane // 4, row.shape)
    row_blocks = rows // 8
    row = lane // 4 + group % row_blocks * 8
    column = lane % 4 * per_group + inside + group // row_blocks * 4 * per_group
    return row, column


def matrix_of(fragments: Words, which: str, rows: int, columns: int, kind: str) -> NDArray[np.float64]:
    """A matrix of each warp from its fragments, from shape ``(n, 32, registers)`` to ``(n, rows, columns)``."""
    elements = elements_of(np.ascontiguousarray(fragments), kind)
    row, column = places(which, rows, columns, ELEMENT_BITS[kind])
    matrix = np.zeros((len(elements), rows, columns))
    matrix[:, row, column] = elements
    return matrix


def fragments_of(total: NDArray[np.float64], kind: str, saturates: bool = False) -> Words:
    """Fragments of sums, rounded once, from shape ``(n, rows, columns)`` to ``(n, 32, registers)``."""
    row, column = places("c", *total.shape[1:], ELEMENT_BITS[kind])
    chosen = total[:, row, column]
    if kind == "s32":
        limits = np.iinfo(np.int32)
        chosen = np.clip(chosen, limits.min, limits.max) if saturates else chosen
        # sums of products are whole and far below 2**53; what exceeds 32 bits wraps around
        return np.ascontiguousarray(chosen.astype(np.int64).astype(np.int32)).view(np.uint32)
    return np.ascontiguousarray(chosen.astype(_SUMS[kind])).view(np.uint32)


def _of_lanes(lanes: Lanes, words: tuple[Words, ...]) -> Words:
    """Fragments of all warps of all rows, shape ``(n, 32, registers)``; what all rows share comes once."""
    height = max(word.shape[0] for word in words)
    full = np.stack([np.broadcast_to(word, (height, lanes.threads)) for word in words], axis=2)
    return full.reshape(-1, WARP_SIZE, len(words))


def matrix_product(
    lanes: Lanes,
    shape: tuple[int, int, int],
    factors: tuple[str, str],
    sums: str,
    combination: str,
    a: tuple[Words, ...],
    b: tuple[Words, ...],
    c: tuple[Words, ...],
) -> list[Words]:
    """``A * B + C`` of every warp as fragments.

    Products are exact and summed in double precision, then rounded once; the hardware's order and rounding of partial sums are
    not documented. ``combination`` is ``product``, ``saturating``, or ``xor`` for bits that differ.
    """
    m, n, k = shape
    height = max(word.shape[0] for word in (*a, *b, *c))
    warps = lanes.threads // WARP_SIZE
    x, y, z = (
        matrix_of(_of_lanes(lanes, words), which, rows, columns, kind).reshape(-1, warps, rows, columns)
        for words, which, rows, columns, kind in (
            (a, "a", m, k, factors[0]),
            (b, "b", k, n, factors[1]),
            (c, "c", m, n, sums),
        )
    )
    product = x @ (1 - y) + (1 - x) @ y if combination == "xor" else x @ y
    total = np.broadcast_to(product + z, (height, warps, m, n)).reshape(-1, m, n)
    words = fragments_of(total, sums, combination == "saturating").reshape(height, lanes.threads, len(c))
    return [np.ascontiguousarray(words[:, :, k]) for k in range(len(c))]
