"""Global loads of a kernel's PTX that the assembler may leave out or move, and what decides it: dominators, loops, stores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import networkx as nx

from ...machine_code.dominators import DominatorTree
from ...program.instruction import Instruction, Label
from ...program.kernel import Kernel
from ...ptx.expand import with_statements
from ...ptx.operands import vector
from .executed_graphs import ptx_graph
from .executed_regions import Region, region_tree

_FRESH = frozenset({"volatile", "relaxed", "acquire", "mmio", "cv"})
"""Loads that must read memory each time (PTX ISA 8, memory consistency model)."""
_ORDERING = frozenset({"atom", "red", "bar", "barrier", "membar", "fence"})


@dataclass(frozen=True, slots=True)
class Load:
    """A global load that may be left out, by its block and its place there."""

    instruction: Instruction
    block: int
    place: int


@dataclass(frozen=True)
class LoadOrder:
    """Control flow and registers of a kernel as far as moving its loads asks for them."""

    kernel: Kernel

    @cached_property
    def regions(self) -> tuple[Region, ...]:
        """Regions of blocks that are executed equally often."""
        return region_tree(ptx_graph(self.kernel.blocks))

    @cached_property
    def region_of(self) -> dict[int, int]:
        """Region of each block that is reached."""
        return {block: index for index, region in enumerate(self.regions) for block in region.blocks}

    @cached_property
    def loops_around(self) -> dict[int, tuple[int, ...]]:
        """Regions that are loops around each block that is reached, innermost first."""
        return {block: self._loops(index) for block, index in self.region_of.items()}

    def _loops(self, region: int | None) -> tuple[int, ...]:
        found = []
        while region is not None:
            if self.regions[region].is_loop:
                found.append(region)
            region = self.regions[region].parent
        return tuple(found)

    @cached_property
    def dominators(self) -> DominatorTree:
        """Dominators of the blocks."""
        edges = ptx_graph(self.kernel.blocks).edges
        return DominatorTree(nx.immediate_dominators(nx.DiGraph([(-1, 0), *edges]), -1))

    @cached_property
    def writers(self) -> dict[str, list[int]]:
        """Blocks that write each register, once for each instruction that does."""
        found: dict[str, list[int]] = {}
        for block in self.kernel.blocks:
            for effect in self.kernel.effects[block.first : block.first + len(block.instructions)]:
                for name in effect.writes:
                    found.setdefault(name, []).append(block.index)
        return found

    @cached_property
    def loads(self) -> list[Load]:
        """Global loads that need not read memory each time, in order of the code."""
        return [
            Load(instruction, block.index, place)
            for block in self.kernel.blocks
            if block.index in self.region_of
            for place, instruction in enumerate(block.instructions)
            if _may_stand_once(instruction)
        ]

    def holds(self, load: Load) -> bool:
        """Whether nothing else writes the registers of a load."""
        written = vector(load.instruction.operand(0))
        return all(len(self.writers[name]) == 1 for name in written if name in self.writers)

    def keeps(self, first: Load, second: Load) -> bool:
        """Whether what the first load read is in its register, and still in memory, wherever the second one reads."""
        a, b = first, second
        if self.loops_around[a.block] != self.loops_around[b.block] or a.instruction.opcode != b.instruction.opcode:
            return False
        if not self.holds(a) or (a.instruction.guard and _guard(a.instruction) != _guard(b.instruction)):
            return False
        if "nc" in a.instruction.parts:
            return a.place < b.place if a.block == b.block else self.dominators.dominates(a.block, b.block)
        if a.block != b.block or a.place > b.place:
            return False
        return not any(map(orders_loads, self.kernel.blocks[a.block].instructions[a.place : b.place]))


def _guard(instruction: Instruction) -> tuple[str | None, bool]:
    return instruction.guard, instruction.negated


def _may_stand_once(instruction: Instruction) -> bool:
    """Whether a global load need not read memory each time, and all that it reads is kept."""
    parts = instruction.parts
    needed = parts[0] != "ld" or "global" not in parts or not _FRESH.isdisjoint(parts)
    return not needed and "_" not in vector(instruction.operand(0))


def orders_loads(instruction: Instruction) -> bool:
    """Whether what was loaded from global memory before may be other after it."""
    if instruction.name == "st":
        return not {"shared", "local"} & set(instruction.parts)
    return instruction.name in _ORDERING and "shared" not in instruction.parts


def rewritten(
    kernel: Kernel, instead: Mapping[int, list[Instruction]], before: Mapping[int, list[Instruction]]
) -> Kernel:
    """The kernel with statements replaced, by their identity, and others put in before positions."""
    if not instead:
        return kernel
    statements: list[Instruction | Label] = []
    for position, statement in enumerate(kernel.statements):
        statements += before.get(position, [])
        statements += instead.get(id(statement), [statement])
    return with_statements(kernel, statements)
