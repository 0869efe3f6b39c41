"""Device code told from host code: a ``.cu`` file as it is, of which only what a GPU executes is compiled.

What stays: everything with ``__global__``, ``__device__``, ``__constant__`` or ``__shared__``; types, ``using``, ``typedef``,
``constexpr`` functions and constants that name nothing of the host; preprocessor directives. All other functions and variables
are blanked. Bodies of a class's member functions that are not marked for the device become declarations. No line moves.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..errors import InputError
from .declarations import DEVICE_QUALIFIERS, Declaration, DeclarationKind, Declarations
from .host_names import mentions_host
from .tokens import Token, TokenKind, blanked, place_of, tokens_of

_DEFINE = re.compile(r"[ \t]*#[ \t]*define[ \t]+(\w+)(\([^)]*\))?(.*)", re.DOTALL)
_CONSTANT_WORDS = frozenset(
    {"const", "constexpr", "using", "typedef", "static_assert", "template", "asm", "friend", "namespace"}
)
_TYPE_WORDS = frozenset({"struct", "class", "union", "enum"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """A kernel as its source declares it: qualified name, parameters as written, whether it is a template."""

    name: str
    parameters: tuple[str, ...]
    template: bool

    @property
    def text(self) -> str:
        """How a message shows the kernel."""
        return f"{self.name}{'<…>' if self.template else ''}({', '.join(self.parameters)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceCode:
    """What is compiled of a file, and the kernels that it declares.

    ``macro_kernels`` says that macros may make further kernels, whose names only the compiler knows.
    """

    text: str
    kernels: tuple[Signature, ...]
    macro_kernels: bool


def device_code(source: str, file_name: str) -> DeviceCode:
    """The device code of a source, every line where it was; raises ``InputError`` where brackets do not match.

    >>> source = "__global__ void scale(float *x, float by) { x[threadIdx.x] *= by; }" + chr(10) + "int main() { return 0; }"
    >>> found = device_code(source, "k.cu")
    >>> found.text.splitlines()[1].strip(), found.kernels[0].text
    ('', 'scale(float *x, float by)')
    """
    return _Splitter(source, file_name).split()


class _Splitter:
    def __init__(self, source: str, file_name: str) -> None:
        self.source, self.file_name = source, file_name
        self.tokens = tokens_of(source, file_name)
        self.device_words = set(DEVICE_QUALIFIERS)
        self.reader = Declarations(source, file_name, self.tokens, frozenset())
        self.dropped: set[str] = set()
        self.spans: list[tuple[int, int]] = []
        self.semicolons: list[int] = []
        self.kernels: dict[str, Signature] = {}
        self._read_macros()

    def _read_macros(self) -> None:
        """Macros that stand for a device qualifier, and those that make whole functions."""
        macros = {}
        for token in self.tokens:
            if token.kind is TokenKind.DIRECTIVE and (match := _DEFINE.match(token.text)):
                macros[match[1]] = (match[2] is not None, match[3])
        size = 0
        while size != len(self.device_words):
            size = len(self.device_words)
            for name, (_, body) in macros.items():
                if not self.device_words.isdisjoint(re.findall(r"\w+", body)):
                    self.device_words.add(name)
        makers = frozenset(name for name, (takes, body) in macros.items() if takes and "{" in body)
        self.reader = Declarations(self.source, self.file_name, self.tokens, makers)
        self.macro_kernels = any(name in self.device_words for name in makers)

    def split(self) -> DeviceCode:
        for declaration in self.reader.within(0, len(self.tokens)):
            if self._is_device(declaration):
                self._refuse_launches(declaration)
                self._note_kernel(declaration)
            elif not self._stays(declaration):
                self._drop(declaration)
        text = list(blanked(self.source, self.spans))
        for position in self.semicolons:
            text[position] = ";"
        return DeviceCode(text="".join(text), kernels=tuple(self.kernels.values()), macro_kernels=self.macro_kernels)

    def _head(self, declaration: Declaration) -> list[Token]:
        """A declaration's tokens up to its body."""
        stop = declaration.stop if declaration.body is None else declaration.body[0]
        return self.tokens[declaration.first : stop]

    def _is_device(self, declaration: Declaration) -> bool:
        if declaration.kind is DeclarationKind.TYPE:
            return False
        return not self.device_words.isdisjoint(token.text for token in self._head(declaration))

    def _refuse_launches(self, declaration: Declaration) -> None:
        for token in self.tokens[declaration.first : declaration.stop]:
            if token.text == "<<<":
                where = place_of(self.source, token.start, self.file_name)
                raise InputError(f"{where}: device code launches a kernel; dynamic parallelism is not supported")

    def _note_kernel(self, declaration: Declaration) -> None:
        words = {token.text for token in self._head(declaration)}
        if "__global__" not in words or not declaration.name or declaration.parameters is None:
            return
        first, stop = declaration.parameters
        name = "::".join((*declaration.scope, declaration.name))
        if self.tokens[declaration.first].text == "template" and not declaration.template:
            return
        self.kernels[name] = Signature(
            name=name, parameters=self._parameter_texts(first, stop), template=declaration.template
        )

    def _parameter_texts(self, first: int, stop: int) -> tuple[str, ...]:
        if first == stop or (stop == first + 1 and self.tokens[first].text == "void"):
            return ()
        parts, begin, depth = [], first, 0
        for index in range(first, stop):
            text = self.tokens[index].text
            depth += (text in "([{<") - (text in ")]}>") if len(text) == 1 else 0
            if text == "," and depth == 0:
                parts.append((begin, index))
                begin = index + 1
        parts.append((begin, stop))
        return tuple(
            " ".join(self.source[self.tokens[a].start : self.tokens[b - 1].stop].split()) for a, b in parts if a < b
        )

    def _stays(self, declaration: Declaration) -> bool:
        """Whether a declaration without a device qualifier is of use to device code."""
        tokens = self.tokens[declaration.first : declaration.stop]
        words = {token.text for token in self._head(declaration)}
        if declaration.kind is DeclarationKind.TYPE:
            return self._type_stays(declaration)
        if mentions_host(tokens, self.dropped):
            return False
        if declaration.kind is DeclarationKind.FUNCTION:
            return "constexpr" in words and declaration.body is not None
        return not words.isdisjoint(_CONSTANT_WORDS | _TYPE_WORDS)

    def _type_stays(self, declaration: Declaration) -> bool:
        """Keep a type unless its data is the host's; its member functions for the host become declarations."""
        if declaration.body is None:
            return not mentions_host(self.tokens[declaration.first : declaration.stop], self.dropped)
        first, stop = declaration.body
        spans, semicolons = list(self.spans), list(self.semicolons)
        kept = not mentions_host(self.tokens[declaration.first : first], self.dropped)
        for member in self.reader.within(first, stop, in_class=True):
            if self._is_device(member):
                continue
            if member.kind is DeclarationKind.TYPE:
                kept &= self._type_stays(member)
            elif member.kind is DeclarationKind.FUNCTION:
                self._reduce(member)
            else:
                kept &= not mentions_host(self.tokens[member.first : member.stop], self.dropped)
        if not kept:
            self.spans, self.semicolons = spans, semicolons
        return kept

    def _reduce(self, member: Declaration) -> None:
        """Turn a member function for the host into a declaration, or drop it where its signature is the host's."""
        assert member.parameters is not None
        parameters_stop = member.parameters[1] + 1
        if mentions_host(self.tokens[member.first : parameters_stop], self.dropped):
            self._drop(member)
        elif member.body is not None and "constexpr" not in {token.text for token in self._head(member)}:
            cut = next(i for i in range(parameters_stop, member.body[0]) if self.tokens[i].text in (":", "{"))
            self._blank(cut, member.stop)
            self.semicolons.append(self.tokens[cut].start)

    def _drop(self, declaration: Declaration) -> None:
        if declaration.kind is not DeclarationKind.FUNCTION and declaration.name:
            self.dropped.add(declaration.name)
        self._blank(declaration.first, declaration.stop)

    def _blank(self, first: int, stop: int) -> None:
        """Blank tokens and what lies between them, but no directive."""
        begin = self.tokens[first].start
        for token in self.tokens[first:stop]:
            if token.kind is TokenKind.DIRECTIVE:
                self.spans.append((begin, token.start))
                begin = token.stop
        end = self.tokens[stop - 1].stop
        if begin < end:
            self.spans.append((begin, end))
