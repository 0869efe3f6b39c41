"""Execution of a batch: which lanes run what next.

Every lane has its own place. Of the places where lanes stand, the one that comes first in the code's layout runs, with
all lanes that stand there, so that lanes that diverged at a branch run together again at the first place in layout order
that they share, which is where the compiler places reconvergence. An instruction that synchronises a warp waits for the
lanes that its member mask names, a barrier for the block (PTX ISA 3.2 and 9.7.13: independent thread scheduling); lanes
that have ended are not waited for. Lanes that poll memory in a loop let the others go first from time to time, so that
locks are handed on.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.constants import WARP_SIZE
from ..errors import SimulationError
from .block_classes.classes import NotFollowedError
from .faults import WaitsForBlocksError
from .machine import Batch, Lanes
from .phases import PhaseLog
from .plan import Mask, rows_and_warps
from .program import Unit
from .synchronization import Synchronization
from .translate.unit_functions import UnitFunctions
from .undetermined import Cause

Values = NDArray[Any]
PATIENCE_STEPS = 256
"""Steps in which lanes may read what others write, again and again, before lanes at other places go first."""
YIELD_STEPS = 64
"""Steps for which those lanes then go first."""
_ROUND_STEPS = PATIENCE_STEPS + YIELD_STEPS
_WAITING_STEPS = 4 * _ROUND_STEPS
"""Steps of polling after which it is looked whether anything changes still."""
_PATIENT_STEPS = 4 * _WAITING_STEPS
"""Steps of polling after which other blocks are executed, too."""
_SUBSET_FRACTION = 0.5
"""When fewer of a batch's blocks than this take part, they are gathered and run alone."""


PATH_STEPS = 100_000
"""Steps of a block's path that are kept; what follows is known by its visits alone."""


@dataclass(slots=True)
class BlockPath:
    """The way of one block's warps through the code: for each step the first and the last place, and which warps took it.

    ``None`` stands for all warps. Of long ways the first `PATH_STEPS` are kept. ``lanes`` is how many lanes executed each
    unit, over all visits, ``phases`` what they do with ``mbarrier`` objects.
    """

    lanes: NDArray[np.int64]
    steps: list[tuple[int, int, Mask | None]] = field(default_factory=list)
    phases: PhaseLog = field(default_factory=PhaseLog)

    def add(self, first: int, last: int, warps: Mask | None) -> None:
        """Add a step of some warps, shape ``(warps,)``."""
        if len(self.steps) < PATH_STEPS and (warps is None or warps.any()):
            self.steps.append((first, last, None if warps is None or warps.all() else warps.copy()))


@dataclass(slots=True)
class Tally:
    """Executions of basic blocks by warps, in all, by block, by warp of some blocks, and whether a warp diverged.

    ``paths`` has the ways of the same blocks as ``by_warp``, of machine code alone. ``undetermined`` has what was seen that the
    program does not fix, with an instruction of each.
    """

    visits: NDArray[np.int64]
    by_block: NDArray[np.int64] | None
    by_warp: Mapping[int, NDArray[np.int64]] = field(default_factory=dict)
    diverged: bool = False
    paths: Mapping[int, BlockPath] = field(default_factory=dict)
    undetermined: dict[Cause, int] = field(default_factory=dict)


_MORE = "--max-{0} (max_{0} in perf.toml, Budget in Python) allows more"


@dataclass(slots=True)
class Limits:
    """Budgets of one simulation, and what has been used; ``started`` is on the clock of the thread's processor time."""

    warp_instructions: int
    seconds: float
    deadline_s: float = math.inf
    used: int = 0
    started: float = field(default_factory=time.thread_time)

    def spend(self, warp_instructions: int) -> None:
        """Account for executed instructions; SimulationError when a budget is used up."""
        self.used += warp_instructions
        if self.used > self.warp_instructions:
            used = f"more than {self.warp_instructions} warp instructions: instruction budget used up"
            raise SimulationError(f"{used}; {_MORE.format('instructions')}")
        if time.thread_time() - self.started > self.seconds:
            used = f"more than {self.seconds:g} s of processor time: time budget used up"
            raise SimulationError(f"{used}; {_MORE.format('seconds')}")
        if time.monotonic() > self.deadline_s:
            raise SimulationError("the time for the whole run is used up")


