"""Shadow of shared memory: who wrote and read each byte since when, to find races and reads of what nobody wrote.

Two accesses of different threads to one byte, one of them a plain write, race unless a barrier of the block lies between them, or, within
a warp, an instruction that synchronises the warp (PTX ISA 8.9). Atomics do not race with one another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..definitions import WARP_SIZE
from .access import Mask
from .faults import FaultKind
from .plan import Plan

if TYPE_CHECKING:
    from .machine import Lanes

_NOBODY = -1
_MANY = -2


class Shadow:
    """Shadow of the shared memory of a batch; arrays have one element per byte and are indexed like its bytes."""

    def __init__(self, rows: int, threads: int, stride: int) -> None:
        size = rows * stride
        self.stride = stride
        self.initialised = np.zeros(size, np.bool_)
        self.writer = np.full(size, _NOBODY, np.int32)
        self.write_time = np.zeros((2, size), np.int32)
        self.atomic = np.zeros(size, np.bool_)
        self.reader = np.full(size, _NOBODY, np.int32)
        self.reader_warp = np.full(size, _NOBODY, np.int32)
        self.read_time = np.zeros((2, size), np.int32)
        self.epoch = np.ones((rows, 1), np.int32)
        self.warp_epoch = np.ones((rows, threads // WARP_SIZE), np.int32)

    def block_barrier(self, lanes: Lanes, rows: Mask | None) -> None:
        """A barrier of whole blocks; ``rows`` of shape ``(lanes.rows,)`` says which, None means all."""
        chosen = lanes.row_index if rows is None else lanes.row_index[rows]
        self.epoch[chosen] += 1

    def warp_barrier(self, lanes: Lanes, mask: Mask | None) -> None:
        """An instruction that synchronises the warps with a lane in the mask."""
        if mask is None:
            self.warp_epoch[lanes.row_index] += 1
            return
        full = np.broadcast_to(mask, lanes.shape).reshape(lanes.rows, -1, WARP_SIZE).any(axis=2)
        self.warp_epoch[lanes.row_index] += full

    def _accesses(self, lanes: Lanes, plan: Plan, offset: int, width: int) -> tuple[NDArray[Any], ...]:
        """Flat byte index, thread, warp, block epoch and warp epoch of every active lane's bytes; the position of its lane last."""
        address = plan.base.astype(np.int64) + offset + (lanes.row_index * self.stride)[:, None]
        position = np.arange(lanes.rows * lanes.threads).reshape(lanes.shape)
        warp = lanes.batch.thread // WARP_SIZE
        warp_epoch = np.repeat(self.warp_epoch[lanes.row_index], WARP_SIZE, axis=1)
        columns = (address, lanes.batch.thread, warp, self.epoch[lanes.row_index], warp_epoch, position)
        first, *rest = (np.repeat(plan.chosen(column), width) for column in columns)
        return (first + np.tile(np.arange(width), len(first) // width), *rest)

    def _conflicts(
        self, who: NDArray[Any], time: NDArray[Any], warp_of: NDArray[Any], index: NDArray[Any], now: tuple[Any, ...]
    ) -> Mask:
        """Where the remembered access of ``who`` is of another thread and unordered with the one at hand."""
        thread, warp, epoch, warp_epoch = now
        other = (who != _NOBODY) & (who != thread) & (time[0, index] == epoch)
        unordered: Mask = other & ((warp_of != warp) | (time[1, index] == warp_epoch))
        return unordered

    def _fault(self, lanes: Lanes, kind: FaultKind, instruction: int, position: NDArray[Any], detail: str) -> None:
        wrong = np.zeros(lanes.rows * lanes.threads, np.bool_)
        wrong[position] = True
        lanes.fault(kind, instruction, wrong.reshape(lanes.shape), detail)

    def read(self, lanes: Lanes, instruction: int, plan: Plan, offset: int, width: int) -> None:
        """Check and remember a plain read."""
        index, thread, warp, epoch, warp_epoch, position = self._accesses(lanes, plan, offset, width)
        missing = ~self.initialised[index]
        if missing.any():
            first = int(index[missing][0] % self.stride)
            self._fault(
                lanes, FaultKind.UNINITIALISED_SHARED, instruction, position[missing], f"shared byte {first:#x}"
            )
        now = (thread, warp, epoch, warp_epoch)
        writer = self.writer[index]
        race = self._conflicts(writer, self.write_time, writer // WARP_SIZE, index, now)
        if race.any():
            k = int(race.argmax())
            self._fault(
                lanes,
                FaultKind.SHARED_RACE,
                instruction,
                position[race],
                f"reads shared byte {int(index[k] % self.stride):#x} that thread {int(writer[k])} wrote since the last barrier",
            )
        self._remember_read(index, now)

    def _remember_read(self, index: NDArray[Any], now: tuple[Any, ...]) -> None:
        thread, warp, epoch, warp_epoch = now
        same = self.read_time[0, index] == epoch
        others = same & (self.reader[index] != _NOBODY) & (self.reader[index] != thread)
        other_warps = same & (self.reader_warp[index] != _NOBODY) & (self.reader_warp[index] != warp)
        self.reader[index] = np.where(others, _MANY, thread)
        self.reader_warp[index] = np.where(other_warps, _MANY, warp)
        order = np.argsort(index, kind="stable")
        place, who, of_warp = index[order], thread[order], warp[order]
        again = place[1:] == place[:-1]
        self.reader[place[1:][again & (who[1:] != who[:-1])]] = _MANY
        self.reader_warp[place[1:][again & (of_warp[1:] != of_warp[:-1])]] = _MANY
        self.read_time[0, index] = epoch
        self.read_time[1, index] = warp_epoch

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
        index, thread, warp, epoch, warp_epoch, position = self._accesses(lanes, plan, offset, width)
        now = (thread, warp, epoch, warp_epoch)
        writer, reader = self.writer[index], self.reader[index]
        race = self._conflicts(writer, self.write_time, writer // WARP_SIZE, index, now)
        if atomic:
            race &= ~self.atomic[index]
        race |= self._conflicts(reader, self.read_time, self.reader_warp[index], index, now)
        if not atomic:
            race |= self._same_place(lanes, plan, index, elements)
        if race.any():
            k = int(race.argmax())
            self._fault(
                lanes,
                FaultKind.SHARED_RACE,
                instruction,
                position[race],
                f"writes shared byte {int(index[k] % self.stride):#x} that another thread uses without a barrier between",
            )
        self.writer[index] = thread
        self.atomic[index] = atomic
        self.write_time[0, index] = epoch
        self.write_time[1, index] = warp_epoch
        self.initialised[index] = True

    def _same_place(self, lanes: Lanes, plan: Plan, index: NDArray[Any], elements: tuple[NDArray[Any], ...]) -> Mask:
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
