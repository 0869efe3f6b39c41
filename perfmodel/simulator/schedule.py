"""Execution of a batch: which lanes run what next.

Every lane has its own place. Of the places where lanes stand, the one that comes first in the code's layout runs, with
all lanes that stand there, so that lanes that a branch parted run together again at the first place in layout order
that they share, which is where the compiler places reconvergence. An instruction that synchronises a warp waits for the
lanes that its member mask names, a barrier for the block (PTX ISA 3.2 and 9.7.13: independent thread scheduling); lanes
that have ended are not waited for. Lanes that poll memory in a loop let the others go first from time to time, so that
locks are handed on.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..definitions import WARP_SIZE
from ..errors import SimulationError
from .access import Mask, rows_and_warps
from .faults import FaultKind
from .machine import Batch, Lanes
from .operands import integer
from .program import Meeting, Unit
from .translate.translation import Translation
from .translate.warp import barrier_identifier

Values = NDArray[Any]
PATIENCE_STEPS = 256
"""Steps in which lanes may read what others write, again and again, before lanes at other places go first."""
YIELD_STEPS = 64
"""Steps for which those lanes then go first."""
_SUBSET_FRACTION = 0.5
"""When fewer of a batch's blocks than this take part, they are gathered and run alone."""


@dataclass(slots=True)
class Limits:
    """Budgets of one simulation, and what has been used."""

    warp_instructions: int
    seconds: float
    used: int = 0
    started: float = 0.0

    def spend(self, warp_instructions: int) -> None:
        """Account for executed instructions; SimulationError when a budget is used up."""
        self.used += warp_instructions
        if self.used > self.warp_instructions:
            raise SimulationError(f"more than {self.warp_instructions} warp instructions: instruction budget used up")
        if time.monotonic() - self.started > self.seconds:
            raise SimulationError(f"more than {self.seconds} s: time budget used up")


