"""Host code that does not compile, left out: a kernel needs neither cuBLAS nor the Python bindings that its file also holds."""

from __future__ import annotations

import re
from collections.abc import Collection
from itertools import pairwise
from typing import Any, NamedTuple

_DEVICE = re.compile(rb"__(?:global|device|constant|shared|managed|host)__")
_SCOPES = frozenset(
    {"translation_unit", "namespace_definition", "declaration_list", "linkage_specification", "ERROR"}
    | {"preproc_if", "preproc_ifdef", "preproc_else", "preproc_elif", "preproc_elifdef"}
)
"""What holds declarations; an ``ERROR`` is a place that the parser does not understand."""
_CLASSES = frozenset({"class_specifier", "struct_specifier", "field_declaration_list"})
_STATEMENTS = frozenset(
    f"{kind}_statement"
    for kind in ("expression", "if", "for", "while", "do", "switch", "return", "try", "throw", "case")
)
_KEPT = frozenset({"comment", "preproc_include", "preproc_def", "preproc_function_def"})


def without_host_code(text: str, lines: Collection[int], *, statements: bool = False) -> str:
    """The text without the declarations at these lines (from 1) that are not for the device.

    What goes is replaced by ``;`` and blanks, so that every line keeps its number. A function with ``__global__``,
    ``__device__``, ``__constant__`` or ``__shared__`` in it stays; of a class goes the member at the line. With ``statements``
    only the statement of a function goes, so that the launches around it still say which templates are used.

    >>> source = "__global__ void k() { }" + chr(10) + "int main() { return undeclared; }"
    >>> without_host_code(source, {2}).split()
    ['__global__', 'void', 'k()', '{', '}', ';']
    >>> without_host_code(source, {1}) == source
    True
    """
    if not lines:
        return text
    import tree_sitter
    import tree_sitter_cuda

    source = text.encode()
    language = tree_sitter.Language(tree_sitter_cuda.language())
    tree = tree_sitter.Parser(language).parse(source)
    root = tree.root_node
    rows = _rows(source)
    wanted = [rows[line - 1] for line in lines if line <= len(rows)]
    spans = {span for row in wanted if (span := _host_declaration(root, row, source, statements)) is not None}
    kept = bytearray(source)
    for start, stop in spans:
        blank = re.sub(rb"[^\r\n]", b" ", source[start:stop])
        kept[start:stop] = blank.replace(b" ", b";", 1)  # a condition needs a statement; elsewhere it does no harm
    return kept.decode()


class _Row(NamedTuple):
    """Bytes of a line, its end excluded. Rows of nodes are not read: tree-sitter 0.26.0 frees their numbers too early."""

    start: int
    stop: int

    def meets(self, node: Any) -> bool:
        """Whether a node has a part, or its end, in the line."""
        return bool(node.start_byte < self.stop and node.end_byte >= self.start)


def _rows(source: bytes) -> list[_Row]:
    starts = (0, *(match.end() for match in re.finditer(rb"\n", source)), len(source) + 1)
    return [_Row(start, stop) for start, stop in pairwise(starts)]


def _host_declaration(node: Any, row: _Row, source: bytes, statements: bool) -> tuple[int, int] | None:
    """Bytes of the smallest declaration at a row that is not for the device."""
    for child in node.named_children:
        if not row.meets(child) or child.type in _KEPT:
            continue
        if child.type in _SCOPES or child.type in _CLASSES or _holds_class(child):
            inner = _host_declaration(child, row, source, statements)
            if inner is not None or child.type in _SCOPES | {"field_declaration_list"}:
                return inner
        if not _DEVICE.search(source, child.start_byte, child.end_byte):
            return (_statement(child, row) if statements else None) or (child.start_byte, child.end_byte)
    return None


def _statement(function: Any, row: _Row) -> tuple[int, int] | None:
    """Bytes of the smallest statement at a row of a function's body, None where the row is outside of it."""
    found, pending = None, [function]
    while pending:
        node = pending.pop()
        for child in node.named_children:
            if row.meets(child):
                if child.type in _STATEMENTS or (child.type == "declaration" and node.type == "compound_statement"):
                    found = child.start_byte, child.end_byte
                pending = [child]
                break
    return found


def _holds_class(node: Any) -> bool:
    """Whether a declaration, possibly of a template, defines a class."""
    return node.type in ("declaration", "template_declaration", "type_definition") and any(
        child.type in _CLASSES or _holds_class(child) for child in node.named_children
    )
