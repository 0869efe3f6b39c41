"""Functions and entry points of a PTX module, as the text states them (PTX ISA, chapters 4 and 5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..ir.instruction import Instruction, Label, Parameter, Variable


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """What stands between the braces of a function; names declared in inner scopes are unique already.

    ``registers`` maps a register to its PTX type; ``register_ranges`` maps the stem of ``%r<9>`` to type and count.
    """

    registers: Mapping[str, str]
    register_ranges: Mapping[str, tuple[str, int]]
    variables: Mapping[str, Variable]
    parameters: Mapping[str, Parameter]
    branch_targets: Mapping[str, tuple[str, ...]]
    statements: tuple[Instruction | Label, ...]

    def register_type(self, name: str) -> str | None:
        """PTX type of a register, or None where the name is no register of this body."""
        declared = self.registers.get(name)
        if declared is not None:
            return declared
        stem = name.rstrip("0123456789")
        digits = name[len(stem) :]
        known = self.register_ranges.get(stem)
        if known is None or not digits or len(digits) > 9 or int(digits) >= known[1]:
            return None
        return known[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A device function or an entry point; ``body`` is None where it is only declared (``vprintf``, ``__assertfail``)."""

    name: str
    returns: tuple[Parameter, ...]
    parameters: tuple[Parameter, ...]
    body: Body | None
    line: int
