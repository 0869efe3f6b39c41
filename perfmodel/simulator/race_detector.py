"""Races and uninitialised reads of shared memory: who wrote and read each place, and when.

Every warp has a time, and knows every other warp's time as of the last barrier between them (vector clocks). Two accesses of
different threads to one place, one of them a plain write, race unless the later one's warp knows of the earlier one's time;
within a warp, unless an instruction that synchronises the warp lies between (PTX ISA 8.9). Atomics do not race with one another.

Accesses are kept until a barrier of all warps, behind which nothing before it matters, and looked at together. Most kernels do
the same between their barriers again and again: a stretch that has been looked at is not looked at again.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..core.constants import WARP_SIZE
from .faults import FaultKind
from .plan import Mask, Plan, rows_and_warps

MAX_STRETCHES = 512
"""Different stretches between barriers that are known; more would only hold memory."""
_MAX_KEPT = 4096
"""Accesses that are kept between barriers before they are looked at."""
_NOBODY = -1
_MANY = -2
BYTES_PER_PLACE = 16
"""Memory of the detector for each grain of shared memory, besides `BYTES_PER_PLACE_AND_WARP` for each warp of the block."""
BYTES_PER_PLACE_AND_WARP = 8


class Lanes(Protocol):
    """What the detector needs of `machine.Lanes`."""

    threads: int
    rows: int
    row_index: NDArray[np.int64]
    subset: NDArray[np.int64] | None
    thread: NDArray[np.int64]

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of an array with a value for every lane."""

    def fault(self, kind: FaultKind, instruction: int, wrong: Mask, detail: str) -> None:
        """Report a fault of the first lane of a mask."""


@dataclass(frozen=True, slots=True)
class _Access:
    """A plain read, a plain write or an atomic operation of some lanes."""

    lanes: Lanes
    instruction: int
    plan: Plan
    offset: int
    width: int
    writes: bool
    atomic: bool


@dataclass(frozen=True, slots=True)
class _WarpBarrier:
    """An instruction that synchronises the warps with a lane in a mask."""

    lanes: Lanes
    mask: Mask | None


