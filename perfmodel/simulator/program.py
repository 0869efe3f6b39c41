"""A kernel as the simulator runs it: registers numbered, blocks cut into units at points where lanes wait for one another."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property

from ..ir.instruction import BasicBlock, Instruction, Space, Variable
from ..ir.kernel import Kernel
from ..ir.types import ScalarType, width_bytes
from ..ptx.operands import names


class SyncScope(Enum):
    """Who must arrive before a unit's first instruction runs."""

    NOBODY = "nobody"
    WARP = "warp"
    BLOCK = "block"
    CLUSTER = "cluster"
    PHASE = "phase of an mbarrier"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """A stretch of a basic block that begins with a synchronising instruction or with the block itself."""

    index: int
    block: int
    first: int
    instructions: tuple[Instruction, ...]
    sync_scope: SyncScope
    ends_block: bool


def sync_scope_of(instruction: Instruction) -> SyncScope:
    """Which lanes an instruction waits for (PTX ISA 9.7.9 and 9.7.13).

    >>> sync_scope_of(Instruction("bar.sync", ("0",), None, False, 1, None))
    <SyncScope.BLOCK: 'block'>
    """
    parts = instruction.parts
    if parts[0] in ("bar", "barrier"):
        if "warp" in parts:
            return SyncScope.WARP
        return SyncScope.NOBODY if "arrive" in parts else SyncScope.BLOCK
    if parts[0] in ("shfl", "vote", "match", "redux", "elect") and "sync" in parts:
        return SyncScope.WARP
    return SyncScope.NOBODY


def _counts_threads(instruction: Instruction) -> bool:
    parts = instruction.parts
    if parts[0] not in ("bar", "barrier") or "warp" in parts:
        return False
    return len(instruction.operands) > (3 if "red" in parts else 1)


def _polls(instruction: Instruction) -> bool:
    parts = instruction.parts
    shared_view = {"volatile", "relaxed", "acquire", "mmio"} & set(parts)
    return parts[0] in ("atom", "nanosleep") or (parts[0] == "ld" and bool(shared_view))


