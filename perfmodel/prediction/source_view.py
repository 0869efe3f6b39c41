"""A kernel line by line: source, PTX and machine code, with what each line executes and the time that it takes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

import numpy as np

from ..compiler.compiled import CompiledKernel
from ..errors import PerfmodelError
from ..ir.instruction import Instruction, SourceLine
from ..machine_code.program import MachineCode
from ..profiles.executed_profile import parsed
from ..simulator.execution import Code


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeLine:
    """A line of source, PTX or machine code.

    Attributes:
        label: Its number or address.
        text: The line.
        place: The source line (``file:line``) that it belongs to, empty where that is not known.
        instructions: Warp instructions of the launch, None where nothing is executed.
        seconds: The part of the predicted time in which warps stand at it, None where that is not known.
    """

    label: str
    text: str
    place: str
    instructions: float | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """A source file with the cost of its lines."""

    name: str
    lines: tuple[CodeLine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceView:
    """The same kernel three times: its source files, the one with the kernel first, its PTX, its machine code."""

    sources: tuple[SourceFile, ...]
    ptx: tuple[CodeLine, ...]
    machine_code: tuple[CodeLine, ...]


def source_view(
    texts: Mapping[str, str],
    compiled: CompiledKernel,
    code: Code,
    executions: Sequence[float],
    seconds: Sequence[float] | None,
) -> SourceView:
    """The view of a compiled kernel.

    Args:
        texts: of the source files, by name, the one with the kernel first.
        compiled: the kernel.
        code: what was executed of it.
        executions: warp instructions of the launch, of each instruction of machine code.
        seconds: parts of the predicted time, likewise; None where they are not known.
    """
    machine = _machine_lines(code, executions, seconds) if isinstance(code, MachineCode) else ()
    count: defaultdict[str, float] = defaultdict(float)
    spent: defaultdict[str, float] = defaultdict(float)
    for line in machine:
        count[line.place] += line.instructions or 0.0
        spent[line.place] += line.seconds or 0.0
    files: list[SourceFile] = []
    for name, text in texts.items():
        lines = tuple(
            CodeLine(
                label=str(number),
                text=line,
                place=f"{name}:{number}" if f"{name}:{number}" in count else "",
                instructions=count.get(f"{name}:{number}"),
                seconds=None if seconds is None else spent.get(f"{name}:{number}"),
            )
            for number, line in enumerate(text.splitlines(), 1)
        )
        if not files or any(line.place for line in lines):
            files.append(SourceFile(name=name, lines=lines))
    return SourceView(sources=tuple(files), ptx=_ptx_lines(compiled), machine_code=machine)


def _place(source: SourceLine | None) -> str:
    return f"{PurePath(source.file).name}:{source.line}" if source is not None and source.file else ""


def _machine_lines(
    code: MachineCode, executions: Sequence[float], seconds: Sequence[float] | None
) -> tuple[CodeLine, ...]:
    times = np.full(len(code.instructions), np.nan) if seconds is None else np.asarray(seconds)
    lines = [
        CodeLine(
            label=f"{one.address:#06x}",
            text=one.text,
            place=_place(one.source),
            instructions=executed,
            seconds=None if seconds is None else float(time),
        )
        for one, executed, time in zip(code.instructions, executions, times, strict=True)
    ]
    while lines and not lines[-1].instructions and lines[-1].text.startswith(("NOP", "BRA")):
        lines.pop()  # what fills the last line of the instruction cache
    return tuple(lines)


def _ptx_lines(compiled: CompiledKernel) -> tuple[CodeLine, ...]:
    """The kernel's PTX with its calls expanded; none where there is no PTX, or PTX with something that is not read."""
    if not compiled.ptx:
        return ()
    try:
        statements = parsed(compiled).statements
    except PerfmodelError:
        return ()
    return tuple(
        CodeLine(label=str(one.line), text=f"{one.text};", place=_place(one.source))
        if isinstance(one, Instruction)
        else CodeLine(label="", text=f"{one.name}:", place="")
        for one in statements
    )
