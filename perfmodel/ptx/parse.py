"""PTX module text to records: directives, variables, functions and entries; bodies are read by `body`."""

from __future__ import annotations

import re

from ..errors import SimulationError
from .body import parse_body
from .module import Function, Kernel, Module, Parameter, Space, Variable
from .text import MAX_PTX_CHARACTERS, LineTable, split_operands, without_comments
from .types import VALUE_TYPES, width_bytes

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
_FUNCTION = re.compile(
    r"(?:\.(?:visible|extern|weak)\s+)*\.(?P<kind>entry|func)\s*(?:\((?P<returns>[^)]*)\)\s*)?(?P<name>[\w$]+)\s*"
    r"(?:\((?P<parameters>[^)]*)\))?(?P<tuning>[^{;]*)(?P<end>[{;])"
)
_TOP = re.compile(r"\s*(?P<word>[.\w]+)?")
_LINE_DIRECTIVE = re.compile(r"\s*\.(?:version|target|address_size|file|loc)\b[^\n]*")
_FILE = re.compile(r'\.file\s+(\d+)\s+"([^"\n]*)"')
_TARGET = re.compile(r"^\s*\.target\s+(\w+)", re.MULTILINE)
_BRACES = re.compile(r"[{}]")


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
        external=".extern" in match["linkage"],
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
    kernels: dict[str, Kernel] = {}
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
            position = _read_function(text, function, files, lines, (kernels, functions, variables))
        else:
            position = _read_variable(text, begin, line, variables)
    target = _TARGET.search(text)
    return Module(target=target[1] if target else "", kernels=kernels, functions=functions, variables=variables)


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
    found: tuple[dict[str, Kernel], dict[str, Function], dict[str, Variable]],
) -> int:
    kernels, functions, variables = found
    line = lines.line(match.start())
    parameters = _parameters(match["parameters"], line)
    if match["end"] == ";":
        functions.setdefault(
            match["name"],
            Function(
                name=match["name"],
                returns=_parameters(match["returns"], line),
                parameters=parameters,
                body=None,
                line=line,
            ),
        )
        return match.end()
    close = _closing_brace(text, match.end(), line)
    body = parse_body(text, match.end(), close, files, lines)
    if match["kind"] == "entry":
        kernels[match["name"]] = Kernel(
            name=match["name"], parameters=parameters, body=body, line=line, functions=functions, variables=variables
        )
    else:
        functions[match["name"]] = Function(
            name=match["name"],
            returns=_parameters(match["returns"], line),
            parameters=parameters,
            body=body,
            line=line,
        )
    return close + 1