def align_up(offset: int, alignment: int) -> int:
    """Smallest multiple of the alignment that is not below the offset."""
    return -(-offset // alignment) * alignment


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Byte offsets of the variables of one state space, and its size."""

    offsets: dict[str, int]
    size_bytes: int


def lay_out(variables: list[Variable]) -> Layout:
    """Variables one after the other; those of unknown size come last and share one place."""
    offsets: dict[str, int] = {}
    position = 0
    for variable in [v for v in variables if v.size_bytes]:
        position = align_up(position, variable.alignment_bytes)
        offsets[variable.name] = position
        position += variable.size_bytes
    dynamic = [v for v in variables if not v.size_bytes]
    if dynamic:
        position = align_up(position, max(16, *(v.alignment_bytes for v in dynamic)))
        offsets.update({v.name: position for v in dynamic})
    return Layout(offsets=offsets, size_bytes=position)


class Program:
    """What translation and scheduling need to know of a kernel."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.blocks: tuple[BasicBlock, ...] = kernel.blocks
        self.effects = kernel.effects
        self.register_index = {name: index for index, name in enumerate(kernel.register_types)}
        self.register_types: list[ScalarType] = list(kernel.register_types.values())
        self.units: list[Unit] = []
        self.unit_of_block: list[int] = []
        self._cut_units()
        self.end = len(self.units)
        self.unit_of_block.append(self.end)

    def _cut_units(self) -> None:
        for block in self.blocks:
            self.unit_of_block.append(len(self.units))
            cuts = [k for k, i in enumerate(block.instructions) if k and sync_scope_of(i) is not SyncScope.NOBODY]
            for start, stop in zip([0, *cuts], [*cuts, len(block.instructions)], strict=True):
                instructions = block.instructions[start:stop]
                self.units.append(
                    Unit(
                        index=len(self.units),
                        block=block.index,
                        first=block.first + start,
                        instructions=instructions,
                        sync_scope=sync_scope_of(instructions[0]),
                        ends_block=stop == len(block.instructions),
                    )
                )

    @cached_property
    def counted(self) -> frozenset[int]:
        """Units from which the rest of the basic block holds a barrier that counts threads, so that all may have to wait."""
        units: set[int] = set()
        for unit in reversed(self.units):
            follows = not unit.ends_block and unit.index + 1 in units
            if follows or any(_counts_threads(instruction) for instruction in unit.instructions):
                units.add(unit.index)
        return frozenset(units)

    swapped_loads: frozenset[int] = frozenset()
    """Loads of words that are swapped next where nobody has changed them: machine code has such for an atomic operation."""
    waiting: frozenset[int] = frozenset()
    """Units of loops that do nothing but poll memory; they are known of machine code alone."""

    def polled(self, place: int) -> Instruction:
        """The instruction of a unit that reads what others write."""
        return next(i for i in self.units[place].instructions if _polls(i))

    @cached_property
    def polling(self) -> frozenset[int]:
        """Units that read what other threads may be about to write: loops around them may wait for those threads."""
        return frozenset(unit.index for unit in self.units if any(_polls(i) for i in unit.instructions))

    @cached_property
    def instructions(self) -> tuple[Instruction, ...]:
        """All instructions in layout order."""
        return tuple(instruction for block in self.blocks for instruction in block.instructions)

    @cached_property
    def symbols(self) -> set[str]:
        """Names of variables that the instructions mention."""
        known = self.kernel.variables.keys() | self.kernel.own_variables.keys()
        return {name for i in self.instructions for text in i.operands for name in names(text) if name in known}

    def variables(self, space: Space) -> list[Variable]:
        """Variables of a space that the instructions mention, those of the kernel before those of the module."""
        own = self.kernel.own_variables
        every = {**{n: v for n, v in self.kernel.variables.items() if n not in own}, **own}
        mentioned = [replace(v, name=n) for n, v in every.items() if n in self.symbols and v.space is space]
        return sorted(mentioned, key=lambda v: v.name not in own)

    @cached_property
    def shared(self) -> Layout:
        """Static shared memory; dynamic shared memory begins at its end."""
        return lay_out(self.variables(Space.SHARED))

    @cached_property
    def local(self) -> Layout:
        """Stack of a thread."""
        return lay_out(self.variables(Space.LOCAL))

    @cached_property
    def parameters(self) -> Layout:
        """Kernel parameters in the parameter space."""
        offsets: dict[str, int] = {}
        position = 0
        for parameter in self.kernel.parameters:
            position = align_up(position, parameter.alignment_bytes)
            offsets[parameter.name] = position
            position += parameter.size_bytes
        return Layout(offsets=offsets, size_bytes=position)

    @cached_property
    def live_out(self) -> list[set[int]]:
        """Registers that may be read after each unit, by index (a backward data-flow fixed point)."""
        gen: list[set[int]] = []
        kill: list[set[int]] = []
        for unit in self.units:
            reads: set[int] = set()
            writes: set[int] = set()
            for effect in self.effects[unit.first : unit.first + len(unit.instructions)]:
                reads |= {self.register_index[name] for name in effect.reads} - writes
                writes |= {self.register_index[name] for name in effect.writes}
            gen.append(reads)
            kill.append(writes)
        live_in: list[set[int]] = [set() for _ in range(len(self.units) + 1)]
        live_out: list[set[int]] = [set() for _ in self.units]
        changed = True
        while changed:
            changed = False
            for unit in reversed(self.units):
                out: set[int] = set()
                for successor in self.successors(unit):
                    out |= live_in[successor]
                new = gen[unit.index] | (out - kill[unit.index])
                live_out[unit.index] = out
                if new != live_in[unit.index]:
                    live_in[unit.index] = new
                    changed = True
        return live_out

    @cached_property
    def register_bytes_per_lane(self) -> int:
        """Upper bound of the bytes that a lane's registers take at any time, those that are read later and those of one unit."""
        width = [width_bytes(held) for held in self.register_types]
        held = sum(width[index] for index in set().union(*self.live_out))
        return held + max((self._peak_bytes(unit, width) for unit in self.units), default=0)

    def _peak_bytes(self, unit: Unit, width: list[int]) -> int:
        """Largest number of bytes that are live at once within a unit."""
        live = set(self.live_out[unit.index])
        size = peak = sum(width[index] for index in live)
        for effect in reversed(self.effects[unit.first : unit.first + len(unit.instructions)]):
            for name in effect.writes:
                index = self.register_index[name]
                if index in live:
                    live.remove(index)
                    size -= width[index]
            for name in effect.reads:
                index = self.register_index[name]
                if index not in live:
                    live.add(index)
                    size += width[index]
            peak = max(peak, size)
        return peak

    def successors(self, unit: Unit) -> tuple[int, ...]:
        """Units that may follow; the index one past the last stands for the end of the thread."""
        if not unit.ends_block:
            return (unit.index + 1,)
        return tuple(self.unit_of_block[block] for block in self.blocks[unit.block].successors)
