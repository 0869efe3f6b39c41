"""Scheduling of machine code: lanes that a branch parted meet again where convergence barriers say, and nowhere else.

Of each warp one group of lanes runs at a time until it ends, waits, or has let others go first. Groups of one warp that
happen to stand at the same place stay apart; groups of different warps run together.

An indirect jump is issued once for each place that lanes of a group go to, and ``WARPSYNC.ALL`` once more for lanes that
wait there when others come: an H200 counts both so.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.constants import WARP_SIZE
from ...errors import SimulationError
from ...machine_code.instruction import MachineInstruction
from ...machine_code.operands import Address, Immediate, Operand, Register
from ...machine_code.program import Transfer
from ..plan import Mask, rows_and_warps
from ..program import SyncScope, Unit
from ..schedule import Scheduler
from ..synchronization import Synchronization
from .mbarrier import never_completes, phase_complete
from .program import MachineProgram, issued_again, parts_groups, waited_registers
from .registers import number_of
from .warp import BARRIERS, COUNT_SHIFT, MAX_COUNT, barrier_operands, counts_threads

Values = NDArray[Any]


class Convergence(Synchronization):
    """Who of the lanes that wait at a convergence barrier, or at a barrier of the block, may go on."""

    program: MachineProgram  # type: ignore[assignment]
    held: list[tuple[int, Mask]]

    def ready(self, place: int) -> Mask | None:
        """Lanes at a place that need not wait, or None."""
        unit = self.program.units[place]
        scope = unit.sync_scope
        mask = self.pending[place]
        assert mask is not None
        guard = self._guard(self.program.waiting_instruction(unit)) if scope is SyncScope.BLOCK else None
        if guard is not None and (mask & ~guard).any():
            return mask & ~guard
        if scope not in (SyncScope.PHASE, SyncScope.CLUSTER) or place in self.released:
            return super().ready(place)
        ready = self._ready_phase(place, mask) if scope is SyncScope.PHASE else self._ready_clusters(place) & mask
        return ready if ready.any() else None

    def _ready_phase(self, place: int, mask: Mask) -> Mask:
        """Lanes of warps whose lanes here all find the phase over that they wait for."""
        unit = self.program.units[place]
        instruction = self.program.instructions[unit.first]
        address = next(o for o in instruction.operands if isinstance(o, Address))
        base: Values = np.zeros((1, 1), np.uint32)
        for register, scale in ((address.base, address.scale), (address.uniform, 1)):
            if register is not None and register.index is not None:
                base = base + self.registers[number_of(register)] * np.uint32(scale)
        token = self._held(instruction.operands[-1])
        guard = self._guard(instruction)
        self.lanes.active = mask
        extended = base.view(np.int32).astype(np.int64).view(np.uint64)
        over = phase_complete(self.lanes, unit.first, extended, address.offset, token, guard)
        waiting = mask & ~over if guard is None else mask & guard & ~over
        full = np.broadcast_to(waiting, (waiting.shape[0], self.batch.threads))
        stays = np.repeat(rows_and_warps(full, self.batch.threads), WARP_SIZE, axis=1)
        ready: Mask = mask & ~stays
        return ready

    def waiting(self, place: int) -> Mask:
        """Lanes at a place whose barrier is not complete yet; a guard that does not hold lets lanes pass a barrier by."""
        waiting = super().waiting(place)
        unit = self.program.units[place]
        guard = self._guard(self.program.waiting_instruction(unit)) if unit.sync_scope is SyncScope.BLOCK else None
        return waiting if guard is None else waiting & guard

    def _guard(self, instruction: MachineInstruction) -> Mask | None:
        """Lanes for which an instruction's guard holds, or None where it has none."""
        if instruction.guard is None or instruction.guard.index is None:
            return None
        held = self.registers[number_of(instruction.guard)].astype(np.bool_)
        return ~held if instruction.guard.inverted else held

    def _held(self, operand: Operand) -> Values:
        if isinstance(operand, Register):
            return np.zeros((1, 1), np.uint32) if operand.index is None else self.registers[number_of(operand)]
        return np.full((1, 1), getattr(operand, "value", 0) or 0, np.uint32)

    def _ready_clusters(self, place: int) -> Mask:
        """Lanes of clusters of which every live lane waits for its cluster."""
        places = [p for p in self.pending if self.program.units[p].sync_scope is SyncScope.CLUSTER]
        here = np.zeros((1, 1), np.bool_)
        for other in places:
            here = here | self.waiting(other)
        absent = np.broadcast_to(self._live() & ~here, self.shape).any(axis=1)
        blocks = self.batch.environment.cluster_blocks
        complete = np.repeat(~absent.reshape(-1, blocks).any(axis=1), blocks)[:, None]
        for other in places:
            passing = self.waiting(other) & complete
            if passing.any():
                self.released[other] = self.released.get(other, np.zeros((1, 1), np.bool_)) | passing
        return self.released.get(place, np.zeros((1, 1), np.bool_))

    def deadlock(self, order: list[int]) -> tuple[int, Mask]:
        """Nobody can go on; a wait for an ``mbarrier`` is named before others, which mostly wait for the same reason."""
        for place in order:
            mask = self.pending[place]
            if self.program.units[place].sync_scope is SyncScope.PHASE and mask is not None:
                never_completes(self.lanes, self.program.units[place].first, mask)
        return super().deadlock(order)

    def _live(self) -> Mask:
        live = super()._live() if self.pending else np.zeros((1, 1), np.bool_)
        for _, mask in self.held:
            live = live | mask
        return live

    def _member_mask(self, unit: Unit) -> Values:
        instruction = self.program.waiting_instruction(unit)
        for register in waited_registers(instruction):
            return self.registers[number_of(register)].astype(np.uint32)
        literal = next((o.value for o in instruction.operands if isinstance(o, Immediate)), None)
        value = 2**32 - 1 if literal is None else literal % 2**32
        return np.full((1, 1), value, np.uint32)

    def _ready_warps(self, unit: Unit, mask: Mask) -> Mask:
        """Lanes whose companions are all here; of each warp only those of one group."""
        ready = super()._ready_warps(unit, mask)
        waiting = self.program.waiting_instruction(unit)
        names = self._member_mask(unit)
        if names.size == 1 or not ready.any() or (waiting.name == "WARPSYNC" and not parts_groups(waiting)):
            return ready
        rows = max(ready.shape[0], names.shape[0])
        full = np.broadcast_to(ready, (rows, self.batch.threads)).reshape(rows, -1, WARP_SIZE)
        named = np.broadcast_to(names, (rows, self.batch.threads)).reshape(rows, -1, WARP_SIZE)
        first = full.argmax(axis=2)[:, :, None]
        same = named == np.take_along_axis(named, first, axis=2)
        flat: Mask = (full & same).reshape(rows, self.batch.threads)
        return flat

    def barriers_of(self, unit: Unit) -> NDArray[Any]:
        """Number of the barrier behind which a unit begins, for all lanes or for each."""
        number = barrier_operands(self.program.waiting_instruction(unit))[0]
        if isinstance(number, Register):
            return self.registers[number_of(number)] & np.uint32(BARRIERS - 1)
        return np.full((1, 1), number)

    def _barrier_count(self, unit: Unit, waiting: Mask) -> int | None:
        instruction = self.program.waiting_instruction(unit)
        number, count = barrier_operands(instruction)
        if not isinstance(count, Register):
            return count
        held = self.registers[number_of(count)]
        if held.size > 1:
            held = np.broadcast_to(held, self.shape)[np.broadcast_to(waiting, self.shape)]
        threads = (held >> np.uint32(COUNT_SHIFT)) & np.uint32(MAX_COUNT) if isinstance(number, Register) else held
        if (threads != threads.flat[0]).any():
            raise instruction.error("the thread count of a barrier must be the same for all threads")
        return int(threads.flat[0]) or None

    def _waits_at(self, unit: Unit) -> int:
        return unit.first if unit.sync_scope is SyncScope.PHASE else unit.first - 1

    def _aligned_barrier(self, unit: Unit) -> int | None:
        return self._waits_at(unit)

    def _barriers_from(self, first: Unit) -> list[int]:
        found, unit = [], first
        while not unit.ends_block:
            unit = self.program.units[unit.index + 1]
            if unit.sync_scope is SyncScope.BLOCK and not counts_threads(self.program.waiting_instruction(unit)):
                found.append(unit.first - 1)
        return found


