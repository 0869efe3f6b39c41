"""Matrix products on fragments: which lane and register holds which element (PTX ISA 9.7.14, figures of ``mma``)."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.constants import WARP_SIZE
from ..functions.floats import bfloat16_to_f32
from ..machine import Lanes

Words = NDArray[np.uint32]
_BYTES = {"f16": 2, "bf16": 2, "tf32": 4, "s8": 1, "u8": 1, "f64": 8, "f32": 4, "s32": 4}


def _elements(words: Words, kind: str) -> NDArray[Any]:
    """Elements of shape ``(rows, warps, 32, elements)`` from words of shape ``(rows, warps, 32, registers)``."""
    flat = np.ascontiguousarray(words)
    if kind == "f16":
        return flat.view(np.float16).astype(np.float64)
    if kind == "bf16":
        return bfloat16_to_f32(flat.view(np.uint16)).astype(np.float64)
    if kind == "tf32":
        return (flat & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)
    views: dict[str, type[np.generic]] = {
        "s8": np.int8,
        "u8": np.uint8,
        "f64": np.float64,
        "f32": np.float32,
        "s32": np.int32,
    }
    elements: NDArray[Any] = flat.view(views[kind])
    return elements.astype(np.int64) if kind in ("s8", "u8") else elements


@cache
def _places(which: str, rows: int, columns: int, element_bytes: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Row and column of each element by lane and place in the lane's fragment.

    A lane holds groups of consecutive elements of four bytes (or one of eight) at a time: lane / 4 is the row (for B the
    column), lane % 4 the group; further groups lie 8 rows below, then half the depth to the right.
    """
    per_group = max(1, 4 // element_bytes) if which != "c" else 2
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


def _matrix(lanes: Lanes, words: tuple[Words, ...], which: str, rows: int, columns: int, kind: str) -> NDArray[Any]:
    """A matrix of every warp, from its fragments."""
    height = max(word.shape[0] for word in words)
    full = np.stack([np.broadcast_to(word, (height, lanes.threads)) for word in words], axis=2)
    elements = _elements(full.reshape(height, -1, WARP_SIZE, len(words)), kind)
    row, column = _places(which, rows, columns, _BYTES[kind])
    matrix = np.zeros((*elements.shape[:2], rows, columns), elements.dtype)
    matrix[:, :, row, column] = elements
    return matrix


def matrix_product(
    lanes: Lanes,
    shape: tuple[int, int, int],
    factors: tuple[str, str],
    sums: str,
    a: tuple[Words, ...],
    b: tuple[Words, ...],
    c: tuple[Words, ...],
) -> list[Words]:
    """``A * B + C`` of every warp as fragments.

    Products of half precision are exact and summed in double precision, then rounded once; the hardware's order and
    rounding of partial sums are not documented.
    """
    m, n, k = shape
    x = _matrix(lanes, a, "a", m, k, factors[0])
    y = _matrix(lanes, b, "b", k, n, factors[1])
    z = _matrix(lanes, c, "c", m, n, sums)
    total = x @ y + z.astype(x.dtype)
    row, column = _places("c", m, n, _BYTES[sums])
    types: dict[str, type[np.generic]] = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "s32": np.int32}
    chosen = np.ascontiguousarray(total[:, :, row, column].astype(types[sums]))
    words = chosen.view(np.uint32).reshape(total.shape[0], lanes.threads, len(c))
    return [np.ascontiguousarray(words[:, :, k]) for k in range(len(c))]
