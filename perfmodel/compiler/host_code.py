"""Host code that does not compile, left out: a kernel needs neither cuBLAS nor the Python bindings that its file also holds."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from enum import IntEnum
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

_QUALIFIERS = ("__global__", "__device__", "__constant__", "__shared__", "__managed__", "__host__")
_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)((?:[^\n\\]|\\.|\\\n)*)", re.MULTILINE)
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
_NO_BRACES = re.compile(rb"//[^\n]*|/\*.*?\*/|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)+'", re.DOTALL)
"""Comments and texts, whose braces do not count."""
_CONDITION = re.compile(rb"[ \t]*#[ \t]*(?:if|ifdef|ifndef|elif|elifdef|elifndef|else|endif)\b")
_DECIDED = re.compile(r"([ \t]*#[ \t]*(?:el)?if)\b")
"""How a condition begins that an expression decides."""
_KEPT = frozenset({"comment", "preproc_include", "preproc_def", "preproc_function_def"})


class Extent(IntEnum):
    """How much of a source goes where a line of host code has an error."""

    STATEMENTS = 0
    """Of a function only the statement, so that the launches around it still say which templates are used."""
    DECLARATIONS = 1
    """The function, or the member of a class."""
    FUNCTIONS = 2
    """All functions of the file that are not for the device, too: macros that nobody defines declare more of them."""


def device_macros(texts: Iterable[str]) -> frozenset[str]:
    """Macros that stand for ``__device__`` and the like, also by way of other macros.

    >>> sorted(device_macros(["#define HD __host__ __device__", "#define FUN inline HD", "#define N 4"]))
    ['FUN', 'HD']
    """
    words = {name: frozenset(re.findall(r"\w+", body)) for text in texts for name, body in _MACRO.findall(text)}
    found: frozenset[str] = frozenset()
    while True:
        known = found.union(_QUALIFIERS)
        more = frozenset(name for name, body in words.items() if not body.isdisjoint(known))
        if more == found:
            return found
        found = more


def without_host_code(
    text: str, lines: Collection[int], *, extent: Extent = Extent.DECLARATIONS, macros: Collection[str] = ()
) -> str:
    """The text without the declarations at these lines (from 1) that are not for the device.

    What goes is replaced by ``;`` and blanks, so that every line keeps its number. A function with ``__global__``,
    ``__device__``, ``__constant__``, ``__shared__`` or one of the ``macros`` in it stays; of a class goes the member at the line.

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
    parsed = _one_branch(source, lines)
    tree = tree_sitter.Parser(language).parse(parsed)
    root = tree.root_node
    rows = _rows(source)
    wanted = [rows[line - 1] for line in lines if line <= len(rows)]
    device = _word(*_QUALIFIERS, *macros)
    statements = extent is Extent.STATEMENTS
    found = (_host_declaration(root, row, source, device, statements=statements) for row in wanted)
    spans = {span for span in found if span is not None}
    if extent is Extent.FUNCTIONS:
        spans.update(_host_functions(root, source, _word("constexpr", *_QUALIFIERS, *macros)))
    spans = {(start, stop) for start, stop in spans if _is_balanced(parsed[start:stop])}
    kept = bytearray(source)
    for start, stop in spans:
        kept[start:stop] = _blank(source[start:stop])
    return kept.decode()


def _one_branch(source: bytes, lines: Collection[int]) -> bytes:
    """The source without conditions, of as many bytes: of their branches stays the one with such a line, or the first.

    Braces that every branch opens would lead the parser astray.
    """
    rows = source.splitlines(keepends=True)
    open_groups: list[list[int]] = []
    """Lines of the directives of each group of branches that is open."""
    goes = bytearray(len(rows))
    goes_on = False
    for number, row in enumerate(rows):
        directive = _CONDITION.match(row)
        goes[number] = goes_on or directive is not None
        goes_on = bool(goes[number]) and row.rstrip().endswith(b"\\")
        word = b"" if directive is None else directive[0].lstrip(b"# \t")
        if word.startswith(b"if"):
            open_groups.append([number])
        elif word and open_groups:
            open_groups[-1].append(number)
            if word == b"endif":
                branches = list(pairwise(open_groups.pop()))
                chosen = next((b for b in branches if any(b[0] < line - 1 < b[1] for line in lines)), branches[0])
                for start, stop in branches:
                    if (start, stop) != chosen:
                        goes[start:stop] = b"\1" * (stop - start)
    blank = (re.sub(rb"[^\r\n]", b" ", row) if gone else row for row, gone in zip(rows, goes, strict=True))
    return b"".join(blank)


