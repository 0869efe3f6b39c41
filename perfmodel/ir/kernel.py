"""A kernel in the form that the simulator executes: flat code, its registers and the variables that it may name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from .control_flow import basic_blocks
from .instruction import BasicBlock, Effects, Instruction, Label, Parameter, Variable
from .types import ScalarType


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
