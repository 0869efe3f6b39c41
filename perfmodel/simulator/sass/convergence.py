"""Who of the lanes of machine code that wait for one another may go on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.constants import WARP_SIZE
from ...machine_code.instruction import MachineInstruction
from ...machine_code.operands import Address, Immediate, Operand, Register
from ..plan import Mask, rows_and_warps
from ..program import SyncScope, Unit
from ..synchronization import Synchronization
from ..undetermined import Cause
from .mbarrier import never_completes, phase_complete
from .program import MachineProgram, parts_groups, waited_registers
from .registers import number_of
from .warp import BARRIERS, COUNT_SHIFT, MAX_COUNT, barrier_operands, counts_threads

Values = NDArray[Any]
_WHOLE_WARP = np.uint32(2**32 - 1)


class Convergence(Synchronization):
    """Who of the lanes that wait at a convergence barrier, or at a barrier of the block, may go on."""

    program: MachineProgram  # type: ignore[assignment]
    held: list[tuple[int, Mask]]
    note: Callable[[Cause, int], None]

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
        place, lanes = super().deadlock(order)
        self.note(Cause.MEETING, self._waits_at(self.program.units[place]))
        return place, lanes

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
        """Lanes whose companions are all here; of each warp only those of one group.

        Those who wait for their whole warp at another ``WARPSYNC.COLLECTIVE``, as ``__syncwarp`` in several branches makes them,
        are here as well.
        """
        waiting = self.program.waiting_instruction(unit)
        names = self._member_mask(unit)
        ready = super()._ready_warps(unit, mask)
        elsewhere = self._at_other_collectives(unit)
        if elsewhere is not None:
            whole = super()._ready_warps(unit, mask | elsewhere) & mask & (names == _WHOLE_WARP)
            self._release_collectives(unit, whole & ~ready)
            ready = ready | whole
        if names.size == 1 or not ready.any() or (waiting.name == "WARPSYNC" and not parts_groups(waiting)):
            return ready
        rows = max(ready.shape[0], names.shape[0])
        full = np.broadcast_to(ready, (rows, self.batch.threads)).reshape(rows, -1, WARP_SIZE)
        named = np.broadcast_to(names, (rows, self.batch.threads)).reshape(rows, -1, WARP_SIZE)
        first = full.argmax(axis=2)[:, :, None]
        same = named == np.take_along_axis(named, first, axis=2)
        flat: Mask = (full & same).reshape(rows, self.batch.threads)
        return flat

    def _other_collectives(self, unit: Unit) -> list[int]:
        """Other places at which lanes wait for their collective."""
        if not self.program.waiting_instruction(unit).has("COLLECTIVE"):
            return []
        others = (place for place in self.pending if place != unit.index)
        warps = (place for place in others if self.program.units[place].sync_scope is SyncScope.WARP)
        return [one for one in warps if self.program.waiting_instruction(self.program.units[one]).has("COLLECTIVE")]

    def _at_other_collectives(self, unit: Unit) -> Mask | None:
        """Lanes that wait for their whole warp at another collective than a unit's."""
        found: Mask | None = None
        for place in self._other_collectives(unit):
            waiting = self._waiting_for_all(place)
            found = waiting if found is None else found | waiting
        return found

    def _waiting_for_all(self, place: int) -> Mask:
        waiting: Mask = self.waiting(place) & (self._member_mask(self.program.units[place]) == _WHOLE_WARP)
        return waiting

    def _release_collectives(self, unit: Unit, ready: Mask) -> None:
        """Lanes that wait at other collectives for those that are ready go on, too."""
        warps = np.repeat(rows_and_warps(ready, self.batch.threads), WARP_SIZE, axis=1)
        for place in self._other_collectives(unit):
            passing = self._waiting_for_all(place) & warps
            if passing.any():
                self.note(Cause.MEETING, unit.first - 1)
                self.released[place] = self.released.get(place, np.zeros((1, 1), np.bool_)) | passing

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
