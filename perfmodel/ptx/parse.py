"""PTX module text to records: directives, variables, functions and entries; bodies are read by `body`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..errors import SimulationError
from ..ir.instruction import Parameter, Variable
from ..ir.kernel import Kernel
from ..sources.ptx_text import without_comments
from .body import parse_body
from .expand import expand
from .function import Function, parse_parameter, parse_variable
from .text import MAX_PTX_CHARACTERS, LineTable, split_operands


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """What a PTX text defines.

    Args:
        target: architecture of the ``.target`` directive.
        entries: entry points by name.
        functions: device functions by name.
        variables: variables of the module by name.
    """

    target: str
    entries: Mapping[str, Function]
    functions: Mapping[str, Function]
    variables: Mapping[str, Variable]
    _kernels: dict[str, Kernel] = field(default_factory=dict, repr=False, compare=False)

    def kernel(self, name: str) -> Kernel:
        """The kernel of that name, the same object each time.

        Raises:
            SimulationError: there is none (the message names those that there are), or a call in it is not supported.
        """
        if name not in self.entries:
            raise SimulationError(f"kernel {name!r} is not in the module, which has {sorted(self.entries)}")
        if name not in self._kernels:
            self._kernels[name] = expand(self.entries[name], self.functions, self.variables)
        return self._kernels[name]


_FUNCTION = re.compile(
    r"(?:\.(?:visible|extern|weak)\s+)*\.(?P<kind>entry|func)\s*(?:\((?P<returns>[^)]*)\)\s*)?(?P<name>[\w$]+)\s*"
    r"(?:\((?P<parameters>[^)]*)\))?(?P<tuning>[^{;]*)(?P<end>[{;])"
)
_TOP = re.compile(r"\s*(?P<word>[.\w]+)?")
_LINE_DIRECTIVE = re.compile(r"\s*\.(?:version|target|address_size|file|loc)\b[^\n]*")
_FILE = re.compile(r'\.file\s+(\d+)\s+"([^"\n]*)"')
_TARGET = re.compile(r"^\s*\.target\s+(\w+)", re.MULTILINE)
_BRACES = re.compile(r"[{}]")


def _parameters(text: str | None, line: int) -> tuple[Parameter, ...]:
    return tuple(parse_parameter(part, line) for part in split_operands(text or "") if part)


def _closing_brace(text: str, position: int, line: int) -> int:
    depth = 1
    for match in _BRACES.finditer(text, position):
        depth += 1 if match[0] == "{" else -1
        if depth == 0:
            return match.start()
    raise SimulationError(f"PTX line {line}: brace that never closes")


def parse_module(ptx: str) -> Module:
    r"""The records of a PTX module; what a kernel's instructions mean is looked at only when that kernel is used.

    Raises:
        SimulationError: a directive, declaration or brace is malformed; the text names its line.

    >>> parse_module(".version 8.0\n.target sm_75\n.address_size 64\n.entry k() { ret; }").kernel("k").name
    'k'
    """
    if len(ptx) > MAX_PTX_CHARACTERS:
        raise SimulationError(f"PTX text has {len(ptx)} characters, accepted are {MAX_PTX_CHARACTERS}")
    text = without_comments(ptx)
    lines = LineTable(text)
    files = {int(number): path for number, path in _FILE.findall(text)}
    variables: dict[str, Variable] = {}
    functions: dict[str, Function] = {}
    entries: dict[str, Function] = {}
    position = 0
    while True:
        skipped = _TOP.match(text, position)
        assert skipped is not None
        if skipped["word"] is None:
            if skipped.end() == len(text):
                break
            raise SimulationError(f"PTX line {lines.line(skipped.end())}: {text[skipped.end() : skipped.end() + 40]!r}")
        begin = skipped.start("word")
        line = lines.line(begin)
        if directive := _LINE_DIRECTIVE.match(text, begin):
            position = directive.end()
        elif skipped["word"] == ".section":
            opening = text.find("{", begin)
            if opening < 0:
                raise SimulationError(f"PTX line {line}: .section without a body")
            position = _closing_brace(text, opening + 1, line) + 1
        elif function := _FUNCTION.match(text, begin):
            position = _read_function(text, function, files, lines, entries, functions)
        else:
            position = _read_variable(text, begin, line, variables)
    target = _TARGET.search(text)
    return Module(target=target[1] if target else "", entries=entries, functions=functions, variables=variables)


def _read_variable(text: str, begin: int, line: int, variables: dict[str, Variable]) -> int:
    end = text.find(";", begin)
    if end < 0:
        raise SimulationError(f"PTX line {line}: statement without an end: {text[begin : begin + 60]!r}")
    statement = text[begin:end].strip()
    variable = parse_variable(statement, line)
    if variable is not None:
        variables[variable.name] = variable
    elif not statement.startswith((".pragma", ".alias")):
        raise SimulationError(f"PTX line {line}: {statement[:60]!r} is not supported")
    return end + 1


def _read_function(
    text: str,
    match: re.Match[str],
    files: dict[int, str],
    lines: LineTable,
    entries: dict[str, Function],
    functions: dict[str, Function],
) -> int:
    """Read a function or entry point; gives the offset behind it."""
    line = lines.line(match.start())
    defined = match["end"] == "{"
    close = _closing_brace(text, match.end(), line) if defined else match.end()
    function = Function(
        name=match["name"],
        returns=_parameters(match["returns"], line),
        parameters=_parameters(match["parameters"], line),
        body=parse_body(text, match.end(), close, files, lines) if defined else None,
        line=line,
    )
    if not defined:
        functions.setdefault(function.name, function)
        return close
    (entries if match["kind"] == "entry" else functions)[function.name] = function
    return close + 1
