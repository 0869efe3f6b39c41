"""PTX text to statements: comments go, every statement keeps its line."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from ..errors import SimulationError

MAX_PTX_CHARACTERS = 64 * 2**20
"""PTX text beyond this is refused; the largest kernel of the project's families has under 2 MiB."""


class Token(Enum):
    """What a statement is."""

    LABEL = "label"
    OPEN = "open"
    CLOSE = "close"
    DIRECTIVE = "directive"
    STATEMENT = "statement"


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement without its terminator, and its line."""

    token: Token
    text: str
    line: int


_NEXT = re.compile(
    r"\s*(?:(?P<directive>\.(?:loc|file|version|target|address_size)\b[^\n]*)"
    r"|(?P<label>[\w$]+)\s*:(?!:)"
    r"|(?P<open>\{)|(?P<close>\})"
    r"|(?P<statement>[^;]+);)"
)


class LineTable:
    """Line of every character offset of a text."""

    def __init__(self, text: str) -> None:
        self._ends = [match.start() for match in re.finditer("\n", text)]

    def line(self, offset: int) -> int:
        """One-based line of a character offset."""
        return bisect_right(self._ends, offset - 1) + 1


def statements(text: str, start: int, stop: int, lines: LineTable) -> Iterator[Statement]:
    """Statements of ``text[start:stop]``, which holds no comments."""
    position = start
    while position < stop:
        match = _NEXT.match(text, position, stop)
        if match is None:
            rest = text[position:stop].strip()
            if not rest:
                return
            raise SimulationError(f"PTX line {lines.line(position)}: statement without an end: {rest[:60]!r}")
        kind = str(match.lastgroup)
        yield Statement(Token(kind), match[kind].strip(), lines.line(match.start(kind)))
        position = match.end()


def split_operands(text: str) -> tuple[str, ...]:
    """Operands at the commas that stand outside brackets.

    >>> split_operands("{%f1, %f2}, [%rd1+8]")
    ('{%f1, %f2}', '[%rd1+8]')
    """
    if "{" not in text and "(" not in text and "[" not in text:
        return tuple(part.strip() for part in text.split(",")) if text.strip() else ()
    operands: list[str] = []
    depth, begin = 0, 0
    for position, character in enumerate(text):
        if character in "{[(":
            depth += 1
        elif character in "}])":
            depth -= 1
        elif character == "," and depth == 0:
            operands.append(text[begin:position].strip())
            begin = position + 1
    last = text[begin:].strip()
    return (*operands, last) if last else tuple(operands)
