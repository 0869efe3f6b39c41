"""Scheduling of machine code: lanes that a branch parted meet again where convergence barriers say, and nowhere else.

Of each warp one group of lanes runs at a time until it ends, waits, or has let others go first. Groups of one warp that
happen to stand at the same place stay apart; groups of different warps run together.

An indirect jump is issued once for each place that lanes of a group go to, ``WARPSYNC.ALL`` once more for the lanes that
have waited there until the last came, and ``WARPSYNC.EXCLUSIVE`` once for each group of lanes that goes on by itself: an H200
counts all three so.

While lanes wait in loops for what others write, warps run in the order of their clocks (`Clocks`).
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.constants import WARP_SIZE
from ...errors import SimulationError
from ...machine_code.instruction import MachineInstruction
from ...machine_code.operands import Address
from ...machine_code.program import Transfer
from ...machine_code.schedule import warp_latencies
from ..plan import Mask, rows_and_warps
from ..program import SyncScope, Unit
from ..schedule import Scheduler
from ..undetermined import Cause
from .clocks import Clocks
from .convergence import Convergence
from .parted_warps import PartedWarps, bits_of_warps
from .program import MachineProgram, issued_again
from .registers import number_of

Values = NDArray[Any]
SHARED_WORDS = 2**16
"""More words than shared memory has."""


class MachineScheduler(Scheduler):
    """Runs one batch of blocks of machine code to its end; ``tally`` has one element for each unit."""

    program: MachineProgram
    synchronization_type = Convergence

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.held: list[tuple[int, Mask]] = []
        """Lanes that cannot be at their place yet, because others of their warps are there on their own."""
        self.synchronization.held = self.held  # type: ignore[attr-defined]
        self.synchronization.note = self._note  # type: ignore[attr-defined]
        self.again: dict[int, Mask] = {}
        """Warps, by place, of which some lanes wait there for others, and whose second issue has been counted."""
        self.parted = PartedWarps(self.batch.threads)
        self._warps = self.batch.rows * (self.batch.threads // WARP_SIZE)
        """Warps of all rows."""
        self.ended: Mask | None = None
        """Lanes that the current step has ended, where others live."""
        self._steps_of_all: Counter[tuple[int, int]] = Counter()
        """How often all lanes together went from one unit up to another, as far as it is not in the tally yet."""
        waits = bool(self.program.looking) and self.batch.classes is None
        self.clocks = Clocks(self.program.unit_cycles, self.batch.rows, self.batch.threads) if waits else None
        """Of the warps, where lanes may come to wait in a loop."""

    def _runs_together(self, place: int, mask: Mask | None) -> bool:
        if self.held or place in self.program.swapping or not super()._runs_together(place, mask):
            return False
        scope = self.program.units[place].sync_scope
        of_warps = scope is SyncScope.WARP and self.tally.diverged and mask is not None
        if of_warps or scope is SyncScope.BLOCK:
            # lanes that came to a barrier one after the other complete it
            here = self.pending[place] = np.ones((1, 1), np.bool_) if mask is None else mask
            ready = self.synchronization.ready(place)
            return ready is not None and bool((ready == here).all())
        return True

    def _step_together(self, place: int, mask: Mask | None) -> None:
        self.again.pop(place, None)
        self.parted.join(None)
        super()._step_together(place, mask)

    def _step_masked(self, place: int, mask: Mask) -> None:
        unit = self.program.units[place]
        if unit.sync_scope is SyncScope.WARP:
            self._pass_barrier(place, self.program.waiting_instruction(unit), mask)
        elif unit.sync_scope is SyncScope.BLOCK and self.clocks is not None:
            self.clocks.meet(mask)
        if self.program.asks_who_lives:
            others = self.synchronization._live() if self.pending or self.held else np.zeros((1, 1), np.bool_)
            self.batch.live = mask | others
        super()._step_masked(place, mask)
        self.batch.live = None

    def _pass_barrier(self, place: int, waiting: MachineInstruction, mask: Mask) -> None:
        """Lanes go on behind a barrier of their warps."""
        self.parted.join(mask)
        if place in self.again:
            self.again[place] = self.again[place] & ~rows_and_warps(mask, self.batch.threads)
        others = self.pending.get(place)
        if waiting.has("EXCLUSIVE") and others is not None:
            threads = self.batch.threads
            self._spend_again(
                self.program.units[place - 1], rows_and_warps(others, threads) & rows_and_warps(mask, threads)
            )

    def _spend(self, unit: Unit, mask: Mask | None, whole: bool) -> None:
        end, length = self.program.stretch(unit) if whole else (unit.index + 1, len(unit.instructions))
        if mask is None:
            self._steps_of_all[unit.index, end] += 1
            if self.clocks is not None:
                self.clocks.spend(unit.index, end, None)
            for _, path in self.paths:
                path.add(unit.index, end - 1, None)
            self.limits.spend(self._warps * length)
            return
        running = rows_and_warps(mask, self.batch.threads)
        per_row = np.broadcast_to(running.sum(axis=1), (self.batch.rows,))
        count = int(per_row.sum())
        if self.clocks is not None:
            self.clocks.spend(unit.index, end, running)
        self._count(slice(unit.index, end), per_row, count)
        for row, visits in self.watched:
            visits[:, unit.index : end] += running[min(row, len(running) - 1), :, None]
        for row, path in self.paths:
            own = np.broadcast_to(mask, (len(mask), self.batch.threads))[min(row, len(mask) - 1)]
            path.lanes[unit.index : end] += int(own.sum())
            path.add(unit.index, end - 1, running[min(row, len(running) - 1)])
        self.limits.spend(count * length)

    def _add_up(self) -> None:
        per_row = np.full(self.batch.rows, self.batch.threads // WARP_SIZE)
        for (first, end), times in self._steps_of_all.items():
            self._count(slice(first, end), times * per_row, times * self._warps)
            for _, visits in self.watched:
                visits[:, first:end] += times
            for _, path in self.paths:
                path.lanes[first:end] += times * self.batch.threads
        self._steps_of_all.clear()

    def _spend_again(self, unit: Unit, warps: NDArray[np.bool_]) -> None:
        """Account for a unit that some warps, by row, issue once more."""
        per_row = np.broadcast_to(warps.sum(axis=1), (self.batch.rows,))
        self._count(slice(unit.index, unit.index + 1), per_row, int(per_row.sum()))
        for row, visits in self.watched:
            visits[:, unit.index] += warps[min(row, len(warps) - 1)]

    # ---- who runs next

    def _choose(self, steps: int) -> tuple[int, Mask]:
        place, lanes = self._next(steps)
        address = self.program.swapping.get(place)
        later = None if address is None else self._after_others(address, lanes)
        if later is None or not later.any():
            return place, lanes
        left = self.pending.get(place)
        self.pending[place] = later if left is None else later | left
        return place, lanes & ~later

    def _after_others(self, address: Address, lanes: Mask) -> Mask:
        """Of lanes about to swap words of shared memory, those of warps that name a word which a warp before theirs names, too.

        Between the load and the swap of one warp an H200 seldom lets another change the word: warps are not in step.
        """
        words = np.zeros((1, 1), np.int64)
        for register, scale in ((address.base, address.scale), (address.uniform, 1)):
            if register is not None and register.index is not None:
                words = words + self.registers[number_of(register)].astype(np.int64) * scale
        shape = np.broadcast_shapes(lanes.shape, words.shape, (1, self.batch.threads))
        by_warp = (shape[0], shape[1] // WARP_SIZE, WARP_SIZE)
        here = np.broadcast_to(lanes, shape).reshape(by_warp)
        words = np.broadcast_to(words, shape).reshape(by_warp) >> 2
        words = np.where(here, np.minimum(words - words[here].min(), SHARED_WORDS), 0)
        named = np.zeros((shape[0], int(words.max()) + 1), np.bool_)
        later = np.zeros(by_warp[:2], np.bool_)
        for warp in range(by_warp[1]):
            rows, columns = np.nonzero(here[:, warp])
            own = words[rows, warp, columns]
            later[rows[named[rows, own]], warp] = True
            named[rows, own] = True
        found: Mask = np.repeat(later, WARP_SIZE, axis=1) & lanes
        return found

    def _next(self, steps: int) -> tuple[int, Mask]:
        """As otherwise, but by clocks while lanes wait in a loop: these look again when the others have come as far."""
        if self.clocks is None or self.program.looking.isdisjoint(self.pending):
            return super()._choose(steps)
        ready = {
            place: lanes for place in sorted(self.pending) if (lanes := self.synchronization.ready(place)) is not None
        }
        if not ready:
            return super()._choose(steps)
        waiting = self.program.looking
        # lanes look when they come to the loop; what a unit stores is in L2, half a round trip away, some time after its end
        until_seen = self.program.unit_cycles + warp_latencies().l2 // 2
        clocks = {
            place: self.clocks.earliest(lanes) + (0 if place in waiting else int(until_seen[place]))
            for place, lanes in ready.items()
        }
        others = [clock for place, clock in clocks.items() if place not in waiting]
        now = min(others) if others else min(clocks.values()) + warp_latencies().l2
        place = min(ready, key=lambda one: clocks[one])
        lanes = ready[place]
        if place in waiting:
            lanes = self.clocks.until(lanes, now)
        self.last_run[place] = steps
        return place, self.synchronization.take(place, lanes)

    # ---- where lanes go

    def _route(self, unit: Unit, mask: Mask | None, value: Values | None) -> None:
        if not unit.ends_block:
            self._send(unit.index + 1, mask)
        else:
            self._route_block(unit, mask, value)
            if self.ended is not None and mask is not None:
                self._look_who_waits(unit, mask, self.ended)
            self.ended = None
        if self.held:
            waiting, self.held[:] = list(self.held), []
            for place, lanes in waiting:
                if place in self.pending and place != unit.index:  # nobody has left the place
                    self.held.append((place, lanes))
                else:
                    self._send(place, lanes)

    def _look_who_waits(self, unit: Unit, mask: Mask, ended: Mask) -> None:
        """Notice that whole groups of lanes have ended for which others of their warps wait, or will."""
        threads = self.batch.threads
        gone = rows_and_warps(ended, threads) & ~rows_and_warps(mask & ~ended, threads)
        if not gone.any() or not (self.pending or self.held):
            return
        live = self._live() & np.repeat(gone, WARP_SIZE, axis=1)
        ended_bits = bits_of_warps(ended, threads)
        for number in self.program.convergence_barriers if live.any() else ():
            if (live & (self.registers[number] & ended_bits != 0)).any():
                self._note(Cause.ENDING, unit.first + len(unit.instructions) - 1)

    def _live(self) -> Mask:
        return self.synchronization._live()

    def _note(self, cause: Cause, instruction: int) -> None:
        self.tally.undetermined.setdefault(cause, instruction)

    def _note_parts(self, groups: list[tuple[int, Mask]]) -> None:
        """Take note of where the lanes of one step go, when that is to several places."""
        going_on = [(place, mask) for place, mask in groups if place < self.program.end]
        met = self.parted.part(going_on) if len(going_on) > 1 else None
        if met is not None:
            first = self.program.units[met].first
            self._note(Cause.BARRIER if self.program.instructions[first].name == "BSYNC" else Cause.MEETING, first)

    def _route_branch(self, successors: tuple[int, ...], mask: Mask | None, value: Values) -> None:
        if value.size > 1:
            going, staying = (value, ~value) if mask is None else (value & mask, mask & ~value)
            if going.any() and staying.any():
                self._note_parts(list(zip(successors, (staying, going), strict=True)))
        super()._route_branch(successors, mask, value)

    def _route_block(self, unit: Unit, mask: Mask | None, value: Values | None) -> None:
        block = self.program.blocks[unit.block]
        successors = self.program.successors(unit)
        if block.transfer in (Transfer.RETURN, Transfer.INDIRECT, Transfer.CALL_THROUGH_POINTER):
            assert value is not None
            self._route_addresses(unit, mask, value)
        elif len(successors) == 1:
            self._send(successors[0], mask)
        elif value is None:
            self._send(successors[1], mask)
        else:
            self._route_branch(successors, mask, value)

    def _route_addresses(self, unit: Unit, mask: Mask | None, value: Values) -> None:
        """Lanes go to the code whose address they hold."""
        block_here = self.program.blocks[unit.block]
        last, blocks = block_here.instructions[-1], block_here.successors
        rest = np.ones((1, 1), np.bool_) if mask is None else mask
        gone: NDArray[np.bool_] | None = None
        groups: list[tuple[int, Mask]] = []
        for block in blocks:
            here = (value == np.uint32(self.program.blocks[block].address)) & rest
            if here.any():
                if issued_again(last):
                    warps = rows_and_warps(here, self.batch.threads)
                    if gone is not None:
                        self._spend_again(unit, warps & gone)
                    gone = warps if gone is None else warps | gone
                groups.append((self.program.unit_of_block[block], here))
                self._send(self.program.unit_of_block[block], None if here.size == 1 and mask is None else here)
                rest = rest & ~here
        if rest.any():
            raise SimulationError(str(last.error("jumps to where no known path leads")))
        if len(groups) > 1:
            self._note_parts(groups)

    def _send(self, place: int, mask: Mask | None) -> None:
        if place >= self.program.end:
            self.ended = mask if self.ended is None or mask is None else self.ended | mask
            return
        there = self.pending.get(place)
        unit = self.program.units[place]
        if place not in self.pending:
            super()._send(place, mask)
            return
        full = np.ones((1, 1), np.bool_)
        mask, there = full if mask is None else mask, full if there is None else there
        threads = self.batch.threads
        crowded = rows_and_warps(mask, threads) & rows_and_warps(there, threads)
        if unit.sync_scope is not SyncScope.NOBODY:
            if unit.sync_scope is SyncScope.WARP and self.program.waiting_instruction(unit).opcode == "WARPSYNC.ALL":
                before = self.again.get(place, np.zeros((1, 1), np.bool_))
                self._spend_again(self.program.units[place - 1], crowded & ~before)
                self.again[place] = before | crowded
            super()._send(place, mask)
            return
        if not crowded.any():
            super()._send(place, mask)
            return
        apart = mask & np.repeat(crowded, WARP_SIZE, axis=1)
        alone = mask & ~apart
        if alone.any():
            super()._send(place, alone)
        self.held.append((place, apart))
