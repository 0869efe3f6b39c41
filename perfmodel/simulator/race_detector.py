"""Races and uninitialised reads of shared memory: who wrote and read each byte, and when.

Every warp has a time, and knows every other warp's time as of the last barrier between them (vector clocks). Two accesses of
different threads to one byte, one of them a plain write, race unless the later one's warp knows of the earlier one's time;
within a warp, unless an instruction that synchronises the warp lies between (PTX ISA 8.9). Atomics do not race with one another.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..core.constants import WARP_SIZE
from .faults import FaultKind
from .plan import Mask, Plan, rows_and_warps

_NOBODY = -1
_MANY = -2
BYTES_PER_SHARED_BYTE = 16
"""Memory of the detector for each shared byte, besides `BYTES_PER_SHARED_BYTE_AND_WARP` for each warp of the block."""
BYTES_PER_SHARED_BYTE_AND_WARP = 8


class Lanes(Protocol):
    """What the detector needs of `machine.Lanes`."""

    threads: int
    rows: int
    row_index: NDArray[np.int64]
    thread: NDArray[np.int64]

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of an array with a value for every lane."""

    def fault(self, kind: FaultKind, instruction: int, wrong: Mask, detail: str) -> None:
        """Report a fault of the first lane of a mask."""


class RaceDetector:
    """Watches the shared memory of a batch; arrays have one element per byte and are indexed like its bytes."""

    def __init__(self, rows: int, threads: int, stride: int, barriers: int) -> None:
        size, warps = rows * stride, threads // WARP_SIZE
        self.stride = stride
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
        """Which warps of all the batch's blocks have a lane in a mask over some blocks."""
        running = np.zeros((len(self.known), self.warps), np.bool_)
        here = np.ones((1, 1), np.bool_) if mask is None else mask
        running[lanes.row_index] = rows_and_warps(here, lanes.threads)
        return running

    def warp_barrier(self, lanes: Lanes, mask: Mask | None) -> None:
        """An instruction that synchronises the warps with a lane in the mask."""
        self._tick(self._running(lanes, mask))

    def arrive(self, lanes: Lanes, number: int, mask: Mask | None) -> None:
        """Warps with a lane in the mask arrive at a named barrier and go on."""
        running = self._running(lanes, mask)
        times = np.where(running[:, :, None], self.known, 0).max(axis=1)
        self.at_barrier[:, number] = np.maximum(self.at_barrier[:, number], times)
        self._tick(running)

    def complete(self, lanes: Lanes, number: int, mask: Mask | None) -> None:
        """Warps with a lane in the mask complete a barrier: they know of one another, and of those that arrived before."""
        running = self._running(lanes, mask)
        times = np.maximum(np.where(running[:, :, None], self.known, 0).max(axis=1), self.at_barrier[:, number])
        self.known = np.where(running[:, :, None], np.maximum(self.known, times[:, None, :]), self.known)
        self._tick(running)

    # ---- accesses

    def _accesses(self, lanes: Lanes, plan: Plan, offset: int, width: int) -> tuple[NDArray[Any], ...]:
        """Flat byte index, block, thread and lane position of every active lane's bytes."""
        address = plan.base.astype(np.int64) + offset + (lanes.row_index * self.stride)[:, None]
        position = np.arange(lanes.rows * lanes.threads).reshape(lanes.shape)
        columns = (address, lanes.row_index[:, None], lanes.thread, position)
        first, *rest = (np.repeat(plan.chosen(column), width) for column in columns)
        return (first + np.tile(np.arange(width), len(first) // width), *rest)

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
        """Check and remember a plain read."""
        index, block, thread, position = self._accesses(lanes, plan, offset, width)
        missing = ~self.initialised[index]
        if missing.any():
            place = int(index[missing][0] % self.stride)
            detail = f"shared byte {place:#x}"
            self._fault(lanes, FaultKind.UNINITIALISED_SHARED, instruction, position[missing], detail)
        race = self._unordered_write(index, block, thread)
        if race.any():
            k = int(race.argmax())
            detail = (
                f"reads shared byte {int(index[k] % self.stride):#x} that thread {int(self.writer[index[k]])} wrote "
                "with no barrier between"
            )
            self._fault(lanes, FaultKind.SHARED_RACE, instruction, position[race], detail)
        self._remember_read(index, block, thread)

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
        elements: tuple[NDArray[Any], ...],
        atomic: bool = False,
    ) -> None:
        """Check and remember a write of the elements of a vector, or an atomic operation on one element."""
        width = int(elements[0].dtype.itemsize) * len(elements)
        index, block, thread, position = self._accesses(lanes, plan, offset, width)
        race = self._unordered_write(index, block, thread)
        if atomic:
            race &= ~self.atomic[index]
        race |= self._unordered_read(index, block, thread)
        if not atomic:
            race |= self._same_place(plan, index, elements)
        if race.any():
            k = int(race.argmax())
            place = int(index[k] % self.stride)
            detail = f"writes shared byte {place:#x} that another thread uses with no barrier between"
            self._fault(lanes, FaultKind.SHARED_RACE, instruction, position[race], detail)
        warp = thread // WARP_SIZE
        self.writer[index] = thread
        self.atomic[index] = atomic
        self.write_time[index] = self.known[block, warp, warp]
        self.initialised[index] = True

    def _same_place(self, plan: Plan, index: NDArray[Any], elements: tuple[NDArray[Any], ...]) -> Mask:
        """Where lanes of this very instruction write different values to one byte."""
        order = np.argsort(index, kind="stable")
        place = index[order]
        again = place[1:] == place[:-1]
        wrong = np.zeros(len(index), np.bool_)
        if not again.any():
            return wrong
        flat = np.stack([np.ascontiguousarray(plan.chosen(element)) for element in elements], axis=1)
        values = np.ascontiguousarray(flat).view(np.uint8).reshape(-1)[order]
        wrong[order[1:][again & (values[1:] != values[:-1])]] = True
        return wrong