@dataclass(frozen=True, slots=True)
class _Moment:
    """Where all lanes of a batch stand and what their registers hold."""

    place: int
    mask: Mask | None
    pending: dict[int, Mask | None]
    registers: list[Values]

    def equals(self, other: _Moment) -> bool:
        """Whether lanes that read the same memory again will do the same again."""
        if self.place != other.place or self.pending.keys() != other.pending.keys():
            return False
        pairs = [(self.mask, other.mask), *((mask, other.pending[place]) for place, mask in self.pending.items())]
        pairs += zip(self.registers, other.registers, strict=True)
        return all(one is two or np.array_equal(one, two) for one, two in pairs)  # type: ignore[arg-type]


class Scheduler:
    """Runs one batch of blocks to its end."""

    synchronization_type: type[Synchronization] = Synchronization

    def __init__(
        self,
        translation: UnitFunctions,
        batch: Batch,
        limits: Limits,
        tally: Tally,
    ) -> None:
        self.translation = translation
        self.program = translation.program
        self.batch = batch
        self.limits = limits
        self.tally = tally
        self.lanes = Lanes(batch)
        if batch.classes is not None:
            batch.classes.running = self.lanes
        self.registers: list[Values] = list(translation.undefined)
        self.pending: dict[int, Mask | None] = {0: batch.initial_mask}
        self.watched = [
            (row, tally.by_warp[block]) for row, block in enumerate(batch.block_ids.tolist()) if block in tally.by_warp
        ]
        """Rows of the blocks whose warps' visits are counted, and where."""
        self.paths = [
            (row, tally.paths[block]) for row, block in enumerate(batch.block_ids.tolist()) if block in tally.paths
        ]
        """Rows of the blocks whose ways are kept, and where."""
        self.positions = self._positions()
        """Places in the tally of the rows that are counted."""
        self.recent: set[int] = set()
        """Places that ran since lanes last had to yield."""
        self.last_run: dict[int, int] = {}
        """Step in which lanes last ran at each place."""
        self.waited = 0
        """Steps in which lanes have done nothing but wait in loops for what others write."""
        self.seen: _Moment | None = None
        """What they waited with, some steps ago."""
        self.synchronization = self.synchronization_type(self.program, self.lanes, self.registers, self.pending)

    def _positions(self) -> NDArray[np.int64] | slice:
        positions = self.batch.positions[self.batch.positions >= 0]
        consecutive = len(positions) > 0 and bool((np.diff(positions) == 1).all())
        return slice(int(positions[0]), int(positions[-1]) + 1) if consecutive else positions

    def run(self) -> None:
        """Execute until no lane is left."""
        if self.program.end == 0:
            return
        try:
            self._run()
        finally:
            self._add_up()

    def _run(self) -> None:
        steps = 0
        while self.pending:
            steps += 1
            (place, together), *others = self.pending.items()
            if not others and self._runs_together(place, together):
                self.pending.clear()
                self._look_for_progress(place, together)
                self._step_together(place, together)
            else:
                if together is None:
                    self.pending[place] = np.ones((1, 1), np.bool_)
                place, mask = self._choose(steps)
                self._look_for_progress(place, mask)
                self.tally.diverged = self.tally.diverged or self._diverges(mask)
                self._step_masked(place, mask)

    def _look_for_progress(self, place: int, mask: Mask | None) -> None:
        """Notice that lanes wait for what nobody here writes: all of them poll memory in loops, and nothing has changed.

        Raises:
            WaitsForBlocksError: so it is.
            NotFollowedError: lanes of followed blocks wait.
        """
        if place not in self.program.waiting:
            self.waited, self.seen = 0, None
            return
        self.waited += 1
        if self.batch.classes is not None and self.waited >= YIELD_STEPS:
            raise NotFollowedError("blocks wait in a loop for what others write")
        if self.waited < _WAITING_STEPS:
            return
        if self.waited >= _PATIENT_STEPS and not self.batch.environment.launch.cooperative:
            raise self._waits_for_blocks(place)  # lanes that count their looks are never as they were
        now = _Moment(place, mask, dict(self.pending), list(self.registers))
        if self.waited % _WAITING_STEPS == 0:
            self.seen = now
        elif self.seen is not None and self.waited % _WAITING_STEPS > _ROUND_STEPS and self.seen.equals(now):
            raise self._waits_for_blocks(place)

    def _waits_for_blocks(self, place: int) -> WaitsForBlocksError:
        polled = self.program.polled(place)
        return WaitsForBlocksError(
            str(polled.error("threads wait in a loop for what no thread that is executed with them writes"))
        )

    # ---- one step

    def _runs_together(self, place: int, mask: Mask | None) -> bool:
        """Whether the lanes at a place, which are all that live, need not be told apart."""
        return place not in self.program.counted

    def _step_together(self, place: int, mask: Mask | None) -> None:
        """All live lanes run from a place to the end of its basic block."""
        self.synchronization.released.clear()
        first = self.program.units[place]
        self._spend(first, mask, whole=True)
        self.synchronization.check_ended(first, mask)
        self.lanes.active = mask
        last = first
        while not last.ends_block:
            last = self.program.units[last.index + 1]
        value = self.translation.function(place, False)(self.lanes, self.registers, None)
        self._route(last, mask, value)

    def _step_masked(self, place: int, mask: Mask) -> None:
        """Some of the live lanes run one unit; blocks without such a lane are left out when they are many."""
        unit = self.program.units[place]
        self._spend(unit, mask, whole=False)
        function = self.translation.function(place, True)
        if mask.shape[0] > 1 and self.batch.classes is None:
            rows = np.flatnonzero(mask.any(axis=1))
            if len(rows) < _SUBSET_FRACTION * self.batch.rows:
                self._route(unit, mask, self._run_subset(function, unit, mask, rows))
                return
        self.lanes.active = mask
        self._route(unit, mask, function(self.lanes, self.registers, mask))

    def _run_subset(self, function: Any, unit: Unit, mask: Mask, rows: NDArray[np.int64]) -> Values | None:
        """Run a unit on some blocks alone and put what it wrote back in place."""
        touched = self.translation.touched(unit)
        before = {index: self.registers[index] for index in touched}
        before = {index: held[rows] if held.shape[0] > 1 else held for index, held in before.items()}
        registers = dict(before)
        lanes = Lanes(self.batch, rows)
        lanes.arrived = self.lanes.arrived
        lanes.active = mask[rows]
        value = function(lanes, registers, lanes.active)
        for index in touched:
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
            running: Any = True
            count = self.batch.rows * warps
            per_row: Any = warps
        else:
            running = rows_and_warps(mask, self.batch.threads)
            per_row = np.broadcast_to(running.sum(axis=1), (self.batch.rows,))
            count = int(per_row.sum())
        last = self.program.blocks[unit.block]
        length = last.first + len(last.instructions) - unit.first if whole else len(unit.instructions)
        if unit.first == last.first:
            self._count(unit.block, per_row, count)
            for row, visits in self.watched:
                visits[:, unit.block] += running if mask is None else running[min(row, len(running) - 1)]
        self.limits.spend(count * length)

    def _add_up(self) -> None:
        """Put into the tally what has been noted of steps but not counted yet."""

    def _count(self, place: int | slice, per_row: Any, count: int) -> None:
        """Add the warps of each row that visit a place; ``count`` of them in all."""
        rows, of_blocks = self.batch.counted, self.tally.by_block
        if rows is not None:
            per_row = np.broadcast_to(per_row, (self.batch.rows,))[rows]
            count = int(per_row.sum())
        self.tally.visits[place] += count
        if of_blocks is not None:
            chosen = of_blocks[:, place]  # a view: what is added there is added to all
            chosen[self.positions] += per_row if isinstance(place, int) else np.reshape(per_row, (-1, 1))

    def _diverges(self, mask: Mask) -> bool:
        """Whether a warp with lanes in a mask has lanes that stand elsewhere."""
        here = rows_and_warps(mask, self.batch.threads)
        return any(
            bool((here & rows_and_warps(other, self.batch.threads)).any())
            for other in self.pending.values()
            if other is not None
        )

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
            order.sort(key=lambda place: self.last_run.get(place, 0))
        for place in order:
            ready = self.synchronization.ready(place)
            if ready is not None:
                if phase < PATIENCE_STEPS:
                    self.recent.add(place)
                self.last_run[place] = steps
                return place, self.synchronization.take(place, ready)
        return self.synchronization.deadlock(order)
