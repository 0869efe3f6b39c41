"""Functions of the units of a program, of PTX or of machine code, each compiled when it is first asked for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from ..plan import Mask, Values
from ..program import Unit
from .emitter import Pool

UnitFunction = Callable[[Any, list[Any] | dict[int, Any], Mask | None], Any]
"""Lanes, registers by index, mask to merge under; gives what the block's last instruction branches on."""


class UnitFunctions(ABC):
    """What a scheduler asks of a translated program, for one mode.

    Args:
        program: its units, and the types of its registers.
        pool: what all functions share.
        names: what generated code may call.
    """

    def __init__(self, program: Any, pool: Pool, names: dict[str, Any]) -> None:
        self.program = program
        self.pool = pool
        self.undefined: list[Values] = [np.zeros((1, 1), held) for held in program.register_types]
        pool.namespace.update(names, UNDEFINED=self.undefined)
        self._functions: dict[tuple[int, bool], UnitFunction] = {}
        self._sources: dict[int, str] = {}
        """Sources of whole blocks that are made already, by their first unit."""
        self._touched: dict[int, set[int]] = {}

    def function(self, start: int, masked: bool) -> UnitFunction:
        """The function of a unit; without masking, of everything from the unit to the end of its basic block."""
        key = (start, masked)
        if key not in self._functions:
            self._functions[key] = self._compiled(start, masked)
        return self._functions[key]

    def touched(self, unit: Unit) -> set[int]:
        """Registers that a unit reads or writes, by index."""
        if unit.index not in self._touched:
            self._touched[unit.index] = self._touched_by(unit)
        return self._touched[unit.index]

    def _compiled(self, start: int, masked: bool) -> UnitFunction:
        name = _name(start, masked)
        source = None if masked else self._sources.pop(start, None)
        code = compile(source or self.source(start, masked), f"<{self.program.kernel.name}:{name}>", "exec")
        exec(code, self.pool.namespace)
        function: UnitFunction = self.pool.namespace[name]
        return function

    def source(self, start: int, masked: bool) -> str:
        """The source of a function, of one unit where it is masked."""
        units = [self.program.units[start]]
        while not masked and not units[-1].ends_block:
            units.append(self.program.units[units[-1].index + 1])
        return self._source_of(units, _name(start, masked), masked)

    @abstractmethod
    def _source_of(self, units: list[Unit], name: str, masked: bool) -> str:
        """The source of a function of some units, which follow one another."""

    @abstractmethod
    def _touched_by(self, unit: Unit) -> set[int]:
        """Registers that a unit reads or writes, by index."""


def _name(start: int, masked: bool) -> str:
    return f"{'masked' if masked else 'whole'}_{start}"
