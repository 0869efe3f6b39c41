"""What one launch of a program does to its allocations: which it writes, and where it leaves them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..core.distinct_values import distinct
from ..ir.instruction import ExecutedInstruction, Space
from ..launch.launch import Allocation
from ..simulator.access import LANE_GROUPS, WarpAccess


class TouchedAllocations:
    """An observer of one launch.

    Args:
        allocations: all of the program's, in order of address.
        instructions: of the kernel's code.
    """

    def __init__(self, allocations: Sequence[Allocation], instructions: Sequence[ExecutedInstruction]) -> None:
        self._allocations, self._instructions = allocations, instructions
        self._starts = np.array([one.address for one in allocations], np.uint64)
        self._ends = self._starts + np.array([one.size_bytes for one in allocations], np.uint64)
        self._written: set[int] = set()
        self._accessed: set[int] = set()
        self.overruns: dict[int, str] = {}
        """Accesses outside of an allocation that hardware lets pass, one for each instruction."""

    @property
    def written(self) -> tuple[Allocation, ...]:
        """What the launch has written to, in order of address."""
        return tuple(self._allocations[position] for position in sorted(self._written))

    @property
    def accessed(self) -> tuple[Allocation, ...]:
        """What the launch has read or written, in order of address."""
        return tuple(self._allocations[position] for position in sorted(self._accessed))

    def access(self, access: WarpAccess) -> None:
        """Note a load, a store or an atomic."""
        site, plan, offset = access.site, access.plan, access.offset
        if site.space is not Space.GLOBAL or not self._allocations:
            return
        low, high = plan.low + offset, plan.high + offset
        first, last = (int(np.searchsorted(self._starts, np.uint64(end), side="right")) - 1 for end in (low, high))
        if first == last:
            self._accessed.add(first)
            if access.writes:
                self._written.add(first)
            if site.action not in LANE_GROUPS and high + site.width_bytes > int(self._ends[last]):
                self._note(site.instruction_index, high, site.width_bytes, last)
            return
        addresses = distinct(plan.chosen(plan.base) + np.uint64(offset % 2**64))
        places = np.searchsorted(self._starts, addresses, side="right") - 1
        self._accessed.update(distinct(places).tolist())
        if access.writes:
            self._written.update(distinct(places).tolist())
        if site.action in LANE_GROUPS:  # whole sectors, whatever of them lies in the array
            return
        outside = np.flatnonzero(addresses + np.uint64(site.width_bytes) > self._ends[places])
        if len(outside):
            self._note(site.instruction_index, int(addresses[outside[-1]]), site.width_bytes, int(places[outside[-1]]))

    def _note(self, instruction: int, address: int, width: int, place: int) -> None:
        if instruction not in self.overruns:
            allocation = self._allocations[place]
            beyond = address - allocation.address - allocation.size_bytes
            where = f"{beyond} bytes past the end of" if beyond >= 0 else "across the end of"
            text = f"accesses {width} bytes, {where} {allocation.name!r}; hardware lets it pass, as it maps memory in pages"
            self.overruns[instruction] = str(self._instructions[instruction].error(text))
