"""Values that branches or addresses depend on, seen while a kernel is traced: which buffers hold them, and who writes them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from ..core.constants import BANK_BYTES
from ..core.distinct_values import distinct
from ..ir.instruction import Space
from .access import Action, WarpAccess
from .global_memory import Segment

_LOOKED_AT = 4
"""Executions of each load whose addresses are looked at: a load reads the same buffers all over the launch."""


class SteeringLoads:
    """An observer of a traced run: where the instructions read that ``steering`` names (`steering_instructions`)."""

    def __init__(self, steering: Collection[int]) -> None:
        self._steering = steering
        self._executions: dict[int, int] = {}
        self._addresses: list[NDArray[np.uint64]] = []

    def access(self, access: WarpAccess) -> None:
        """Take note of one access."""
        site = access.site
        if site.action is Action.STORE or site.space not in (Space.GLOBAL, Space.GENERIC):
            return
        executions = self._executions.get(site.number, 0)
        if site.instruction_index in self._steering and executions < _LOOKED_AT:
            self._executions[site.number] = executions + 1
            of_warps = access.of_warps
            self._addresses.append(distinct(of_warps.addresses[of_warps.active]))

    def buffers(self, segments: Sequence[Segment]) -> frozenset[str]:
        """Names of the segments that were read."""
        if not self._addresses:
            return frozenset()
        found = distinct(np.concatenate(self._addresses))
        names = set()
        for segment in segments:
            first, last = np.searchsorted(
                found, np.array([segment.start, segment.start + segment.size_bytes], np.uint64)
            )
            if last > first:
                names.add(segment.name)
        return frozenset(names)


_NOBODY, _SEVERAL = 0, -1
_GLOBAL = (Space.GLOBAL, Space.GENERIC)


class _Users:
    """Of each word of a segment the block that uses it, counted from one; `_NOBODY`, or `_SEVERAL`."""

    def __init__(self, segment: Segment) -> None:
        self._words = segment.size_bytes // BANK_BYTES + 1
        self.of_word = np.zeros(0, np.int32)
        """Empty as long as there are none."""

    def note(self, words: NDArray[np.int64], blocks: NDArray[np.int64]) -> None:
        """Add uses: pairs of a word and a block."""
        if not len(self.of_word):
            self.of_word = np.zeros(self._words, np.int32)
        words, blocks = words[words < self._words], blocks[words < self._words]
        users = (blocks + 1).astype(np.int32)
        before = self.of_word[words]
        after = np.where((before == _NOBODY) | (before == users), users, np.int32(_SEVERAL))
        self.of_word[words] = after
        self.of_word[words[self.of_word[words] != after]] = _SEVERAL


def _meet(readers: NDArray[np.int32], writers: NDArray[np.int32]) -> bool:
    """Whether a block reads a word that another one writes."""
    if not len(readers) or not len(writers):
        return False
    read = np.flatnonzero(readers)
    return bool(np.any((writers[read] != _NOBODY) & ((writers[read] != readers[read]) | (writers[read] == _SEVERAL))))


class OrderOfBlocks:
    """An observer of a run of all blocks: whether some decide by what others write, so that it matters who comes first.

    Args:
        steering: instructions whose results decide something (`steering_instructions`).
        segments: where buffers and variables lie.
    """

    def __init__(self, steering: Collection[int], segments: Sequence[Segment]) -> None:
        self._steering = steering
        self._starts = np.array([segment.start for segment in segments], np.uint64)
        self._names = [segment.name for segment in segments]
        self._readers, self._writers = ([_Users(segment) for segment in segments] for _ in range(2))

    def access(self, access: WarpAccess) -> None:
        """Take note of one access."""
        site = access.site
        if site.space not in _GLOBAL or not (access.writes or site.instruction_index in self._steering):
            return
        of_warps = access.of_warps
        addresses = of_warps.addresses[of_warps.active]
        blocks = np.broadcast_to(of_warps.block[:, None], of_warps.active.shape)[of_warps.active]
        for within in range(0, site.width_bytes, BANK_BYTES):
            self._note(addresses + np.uint64(within), blocks, access.writes)

    def _note(self, addresses: NDArray[np.uint64], blocks: NDArray[np.int64], written: bool) -> None:
        users = self._writers if written else self._readers
        places = np.searchsorted(self._starts, addresses, side="right") - 1
        for place in distinct(places).tolist():
            chosen = places == place
            if place >= 0:
                words = (addresses[chosen] - self._starts[place]).astype(np.int64) // BANK_BYTES
                users[place].note(words, blocks[chosen])

    def buffer(self) -> str | None:
        """The name of a buffer that blocks decide by and others write; None without one."""
        for name, readers, writers in zip(self._names, self._readers, self._writers, strict=True):
            if _meet(readers.of_word, writers.of_word):
                return name
        return None
