"""Matrix products of warpgroups (PTX ISA 9.7.15, ``wgmma``): factors in shared memory by descriptors, sums in registers.

Each warp computes its 16 of the 64 rows when it reaches the instruction; what it reads has been ordered by the program.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.constants import WARP_SIZE
from ...machine_code.matrix_products import ELEMENT_BITS
from ..faults import FaultKind
from ..machine import Lanes
from ..plan import rows_and_warps
from .matrices import Words, elements_of, fragments_of, matrix_of

Numbers = NDArray[np.int64]
_ROWS = 64
_ROWS_OF_WARP = 16
_WARPS = 4
_SWIZZLE_BYTES = (0, 128, 64, 32)
"""By the layout field of a descriptor (PTX ISA, matrix descriptor format)."""
_UNSIGNED: dict[int, type[np.generic]] = {8: np.uint8, 16: np.uint16, 32: np.uint32}


@cache
def _offsets(
    extent: int, depth: int, element_bytes: int, transposed: bool, swizzle: int, leading: int, stride: int
) -> Numbers:
    """Byte offsets of the elements of a matrix before swizzling, shape ``(extent, depth)`` (PTX ISA, strides of ``wgmma``).

    ``leading`` and ``stride`` are the two offsets of the descriptor. The depth is contiguous, or (``transposed``) the extent.
    """
    i, k = np.arange(extent)[:, None], np.arange(depth)[None, :]
    if transposed:
        if not swizzle:
            return i % 8 * element_bytes + i // 8 * stride + k % 8 * 16 + k // 8 * leading
        run = swizzle // element_bytes
        return i % run * element_bytes + i // run * leading + k % 8 * swizzle + k // 8 * stride
    along = k * element_bytes
    if not swizzle:
        return i % 8 * 16 + i // 8 * stride + along // 16 * leading + along % 16
    return i % 8 * swizzle + i // 8 * stride + along


def _described(
    lanes: Lanes,
    instruction: int,
    rows: Numbers,
    words: NDArray[np.uint64],
    extent: int,
    depth: int,
    kind: str,
    transposed: bool,
) -> NDArray[np.float64]:
    """Matrices in shared memory by row of the batch and descriptor, shape ``(n, extent, depth)``."""
    element_bytes = ELEMENT_BITS[kind] // 8
    start = ((words & np.uint64(0x3FFF)) << np.uint64(4)).astype(np.int64)
    form = words & ~np.uint64(0x3FFF)
    shared = lanes.batch.shared.view(_UNSIGNED[8 * element_bytes])
    found = np.zeros((len(words), extent, depth), shared.dtype)
    for one in np.unique(form).tolist():
        here = np.flatnonzero(form == one)
        leading, stride = (one >> 16 & 0x3FFF) << 4, (one >> 32 & 0x3FFF) << 4
        swizzle = _SWIZZLE_BYTES[one >> 62 & 3]
        if one >> 49 & 7:
            raise lanes.environment.instructions[instruction].error(
                "a base offset in a matrix descriptor is not supported"
            )
        address = start[here, None, None] + _offsets(extent, depth, element_bytes, transposed, swizzle, leading, stride)
        if swizzle:
            address ^= address >> 3 & (swizzle // 16 - 1) << 4
        if int(address.max()) + element_bytes > lanes.environment.shared_bytes:
            mask = np.isin(lanes.row_index, rows[here])[:, None]
            detail = f"a matrix that ends at shared address {int(address.max()):#x} of {lanes.environment.shared_bytes} bytes"
            lanes.fault(FaultKind.OUT_OF_BOUNDS, instruction, mask, detail)
        found[here] = shared[(address + rows[here, None, None] * lanes.batch.shared_stride) // element_bytes]
    return elements_of(found, kind)


def warpgroup_product(
    lanes: Lanes,
    instruction: int,
    shape: tuple[int, int],
    factors: tuple[str, str],
    sums: str,
    a: tuple[Words, ...],
    b: tuple[Words, Words],
    c: tuple[Words, ...],
    adds: NDArray[np.bool_],
    modifiers: tuple[str, ...],
) -> list[Words]:
    """``A * B + C`` of every warp that is here, as fragments.

    Args:
        lanes: who is here.
        instruction: its index.
        shape: columns and depth of the product.
        factors: types of the elements of A and B.
        sums: type of the sums.
        a: the halves of A's descriptor, or the four registers of its fragment.
        b: the halves of B's descriptor.
        c: the fragment of C.
        adds: where C is added, rather than zero.
        modifiers: ``tnspA``, ``tnspB``, ``negA``, ``negB``.
    """
    columns, depth = shape
    result = np.zeros((len(c), *lanes.shape), np.uint32)
    active = np.ones((1, 1), np.bool_) if lanes.active is None else lanes.active
    rows, warps = np.nonzero(rows_and_warps(np.broadcast_to(active, (lanes.rows, active.shape[1])), lanes.threads))
    if not len(rows):
        return list(result)
    first = warps * WARP_SIZE

    def of_warps(values: NDArray[Any]) -> NDArray[Any]:
        taken: NDArray[Any] = np.broadcast_to(values, lanes.shape)[rows, first]
        return taken

    def descriptor(low: Words, high: Words) -> NDArray[np.uint64]:
        joined: NDArray[np.uint64] = of_warps(low).astype(np.uint64) | of_warps(high).astype(np.uint64) << np.uint64(32)
        return joined

    lane = first[:, None] + np.arange(WARP_SIZE)
    from_registers = len(a) > 2
    row = lanes.row_index[rows]
    keys = [row.astype(np.uint64), descriptor(*b)]
    if not from_registers:
        keys.append(descriptor(a[0], a[1]))
    known, group = np.unique(np.stack(keys, axis=1), axis=0, return_inverse=True)
    group = group.reshape(-1)
    owner = known[:, 0].astype(np.int64)
    y = _described(lanes, instruction, owner, known[:, 1], columns, depth, factors[1], "tnspB" in modifiers)
    if from_registers:
        fragments = np.stack([np.broadcast_to(word, lanes.shape)[rows[:, None], lane] for word in a], axis=2)
        x = matrix_of(fragments, "a", _ROWS_OF_WARP, depth, factors[0])
        total = x @ y.transpose(0, 2, 1)[group]
    else:
        x = _described(lanes, instruction, owner, known[:, 2], _ROWS, depth, factors[0], "tnspA" in modifiers)
        products = (x @ y.transpose(0, 2, 1)).reshape(-1, _WARPS, _ROWS_OF_WARP, columns)
        total = products[group, warps % _WARPS]
    if ("negA" in modifiers) != ("negB" in modifiers):
        total = -total
    before = np.stack([np.broadcast_to(word, lanes.shape)[rows[:, None], lane] for word in c], axis=2)
    added = matrix_of(before, "c", _ROWS_OF_WARP, columns, sums)
    total = total + np.where(of_warps(adds)[:, None, None], added, 0.0)
    result[:, rows[:, None], lane] = fragments_of(total, sums).transpose(2, 0, 1)
    return list(result)
