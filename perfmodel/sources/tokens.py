"""CUDA C++ text cut into tokens, each with its place, so that parts can be blanked without moving a line."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from ..errors import InputError


class TokenKind(Enum):
    """What a token is; comments and blanks are no tokens."""

    DIRECTIVE = "directive"
    NAME = "name"
    NUMBER = "number"
    TEXT = "text"
    PUNCTUATION = "punctuation"


@dataclass(frozen=True, slots=True)
class Token:
    """A token's kind, its text and where it stands: ``[start, stop)`` in the source."""

    kind: TokenKind
    text: str
    start: int
    stop: int


_PATTERN = re.compile(
    r"""
      (?P<blank>\s+|//(?:\\\r?\n|[^\n])*|/\*.*?\*/|\\\r?\n)
    | (?P<open>/\*)
    | (?P<raw>(?:u8|[uUL])?R"(?P<fence>[^\s()\\]{0,16})\(.*?\)(?P=fence)")
    | (?P<text>(?:u8|[uUL])?"(?:\\.|[^"\\\n])*"|(?:u8|[uUL])?'(?:\\.|[^'\\\n])+')
    | (?P<name>[A-Za-z_$][\w$]*)
    | (?P<number>\.?\d(?:[eEpP][+-]|'\w|[\w.])*)
    | (?P<punctuation><<<|>>>|::|->|\#\#|==|<=|!=|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_DIRECTIVE = re.compile(r"[ \t]*\#(?:/\*.*?\*/|//(?:\\\r?\n|[^\n])*|\\\r?\n|[^\n])*", re.DOTALL)
_LINE = re.compile(r'^#line (\d+) "([^"\n]*)"\n', re.MULTILINE)
_KINDS = {
    "raw": TokenKind.TEXT,
    "text": TokenKind.TEXT,
    "name": TokenKind.NAME,
    "number": TokenKind.NUMBER,
    "punctuation": TokenKind.PUNCTUATION,
}


def tokens_of(source: str, file_name: str) -> list[Token]:
    """The tokens of a source; a preprocessor directive, continued lines included, is one token.

    >>> [token.text for token in tokens_of("#define N 4 // taps" + chr(10) + "float x[N]; /* done */", "k.cu")]
    ['#define N 4 // taps', 'float', 'x', '[', 'N', ']', ';']
    """
    found: list[Token] = []
    position, line_begins = 0, True
    while position < len(source):
        if line_begins and (directive := _DIRECTIVE.match(source, position)):
            found.append(Token(TokenKind.DIRECTIVE, directive[0], position, directive.end()))
            position, line_begins = directive.end(), False
            continue
        match = _PATTERN.match(source, position)
        assert match is not None
        group = match.lastgroup or ""
        if group == "fence":
            group = "raw"
        if group == "open":
            raise InputError(f"{place_of(source, position, file_name)}: the comment is never closed")
        if group == "blank":
            line_begins = line_begins or "\n" in match[0]
        else:
            found.append(Token(_KINDS[group], match[0], position, match.end()))
            line_begins = False
        position = match.end()
    return found


def place_of(source: str, position: int, file_name: str) -> str:
    """File and line of a position as ``file:line``, counted from the last ``#line`` directive before it.

    >>> place_of("int a;" + chr(10) + "int b;", 8, "k.cu")
    'k.cu:2'
    """
    name, first, begin = file_name, 1, 0
    for match in _LINE.finditer(source, 0, position):
        name, first, begin = match[2], int(match[1]), match.end()
    return f"{name}:{first + source.count(chr(10), begin, position)}"


def blanked(source: str, spans: list[tuple[int, int]]) -> str:
    """The source with the spans replaced by blanks; line ends stay, so that every line keeps its number.

    >>> blanked("int a;" + chr(10) + "int b;", [(0, 11)]).splitlines()
    ['      ', '    b;']
    """
    parts: list[str] = []
    position = 0
    for start, stop in sorted(spans):
        parts.append(source[position:start])
        parts.append(re.sub(r"[^\r\n]", " ", source[max(start, position) : stop]))
        position = max(position, stop)
    return "".join([*parts, source[position:]])
