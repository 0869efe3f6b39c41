"""Functions and entry points of a PTX module, as the text states them (PTX ISA, chapters 4 and 5)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ..errors import SimulationError
from ..ir.instruction import Instruction, Label, Parameter, Space, Variable
from ..ir.types import VALUE_TYPES, width_bytes


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


MAX_VARIABLE_BYTES = 2**31
_LINKAGE = r"(?P<linkage>(?:\.(?:visible|extern|weak|common)\s+)*)"
_VARIABLE = re.compile(
    _LINKAGE + r"\.(?P<space>const|global|shared|local)\s+(?:\.attribute\([^)]*\)\s+)?"
    r"(?:\.align\s+(?P<align>\d+)\s+)?(?:\.attribute\([^)]*\)\s+)?"
    r"\.(?P<type>\w+)\s+(?P<name>[\w$%]+)\s*(?P<dims>(?:\[\s*\d*\s*\])*)\s*(?:=\s*(?P<init>.+))?$",
    re.DOTALL,
)
_PARAMETER = re.compile(
    r"\.(?:param|reg)\s+(?:\.align\s+(?P<align0>\d+)\s+)?\.(?P<type>\w+)\s*(?:\.ptr(?:\s+\.(?:global|shared|local|const))?\s*)?"
    r"(?:\.align\s+(?P<align>\d+)\s+)?(?P<name>[\w$%]+)\s*(?P<dims>(?:\[\s*\d+\s*\])?)\s*$"
)


def _element_bytes(type_name: str, context: str) -> int:
    if type_name not in VALUE_TYPES or type_name == "pred":
        raise SimulationError(f"{context}: type .{type_name} is not supported")
    return width_bytes(VALUE_TYPES[type_name])


def parse_variable(text: str, line: int) -> Variable | None:
    """The variable that a declaration states, or None where the text is no variable declaration.

    >>> parse_variable(".const .align 4 .b8 filter[900]", 1).size_bytes
    900
    """
    match = _VARIABLE.match(text)
    if match is None:
        return None
    size = _element_bytes(match["type"], f"PTX line {line}: variable {match['name']}")
    alignment = int(match["align"] or size)
    for dimension in re.findall(r"\[\s*(\d*)\s*\]", match["dims"]):
        size *= int(dimension or 0)
    if size > MAX_VARIABLE_BYTES or alignment not in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024):
        raise SimulationError(f"PTX line {line}: variable {match['name']}: {size} bytes aligned to {alignment}")
    return Variable(
        name=match["name"],
        space=Space(match["space"]),
        type_name=match["type"],
        alignment_bytes=alignment,
        size_bytes=size,
        initialiser=match["init"],
        line=line,
    )


def parse_parameter(text: str, line: int) -> Parameter:
    """The parameter that a declaration states; SimulationError where it is none.

    >>> parse_parameter(".param .align 4 .b8 size[16]", 1).size_bytes
    16
    """
    match = _PARAMETER.match(text.strip())
    if match is None:
        raise SimulationError(f"PTX line {line}: parameter {text.strip()!r} is not supported")
    size = _element_bytes(match["type"], f"PTX line {line}: parameter {match['name']}")
    alignment = int(match["align0"] or match["align"] or size)
    if match["dims"]:
        size *= int(match["dims"].strip("[] \t\n"))
    if ".ptr" in text:
        alignment = size
    if size > 65_536 or alignment not in (1, 2, 4, 8, 16, 32, 64, 128):
        raise SimulationError(f"PTX line {line}: parameter {match['name']}: {size} bytes aligned to {alignment}")
    return Parameter(name=match["name"], type_name=match["type"], alignment_bytes=alignment, size_bytes=size)
