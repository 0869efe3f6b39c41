"""Machine code as the engine runs it: units between waits, and the registers that each instruction needs and leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, reduce
from operator import or_

import numpy as np
from numpy.typing import NDArray

from ...ir.instruction import Space
from ...machine_code.control_flow import innermost_loops
from ...machine_code.instruction import MachineInstruction
from ...machine_code.operands import Address, Register
from ...machine_code.program import CodeBlock, MachineCode, Transfer, reachable_blocks
from ..faults import remedy
from ..program import SyncScope, Unit
from ..translate.emitter import Pool
from ..translate.slices import EVERY_SPACE
from . import asynchronous, floating, integer, memory, moves, tensor, textures, warp
from .clocks import asks_l2, cycles_of_units
from .emitter import Effects, Emitter
from .modifiers import require_known_modifiers
from .registers import REGISTER_COUNT, members, number_of, type_of
from .stack_slots import REGISTERS, with_stack_slots

EMITTERS: dict[str, Callable[[Emitter, MachineInstruction], None]] = {
    **integer.EMITTERS,
    **moves.EMITTERS,
    **floating.EMITTERS,
    **memory.EMITTERS,
    **warp.EMITTERS,
    **tensor.EMITTERS,
    **asynchronous.EMITTERS,
    **textures.EMITTERS,
}
"""Opcodes (without modifiers) and what translates them."""
EXECUTED = frozenset(EMITTERS) | {"BRA", "JMP", "BRX", "BRXU", "JMX", "CALL", "RET", "EXIT", "KILL"}
"""Opcodes (without modifiers) that are executed."""
_POLLING = frozenset({"ATOM", "ATOMG", "ATOMS", "NANOSLEEP", "SYNCS"})
_STORES = frozenset({"ST", "STG", "STS", "STL", "STAS", "RED", "REDG", "UBLKRED", "UTMASTG", "UTMAREDG"})
_READ_OF_GENERIC = frozenset({Space.GLOBAL, Space.SHARED, Space.LOCAL})


def emit_instruction(e: Emitter, i: MachineInstruction) -> None:
    """Translate one instruction that does not end its block.

    Raises:
        SimulationError: it is not supported; the text names it.
    """
    emitter = EMITTERS.get(i.name)
    if emitter is None:
        missing = f"opcode {i.name} is not executed: it needs a translation in perfmodel.simulator.sass"
        raise i.error(remedy(i.name) or missing)
    try:
        emitter(e, i)
    except (AssertionError, AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise i.error("the number or kind of its operands is not that of the opcode") from error


def wait_of(i: MachineInstruction) -> SyncScope:
    """For whom lanes wait behind an instruction."""
    if i.never:
        return SyncScope.NOBODY
    if i.name in ("BSYNC", "WARPSYNC"):
        return SyncScope.WARP
    if i.name == "UCGABAR_WAIT":
        return SyncScope.CLUSTER
    return SyncScope.BLOCK if warp.waits_for_block(i) else SyncScope.NOBODY


def parts_groups(i: MachineInstruction) -> bool:
    """Whether lanes of a warp that name different lanes go on behind it each group by itself (tiles of cooperative groups)."""
    return i.name == "WARPSYNC" and i.has("EXCLUSIVE", "COLLECTIVE") and bool(waited_registers(i))


def issued_again(i: MachineInstruction) -> bool:
    """Whether a warp issues it more than once where its lanes go to several places, come from several, or name several groups."""
    return (i.name in ("BRX", "JMX") or i.opcode in ("WARPSYNC.ALL", "WARPSYNC.EXCLUSIVE")) and not i.never


def waited_registers(i: MachineInstruction) -> tuple[Register, ...]:
    """Registers that say whom an instruction waits for: its members, or how many threads, and under which guard."""
    if i.never or not (i.name in ("BSYNC", "WARPSYNC") or warp.waits_for_block(i)):
        return ()
    named = [o for o in i.operands if isinstance(o, Register) and o.index is not None]
    if i.name != "BAR":
        return tuple(named[:1])
    guard = [i.guard] if i.guard is not None and i.guard.index is not None else []
    return (*guard, *(o for o in named if not o.is_predicate))


@dataclass(slots=True)
class _Needed:
    """Registers (as bits) that are needed at a place of the code.

    ``always`` by all lanes; ``under`` a guard, by the lanes for which it holds: what the same guard writes before need not be
    there earlier. Without this a register that serves two purposes under guards would carry values from one to the other.
    """

    always: int = 0
    under: dict[tuple[int, bool], int] = field(default_factory=dict)

    @property
    def all(self) -> int:
        """Registers that any lane needs."""
        return reduce(or_, self.under.values(), self.always)

    def add(self, other: _Needed) -> None:
        """What is needed on another way, too."""
        self.always |= other.always
        for key, registers in other.under.items():
            self.under[key] = self.under.get(key, 0) | registers

    def step_back(self, effect: Effects, reads: int) -> None:
        """Go from behind an instruction to the place before it."""
        for key in [key for key in self.under if effect.writes >> key[0] & 1]:
            self.always |= self.under.pop(key)
        if effect.guard is None:
            self.always = self.always & ~effect.writes | reads
            self.under = {key: registers & ~effect.writes for key, registers in self.under.items()}
            return
        predicate = 1 << effect.guard[0]
        self.always |= reads & predicate
        self.under[effect.guard] = self.under.get(effect.guard, 0) & ~effect.writes | reads & ~predicate


class MachineProgram:
    """What translation and scheduling need to know of machine code, for execution or for tracing."""

    def __init__(
        self,
        kernel: MachineCode,
        trace: bool,
        through: frozenset[Space] = EVERY_SPACE,
        effects: list[Effects] | None = None,
    ) -> None:
        self.kernel, self.through = kernel, through
        self.trace = trace
        self.blocks: tuple[CodeBlock, ...] = kernel.blocks
        self.instructions = kernel.instructions
        self.reached = reachable_blocks(self.blocks)
        self.register_types = [type_of(number) for number in range(REGISTER_COUNT)]
        self.units: list[Unit] = []
        self.unit_of_block: list[int] = []
        self._cut_units()
        self.end = len(self.units)
        self.unit_of_block.append(self.end)
        self.reductions = self._reductions()
        self.effects = self._effects() if effects is None else effects
        """Of a recorded kernel; bits above those of registers are words of the stack (`with_stack_slots`)."""
        self.kept: frozenset[Space] = frozenset()
        self.live_after: list[int] = []
        self._find_live_registers()

    def _cut_units(self) -> None:
        """Units begin behind what waits, or with a wait for an ``mbarrier``; some have no instructions.

        What may be issued again for some of a warp's lanes (`MachineScheduler`) is a unit of its own.
        """
        for block in self.blocks:
            self.unit_of_block.append(len(self.units))
            cuts = [(0, SyncScope.NOBODY)]
            for k, i in enumerate(block.instructions):
                if asynchronous.waits_for_phase(i):
                    cuts.append((k, SyncScope.PHASE))
                elif k > cuts[-1][0] and issued_again(i):
                    cuts.append((k, SyncScope.NOBODY))
                if wait_of(i) is not SyncScope.NOBODY:
                    cuts.append((k + 1, wait_of(i)))
            if cuts[1:2] == [(0, SyncScope.PHASE)]:
                del cuts[0]
            ends = [*(start for start, _ in cuts[1:]), len(block.instructions)]
            for number, ((start, sync_scope), stop) in enumerate(zip(cuts, ends, strict=True), 1):
                self.units.append(
                    Unit(
                        index=len(self.units),
                        block=block.index,
                        first=block.first + start,
                        instructions=block.instructions[start:stop],  # type: ignore[arg-type]
                        sync_scope=sync_scope,
                        ends_block=number == len(cuts),
                    )
                )

    def waiting_instruction(self, unit: Unit) -> MachineInstruction:
        """The instruction behind which the lanes of a unit wait."""
        return self.instructions[unit.first - 1]

    def _reductions(self) -> dict[int, str]:
        """For each instruction that reads a barrier's result, what the barrier before it reduces to."""
        reductions: dict[int, str] = {}
        last: str | None = None
        for index, instruction in enumerate(self.instructions):
            last = warp.reduction_of(instruction) or last
            if instruction.name == "B2R" and last is not None:
                reductions[index] = last
        return reductions

    def _effects(self) -> list[Effects]:
        pool = Pool(trace=False)
        effects = [Effects() for _ in self.instructions]
        for block in self.blocks:
            if block.index not in self.reached:
                continue
            for k, instruction in enumerate(block.instructions):
                effects[block.first + k] = self._effect(pool, block, k, instruction)
        return with_stack_slots(self.instructions, effects, self.blocks, self.reached)

    def _effect(self, pool: Pool, block: CodeBlock, k: int, instruction: MachineInstruction) -> Effects:
        effect = Effects()
        if instruction.never:
            return effect
        e = Emitter(pool, masked=True, recorded=effect)
        e.reduction = self.reductions.get(block.first + k)
        if k == len(block.instructions) - 1 and block.transfer is not Transfer.NEXT:
            warp.branch_value(e, instruction, block)
            require_known_modifiers(instruction)
            return effect
        e.begin(block.first + k, instruction, 0)
        guard, effect.values = effect.values, 0
        emit_instruction(e, instruction)
        require_known_modifiers(instruction)
        if effect.acts:
            effect.roots |= guard
        effect.values |= guard
        return effect

    # ---- registers that are needed

    def _find_live_registers(self) -> None:
        """Backward data-flow fixed point: only what is needed makes its operands needed.

        Tracing starts with nothing that is stored, and adds the spaces that what is needed is loaded from; through others than
        ``through`` nothing is followed.
        """
        self.kept = frozenset() if self.trace else frozenset(Space)
        while True:
            self._fixed_point()
            read = self._spaces_read() & self.through if self.trace else self.kept
            if read <= self.kept:
                return
            self.kept = self.kept | read

    def _spaces_read(self) -> frozenset[Space]:
        spaces: set[Space] = set()
        for effect, live in zip(self.effects, self.live_after, strict=True):
            if effect.reads_space is not None and (effect.writes & live or effect.writes_space in self.kept):
                space = effect.reads_space
                spaces |= _READ_OF_GENERIC if space is Space.GENERIC else {space}
        return frozenset(spaces)

    def is_needed(self, index: int) -> bool:
        """Whether an instruction does something, or writes what is read later."""
        effect = self.effects[index]
        return effect.acts or bool(effect.writes & self.live_after[index])

    def stores_slot(self, index: int) -> bool:
        """Whether an instruction stores a word of the stack that is needed later."""
        return bool(self.effects[index].writes & self.live_after[index] & ~REGISTERS)

    def _reads(self, effect: Effects, live: int) -> int:
        """Registers that an instruction reads, when ``live`` are needed behind it."""
        needed, reads = effect.writes & live, effect.roots
        if needed or (effect.acts and not effect.writes and effect.writes_space is None):
            reads |= effect.values
        if not self.trace and effect.writes & ~REGISTERS:  # where results count, all that is stored does
            reads |= effect.values
        if effect.writes_space is not None:
            moved = effect.writes_space in self.kept or (effect.writes_space is Space.GENERIC and bool(self.kept))
            if moved or needed:
                reads |= effect.stored | effect.values
        return reads

    def _fixed_point(self) -> None:
        before = [_Needed() for _ in range(len(self.blocks) + 1)]
        self.live_after = [0] * len(self.instructions)
        waiting = [block.index for block in self.blocks if block.index in self.reached]
        predecessors: dict[int, list[int]] = {}
        for index in waiting:
            for successor in self.blocks[index].successors:
                predecessors.setdefault(successor, []).append(index)
        queued = set(waiting)
        while waiting:
            index = waiting.pop()
            queued.discard(index)
            block = self.blocks[index]
            live = _Needed()
            for successor in block.successors:
                live.add(before[successor])
            for k in range(len(block.instructions) - 1, -1, -1):
                effect = self.effects[block.first + k]
                for register in waited_registers(block.instructions[k]):
                    live.always |= 1 << number_of(register)
                behind = self.live_after[block.first + k] = live.all
                live.step_back(effect, self._reads(effect, behind))
            if live != before[index]:
                before[index] = live
                for predecessor in predecessors.get(index, ()):
                    if predecessor not in queued:
                        queued.add(predecessor)
                        waiting.append(predecessor)

    def live_out(self, unit: Unit) -> int:
        """Registers that are needed behind a unit."""
        last = unit.first + len(unit.instructions) - 1 if unit.instructions else unit.first - 1
        return self.live_after[last] & REGISTERS

    # ---- what the scheduler asks

    @cached_property
    def register_bytes_per_lane(self) -> int:
        """Bytes of the registers that are live at once, at most."""
        most = max(((live & REGISTERS).bit_count() for live in set(self.live_after)), default=0)
        return 4 * most

    @cached_property
    def counted(self) -> frozenset[int]:
        """Units from which the rest of the basic block holds a wait that not all lanes need to pass together.

        Those are barriers that count threads, waits for an ``mbarrier``, and those that part groups of lanes.
        """
        counting: set[int] = set()
        for unit in reversed(self.units):
            follows = not unit.ends_block and unit.index + 1 in counting
            waits = unit.sync_scope is SyncScope.PHASE or (
                unit.sync_scope is SyncScope.BLOCK and warp.counts_threads(self.waiting_instruction(unit))
            )
            if unit.sync_scope is SyncScope.WARP:
                waits = parts_groups(self.waiting_instruction(unit))
            if follows or waits or any(warp.counts_threads(i) for i in unit.instructions):  # type: ignore[arg-type]
                counting.add(unit.index)
        return frozenset(counting)

    @staticmethod
    def is_unordered(instruction: MachineInstruction) -> bool:
        """Whether it gives what other threads may have changed before or may change after: an atomic operation, a load past L1.

        Tries to wait for an ``mbarrier`` are none: they last until the phase is over, and arrivals decide nothing by themselves.
        """
        settled = asynchronous.waits_for_phase(instruction) or instruction.has("ARRIVE")
        return (instruction.name in _POLLING and not settled) or instruction.loads_past_l1

    @cached_property
    def asks_who_lives(self) -> bool:
        """Whether an instruction depends on which lanes of a warp run elsewhere."""
        return any(i.name == "BRA" and i.has("DIV", "CONV") for i in self.instructions)

    @cached_property
    def convergence_barriers(self) -> tuple[int, ...]:
        """Registers that hold convergence barriers."""
        named = (o for i in self.instructions if i.name == "BSYNC" for o in i.operands)
        return tuple(sorted({number_of(o) for o in named if isinstance(o, Register) and o.index is not None}))

    @cached_property
    def polling(self) -> frozenset[int]:
        """Units that read what other threads may be about to write."""
        return frozenset(
            unit.index for unit in self.units if any(i.name in _POLLING or i.loads_past_l1 for i in unit.instructions)
        )

    @cached_property
    def waiting(self) -> frozenset[int]:
        """Units of innermost loops that poll memory and write none: lanes wait there for what others write."""
        return frozenset().union(*self._waiting_loops)

    @cached_property
    def looking(self) -> frozenset[int]:
        """Those of loops that ask L2."""
        own = {unit.index: self.instructions[unit.first : unit.first + len(unit.instructions)] for unit in self.units}
        asking = {index for index, instructions in own.items() if asks_l2(instructions)}
        return frozenset().union(*(loop for loop in self._waiting_loops if loop & asking))

    @cached_property
    def _waiting_loops(self) -> list[frozenset[int]]:
        polling = {self.units[place].block for place in self.polling}
        writing = {unit.block for unit in self.units if any(i.name in _STORES for i in unit.instructions)}
        loops = [loop & self.reached for loop in innermost_loops([block.successors for block in self.blocks])]
        waiting = [loop for loop in loops if loop & polling and not loop & writing]
        return [frozenset(unit.index for unit in self.units if unit.block in loop) for loop in waiting]

    @cached_property
    def swapping(self) -> dict[int, Address]:
        """Units that load a word of shared memory and swap it, over and over until nobody has changed it in between; its address.

        Such are additions of floating-point numbers to shared memory.
        """
        found: dict[int, Address] = {}
        for unit in self.units:
            again = self.blocks[unit.block].first == unit.first and unit.index in self.successors(unit)
            for instruction in self.instructions[unit.first : unit.first + len(unit.instructions)] if again else ():
                if instruction.name == "ATOMS" and instruction.has("SPIN"):
                    found[unit.index] = next(o for o in instruction.operands if isinstance(o, Address))
        return found

    @cached_property
    def swapped_loads(self) -> frozenset[int]:
        """Indices of the loads of those units."""
        units = [self.units[place] for place in self.swapping]
        return frozenset(unit.first + k for unit in units for k, i in enumerate(unit.instructions) if i.name == "LDS")

    @cached_property
    def unit_cycles(self) -> NDArray[np.int64]:
        """Cycles that a warp alone takes for each unit, about."""
        return cycles_of_units(self.units, self.instructions)

    def polled(self, place: int) -> MachineInstruction:
        """An instruction that reads what others write, of the loop that a unit belongs to."""
        near = sorted(self.polling & self.waiting, key=lambda other: abs(other - place))
        found = (i for i in self.units[near[0]].instructions if i.name in _POLLING or i.loads_past_l1)
        return next(found)  # type: ignore[return-value]

    def touched(self, unit: Unit) -> set[int]:
        """Registers that a unit reads or writes."""
        bits = 0
        for effect in self.effects[unit.first : unit.first + len(unit.instructions)]:
            bits |= effect.roots | effect.values | effect.stored | effect.writes
        return set(members(bits & REGISTERS))

    def successors(self, unit: Unit) -> tuple[int, ...]:
        """Units that may follow; the index one past the last stands for the end of the thread."""
        return self._successors[unit.index]

    @cached_property
    def _successors(self) -> list[tuple[int, ...]]:
        return [
            tuple(self.unit_of_block[block] for block in self.blocks[unit.block].successors)
            if unit.ends_block
            else (unit.index + 1,)
            for unit in self.units
        ]

    def stretch(self, unit: Unit) -> tuple[int, int]:
        """One past the last unit from one to the end of its basic block, and the instructions of all of them."""
        return self._stretches[unit.index]

    @cached_property
    def _stretches(self) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = [(0, 0)] * len(self.units)
        for unit in reversed(self.units):
            end, length = (unit.index + 1, 0) if unit.ends_block else found[unit.index + 1]
            found[unit.index] = (end, length + len(unit.instructions))
        return found