class MachineScheduler(Scheduler):
    """Runs one batch of blocks of machine code to its end; ``tally`` has one element for each unit."""

    program: MachineProgram
    synchronization_type = Convergence

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.held: list[tuple[int, Mask]] = []
        """Lanes that cannot be at their place yet, because others of their warps are there on their own."""
        self.synchronization.held = self.held  # type: ignore[attr-defined]

    def _runs_together(self, place: int, mask: Mask | None) -> bool:
        if self.held or not super()._runs_together(place, mask):
            return False
        if self.tally.diverged and mask is not None and self.program.units[place].sync_scope is SyncScope.WARP:
            self.pending[place] = mask
            ready = self.synchronization.ready(place)
            return ready is not None and bool((ready == mask).all())
        return True

    def _step_masked(self, place: int, mask: Mask) -> None:
        if self.program.asks_who_lives:
            others = self.synchronization._live() if self.pending or self.held else np.zeros((1, 1), np.bool_)
            self.batch.live = mask | others
        super()._step_masked(place, mask)
        self.batch.live = None

    def _spend(self, unit: Unit, mask: Mask | None, whole: bool) -> None:
        warps = self.batch.threads // WARP_SIZE
        if mask is None:
            running: Any = True
            per_row: Any = np.broadcast_to(warps, (self.batch.rows,))
            count = self.batch.rows * warps
        else:
            running = rows_and_warps(mask, self.batch.threads)
            per_row = np.broadcast_to(running.sum(axis=1), (self.batch.rows,))
            count = int(per_row.sum())
        end, length = self.program.stretch(unit) if whole else (unit.index + 1, len(unit.instructions))
        self._count(slice(unit.index, end), per_row, count)
        for row, visits in self.watched:
            visits[:, unit.index : end] += running if mask is None else running[min(row, len(running) - 1), :, None]
        for row, path in self.paths:
            own = (
                None
                if mask is None
                else np.broadcast_to(mask, (len(mask), self.batch.threads))[min(row, len(mask) - 1)]
            )
            path.lanes[unit.index : end] += self.batch.threads if own is None else int(own.sum())
            path.add(unit.index, end - 1, None if mask is None else running[min(row, len(running) - 1)])
        self.limits.spend(count * length)

    def _spend_again(self, unit: Unit, warps: NDArray[np.bool_]) -> None:
        """Account for a unit that some warps, by row, issue once more."""
        per_row = np.broadcast_to(warps.sum(axis=1), (self.batch.rows,))
        self._count(slice(unit.index, unit.index + 1), per_row, int(per_row.sum()))
        for row, visits in self.watched:
            visits[:, unit.index] += warps[min(row, len(warps) - 1)]

    # ---- where lanes go

    def _route(self, unit: Unit, mask: Mask | None, value: Values | None) -> None:
        if not unit.ends_block:
            self._send(unit.index + 1, mask)
        else:
            self._route_block(unit, mask, value)
        if self.held:
            waiting, self.held[:] = list(self.held), []
            for place, lanes in waiting:
                self._send(place, lanes)

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
        for block in blocks:
            here = (value == np.uint32(self.program.blocks[block].address)) & rest
            if here.any():
                if issued_again(last):
                    warps = rows_and_warps(here, self.batch.threads)
                    if gone is not None:
                        self._spend_again(unit, warps & gone)
                    gone = warps if gone is None else warps | gone
                self._send(self.program.unit_of_block[block], None if here.size == 1 and mask is None else here)
                rest = rest & ~here
        if rest.any():
            raise SimulationError(str(last.error("jumps to where no known path leads")))

    def _send(self, place: int, mask: Mask | None) -> None:
        if place >= self.program.end:
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
            if unit.sync_scope is SyncScope.WARP and issued_again(self.program.waiting_instruction(unit)):
                self._spend_again(self.program.units[place - 1], crowded)
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
