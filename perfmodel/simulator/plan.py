"""One base register's addresses over the lanes of a batch: analysed once, used by all accesses at an offset from it."""

from __future__ import annotations

from collections.abc import Hashable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.constants import WARP_SIZE
from .block_classes.classes import RowSteps, Steps

MAX_ROOTS = 64
"""Plans that others are compared with; more would only hold memory."""
_MAX_ALIKE = 8
"""Of these, plans that are alike where they are sampled."""
_NEVER_WRAPS = 2**62
"""Addresses below this are compared as integers: adding a shift does not wrap."""

Values = NDArray[Any]
Mask = NDArray[np.bool_]


def warp_bits(mask: Any, threads: int) -> NDArray[np.uint32]:
    """Lanes of each warp that a mask holds, lane 0 in the lowest bit.

    Args:
        mask: one that broadcasts to shape ``(rows, threads)``.
        threads: of a block, in whole warps.

    Returns:
        Shape ``(rows, warps)``.

    >>> warp_bits(np.arange(64)[None, :] % 32 < 4, 64)
    array([[15, 15]], dtype=uint32)
    """
    full = np.broadcast_to(mask, (mask.shape[0], threads))
    return np.packbits(full, axis=1, bitorder="little").view("<u4")


def rows_and_warps(mask: Any, threads: int) -> Mask:
    """Which warps have an active lane: shape ``(rows, warps)`` of a mask that broadcasts to ``(rows, threads)``."""
    active: Mask = warp_bits(mask, threads) != 0
    return active


def both(first: Mask | None, second: Mask | None) -> Mask | None:
    """Lanes that two masks share; None stands for all lanes."""
    if first is None:
        return second
    return first if second is None else first & second


