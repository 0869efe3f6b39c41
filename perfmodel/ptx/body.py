"""The body of a function to a record: registers, variables, labels and instructions, inner scopes made unique."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ..errors import SimulationError
from ..ir.instruction import Instruction, Label, Parameter, SourceLine, Variable
from ..ir.types import STORAGE_TYPES
from .function import Body, parse_parameter, parse_variable
from .text import LineTable, Statement, Token, split_operands, statements

MAX_REGISTERS = 1_000_000
_INSTRUCTION = re.compile(r"(?:@(!?)\s*([%\w$]+)\s+)?([a-z][\w.:]*)(?:\s+(.*))?$", re.DOTALL)
_REGISTERS = re.compile(r"\.reg\s*\.(\w+)\s+(.+)$", re.DOTALL)
_REGISTER = re.compile(r"(%?[\w$]+)\s*(?:<\s*(\d+)\s*>)?$")
_NAME = re.compile(r"%?[A-Za-z_$][\w$]*")
_LOCATION = re.compile(r"\.loc\s+(\d+)\s+(\d+)\s+(\d+)(?:.*?inlined_at\s+(\d+)\s+(\d+)\s+(\d+))?")
MAIN_FILE = 1
"""Number that the compiler gives to the translation unit's own source."""

_Place = tuple[int, int, int]


@dataclass(slots=True)
class _Scope:
    """An open brace: its names and what they are called outside."""

    renamed: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Reader:
    """What has been read of one body so far."""

    files: dict[int, str]
    registers: dict[str, str] = field(default_factory=dict)
    ranges: dict[str, tuple[str, int]] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)
    parameters: dict[str, Parameter] = field(default_factory=dict)
    targets: dict[str, tuple[str, ...]] = field(default_factory=dict)
    statements: list[Instruction | Label] = field(default_factory=list)
    scopes: list[_Scope] = field(default_factory=list)
    scope_count: int = 0
    source: SourceLine | None = None
    call_sites: dict[_Place, _Place] = field(default_factory=dict)

    def read(self, statement: Statement) -> None:
        """Take in one statement."""
        if statement.token is Token.OPEN:
            self.scope_count += 1
            self.scopes.append(_Scope())
        elif statement.token is Token.CLOSE:
            if not self.scopes:
                raise SimulationError(f"PTX line {statement.line}: brace that was never opened")
            self.scopes.pop()
        elif statement.token is Token.LABEL:
            self.statements.append(Label(statement.text))
        elif statement.token is Token.DIRECTIVE:
            self._locate(statement)
        elif statement.text.startswith("."):
            self._declare(statement)
        else:
            self.statements.append(self._instruction(statement))

    def _locate(self, statement: Statement) -> None:
        match = _LOCATION.match(statement.text)
        if match is None:
            return
        place: _Place = (int(match[1]), int(match[2]), int(match[3]))
        if match[4] is not None:
            self.call_sites[place] = (int(match[4]), int(match[5]), int(match[6]))
        for _ in range(len(self.call_sites)):
            if place[0] == MAIN_FILE or place not in self.call_sites:
                break
            place = self.call_sites[place]
        if place[1] > 0:
            self.source = SourceLine(self.files.get(place[0], f"file {place[0]}"), place[1])

    def _declare(self, statement: Statement) -> None:
        text, line = statement.text, statement.line
        if text.startswith(".reg"):
            self._declare_registers(statement)
        elif text.startswith(".param"):
            parameter = parse_parameter(text, line)
            self.parameters[self._unique(parameter.name)] = parameter
        elif text.startswith(".branchtargets"):
            previous = self.statements.pop() if self.statements else None
            if not isinstance(previous, Label):
                raise SimulationError(f"PTX line {line}: .branchtargets without a label")
            self.targets[previous.name] = split_operands(text.removeprefix(".branchtargets"))
        elif variable := parse_variable(text, line):
            self.variables[self._unique(variable.name)] = variable
        elif not text.startswith((".pragma", ".callprototype", ".calltargets")):
            raise SimulationError(f"PTX line {line}: {text[:60]!r} is not supported")

    def _declare_registers(self, statement: Statement) -> None:
        declared = _REGISTERS.match(statement.text)
        type_name = declared[1] if declared else ""
        if declared is None or type_name not in STORAGE_TYPES:
            raise SimulationError(f"PTX line {statement.line}: {statement.text[:60]!r}: type is not supported")
        for entry in split_operands(declared[2]):
            match = _REGISTER.match(entry)
            if match is None or (match[2] and int(match[2]) > MAX_REGISTERS):
                raise SimulationError(f"PTX line {statement.line}: register {entry!r} is not supported")
            if match[2]:
                self.ranges[match[1]] = (type_name, int(match[2]))
            else:
                self.registers[self._unique(match[1])] = type_name

    def _unique(self, name: str) -> str:
        """Declare a name in the innermost scope; outside all scopes it stays as it is."""
        if not self.scopes:
            return name
        self.scopes[-1].renamed[name] = f"{name}@{self.scope_count}"
        return self.scopes[-1].renamed[name]

    def _renamed(self, text: str) -> str:
        def lookup(match: re.Match[str]) -> str:
            for scope in reversed(self.scopes):
                if match[0] in scope.renamed:
                    return scope.renamed[match[0]]
            return match[0]

        return _NAME.sub(lookup, text)

    def _instruction(self, statement: Statement) -> Instruction:
        match = _INSTRUCTION.match(statement.text)
        if match is None:
            raise SimulationError(f"PTX line {statement.line}: {statement.text[:60]!r} is no instruction")
        negated, guard, opcode, rest = match[1] == "!", match[2], match[3], match[4] or ""
        if any(scope.renamed for scope in self.scopes):
            rest = self._renamed(rest)
            guard = self._renamed(guard) if guard else None
        return Instruction(opcode, split_operands(rest), guard, negated, statement.line, self.source)


def parse_body(text: str, start: int, stop: int, files: dict[int, str], lines: LineTable) -> Body:
    """The body between two character offsets of a module's text without comments.

    Raises:
        SimulationError: a statement is malformed; the text names its line.
    """
    reader = _Reader(files)
    for statement in statements(text, start, stop, lines):
        reader.read(statement)
    return Body(
        registers=reader.registers,
        register_ranges=reader.ranges,
        variables=reader.variables,
        parameters=reader.parameters,
        branch_targets=reader.targets,
        statements=tuple(reader.statements),
    )