def _is_balanced(source: bytes) -> bool:
    """Whether braces open before they close: led astray by conditions, the parser ends a declaration in another one's."""
    depths = [
        0,
        *accumulate((1 if brace == b"{" else -1) for brace in re.findall(rb"[{}]", _NO_BRACES.sub(b"", source))),
    ]
    return depths[-1] == 0 and min(depths) == 0


def _blank(source: bytes) -> bytes:
    """Blanks in the place of a declaration, whose conditions for the preprocessor stay: they may begin or end outside of it."""
    lines = source.splitlines(keepends=True)
    kept = list[bool]()
    for line, before in zip(lines, (b"", *lines), strict=False):
        goes_on = bool(kept) and kept[-1] and before.rstrip().endswith(b"\\")
        kept.append(goes_on or _CONDITION.match(line) is not None)
    blank = [line if stays else re.sub(rb"[^\r\n]", b" ", line) for line, stays in zip(lines, kept, strict=True)]
    first = next((number for number, line in enumerate(blank) if line[:1] == b" " and not kept[number]), None)
    if first is not None:
        blank[first] = b";" + blank[first][1:]  # a condition needs a statement; elsewhere it does no harm
    return b"".join(blank)


def without_conditions(text: str, lines: Collection[int]) -> str:
    """The text whose conditions for the preprocessor at these lines (from 1) are false, every line with its number.

    A condition that calls a macro of a header that is not installed is an error, which ends the compilation.

    >>> without_conditions("#if NEWER(3, 4) && " + chr(92) + chr(10) + "  defined(B)" + chr(10) + "int a;", {2}).splitlines()
    ['#if 0', '', 'int a;']
    """
    rows = text.split("\n")
    starts = list[int]()
    for number in range(len(rows)):
        goes_on = number > 0 and rows[number - 1].rstrip().endswith("\\")
        starts.append(starts[-1] if goes_on else number)
    for start in {starts[line - 1] for line in lines if line <= len(rows)}:
        condition = _DECIDED.match(rows[start])
        if condition is not None:
            stop = next((n for n in range(start + 1, len(rows)) if starts[n] != start), len(rows))
            rows[start:stop] = [f"{condition[1]} 0", *[""] * (stop - start - 1)]
    return "\n".join(rows)


def _word(*words: str) -> re.Pattern[bytes]:
    return re.compile(rf"\b(?:{'|'.join(words)})\b".encode())


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


def _host_functions(node: Any, source: bytes, called: re.Pattern[bytes]) -> Iterator[tuple[int, int]]:
    """Bytes of the functions outside of classes that are for the host alone, and of statements outside of functions."""
    for child in _declarations(node):
        if child.type in _SCOPES:
            yield from _host_functions(child, source, called)
        elif child.type in _STATEMENTS or _is_function(child):
            yield from (
                () if called.search(source, child.start_byte, child.end_byte) else [(child.start_byte, child.end_byte)]
            )


def _declarations(node: Any) -> list[Any]:
    """The children of a node that declare something: not its name, its condition, its bases or its template's parameters."""
    if node.type in _CLASSES:
        body = node.child_by_field_name("body")
        return list(node.named_children) if body is None else [body]
    if _holds_class(node):
        return [child for child in node.named_children if child.type in _CLASSES or _holds_class(child)]
    heads = [node.child_by_field_name(name) for name in ("name", "condition")]
    head = {child.id for child in heads if child is not None}
    return [child for child in node.named_children if child.id not in head]


def _is_function(node: Any) -> bool:
    """Whether a node defines a function, possibly a template."""
    return node.type == "function_definition" or (
        node.type == "template_declaration" and any(map(_is_function, node.named_children))
    )


def _host_declaration(
    node: Any, row: _Row, source: bytes, device: re.Pattern[bytes], *, statements: bool
) -> tuple[int, int] | None:
    """Bytes of the smallest declaration at a row that is not for the device."""
    for child in _declarations(node):
        if not row.meets(child) or child.type in _KEPT:
            continue
        if child.type in _SCOPES or child.type in _CLASSES or _holds_class(child):
            inner = _host_declaration(child, row, source, device, statements=statements)
            if _holds_class(child) and inner in [(one.start_byte, one.end_byte) for one in _declarations(child)]:
                return child.start_byte, child.end_byte  # nothing is left of a template without its class
            if inner is not None or child.type in _SCOPES | {"field_declaration_list"}:
                return inner
        if not device.search(source, child.start_byte, child.end_byte):
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