class RaceDetector:
    """Watches the shared memory of a batch; arrays have one element for each ``grain`` of bytes and are indexed like these.

    Args:
        watched: which blocks of the batch are watched, shape ``(rows,)``.
        threads: of a block, in whole warps.
        stride: shared bytes of a block.
        barriers: named barriers.
        grain: bytes that every access is aligned to and a multiple of.
    """

    def __init__(self, watched: NDArray[np.bool_], threads: int, stride: int, barriers: int, grain: int) -> None:
        rows = int(watched.sum())
        size, warps = rows * stride // grain, threads // WARP_SIZE
        self._row = np.where(watched, np.cumsum(watched) - 1, -1)
        """Of each block of the batch its row in the arrays here, -1 where it is not watched."""
        self.grain = grain
        self.stride = stride // grain
        self._looked_at: dict[Hashable, list[Any]] = {}
        """Stretches between barriers that are known, with what keeps the identities in their signatures alive."""
        self.undecided = False
        """Whether lanes of an instruction wrote to one place what was not computed."""
        self._kept: list[_Access | _WarpBarrier] = []
        self._fresh = True
        """Whether nothing has been looked at since the last barrier of all warps."""
        self.warps = warps
        self.initialised = np.zeros(size, np.bool_)
        self.atomic = np.zeros(size, np.bool_)
        self.writer = np.full(size, _NOBODY, np.int32)
        self.write_time = np.zeros(size, np.int32)
        self.reader = np.full((size, warps), _NOBODY, np.int32)
        self.read_time = np.zeros((size, warps), np.int32)
        self.known = np.zeros((rows, warps, warps), np.int32)
        """``known[block, a, b]``: the time of warp b that warp a knows of; on the diagonal its own time."""
        self._tick(np.ones((rows, warps), np.bool_))
        self.at_barrier = np.zeros((rows, barriers, warps), np.int32)
        """Times of the warps that have arrived at each named barrier."""

    def _tick(self, warps: Mask) -> None:
        diagonal = np.arange(self.warps)
        self.known[:, diagonal, diagonal] += warps

    def _running(self, lanes: Lanes, mask: Mask | None) -> Mask:
        """Which warps of all watched blocks have a lane in a mask over some blocks of the batch."""
        running = np.zeros((len(self.known), self.warps), np.bool_)
        here = np.ones((1, 1), np.bool_) if mask is None else mask
        own = self._row[lanes.row_index]
        of_warps = np.broadcast_to(rows_and_warps(here, lanes.threads), (lanes.rows, self.warps))
        running[own[own >= 0]] = of_warps[own >= 0]
        return running

    def warp_barrier(self, lanes: Lanes, mask: Mask | None) -> None:
        """An instruction that synchronises the warps with a lane in the mask."""
        if self._kept or not self._fresh:
            self._keep(_WarpBarrier(lanes, mask))

    # ---- stretches between barriers of all warps

    def _keep(self, event: _Access | _WarpBarrier) -> None:
        self._kept.append(event)
        if len(self._kept) >= _MAX_KEPT:
            self.look()

    def look(self) -> None:
        """Look at what has been kept."""
        kept, self._kept = self._kept, []
        self._fresh = self._fresh and not kept
        for event in kept:
            if isinstance(event, _WarpBarrier):
                self._tick(self._running(event.lanes, event.mask))
            elif event.writes:
                self._written(event)
            else:
                self._read(event)

    def _end_stretch(self) -> None:
        """Look at what was kept since the last barrier of all warps, unless just this was looked at before."""
        if not self._fresh or not self._kept:
            self.look()
            return
        key = tuple(self._signature(event) for event in self._kept)
        if key in self._looked_at:
            self._kept = []
            return
        if len(self._looked_at) >= MAX_STRETCHES:
            self._looked_at.clear()
        self._looked_at[key] = [event.plan.root for event in self._kept if isinstance(event, _Access)]
        self.look()

    @staticmethod
    def _signature(event: _Access | _WarpBarrier) -> Hashable:
        """What tells events apart whose lanes or places differ."""
        subset = None if event.lanes.subset is None else event.lanes.subset.tobytes()
        if isinstance(event, _WarpBarrier):
            return None if event.mask is None else event.mask.tobytes(), subset
        plan = event.plan
        return id(plan.root), plan.shift + event.offset, event.width, event.writes, event.atomic, subset

    def arrive(self, lanes: Lanes, number: int, mask: Mask | None) -> None:
        """Warps with a lane in the mask arrive at a named barrier and go on."""
        self.look()
        running = self._running(lanes, mask)
        times = np.where(running[:, :, None], self.known, 0).max(axis=1)
        self.at_barrier[:, number] = np.maximum(self.at_barrier[:, number], times)
        self._tick(running)

    def complete(self, lanes: Lanes, number: int, mask: Mask | None) -> None:
        """Warps with a lane in the mask complete a barrier: they know of one another, and of those that arrived before."""
        running = self._running(lanes, mask)
        everyone = bool(running.all())
        if everyone:
            self._end_stretch()
        else:
            self.look()
        times = np.maximum(np.where(running[:, :, None], self.known, 0).max(axis=1), self.at_barrier[:, number])
        self.known = np.where(running[:, :, None], np.maximum(self.known, times[:, None, :]), self.known)
        self._tick(running)
        self._fresh = everyone

    # ---- accesses

    def _accesses(self, access: _Access) -> tuple[NDArray[Any], ...]:
        """Flat index of the place, block, thread and lane position of every active lane's places."""
        lanes, plan = access.lanes, access.plan
        row = self._row[lanes.row_index]
        shape = (lanes.rows, lanes.threads)
        taken = np.broadcast_to(row[:, None] >= 0, shape)
        if plan.mask is not None:
            taken = taken & plan.mask
        block, thread = np.nonzero(taken)
        first = (np.broadcast_to(plan.base, shape)[block, thread].astype(np.int64) + access.offset) // self.grain
        first += row[block] * self.stride
        places = access.width // self.grain
        index = (first[:, None] + np.arange(places)).reshape(-1)
        return index, *(np.repeat(column, places) for column in (row[block], thread, block * lanes.threads + thread))

    def _unordered_write(self, index: NDArray[Any], block: NDArray[Any], thread: NDArray[Any]) -> Mask:
        """Where the last write of a byte is another thread's and nothing orders it before an access at hand."""
        writer, time, warp = self.writer[index], self.write_time[index], thread // WARP_SIZE
        of_warp = writer // WARP_SIZE
        known = self.known[block, warp, np.maximum(of_warp, 0)]
        late = np.where(of_warp == warp, time == known, time > known)
        unordered: Mask = (writer != _NOBODY) & (writer != thread) & late
        return unordered

    def _unordered_read(self, index: NDArray[Any], block: NDArray[Any], thread: NDArray[Any]) -> Mask:
        """Where a read of a byte is another thread's and nothing orders it before a write at hand."""
        warp = thread // WARP_SIZE
        reader, time, known = self.reader[index], self.read_time[index], self.known[block, warp]
        own = np.arange(self.warps) == warp[:, None]
        late = np.where(own, (time == known) & (reader != thread[:, None]), time > known)
        unordered: Mask = np.logical_or.reduce((reader != _NOBODY) & late, axis=1)
        return unordered

    def _fault(self, lanes: Lanes, kind: FaultKind, instruction: int, position: NDArray[Any], detail: str) -> None:
        wrong = np.zeros(lanes.rows * lanes.threads, np.bool_)
        wrong[position] = True
        lanes.fault(kind, instruction, wrong.reshape(lanes.shape), detail)

    def read(self, lanes: Lanes, instruction: int, plan: Plan, offset: int, width: int) -> None:
        """Take note of a plain read."""
        self._keep(_Access(lanes, instruction, plan, offset, width, writes=False, atomic=False))

    def _read(self, access: _Access) -> None:
        index, block, thread, position = self._accesses(access)
        missing = ~self.initialised[index]
        if missing.any():
            detail = f"shared byte {self._byte(index[missing][0]):#x}"
            self._fault(access.lanes, FaultKind.UNINITIALISED_SHARED, access.instruction, position[missing], detail)
        race = self._unordered_write(index, block, thread)
        if race.any():
            k = int(race.argmax())
            detail = (
                f"reads shared byte {self._byte(index[k]):#x} that thread {int(self.writer[index[k]])} wrote "
                "with no barrier between"
            )
            self._fault(access.lanes, FaultKind.SHARED_RACE, access.instruction, position[race], detail)
        self._remember_read(index, block, thread)

    def _byte(self, index: Any) -> int:
        """Address of a place within its block's shared memory."""
        return int(index % self.stride) * self.grain

    def _remember_read(self, index: NDArray[Any], block: NDArray[Any], thread: NDArray[Any]) -> None:
        warp = thread // WARP_SIZE
        time = self.known[block, warp, warp]
        before, since = self.reader[index, warp], self.read_time[index, warp]
        others = (since == time) & (before != _NOBODY) & (before != thread)
        self.reader[index, warp] = np.where(others, _MANY, thread)
        cell = index * self.warps + warp
        order = np.argsort(cell, kind="stable")
        again = (cell[order][1:] == cell[order][:-1]) & (thread[order][1:] != thread[order][:-1])
        several = order[1:][again]
        self.reader[index[several], warp[several]] = _MANY
        self.read_time[index, warp] = time

    def write(
        self,
        lanes: Lanes,
        instruction: int,
        plan: Plan,
        offset: int,
        width: int,
        elements: tuple[NDArray[Any], ...] | None,
        atomic: bool = False,
    ) -> None:
        """Take note of a write or an atomic operation.

        Args:
            lanes: whose.
            instruction: its index.
            plan: addresses but for the offset.
            offset: bytes to add.
            width: bytes of a lane.
            elements: what is written; None where that is not computed, so that lanes that write one place may write the same.
            atomic: whether it is an atomic operation.
        """
        if not atomic and self._meet(plan, width):
            if elements is None:
                self.undecided = True
            else:
                self._check_same_place(lanes, instruction, plan, offset, elements)
        self._keep(_Access(lanes, instruction, plan, offset, width, writes=True, atomic=atomic))

    def _meet(self, plan: Plan, width: int) -> bool:
        """Whether lanes of one instruction reach the same bytes."""
        key = (RaceDetector, width)
        if key not in plan.cache:
            lowest = np.uint64(2**64 - 1)
            full = np.broadcast_to(plan.base, plan.shape)
            if plan.mask is not None:
                full = np.where(plan.mask, full, lowest)
            ordered = np.sort(full, axis=1)
            near = (ordered[:, 1:] - ordered[:, :-1] < np.uint64(width)) & (ordered[:, 1:] != lowest)
            plan.cache[key] = bool(near.any())
        found: bool = plan.cache[key]
        return found

    def _written(self, access: _Access) -> None:
        index, block, thread, position = self._accesses(access)
        race = self._unordered_write(index, block, thread)
        if access.atomic:
            race &= ~self.atomic[index]
        race |= self._unordered_read(index, block, thread)
        if race.any():
            k = int(race.argmax())
            detail = f"writes shared byte {self._byte(index[k]):#x} that another thread uses with no barrier between"
            self._fault(access.lanes, FaultKind.SHARED_RACE, access.instruction, position[race], detail)
        warp = thread // WARP_SIZE
        self.writer[index] = thread
        self.atomic[index] = access.atomic
        self.write_time[index] = self.known[block, warp, warp]
        self.initialised[index] = True

    def _check_same_place(
        self, lanes: Lanes, instruction: int, plan: Plan, offset: int, elements: tuple[NDArray[Any], ...]
    ) -> None:
        """Report lanes of this very instruction that write different values to one byte."""
        width = int(elements[0].dtype.itemsize) * len(elements)
        address = plan.base.astype(np.int64) + offset + (lanes.row_index * self.stride * self.grain)[:, None]
        first = plan.chosen(address)
        index = (first[:, None] + np.arange(width)).reshape(-1)
        position = np.repeat(plan.chosen(np.arange(lanes.rows * lanes.threads).reshape(lanes.shape)), width)
        order = np.argsort(index, kind="stable")
        again = index[order][1:] == index[order][:-1]
        flat = np.stack([np.ascontiguousarray(plan.chosen(element)) for element in elements], axis=1)
        values = np.ascontiguousarray(flat).view(np.uint8).reshape(-1)[order]
        wrong = order[1:][again & (values[1:] != values[:-1])]
        if len(wrong):
            k = int(wrong.min())
            place = int(index[k] % (self.stride * self.grain))
            detail = f"writes shared byte {place:#x} that another thread uses with no barrier between"
            self._fault(lanes, FaultKind.SHARED_RACE, instruction, position[wrong], detail)
