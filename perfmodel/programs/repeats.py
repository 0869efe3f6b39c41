"""Launches that do again what they did before: a loop that repeats a launch to time it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..launch.launch import Allocation
from .shared_memory import SharedMemory, Snapshot

OutcomeT = TypeVar("OutcomeT")
Contents = tuple[tuple[Allocation, NDArray[np.uint8]], ...]


@dataclass(frozen=True, slots=True)
class _Repeat(Generic[OutcomeT]):
    """All that a launch accessed, as it was before, and what it wrote, as it was afterwards."""

    before: Contents
    after: Contents
    outcome: OutcomeT

    @property
    def size_bytes(self) -> int:
        """Of the contents that are kept."""
        return sum(contents.nbytes for _, contents in (*self.before, *self.after))


class Repeats(Generic[OutcomeT]):
    """Executed launches by kernel, shape and parameters, the latest of each; an equal one on equal memory need not be executed.

    Args:
        memory: the program's.
        limit_bytes: how much of it is kept; what was used longest ago goes first.
    """

    def __init__(self, memory: SharedMemory, limit_bytes: int) -> None:
        self._memory, self._limit_bytes = memory, limit_bytes
        self._known: OrderedDict[Hashable, _Repeat[OutcomeT]] = OrderedDict()

    def keep(self, name: Hashable, before: Snapshot, written: Sequence[Allocation], outcome: OutcomeT) -> None:
        """Keep a launch that was executed; ``before`` has all that it accesses."""
        after = tuple((one, self._at(one).copy()) for one in written)
        self._known[name] = _Repeat(tuple(before.contents), after, outcome)
        self._known.move_to_end(name)
        while sum(one.size_bytes for one in self._known.values()) > self._limit_bytes:
            self._known.popitem(last=False)

    def again(self, name: Hashable) -> OutcomeT | None:
        """What an equal launch came to, whose results are then in memory; None where it has to be executed."""
        found = self._known.get(name)
        if found is None:
            return None
        there = {one.address: one for one in self._memory.allocations}
        if any(there.get(one.address) != one for one, _ in (*found.before, *found.after)):
            return None
        if not all(np.array_equal(self._at(one), contents) for one, contents in found.before):
            return None
        for one, contents in found.after:
            self._at(one)[:] = contents
        self._known.move_to_end(name)
        return found.outcome

    def _at(self, allocation: Allocation) -> NDArray[np.uint8]:
        return self._memory.at(allocation.address, allocation.size_bytes)
