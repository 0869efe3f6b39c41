"""A kernel in the form that the simulator executes: flat code, its registers and the variables that it may name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from .instruction import BasicBlock, Effects, Instruction, Label, Parameter, Variable
from .types import ScalarType

TERMINATORS = frozenset({"bra", "brx", "ret", "exit", "trap"})
"""Instructions after which a basic block ends."""


def _split(statements: Sequence[Instruction | Label]) -> tuple[list[list[Instruction]], dict[str, int]]:
    """Instructions of every block, and the block that each label starts."""
    blocks: list[list[Instruction]] = []
    current: list[Instruction] = []
    labels: dict[str, int] = {}
    for statement in statements:
        if isinstance(statement, Label):
            if current:
                blocks.append(current)
                current = []
            if labels.setdefault(statement.name, len(blocks)) != len(blocks):
                labels[statement.name] = -1
            continue
        current.append(statement)
        if statement.name in TERMINATORS:
            blocks.append(current)
            current = []
    if current:
        blocks.append(current)
    return blocks, labels


def _destination(instruction: Instruction, label: str, labels: dict[str, int]) -> int:
    if labels.get(label, -1) < 0:
        raise instruction.error(f"label {label} is missing or stands twice")
    return labels[label]


def _successors(
    index: int, last: Instruction, end: int, labels: dict[str, int], branch_targets: Mapping[str, tuple[str, ...]]
) -> tuple[int, ...]:
    """For a guarded branch the fall-through comes first, then the target."""
    name = last.name
    if name == "brx":
        targets = branch_targets.get(last.operand(1))
        if targets is None:
            raise last.error("the list of branch targets is missing")
        return tuple(_destination(last, target, labels) for target in targets)
    if name == "bra":
        taken = _destination(last, last.operand(0), labels)
    elif name in ("ret", "exit", "trap"):
        taken = end
    else:
        return (index + 1,)
    return (index + 1, taken) if last.guard else (taken,)


def basic_blocks(
    statements: Sequence[Instruction | Label], branch_targets: Mapping[str, tuple[str, ...]]
) -> tuple[BasicBlock, ...]:
    """Basic blocks in layout order, with successors; the index one past the last stands for the end of the thread.

    Raises:
        SimulationError: a branch goes to a label that is missing.
    """
    split, labels = _split(statements)
    blocks: list[BasicBlock] = []
    first = 0
    for index, instructions in enumerate(split):
        successors = _successors(index, instructions[-1], len(split), labels, branch_targets)
        blocks.append(BasicBlock(index=index, first=first, instructions=tuple(instructions), successors=successors))
        first += len(instructions)
    return tuple(blocks)


@dataclass(frozen=True, kw_only=True, eq=False)
class Kernel:
    """An entry point with every call expanded.

    Args:
        name: of the entry point.
        parameters: in order.
        statements: instructions and labels in layout order.
        branch_targets: labels of each jump table.
        register_types: how each register is held, in the order in which registers are numbered.
        effects: registers that each instruction writes and reads, in layout order.
        variables: those of the module, by name.
        own_variables: those that the kernel and the functions it calls declare; they come before the module's.
    """

    name: str
    parameters: tuple[Parameter, ...]
    statements: tuple[Instruction | Label, ...] = field(repr=False)
    branch_targets: Mapping[str, tuple[str, ...]] = field(repr=False)
    register_types: Mapping[str, ScalarType] = field(repr=False)
    effects: tuple[Effects, ...] = field(repr=False)
    variables: Mapping[str, Variable] = field(repr=False)
    own_variables: Mapping[str, Variable] = field(repr=False)

    @cached_property
    def blocks(self) -> tuple[BasicBlock, ...]:
        """Basic blocks in layout order; SimulationError for control flow that is not supported."""
        return basic_blocks(self.statements, self.branch_targets)

    @cached_property
    def cache(self) -> dict[Any, Any]:
        """What was made of the kernel and should last as long as it does, such as its translations."""
        return {}
