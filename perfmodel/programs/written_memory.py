"""Which of a program's allocations a kernel writes: what has to be kept where its launch is to be predicted afterwards."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..launch.launch import Allocation
from ..program.instruction import Space
from ..simulator.access import WarpAccess


class WrittenAllocations:
    """An observer of one launch that notes the allocations it writes."""

    def __init__(self, allocations: Sequence[Allocation]) -> None:
        self._allocations = allocations
        self._starts = np.array([one.address for one in allocations], np.uint64)
        self._written: set[int] = set()

    @property
    def written(self) -> tuple[Allocation, ...]:
        """What the launch has written to, in order of address."""
        return tuple(self._allocations[position] for position in sorted(self._written))

    def access(self, access: WarpAccess) -> None:
        """Note a store or an atomic."""
        if not access.writes or access.site.space is not Space.GLOBAL:
            return
        plan, offset = access.plan, access.offset
        ends = np.array([plan.low + offset, plan.high + offset], np.uint64)
        low, high = (np.searchsorted(self._starts, ends, side="right") - 1).tolist()
        if low == high:
            self._written.add(low)
        elif not self._written.issuperset(range(low, high + 1)):
            addresses = plan.chosen(plan.base) + np.uint64(offset % 2**64)
            self._written.update((np.unique(np.searchsorted(self._starts, addresses, side="right")) - 1).tolist())
