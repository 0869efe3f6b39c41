"""Values that branches or addresses depend on, seen while a kernel is traced: which buffers hold them, and who writes them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core.constants import BANK_BYTES
from ..core.distinct_values import distinct
from ..ir.instruction import Space
from .access import Action, WarpAccess
from .global_memory import Segment

_LOOKED_AT = 4
"""Executions of each instruction whose addresses are looked at: it touches the same buffers all over the launch."""
_GLOBAL = (Space.GLOBAL, Space.GENERIC)


class _Touched:
    """An observer of a traced run: which buffers some of its accesses touch."""

    def __init__(self) -> None:
        self._executions: dict[int, int] = {}
        self._addresses: list[NDArray[np.uint64]] = []

    def _note(self, access: WarpAccess) -> None:
        executions = self._executions.get(access.site.number, 0)
        if executions < _LOOKED_AT:
            self._executions[access.site.number] = executions + 1
            of_warps = access.of_warps
            self._addresses.append(distinct(of_warps.addresses[of_warps.active]))

    def buffers(self, segments: Sequence[Segment]) -> frozenset[str]:
        """Names of the segments that were touched."""
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


class SteeringLoads(_Touched):
    """An observer of a traced run: where the instructions read that ``steering`` names (`steering_instructions`)."""

    def __init__(self, steering: Collection[int]) -> None:
        super().__init__()
        self._steering = steering

    def access(self, access: WarpAccess) -> None:
        """Take note of one access."""
        site = access.site
        of_global = site.space in _GLOBAL and site.action is not Action.STORE
        if of_global and site.instruction_index in self._steering:
            self._note(access)


class Writes(_Touched):
    """An observer of a traced run: where it writes global memory."""

    def access(self, access: WarpAccess) -> None:
        """Take note of one access."""
        if access.site.space in _GLOBAL and access.writes:
            self._note(access)


_NOBODY, _SEVERAL = 0, -1


class _Users:
    """Of each word of a segment who uses it: block and thread, counted from one; `_NOBODY`, or `_SEVERAL`.

    ``barriers`` is how many barriers the last user's block had passed.
    """

    def __init__(self, segment: Segment) -> None:
        self._words = segment.size_bytes // BANK_BYTES + 1
        self.block = self.thread = self.barriers = np.zeros(0, np.int32)
        """Empty as long as there are none."""

    def note(self, uses: _Uses) -> None:
        """Add uses."""
        if not len(self.block):
            self.block, self.thread, self.barriers = (np.zeros(self._words, np.int32) for _ in range(3))
        inside = uses.words < self._words
        words = uses.words[inside]
        for held, users in ((self.block, uses.blocks[inside]), (self.thread, uses.threads[inside])):
            before = held[words]
            after = np.where((before == _NOBODY) | (before == users), users, np.int32(_SEVERAL))
            held[words] = after
            held[words[held[words] != after]] = _SEVERAL
        self.barriers[words] = uses.barriers[inside]

    def are_unordered(self, uses: _Uses) -> bool:
        """Whether no barrier lies between these uses and one by another thread of the same block."""
        if not len(self.block):
            return False
        inside = uses.words < self._words
        words, blocks, threads, barriers = (
            one[inside] for one in (uses.words, uses.blocks, uses.threads, uses.barriers)
        )
        of_block = (self.block[words] == blocks) & (self.thread[words] != threads)
        return bool((of_block & (self.barriers[words] >= barriers)).any())

    def meets(self, writers: _Users) -> bool:
        """Whether a block uses a word that another one writes."""
        if not len(self.block) or not len(writers.block):
            return False
        read = np.flatnonzero(self.block)
        written = writers.block[read]
        return bool(np.any((written != _NOBODY) & ((written != self.block[read]) | (written == _SEVERAL))))


@dataclass(frozen=True, slots=True)
class _Uses:
    """Uses of words of a segment; each array has one element for each."""

    words: NDArray[np.int64]
    blocks: NDArray[np.int32]
    threads: NDArray[np.int32]
    barriers: NDArray[np.int32]


class OrderOfThreads:
    """An observer of a run of all blocks: whether some decide by what others write, so that it matters who comes first.

    Of one block's threads it does not matter where a barrier lies between.

    Args:
        steering: instructions whose results decide something (`steering_instructions`).
        segments: where buffers and variables lie.
    """

    def __init__(self, steering: Collection[int], segments: Sequence[Segment]) -> None:
        self._steering = steering
        self._starts = np.array([segment.start for segment in segments], np.uint64)
        self._names = [segment.name for segment in segments]
        self._readers, self._writers = ([_Users(segment) for segment in segments] for _ in range(2))
        self._within_block: str | None = None

    def access(self, access: WarpAccess) -> None:
        """Take note of one access."""
        site = access.site
        if site.space not in _GLOBAL or not (access.writes or site.instruction_index in self._steering):
            return
        plan = access.plan
        active = np.ones(plan.shape, np.bool_) if plan.mask is None else np.broadcast_to(plan.mask, plan.shape)
        row, thread = np.nonzero(active)
        addresses = np.broadcast_to(plan.base, plan.shape)[row, thread] + np.uint64(access.offset % 2**64)
        blocks, threads = (access.blocks[row] + 1).astype(np.int32), (thread + 1).astype(np.int32)
        barriers = np.zeros(len(row), np.int32) if access.barriers is None else access.barriers[row]
        for within in range(0, site.width_bytes, BANK_BYTES):
            self._note(addresses + np.uint64(within), blocks, threads, barriers, access.writes)

    def _note(
        self,
        addresses: NDArray[np.uint64],
        blocks: NDArray[np.int32],
        threads: NDArray[np.int32],
        barriers: NDArray[np.int32],
        written: bool,
    ) -> None:
        users, others = (self._writers, self._readers) if written else (self._readers, self._writers)
        places = np.searchsorted(self._starts, addresses, side="right") - 1
        for place in distinct(places).tolist():
            chosen = places == place
            if place >= 0:
                words = (addresses[chosen] - self._starts[place]).astype(np.int64) // BANK_BYTES
                uses = _Uses(words, blocks[chosen], threads[chosen], barriers[chosen])
                if others[place].are_unordered(uses):
                    self._within_block = self._names[place]
                users[place].note(uses)

    def buffer(self) -> str | None:
        """The name of a buffer that threads decide by and others write; None without one."""
        for name, readers, writers in zip(self._names, self._readers, self._writers, strict=True):
            if readers.meets(writers):
                return name
        return self._within_block
