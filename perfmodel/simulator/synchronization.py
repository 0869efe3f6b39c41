"""Where lanes wait for one another: synchronising instructions of a warp, barriers of a block (PTX ISA 9.7.13)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.constants import WARP_SIZE
from ..ptx.operands import integer
from .faults import FaultKind
from .machine import Batch, Lanes
from .plan import Mask, rows_and_warps, warp_bits
from .program import Program, SyncScope, Unit
from .translate.warp import barrier_identifier

Values = NDArray[Any]


class Synchronization:
    """Who of the lanes that stand at a place may go on. ``pending`` and ``registers`` are the scheduler's own."""

    def __init__(
        self,
        program: Program,
        lanes: Lanes,
        registers: list[Values],
        pending: dict[int, Mask | None],
    ) -> None:
        self.program = program
        self.batch: Batch = lanes.batch
        self.lanes = lanes
        self.registers = registers
        self.pending = pending
        self.released: dict[int, Mask] = {}
        """Lanes whose barrier is complete, by place, until they go on."""
        self.arrived = lanes.arrived
        self.shape = lanes.shape

    def take(self, place: int, ready: Mask) -> Mask:
        """Let lanes leave their place; gives those lanes."""
        waiting = self.pending.pop(place)
        assert waiting is not None
        rest = waiting & ~ready
        if rest.any():
            self.pending[place] = rest
        if place in self.released:
            left = self.released[place] & ~ready
            if left.any():
                self.released[place] = left
            else:
                del self.released[place]
        return ready

    def ready(self, place: int) -> Mask | None:
        """Lanes at a place that need not wait, or None."""
        mask = self.pending[place]
        assert mask is not None
        unit = self.program.units[place]
        if unit.sync_scope is SyncScope.NOBODY:
            return mask
        if place in self.released:
            return self.released[place] & mask
        ready = self._ready_warps(unit, mask) if unit.sync_scope is SyncScope.WARP else self._ready_blocks(unit, mask)
        return ready if ready.any() else None

    def waiting(self, place: int) -> Mask:
        """Lanes at a place whose barrier is not complete yet; others there may go on and have not arrived anywhere."""
        mask = self.pending[place]
        assert mask is not None
        return mask & ~self.released[place] if place in self.released else mask

    def _live(self) -> Mask:
        masks = [mask for mask in self.pending.values() if mask is not None]
        live = masks[0]
        for mask in masks[1:]:
            live = live | mask
        return live

    def _member_mask(self, unit: Unit) -> Values:
        """The member mask of a synchronising instruction: its last operand."""
        text = unit.instructions[0].operands[-1]
        value = integer(text)
        if value is not None:
            return np.full((1, 1), value % 2**32, np.uint32)
        index = self.program.register_index.get(text)
        if index is None:
            raise unit.instructions[0].error("member mask is not supported")
        return self.registers[index].astype(np.uint32)

    def _ready_warps(self, unit: Unit, mask: Mask) -> Mask:
        """Lanes of warps in which every live lane that the member mask names stands here."""
        members = self._member_mask(unit)
        absent = self._live() & ~mask
        rows = max(mask.shape[0], absent.shape[0], members.shape[0])
        shape = (rows, self.batch.threads // WARP_SIZE, WARP_SIZE)
        here = np.broadcast_to(mask, (rows, self.batch.threads)).reshape(shape)
        names = np.broadcast_to(members, (rows, self.batch.threads)).reshape(shape)
        missing = warp_bits(absent, self.batch.threads)[:, :, None]
        ready = here & (names & missing == 0)
        flat: Mask = ready.reshape(rows, self.batch.threads)
        return flat

    def _ready_blocks(self, unit: Unit, mask: Mask) -> Mask:
        """Lanes of blocks whose barrier is complete; those at other places of the same barrier are released too."""
        numbers = self.barriers_of(unit)
        if numbers.size > 1:
            numbers = np.unique(np.broadcast_to(numbers, self.shape)[np.broadcast_to(mask, self.shape)])
        for number in numbers.flat:
            self._complete(int(number), unit)
        return self.released.get(unit.index, np.zeros((1, 1), np.bool_)) & mask

    def _complete(self, number: int, unit: Unit) -> None:
        """Release the lanes of blocks whose barrier of a number is complete; some of them wait at a unit."""
        waits: dict[int, Mask] = {}
        here: Mask = np.zeros((1, 1), np.bool_)
        for place in self.pending:
            waiting = self._waiting_for(number, place)
            if waiting is not None:
                waits[place] = waiting
                here = here | waiting
        count = self._barrier_count(unit, waits[unit.index])
        if count is None:
            complete = ~np.logical_or.reduce(np.broadcast_to(self._live() & ~here, self.shape), axis=1)
        else:
            present = rows_and_warps(np.broadcast_to(here, self.shape), self.batch.threads).sum(axis=1) * WARP_SIZE
            complete = present + self.arrived[:, number] >= count
        rows: Mask = complete & np.logical_or.reduce(np.broadcast_to(here, self.shape), axis=1)
        if not rows.any():
            return
        self.arrived[rows, number] = 0
        if count is None:
            self.batch.barriers[self.lanes.row_index[rows]] += 1
        if self.batch.race_detector is not None:
            self.batch.race_detector.complete(self.lanes, number, here & rows[:, None])
        for place, waiting in waits.items():
            passing = waiting & rows[:, None]
            if passing.any():
                self._check_aligned(place, waiting, rows)
                self.released[place] = self.released.get(place, np.zeros((1, 1), np.bool_)) | passing

    def _waiting_for(self, number: int, place: int) -> Mask | None:
        """Lanes at a place that wait for the barrier of a number; None where there are none."""
        unit = self.program.units[place]
        if unit.sync_scope is not SyncScope.BLOCK:
            return None
        mask, numbers = self.waiting(place), self.barriers_of(unit)
        if numbers.size == 1:
            return mask if int(numbers.flat[0]) == number else None
        waiting: Mask = mask & (numbers == number)
        return waiting if waiting.any() else None

    def barriers_of(self, unit: Unit) -> NDArray[Any]:
        """Number of the barrier at which a unit begins, for all lanes or for each."""
        return np.full((1, 1), barrier_identifier(unit.instructions[0]))

    def _barrier_count(self, unit: Unit, waiting: Mask) -> int | None:
        """Threads that a barrier of some lanes waits for, or None where it waits for the whole block."""
        instruction = unit.instructions[0]
        position = 2 if "red" in instruction.parts else 1
        operands = instruction.operands[:-1] if "red" in instruction.parts else instruction.operands
        if len(operands) <= position:
            return None
        value = integer(operands[position])
        if value is None:
            index = self.program.register_index.get(operands[position])
            held = None if index is None else self.registers[index]
            if held is None or (held != held.flat[0]).any():
                raise instruction.error("the thread count of a barrier must be the same for all threads")
            value = int(held.flat[0])
        return value

    # ---- what goes wrong

    def _check_aligned(self, place: int, waiting: Mask, rows: NDArray[np.bool_]) -> None:
        """An aligned barrier must be reached by all live lanes of a warp at one place."""
        unit = self.program.units[place]
        index = self._aligned_barrier(unit)
        if not self.batch.environment.check or index is None:
            return
        live = np.broadcast_to(self._live(), self.shape)
        here = np.broadcast_to(waiting, self.shape)
        warps = rows_and_warps(here, self.batch.threads)
        elsewhere = rows_and_warps(live & ~here, self.batch.threads) & warps & rows[:, None]
        if elsewhere.any():
            wrong = np.repeat(elsewhere, WARP_SIZE, axis=1) & here
            self.lanes.fault(
                FaultKind.DIVERGENT_BARRIER, index, wrong, "other threads of the warp are at another place"
            )

    def check_ended(self, first: Unit, mask: Mask | None) -> None:
        """With `check`, a barrier that threads have ended before is reported."""
        if not self.batch.environment.check or mask is None:
            return
        barriers = self._barriers_from(first)
        if not barriers:
            return
        exists = self.batch.initial_mask
        ended = np.broadcast_to(~mask if exists is None else ~mask & exists, self.shape)
        wrong = mask & ended.any(axis=1, keepdims=True)
        for index in barriers if wrong.any() else ():
            self.lanes.fault(
                FaultKind.DIVERGENT_BARRIER, index, wrong, "other threads of the block have ended before it"
            )

    def _waits_at(self, unit: Unit) -> int:
        """Index of the instruction at which lanes wait before a unit."""
        return unit.first

    def _aligned_barrier(self, unit: Unit) -> int | None:
        """Index of the barrier at which a unit begins, where all lanes of a warp must come to it together."""
        instruction = unit.instructions[0]
        aligned = instruction.name != "barrier" or "aligned" in instruction.parts
        return self._waits_at(unit) if aligned else None

    def _barriers_from(self, first: Unit) -> list[int]:
        """Indices of the barriers for the whole block from a unit to the end of its basic block."""
        block = self.program.blocks[first.block]
        return [
            first.first + k
            for k, instruction in enumerate(block.instructions[first.first - block.first :])
            if instruction.name == "bar"
            and not {"warp", "arrive"} & set(instruction.parts)
            and len(instruction.operands) < 2
        ]

    def deadlock(self, order: list[int]) -> tuple[int, Mask]:
        """Nobody can go on: lanes that wait for a warp go on with a fault, an incomplete barrier ends the simulation."""
        for place in order:
            unit = self.program.units[place]
            if unit.sync_scope is SyncScope.WARP:
                mask = self.pending[place]
                assert mask is not None
                if self.batch.environment.check:
                    detail = "a lane that the member mask names never comes here"
                    self.lanes.fault(FaultKind.INACTIVE_LANE, self._waits_at(unit), mask, detail)
                return place, self.take(place, mask)
        unit = self.program.units[order[0]]
        mask = self.pending[order[0]]
        assert mask is not None
        detail = "the other threads wait elsewhere or have ended"
        self.lanes.fault(FaultKind.DEADLOCK, self._waits_at(unit), mask, detail)
        raise AssertionError("a deadlock ends the simulation")