class Plan:
    """Addresses of shape ``(1 | rows, 1 | threads)`` and the mask of lanes that use them (None: all).

    The mask is split into ``row_mask`` of shape ``(rows, 1)`` and ``lane_mask`` of shape ``(1 | rows, threads)``, so
    that what holds alike for all blocks is looked at once.
    """

    def __init__(
        self, base: NDArray[np.uint64], mask: Mask | None, rows: int, threads: int, steps: Steps | None = None
    ) -> None:
        if mask is not None and mask.all():
            mask = None
        self.base = base
        self.mask = mask
        self.rows = rows
        self.threads = threads
        self.row_mask = mask if mask is not None and mask.shape[1] == 1 else None
        self.lane_mask = mask if mask is not None and mask.shape[1] != 1 else None
        self.empty = mask is not None and not mask.any()
        self.indices: dict[tuple[str, int], tuple[NDArray[np.int64], NDArray[np.int64]]] = {}
        """Rows of the batch and element indices, by space and width, kept by the loads and stores that share the plan."""
        self._shifted: dict[int, Plan] = {}
        self.root: Plan = self
        """A plan with the same lanes whose addresses differ from these by one number (`Families`)."""
        self.shift = 0
        """What to add to the addresses of the root."""
        self.steps = steps or {}
        """How the addresses are shifted in the other blocks of each class."""
        self.steps_of_rows: RowSteps = ()
        """The same by block, as observers need it."""
        self.cache: dict[Hashable, Any] = {}
        """What observers made of the plan, for the next access with it; kept with the root."""

    def shifted(self, offset: int) -> Plan:
        """The plan of the addresses with an offset added, kept for the next access with that offset."""
        if offset == 0:
            return self
        if offset not in self._shifted:
            base = self.base + np.uint64(offset % 2**64)
            self._shifted[offset] = Plan(base, self.mask, self.rows, self.threads, self.steps)
        return self._shifted[offset]

    def in_rows_of(self, other: Plan) -> Plan:
        """The plan with at least as many pattern rows as another one with the same mask."""
        if self.pattern_rows >= other.pattern_rows:
            return self
        key = (Plan, other.pattern_rows)
        if key not in self.cache:
            base = np.broadcast_to(self.base, (other.pattern_rows, self.base.shape[1]))
            self.cache[key] = Plan(base, self.mask, self.rows, self.threads, self.steps)
        widened: Plan = self.cache[key]
        return widened

    def of_rows(self, rows: NDArray[np.int64]) -> Plan:
        """The plan of some of its rows."""
        base = self.base if self.base.shape[0] == 1 else self.base[rows]
        mask = self.mask if self.mask is None or self.mask.shape[0] == 1 else self.mask[rows]
        return Plan(base, mask, len(rows), self.threads)

    def placed(self, root: Plan, shift: int) -> Plan:
        """The same plan, known as a shift of another one."""
        self.root, self.shift, self.cache = root, shift, root.cache
        return self

    @cached_property
    def _narrow_mask(self) -> Mask:
        """The mask, one column wide where the addresses are."""
        assert self.mask is not None
        if self.base.shape[1] == 1:
            narrow: Mask = np.logical_or.reduce(self.mask, axis=1, keepdims=True)
            return narrow
        return self.mask

    @cached_property
    def _selected(self) -> NDArray[np.uint64]:
        """Addresses of active lanes, each pattern once."""
        if self.mask is None:
            return self.base
        mask = self._narrow_mask
        shape = np.broadcast_shapes(self.base.shape, mask.shape)
        return np.broadcast_to(self.base, shape)[np.broadcast_to(mask, shape)]

    @cached_property
    def _range(self) -> tuple[int, int]:
        if self.root is not self:
            low, high = self.root.low + self.shift, self.root.high + self.shift
            if low >= 0 and high < _NEVER_WRAPS and self.root.high < _NEVER_WRAPS:
                return low, high
        return int(self._selected.min()), int(self._selected.max())

    @property
    def low(self) -> int:
        """Smallest active address."""
        return self._range[0]

    @property
    def high(self) -> int:
        """Largest active address."""
        return self._range[1]

    @cached_property
    def low_bits(self) -> int:
        """Bits below 16 that any active address has set: what alignment depends on."""
        if self.root is not self and self.shift % 16 == 0:
            return self.root.low_bits
        bits: int = np.bitwise_or.reduce(self._selected, axis=None).item()
        return bits & 15

    @cached_property
    def read_base(self) -> NDArray[np.uint64]:
        """Addresses in which every inactive lane stands at the lowest active address, so that it can be read."""
        if self.mask is None or self.base.size == 1:
            return self.base
        return np.where(self._narrow_mask, self.base, np.uint64(self.low))

    @cached_property
    def shape(self) -> tuple[int, int]:
        """Shape ``(rows, threads)`` of all lanes."""
        return (self.rows, self.threads)

    def chosen(self, values: Values) -> Values:
        """Values of the active lanes, flat, in the order block, warp, lane."""
        full = np.broadcast_to(values, self.shape)
        return full.reshape(-1) if self.mask is None else full[np.broadcast_to(self.mask, self.shape)]

    @cached_property
    def pattern_rows(self) -> int:
        """Rows that the pattern analysis looks at: one where all blocks do the same."""
        of_mask: int = 1 if self.lane_mask is None else self.lane_mask.shape[0]
        return max(int(self.base.shape[0]), of_mask)

    @cached_property
    def warp_active(self) -> NDArray[np.bool_] | None:
        """Warps of the pattern rows with an active lane, flat; None where all have one."""
        if self.lane_mask is None:
            return None
        warps = rows_and_warps(self.lane_mask, self.threads)
        warps = np.broadcast_to(warps, (self.pattern_rows, warps.shape[1])).reshape(-1)
        return None if warps.all() else warps

    @cached_property
    def warp_rows(self) -> tuple[NDArray[np.uint64], Mask | None]:
        """Addresses of the active warps of the pattern rows, shape ``(n, 32)``, and their active lanes (None: all)."""
        shape = (self.pattern_rows, self.threads)
        addresses = np.broadcast_to(self.base, shape).reshape(-1, WARP_SIZE)
        if self.lane_mask is None:
            return addresses, None
        active = np.broadcast_to(self.lane_mask, shape).reshape(-1, WARP_SIZE)
        if self.warp_active is not None:
            addresses, active = addresses[self.warp_active], active[self.warp_active]
        return addresses, active

    @cached_property
    def row_of_warp(self) -> NDArray[np.int64]:
        """Pattern row of each analysed warp."""
        rows = np.repeat(np.arange(self.pattern_rows), self.threads // WARP_SIZE)
        return rows if self.warp_active is None else rows[self.warp_active]

    @cached_property
    def lanes(self) -> NDArray[np.int64]:
        """Active lanes of each analysed warp."""
        addresses, active = self.warp_rows
        if active is None:
            return np.full(len(addresses), WARP_SIZE)
        lanes: NDArray[np.int64] = active.sum(axis=1, dtype=np.int64)
        return lanes

    def per_row(self, per_warp: NDArray[np.int64]) -> NDArray[np.int64]:
        """Sums over the warps of each block, from shape ``(warps, fields)`` to ``(rows, fields)``."""
        fields = per_warp.shape[1]
        if self.warp_active is None:
            sums: NDArray[np.int64] = per_warp.reshape(self.pattern_rows, -1, fields).sum(axis=1)
        else:
            sums = np.zeros((self.pattern_rows, fields), np.int64)
            np.add.at(sums, self.row_of_warp, per_warp)
        full = np.broadcast_to(sums, (self.rows, fields))
        return full if self.row_mask is None else np.where(self.row_mask, full, 0)

    def total(self, per_warp: NDArray[np.int64]) -> NDArray[np.int64]:
        """Sums over all warps of all blocks, from shape ``(warps, fields)`` to ``(fields,)``."""
        if self.row_mask is None:
            total: NDArray[np.int64] = per_warp.sum(axis=0) * (self.rows // self.pattern_rows)
        elif self.pattern_rows == 1:
            total = per_warp.sum(axis=0) * int(np.broadcast_to(self.row_mask, (self.rows, 1)).sum())
        else:
            total = self.per_row(per_warp).sum(axis=0)
        return total


class Families:
    """Plans whose addresses differ by one number have the same sectors, lines and conflicts up to where they begin.

    Loops move addresses by a constant, so that what an access was found to touch serves its next iteration: `placed` looks for
    an earlier plan with the same lanes and the same distances between addresses, and makes it the root of the new one.
    """

    def __init__(self) -> None:
        self._roots: dict[Hashable, list[Plan]] = {}
        """Plans that are alike where they are sampled."""

    def placed(self, plan: Plan) -> Plan:
        """The plan, with the root that it is a shift of; itself where there is none."""
        if plan.empty:
            return plan
        selected = plan._selected.reshape(-1)
        first = selected[0]
        samples = (selected[[len(selected) // 3, len(selected) // 2, -1]] - first).tolist()
        of_mask = None if plan.mask is None else (plan.mask.shape, plan.mask.tobytes())
        key = (plan.base.shape, plan.rows, plan.threads, len(selected), of_mask, *samples)
        roots = self._roots.get(key)
        if roots is None:
            if len(self._roots) >= MAX_ROOTS:
                del self._roots[next(iter(self._roots))]
            roots = self._roots[key] = []
        for root in roots:
            before = root._selected.reshape(-1)
            if ((selected - before) == first - before[0]).all():
                return plan.placed(root, int(first) - int(before[0]))
        if len(roots) < _MAX_ALIKE:
            roots.append(plan)
        return plan
