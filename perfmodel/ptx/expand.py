"""A kernel's instructions with every device function call expanded in place, so that control flow is one flat list.

Registers, labels and local variables of the n-th expansion carry the suffix ``~n``. A parameter-space variable of a call sequence
becomes registers named after variable and byte offset (``param0@1.8``), which argument passing moves through.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ..ir.instruction import Instruction, Label, Space, Variable
from ..ir.kernel import Kernel
from ..ir.types import STORAGE_TYPES, VALUE_TYPES, ScalarType, width_bytes
from .function import Body, Function
from .operands import CARRY, effects

MAX_INSTRUCTIONS = 2_000_000
"""Instructions of a kernel with all calls expanded, at most."""
MAX_CALL_DEPTH = 24
"""Calls within calls, at most; a function that calls itself has no end."""
_NAME = re.compile(r"%?[A-Za-z_$][\w$@]*")
_PARAMETER_ADDRESS = re.compile(r"\[\s*([\w$@]+)\s*(?:\+\s*(\d+))?\s*\]$")
_CALL = re.compile(
    r"(?:\((?P<returns>[^)]*)\)\s*,\s*)?(?P<target>[%\w$@]+)\s*(?:,\s*\((?P<arguments>[^)]*)\)\s*)?(?P<rest>,.*)?$",
    re.DOTALL,
)
_IGNORED_CALLS = {"vprintf": "0"}
"""Functions of the run-time system that have no effect on results, and what they return."""
_TRAPPING_CALLS = {"__assertfail"}
"""Functions of the run-time system that end the kernel with an error."""


@dataclass(slots=True)
class _Expanded:
    """Flat statements of a kernel and what their names mean."""

    statements: list[Instruction | Label] = field(default_factory=list)
    variables: dict[str, Variable] = field(default_factory=dict)
    branch_targets: dict[str, tuple[str, ...]] = field(default_factory=dict)
    bodies: dict[str, Body] = field(default_factory=dict)
    passed: dict[str, str] = field(default_factory=dict)

    def register_type(self, name: str) -> str | None:
        """PTX type of a register, or None where the name is no register."""
        if name in self.passed:
            return self.passed[name]
        stem, mark, expansion = name.rpartition("~")
        body = self.bodies.get(expansion if mark else "")
        return None if body is None else body.register_type(stem if mark else name)


@dataclass(frozen=True, slots=True)
class _Frame:
    """One expansion under way: its body, suffix, and the caller's variables behind its parameters."""

    body: Body
    suffix: str
    parameters: dict[str, str]
    depth: int
    function: str

    @property
    def end(self) -> str:
        return f"$end{self.suffix}"