class Scheduler:
    """Runs one batch of blocks to its end."""

    def __init__(
        self, translation: Translation, batch: Batch, limits: Limits, visits: NDArray[np.int64], by_block: Any
    ) -> None:
        self.translation = translation
        self.program = translation.program
        self.batch = batch
        self.limits = limits
        self.visits = visits
        self.by_block = by_block
        self.lanes = Lanes(batch)
        self.registers: list[Values] = list(translation.undefined)
        self.pending: dict[int, Mask | None] = {0: batch.initial_mask}
        self.released: dict[int, Mask] = {}
        self.recent: set[int] = set()
        """Places that ran since lanes last had to yield."""
        self.arrived = self.lanes.arrived
        self.shape = (batch.rows, batch.threads)

    def run(self) -> None:
        """Execute until no lane is left."""
        steps = 0
        if self.program.end == 0:
            return
        while self.pending:
            steps += 1
            (place, together), *others = self.pending.items()
            if not others and place not in self.program.counted:
                self.pending.clear()
                self._step_together(place, together)
            else:
                if together is None:
                    self.pending[place] = np.ones((1, 1), np.bool_)
                place, mask = self._choose(steps)
                self._step_apart(place, mask)

    # ---- one step

    def _step_together(self, place: int, mask: Mask | None) -> None:
        """All live lanes run from a place to the end of its basic block."""
        self.released.clear()
        first = self.program.units[place]
        self._spend(first, mask, whole=True)
        self._check_barriers(first, mask)
        self.lanes.active = mask
        last = first
        while not last.ends_block:
            last = self.program.units[last.index + 1]
        value = self.translation.function(place, False)(self.lanes, self.registers, None)
        self._route(last, mask, value)

    def _step_apart(self, place: int, mask: Mask) -> None:
        """Some of the live lanes run one unit; blocks without such a lane are left out when they are many."""
        unit = self.program.units[place]
        self._spend(unit, mask, whole=False)
        function = self.translation.function(place, True)
        if mask.shape[0] > 1:
            rows = np.flatnonzero(mask.any(axis=1))
            if len(rows) < _SUBSET_FRACTION * self.batch.rows:
                self._route(unit, mask, self._run_subset(function, unit, mask, rows))
                return
        self.lanes.active = mask
        self._route(unit, mask, function(self.lanes, self.registers, mask))

    def _run_subset(self, function: Any, unit: Unit, mask: Mask, rows: NDArray[np.int64]) -> Values | None:
        """Run a unit on some blocks alone and put what it wrote back in place."""
        registers = list(self.registers)
        for index in self.translation.touched(unit):
            held = registers[index]
            if held.shape[0] > 1:
                registers[index] = held[rows]
        before = list(registers)
        lanes = Lanes(self.batch, rows)
        lanes.arrived = self.arrived
        lanes.active = mask[rows]
        value = function(lanes, registers, lanes.active)
        for index in self.translation.touched(unit):
            if registers[index] is not before[index]:
                self.registers[index] = self._scattered(self.registers[index], registers[index], rows)
        if value is None or value.shape[0] == 1:
            return None if value is None else np.asarray(value)
        spread = np.zeros((self.batch.rows, value.shape[1]), value.dtype)
        spread[rows] = value
        return spread

    def _scattered(self, old: Values, new: Values, rows: NDArray[np.int64]) -> Values:
        columns = max(old.shape[1], new.shape[1])
        result = np.array(np.broadcast_to(old, (self.batch.rows, columns)))
        result[rows] = new
        return result

    def _spend(self, unit: Unit, mask: Mask | None, whole: bool) -> None:
        warps = self.batch.threads // WARP_SIZE
        if mask is None:
            count = self.batch.rows * warps
            per_row: Any = warps
        else:
            running = rows_and_warps(mask, self.batch.threads).sum(axis=1)
            per_row = np.broadcast_to(running, (self.batch.rows,))
            count = int(per_row.sum())
        last = self.program.blocks[unit.block]
        length = last.first + len(last.instructions) - unit.first if whole else len(unit.instructions)
        if unit.first == last.first:
            self.visits[unit.block] += count
            if self.by_block is not None:
                self.by_block[self.batch.positions, unit.block] += per_row
        self.limits.spend(count * length)

    # ---- where lanes go

    def _route(self, unit: Unit, mask: Mask | None, value: Values | None) -> None:
        """Send the lanes of a step to their next places."""
        if not unit.ends_block:
            self._send(unit.index + 1, mask)
            return
        last = self.program.blocks[unit.block].instructions[-1]
        successors = self.program.successors(unit)
        if last.name == "brx":
            self._route_table(successors, mask, value)
        elif len(successors) == 1:
            self._send(successors[0], mask)
        else:
            assert value is not None
            self._route_branch(successors, mask, value)

    def _route_branch(self, successors: tuple[int, ...], mask: Mask | None, value: Values) -> None:
        fall_through, taken = successors
        if value.size == 1:
            self._send(taken if value.item() else fall_through, mask)
            return
        going = value if mask is None else value & mask
        if not going.any():
            self._send(fall_through, mask)
            return
        staying = ~value if mask is None else mask & ~value
        if not staying.any():
            self._send(taken, mask)
            return
        self._send(taken, going)
        self._send(fall_through, staying)

    def _route_table(self, successors: tuple[int, ...], mask: Mask | None, value: Values | None) -> None:
        assert value is not None
        for place in range(len(successors)):
            here = value == np.uint32(place)
            here = here if mask is None else here & mask
            if here.any():
                self._send(successors[place], None if mask is None and here.all() else here)
        outside = value >= np.uint32(len(successors))
        if (outside if mask is None else outside & mask).any():
            raise SimulationError(f"kernel {self.program.kernel.name}: index beyond a jump table")

    def _send(self, place: int, mask: Mask | None) -> None:
        if place >= self.program.end:
            return
        if place in self.pending:
            there = self.pending[place]
            joined = None if there is None or mask is None else there | mask
            self.pending[place] = None if joined is not None and joined.all() else joined
        else:
            self.pending[place] = mask

    # ---- who runs next

    def _choose(self, steps: int) -> tuple[int, Mask]:
        """The first place in layout order with lanes that need not wait; those lanes leave the pending ones."""
        order = sorted(self.pending)
        phase = steps % (PATIENCE_STEPS + YIELD_STEPS)
        if phase == 0:
            self.recent.clear()
        elif phase >= PATIENCE_STEPS and self.recent & self.program.polling:
            order.sort(key=lambda place: place in self.recent)
        for place in order:
            ready = self._ready(place)
            if ready is not None:
                if phase < PATIENCE_STEPS:
                    self.recent.add(place)
                return place, self._take(place, ready)
        return self._deadlock(order)

    def _take(self, place: int, ready: Mask) -> Mask:
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

    def _ready(self, place: int) -> Mask | None:
        """Lanes at a place that need not wait, or None."""
        mask = self.pending[place]
        assert mask is not None
        unit = self.program.units[place]
        if unit.meeting is Meeting.NOBODY:
            return mask
        if place in self.released:
            return self.released[place] & mask
        ready = self._ready_warps(unit, mask) if unit.meeting is Meeting.WARP else self._ready_blocks(unit, mask)
        return ready if ready.any() else None

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
        lane = np.arange(self.batch.threads, dtype=np.uint32)[None, :] % np.uint32(WARP_SIZE)
        members = self._member_mask(unit)
        absent = self._live() & ~mask
        rows = max(mask.shape[0], absent.shape[0], members.shape[0])
        shape = (rows, self.batch.threads // WARP_SIZE, WARP_SIZE)
        here = np.broadcast_to(mask, (rows, self.batch.threads)).reshape(shape)
        missing = np.broadcast_to(absent, (rows, self.batch.threads)).reshape(shape)
        names = np.broadcast_to(members, (rows, self.batch.threads)).reshape(shape).astype(np.uint64)
        bits = np.uint64(1) << lane.astype(np.uint64).reshape(1, -1, WARP_SIZE)
        absent_bits = (missing * bits).sum(axis=2, keepdims=True, dtype=np.uint64)
        ready = here & (names & absent_bits == 0)
        flat: Mask = ready.reshape(rows, self.batch.threads)
        return flat

    def _ready_blocks(self, unit: Unit, mask: Mask) -> Mask:
        """Lanes of blocks whose barrier is complete; those at other places of the same barrier are released too."""
        number = barrier_identifier(unit.instructions[0])
        places = [place for place in self.pending if self._barrier_at(place) == number]
        here = mask
        for place in places:
            other = self.pending[place]
            assert other is not None
            here = here | other
        count = self._barrier_count(unit)
        if count is None:
            absent = np.broadcast_to(self._live() & ~here, self.shape)
            rows: Mask = ~np.logical_or.reduce(absent, axis=1)
        else:
            full = np.broadcast_to(here, self.shape)
            present = rows_and_warps(full, self.batch.threads).sum(axis=1) * WARP_SIZE
            rows = (present + self.arrived[:, number] >= count) & np.logical_or.reduce(full, axis=1)
        if not rows.any():
            return np.zeros((1, 1), np.bool_)
        self.arrived[rows, number] = 0
        if self.batch.shadow is not None:
            self.batch.shadow.meet(self.lanes, number, here & rows[:, None])
        for place in places:
            waiting = self.pending[place]
            assert waiting is not None
            passing = waiting & rows[:, None]
            if passing.any():
                self._check_aligned(place, waiting, rows)
                self.released[place] = self.released.get(place, np.zeros((1, 1), np.bool_)) | passing
        return self.released[unit.index] & mask

    def _barrier_at(self, place: int) -> int | None:
        unit = self.program.units[place]
        return barrier_identifier(unit.instructions[0]) if unit.meeting is Meeting.BLOCK else None

    def _barrier_count(self, unit: Unit) -> int | None:
        """Threads that a counted barrier waits for, or None where it waits for the whole block."""
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
        instruction = unit.instructions[0]
        if not self.batch.environment.check or (instruction.name == "barrier" and "aligned" not in instruction.parts):
            return
        live = np.broadcast_to(self._live(), self.shape)
        here = np.broadcast_to(waiting, self.shape)
        warps = rows_and_warps(here, self.batch.threads)
        apart = rows_and_warps(live & ~here, self.batch.threads) & warps & rows[:, None]
        if apart.any():
            wrong = np.repeat(apart, WARP_SIZE, axis=1) & here
            self.lanes.fault(
                FaultKind.DIVERGENT_BARRIER, unit.first, wrong, "other threads of the warp are at another place"
            )

    def _check_barriers(self, first: Unit, mask: Mask | None) -> None:
        """With `check`, a barrier that threads have ended before is reported."""
        if not self.batch.environment.check or mask is None:
            return
        exists = self.batch.initial_mask
        ended = ~mask if exists is None else ~mask & exists
        block = self.program.blocks[first.block]
        if not np.broadcast_to(ended, self.shape).any():
            return
        for k, instruction in enumerate(block.instructions[first.first - block.first :]):
            if instruction.name == "bar" and "warp" not in instruction.parts and "arrive" not in instruction.parts:
                rows = np.broadcast_to(ended, self.shape).any(axis=1, keepdims=True)
                wrong = mask & rows
                if wrong.any() and len(instruction.operands) < 2:
                    self.lanes.fault(
                        FaultKind.DIVERGENT_BARRIER,
                        first.first + k,
                        wrong,
                        "other threads of the block have ended before it",
                    )

    def _deadlock(self, order: list[int]) -> tuple[int, Mask]:
        """Nobody can go on: lanes that wait for a warp go on with a fault, an incomplete barrier ends the simulation."""
        for place in order:
            unit = self.program.units[place]
            if unit.meeting is Meeting.WARP:
                mask = self.pending[place]
                assert mask is not None
                if self.batch.environment.check:
                    self.lanes.fault(
                        FaultKind.INACTIVE_LANE, unit.first, mask, "a lane that the member mask names never comes here"
                    )
                return place, self._take(place, mask)
        unit = self.program.units[order[0]]
        mask = self.pending[order[0]]
        assert mask is not None
        self.lanes.fault(FaultKind.DEADLOCK, unit.first, mask, "the other threads wait elsewhere or have ended")
        raise AssertionError("a deadlock ends the simulation")
