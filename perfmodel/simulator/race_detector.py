"""Races and uninitialised reads of shared memory: who wrote and read each place, and when.

Every warp has a time, and knows every other warp's time as of the last barrier between them (vector clocks). Two accesses of
different threads to one place, one of them a plain write, race unless the later one's warp knows of the earlier one's time;
within a warp, unless an instruction that synchronises the warp lies between (PTX ISA 8.9). Atomics do not race with one another.

Accesses are kept until a barrier of all warps, behind which nothing before it matters, and looked at together. Most kernels do
the same between their barriers again and again: a stretch that has been looked at is not looked at again. As long as all blocks
do the same in shared memory, one of them is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
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
_READ_AT_ONCE = 1 << 18
"""Lanes of reads that are looked at together."""
_NOBODY = -1
_MANY = -2
BYTES_PER_PLACE = 16
"""Memory of the detector for each grain of shared memory, besides `BYTES_PER_PLACE_AND_WARP` for each warp of the block."""
BYTES_PER_PLACE_AND_WARP = 8


def _same(array: NDArray[Any] | None, rows: NDArray[np.int64]) -> bool:
    """Whether some rows of an array are the same."""
    return array is None or array.shape[0] == 1 or bool((array[rows] == array[rows[:1]]).all())


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
    """A plain read, a plain write, or an atomic operation, of which a read is a part, of some lanes."""

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
        swapped: indices of loads that are parts of atomic operations.
    """

    def __init__(
        self,
        watched: NDArray[np.bool_],
        threads: int,
        stride: int,
        barriers: int,
        grain: int,
        swapped: frozenset[int] = frozenset(),
    ) -> None:
        self._watched = int(watched.sum())
        size, warps = stride // grain, threads // WARP_SIZE
        self._row = np.where(watched, np.cumsum(watched) - 1, -1)
        """Of each block of the batch its row in the arrays here, -1 where it is not watched."""
        self._rows = min(self._watched, 1)
        """Blocks that the arrays have: one as long as all do the same."""
        self._own_of: NDArray[np.int64] | None = None
        self._own = self._first = np.zeros(0, np.int64)
        """The watched ones among the lanes' rows that were asked about last, and the first of them."""
        self.grain = grain
        self.stride = size
        self._looked_at: dict[Hashable, list[Any]] = {}
        """Stretches between barriers that are known, with what keeps the identities in their signatures alive."""
        self.swapped = swapped
        self.undecided = False
        """Whether lanes of an instruction wrote to one place what was not computed."""
        self._kept: list[_Access | _WarpBarrier] = []
        self._fresh = True
        """Whether nothing has been looked at since the last barrier of all warps."""
        self.warps = warps
        size *= self._rows
        self.initialised = np.zeros(size, np.bool_)
        self.atomic = np.zeros(size, np.bool_)
        self.writer = np.full(size, _NOBODY, np.int32)
        self.write_time = np.zeros(size, np.int32)
        self.reader = np.full((size, warps), _NOBODY, np.int32)
        self.read_time = np.zeros((size, warps), np.int32)
        self.known = np.zeros((self._rows, warps, warps), np.int32)
        """``known[block, a, b]``: the time of warp b that warp a knows of; on the diagonal its own time."""
        self._tick(np.ones((self._rows, warps), np.bool_))
        self.at_barrier = np.zeros((self._rows, barriers, warps), np.int32)
        """Times of the warps that have arrived at each named barrier."""

    def _tell_apart(self) -> None:
        """Have arrays for every block from now on."""
        times, self._rows = self._watched // self._rows, self._watched
        for name in ("initialised", "atomic", "writer", "write_time", "reader", "read_time", "known", "at_barrier"):
            array = getattr(self, name)
            setattr(self, name, np.tile(array, (times, *(1,) * (array.ndim - 1))))

    def _rows_of(self, lanes: Lanes, alike: Callable[[NDArray[np.int64]], bool]) -> NDArray[np.int64]:
        """Rows of these lanes that the arrays here have: all watched ones where they are not alike."""
        if self._own_of is not lanes.row_index:
            self._own_of, self._own = lanes.row_index, np.flatnonzero(self._row[lanes.row_index] >= 0)
            self._first = self._own[:1]
        if self._rows == self._watched or not len(self._own):
            return self._own
        if len(self._own) == self._watched and alike(self._own):
            return self._first
        self._tell_apart()
        return self._own

    def _rows_of_plan(self, access: _Access) -> NDArray[np.int64]:
        plan = access.plan.root

        def alike(own: NDArray[np.int64]) -> bool:
            key = (RaceDetector, id(self))
            if key not in plan.cache:
                plan.cache[key] = _same(plan.base, own) and _same(plan.mask, own)
            found: bool = plan.cache[key]
            return found

        return self._rows_of(access.lanes, alike)

    def _tick(self, warps: Mask) -> None:
        diagonal = np.arange(self.warps)
        self.known[:, diagonal, diagonal] += warps

    def _running(self, lanes: Lanes, mask: Mask | None) -> Mask:
        """Which warps of all watched blocks have a lane in a mask over some blocks of the batch."""
        own = self._rows_of(lanes, lambda own: _same(mask, own))
        running = np.zeros((len(self.known), self.warps), np.bool_)
        here = np.ones((1, 1), np.bool_) if mask is None else mask
        of_warps = np.broadcast_to(rows_and_warps(here, lanes.threads), (lanes.rows, self.warps))
        running[self._row[lanes.row_index[own]] % max(self._rows, 1)] = of_warps[own]
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
        reads: dict[Hashable, _Access] = {}
        for event in kept:
            if isinstance(event, _Access) and not event.writes:
                reads.setdefault(self._signature(event), event)
                continue
            self._read(reads)
            if isinstance(event, _WarpBarrier):
                self._tick(self._running(event.lanes, event.mask))
            else:
                self._written(event)
        self._read(reads)

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
        own = self._rows_of_plan(access)
        root, moved = access.plan.root, access.plan.shift + access.offset
        key = (RaceDetector, access.width, self.grain)
        held = root.cache.get(key)
        if held is None or held[0] is not own:
            held = root.cache[key] = own, self._accesses_of(root, access.lanes, own, access.width)
        address, *of_lanes = held[1]
        return (address + moved) // self.grain, *of_lanes

    def _accesses_of(self, plan: Plan, lanes: Lanes, own: NDArray[np.int64], width: int) -> tuple[NDArray[Any], ...]:
        """Address of the place in the memory of all blocks here, block, thread and lane position."""
        shape = (lanes.rows, lanes.threads)
        active = np.ones((1, 1), np.bool_) if plan.mask is None else plan.mask
        block, thread = np.nonzero(np.broadcast_to(active, shape)[own])
        row = own[block]
        held = (self._row[lanes.row_index] % max(self._rows, 1))[row]
        address = np.broadcast_to(plan.base, shape)[row, thread].astype(np.int64) + held * (self.stride * self.grain)
        places = width // self.grain
        address = (address[:, None] + np.arange(places) * self.grain).reshape(-1)
        return address, *(np.repeat(column, places) for column in (held, thread, row * lanes.threads + thread))

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
        """Take note of a read, plain or of an atomic operation."""
        atomic = instruction in self.swapped
        self._keep(_Access(lanes, instruction, plan, offset, width, writes=False, atomic=atomic))

    def _read(self, reads: dict[Hashable, _Access]) -> None:
        """Look at reads between which nothing is written and no time passes, and forget them."""
        events = list(reads.values())
        reads.clear()
        while events:
            lanes = np.cumsum([self._watched * event.lanes.threads for event in events])
            some = max(int(np.searchsorted(lanes, _READ_AT_ONCE)), 1)
            self._read_together(events[:some])
            events = events[some:]

    def _read_together(self, events: list[_Access]) -> None:
        for event in events:
            self._rows_of_plan(event)  # before any is looked at by itself
        parts = [self._accesses(event) for event in events]
        ends = np.cumsum([len(part[0]) for part in parts])
        index, block, thread, _ = (np.concatenate(column) for column in zip(*parts, strict=True))
        atomic = np.repeat([event.atomic for event in events], [len(part[0]) for part in parts])
        missing = ~self.initialised[index]
        race = self._unordered_write(index, block, thread) & ~(atomic & self.atomic[index])
        for event, end, part in zip(events, ends.tolist(), parts, strict=True) if (missing | race).any() else ():
            own = slice(end - len(part[0]), end)
            for kind, wrong in (
                (FaultKind.UNINITIALISED_SHARED, missing[own]),
                (FaultKind.SHARED_RACE, race[own]),
            ):
                if wrong.any():
                    first = part[0][wrong][0]
                    detail = f"shared byte {self._byte(first):#x}"
                    if kind is FaultKind.SHARED_RACE:
                        written = f"that thread {int(self.writer[first])} wrote with no barrier between"
                        detail = f"reads {detail} {written}"
                    self._fault(event.lanes, kind, event.instruction, part[3][wrong], detail)
        self._remember_read(index[~atomic], block[~atomic], thread[~atomic])

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
