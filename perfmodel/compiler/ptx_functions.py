"""The functions of a PTX text, cut out whole: a body ends at its own brace, not at one of inline assembly."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_HEAD = re.compile(r"^(?:\.\w+[ \t]+)*\.(?P<kind>entry|func)\b[^{;]*(?P<end>[{;])", re.MULTILINE)
_NAME = re.compile(r"\.(?:entry|func)\s*(?:\([^)]*\)\s*)?(?P<name>[\w$]+)")
_WORD = re.compile(r"[\w$]+")
_BRACE = re.compile(r'"[^"\n]*"|//[^\n]*|/\*.*?\*/|[{}]', re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class PtxFunction:
    """One kernel or device function: its text from ``start`` to ``stop``, the end of its last line included."""

    name: str
    is_kernel: bool
    is_declaration: bool
    start: int
    stop: int


def ptx_functions(ptx: str) -> Iterator[PtxFunction]:
    r"""Kernels and functions in order.

    >>> text = ".entry a()\n{\n{ add.s32 r, r, 1;\n}\nret;\n}\n.entry b();\n"
    >>> [(f.name, text[f.start : f.stop][-7:]) for f in ptx_functions(text)]
    [('a', 'ret;\n}\n'), ('b', 'y b();\n')]
    """
    position = 0
    while (head := _HEAD.search(ptx, position)) is not None:
        is_declaration = head["end"] == ";"
        position = head.end() if is_declaration else _behind_brace(ptx, head.end())
        line_end = ptx.find("\n", position)
        position = len(ptx) if line_end < 0 else line_end + 1
        name = _NAME.search(head[0])
        if name is not None:
            yield PtxFunction(
                name=name["name"],
                is_kernel=head["kind"] == "entry",
                is_declaration=is_declaration,
                start=head.start(),
                stop=position,
            )


def _behind_brace(ptx: str, position: int) -> int:
    """Where the block ends that an open brace before ``position`` begins."""
    depth = 1
    for match in _BRACE.finditer(ptx, position):
        depth += (match[0] == "{") - (match[0] == "}")
        if depth == 0:
            return match.end()
    return len(ptx)


def with_kernel_only(ptx: str, kernel_name: str) -> str:
    r"""The text without kernels of other names, declarations of kernels, and functions that neither the kernel nor data name.

    >>> text = ".func f();\n.func g()\n{\ncall f;\n}\n.entry k()\n{\n}\n.entry l()\n{\ncall g;\n}\n"
    >>> with_kernel_only(text, "k").split()
    ['.entry', 'k()', '{', '}']
    >>> with_kernel_only(text, "l") == text.replace(".entry k()\n{\n}\n", "")
    True
    """
    functions = list(ptx_functions(ptx))
    outside, position = [], 0
    for function in functions:
        outside.append(ptx[position : function.start])
        position = function.stop
    outside.append(ptx[position:])
    own = [f for f in functions if f.is_kernel and not f.is_declaration and f.name == kernel_name]
    others = [f for f in functions if not f.is_kernel]
    named: set[str] = set()
    pending = [*outside, *(ptx[f.start : f.stop] for f in own)]
    while pending:
        words = set(_WORD.findall(pending.pop()))
        pending += [ptx[f.start : f.stop] for f in others if f.name in words and f.name not in named]
        named |= words
    parts, position = [], 0
    for function in functions:
        if function not in own and (function.is_kernel or function.name not in named):
            parts.append(ptx[position : function.start])
            position = function.stop
    return "".join([*parts, ptx[position:]])