class _Expander:
    def __init__(self, functions: Mapping[str, Function]) -> None:
        self.functions = functions
        self.result = _Expanded()
        self.count = 0

    def run(self, entry: Function) -> _Expanded:
        assert entry.body is not None
        self._body(_Frame(entry.body, "", {}, 0, entry.name))
        return self.result

    def _body(self, frame: _Frame) -> None:
        result, suffix = self.result, frame.suffix
        result.bodies[suffix.lstrip("~")] = frame.body
        for name, variable in frame.body.variables.items():
            result.variables[name + suffix if variable.space is Space.LOCAL else name] = variable
        for name, targets in frame.body.branch_targets.items():
            result.branch_targets[name + suffix] = tuple(target + suffix for target in targets)
        for statement in frame.body.statements:
            if isinstance(statement, Label):
                result.statements.append(Label(statement.name + suffix))
            else:
                self._instruction(statement, frame)
        if suffix:
            result.statements.append(Label(frame.end))

    def _instruction(self, instruction: Instruction, frame: _Frame) -> None:
        if len(self.result.statements) > MAX_INSTRUCTIONS:
            raise instruction.error(f"calls expand to more than {MAX_INSTRUCTIONS} instructions")
        name = instruction.name
        if name == "call":
            self._call(instruction, frame)
        elif name == "ret" and frame.suffix:
            self.result.statements.append(
                replace(self._renamed(instruction, frame), opcode="bra.ret", operands=(frame.end,))
            )
        elif name in ("ld", "st") and instruction.parts[1:2] == ["param"] and self._passes(instruction, frame):
            self._pass(instruction, frame)
        else:
            self.result.statements.append(self._renamed(instruction, frame))

    def _renamed(self, instruction: Instruction, frame: _Frame) -> Instruction:
        if not frame.suffix:
            return instruction

        def lookup(match: re.Match[str]) -> str:
            name = match[0]
            body = frame.body
            own = body.register_type(name) is not None or name in body.branch_targets or name.startswith("$L")
            variable = body.variables.get(name)
            own = own or (variable is not None and variable.space is Space.LOCAL)
            return name + frame.suffix if own else name

        operands = tuple(_NAME.sub(lookup, operand) for operand in instruction.operands)
        if instruction.name in ("bra", "brx"):
            operands = tuple(
                operand if operand.endswith(frame.suffix) else operand + frame.suffix for operand in operands
            )
        guard = instruction.guard and instruction.guard + frame.suffix
        return replace(instruction, operands=operands, guard=guard)

    def _variable_and_offset(self, instruction: Instruction) -> tuple[str, int] | None:
        address = instruction.operand(1 if instruction.name == "ld" else 0)
        match = _PARAMETER_ADDRESS.match(address)
        return None if match is None else (match[1], int(match[2] or 0))

    def _passes(self, instruction: Instruction, frame: _Frame) -> bool:
        """Whether the access is to a call's parameter and not to the kernel's own."""
        place = self._variable_and_offset(instruction)
        if place is not None and (place[0] in frame.body.parameters or place[0] in frame.parameters):
            return True
        if instruction.name == "st" or frame.suffix:
            raise instruction.error("parameter access is not supported")
        return False

    def _pass(self, instruction: Instruction, frame: _Frame) -> None:
        place = self._variable_and_offset(instruction)
        assert place is not None
        variable, offset = place
        variable = frame.parameters.get(variable, variable + frame.suffix)
        type_name = instruction.parts[-1]
        if type_name not in VALUE_TYPES:
            raise instruction.error(f"type .{type_name} is not supported")
        width = width_bytes(VALUE_TYPES[type_name])
        renamed = self._renamed(instruction, frame)
        values = renamed.operand(0 if instruction.name == "ld" else 1).strip("{} ").split(",")
        for position, value in enumerate(values):
            passed = f"{variable}.{offset + position * width}"
            self.result.passed.setdefault(passed, f"b{8 * width}")
            pair = (value.strip(), passed) if instruction.name == "ld" else (passed, value.strip())
            self.result.statements.append(replace(renamed, opcode=f"mov.{type_name}", operands=pair))

    def _call(self, instruction: Instruction, frame: _Frame) -> None:
        match = _CALL.match(", ".join(instruction.operands))
        target = match["target"] if match else ""
        if match is None or match["rest"] or target.startswith("%"):
            raise instruction.error("indirect calls are not supported")
        returns = [name.strip() for name in (match["returns"] or "").split(",") if name.strip()]
        arguments = [name.strip() for name in (match["arguments"] or "").split(",") if name.strip()]
        function = self.functions.get(target)
        if function is None:
            raise instruction.error(f"function {target} is not in the module")
        if function.body is None:
            self._run_time_call(instruction, frame, target, returns)
            return
        self._expand(instruction, frame, function, returns, arguments)

    def _run_time_call(self, instruction: Instruction, frame: _Frame, target: str, returns: list[str]) -> None:
        renamed = self._renamed(instruction, frame)
        if target in _TRAPPING_CALLS:
            self.result.statements.append(replace(renamed, opcode="trap", operands=()))
        elif target in _IGNORED_CALLS:
            for name in returns:
                passed = f"{frame.parameters.get(name, name + frame.suffix)}.0"
                self.result.passed.setdefault(passed, "b32")
                self.result.statements.append(
                    replace(renamed, opcode="mov.b32", operands=(passed, _IGNORED_CALLS[target]))
                )
        else:
            raise instruction.error(f"function {target} has no body here")

    def _expand(
        self, instruction: Instruction, frame: _Frame, function: Function, returns: list[str], arguments: list[str]
    ) -> None:
        if frame.depth >= MAX_CALL_DEPTH:
            raise instruction.error(f"calls nest deeper than {MAX_CALL_DEPTH}; recursion is not supported")
        if len(returns) != len(function.returns) or len(arguments) != len(function.parameters):
            raise instruction.error(f"arguments do not fit {function.name}")
        assert function.body is not None
        self.count += 1
        formal = [parameter.name for parameter in (*function.returns, *function.parameters)]
        actual = [frame.parameters.get(name, name + frame.suffix) for name in (*returns, *arguments)]
        inner = _Frame(
            function.body, f"~{self.count}", dict(zip(formal, actual, strict=True)), frame.depth + 1, function.name
        )
        if instruction.guard:
            skip = replace(
                self._renamed(instruction, frame),
                opcode="bra.skip",
                operands=(inner.end,),
                negated=not instruction.negated,
            )
            self.result.statements.append(skip)
        self._body(inner)


def expand(entry: Function, functions: Mapping[str, Function], variables: Mapping[str, Variable]) -> Kernel:
    """The kernel of an entry point, every call expanded.

    Raises:
        SimulationError: an indirect or recursive call, or an argument that does not fit.
    """
    expanded = _Expander(functions).run(entry)
    register_types: dict[str, ScalarType] = {}

    def is_register(name: str) -> bool:
        if name in register_types:
            return True
        type_name = "u32" if name == CARRY else expanded.register_type(name)
        if type_name is None:
            return False
        register_types[name] = STORAGE_TYPES[type_name]
        return True

    found = [effects(one, is_register) for one in expanded.statements if isinstance(one, Instruction)]
    return Kernel(
        name=entry.name,
        parameters=entry.parameters,
        statements=tuple(expanded.statements),
        branch_targets=expanded.branch_targets,
        register_types=register_types,
        effects=tuple(found),
        variables=variables,
        own_variables=expanded.variables,
    )
