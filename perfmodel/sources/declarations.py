"""CUDA C++ cut into declarations: what stands at namespace or class scope, and which of it is code for the host."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ..errors import InputError
from .tokens import Token, TokenKind, place_of

DEVICE_QUALIFIERS = frozenset({"__global__", "__device__", "__constant__", "__shared__", "__managed__"})
_ATTRIBUTES = frozenset(
    {"alignas", "__align__", "__attribute__", "__launch_bounds__", "__declspec", "decltype", "noexcept"}
    | {"__maxnreg__", "__cluster_dims__", "__block_size__", "explicit", "requires", "throw"}
)
"""Names whose parentheses hold no parameters."""
_NO_FUNCTIONS = frozenset({"typedef", "using", "static_assert", "asm"})
"""Words that begin a declaration whose parentheses hold no parameters of a function being declared."""
_TYPE_KEYS = frozenset({"struct", "class", "union", "enum"})
_ACCESS = frozenset({"public", "private", "protected"})
_OPENING = {"(": ")", "[": "]", "{": "}"}
_CLOSING = {closing: opening for opening, closing in _OPENING.items()}


class DeclarationKind(Enum):
    """What a declaration introduces."""

    FUNCTION = "function"
    TYPE = "type"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """Tokens ``[first, stop)`` of one declaration.

    ``body`` is the range of tokens between the braces of a function or class, None without braces; ``scope`` the
    namespaces around it; ``parameters`` the range of tokens between a function's parentheses.
    """

    kind: DeclarationKind
    first: int
    stop: int
    name: str
    scope: tuple[str, ...]
    body: tuple[int, int] | None = None
    parameters: tuple[int, int] | None = None
    template: bool = False


@dataclass(slots=True)
class _Seen:
    """What has been read of a declaration: its name, parameters, whether it is a type or has an initialiser."""

    name: str = ""
    parameters: tuple[int, int] | None = None
    type_key: bool = False
    assigned: bool = False

    @property
    def function(self) -> bool:
        """Whether it declares a function so far."""
        return self.parameters is not None and not self.assigned

    def declaration(
        self,
        kind: DeclarationKind,
        first: int,
        head: int,
        stop: int,
        scope: tuple[str, ...],
        body: tuple[int, int] | None = None,
    ) -> Declaration:
        """The declaration that ends here; ``head`` is where it begins after its template header."""
        return Declaration(
            kind=kind,
            first=first,
            stop=stop,
            name=self.name,
            scope=scope,
            body=body,
            parameters=self.parameters,
            template=head > first,
        )


@dataclass(slots=True)
class Declarations:
    """Reads the declarations of one file; directives are no part of them.

    ``makers`` are function-like macros whose bodies hold braces: a use of one is a declaration by itself.
    """

    source: str
    file_name: str
    tokens: list[Token]
    makers: frozenset[str]

    def closing(self, opening: int) -> int:
        """Index of the bracket that closes the one at ``opening``."""
        stack: list[str] = []
        for index in range(opening, len(self.tokens)):
            token = self.tokens[index]
            if token.kind is not TokenKind.PUNCTUATION:
                continue
            if token.text in _OPENING:
                stack.append(_OPENING[token.text])
            elif token.text in _CLOSING:
                if token.text != stack.pop():
                    break
                if not stack:
                    return index
        raise self._unmatched(opening, _OPENING[self.tokens[opening].text])

    def _unmatched(self, index: int, other: str) -> InputError:
        token = self.tokens[index]
        where = place_of(self.source, token.start, self.file_name)
        return InputError(
            f"{where}: {token.text!r} has no matching {other!r} (branches of #if must each hold whole declarations)"
        )

    def within(self, first: int, stop: int, scope: tuple[str, ...] = (), in_class: bool = False) -> list[Declaration]:
        """The declarations among the tokens ``[first, stop)``; namespaces and ``extern "C"`` blocks are entered."""
        found: list[Declaration] = []
        index = first
        while index < stop:
            token = self.tokens[index]
            if token.kind is TokenKind.DIRECTIVE or token.text == ";":
                index += 1
            elif in_class and token.text in _ACCESS and self._text(index + 1) == ":":
                index += 2
            elif (entered := self._entered(index, stop)) is not None:
                names, opening = entered
                closing = self.closing(opening)
                found += self.within(opening + 1, closing, (*scope, *names))
                index = closing + 1
            elif token.text in self.makers and self._text(index + 1) == "(":
                declaration = Declaration(
                    kind=DeclarationKind.OTHER, first=index, stop=self.closing(index + 1) + 1, name="", scope=scope
                )
                found.append(declaration)
                index = declaration.stop
            else:
                declaration = self._declaration(index, stop, scope)
                found.append(declaration)
                index = declaration.stop
        return found

    def _text(self, index: int) -> str:
        return self.tokens[index].text if index < len(self.tokens) else ""

    def _entered(self, index: int, stop: int) -> tuple[tuple[str, ...], int] | None:
        """Names and brace of a namespace or linkage block that begins here."""
        if self._text(index) == "extern" and self._text(index + 1) == '"C"' and self._text(index + 2) == "{":
            return (), index + 2
        if self._text(index) == "inline":
            index += 1
        if self._text(index) != "namespace":
            return None
        names: list[str] = []
        for place in range(index + 1, stop):
            token = self.tokens[place]
            if token.text == "{":
                return tuple(names), place
            if token.text in ("=", ";"):
                return None
            if token.kind is TokenKind.NAME and token.text != "inline":
                names.append(token.text)
        return None

    def _past_template(self, index: int) -> int:
        """The index after ``template <…>`` headers, of which there may be several."""
        while self._text(index) == "template" and self._text(index + 1) == "<":
            depth = 0
            index += 1
            while index < len(self.tokens):
                text = self.tokens[index].text
                if text in _OPENING:
                    index = self.closing(index)
                elif text in ("<", "<<<"):
                    depth += len(text)
                elif text in (">", ">>>"):
                    depth -= len(text)
                index += 1
                if depth <= 0:
                    break
        return index

    def _declaration(self, first: int, stop: int, scope: tuple[str, ...]) -> Declaration:
        """The declaration that begins at ``first``: up to its semicolon or the end of its function body."""
        head = self._past_template(first)
        seen = _Seen()
        index = head
        while index < stop:
            text = self._text(index)
            if text == ";":
                function = seen.function and self._text(head) not in _NO_FUNCTIONS
                kind = DeclarationKind.FUNCTION if function else DeclarationKind.OTHER
                return seen.declaration(kind, first, head, index + 1, scope)
            if text == "{" and seen.function:
                closing = self.closing(index)
                body = (index + 1, closing)
                return seen.declaration(DeclarationKind.FUNCTION, first, head, closing + 1, scope, body)
            if text == "{" and seen.type_key and not seen.assigned:
                return self._type(first, head, index, self.closing(index), stop, scope, head > first)
            index = self._past(index, stop, seen)
        return seen.declaration(DeclarationKind.OTHER, first, head, stop, scope)

    def _past(self, index: int, stop: int, seen: _Seen) -> int:
        """The index after a token or bracket that ends no declaration; ``seen`` learns what it says."""
        token = self.tokens[index]
        if token.text == "(" and not seen.assigned and seen.parameters is None:
            closing = self.closing(index)
            if self._names_function(index):
                seen.parameters, seen.name = (index + 1, closing), self._name_before(index)
            return closing + 1
        if token.text == ":" and seen.parameters is not None:
            return self._past_initialisers(index, stop)
        if token.text in _OPENING:
            return self.closing(index) + 1
        if token.kind is TokenKind.PUNCTUATION and token.text in _CLOSING:
            raise self._unmatched(index, _CLOSING[token.text])
        if token.text == "=" and self._text(index - 1) != "operator":
            seen.assigned = seen.assigned or seen.parameters is None
        elif token.text in _TYPE_KEYS:
            seen.type_key = True
        elif token.kind is TokenKind.NAME and seen.parameters is None and not seen.assigned:
            seen.name = token.text
        return index + 1

    def _names_function(self, parenthesis: int) -> bool:
        before = self.tokens[parenthesis - 1] if parenthesis else None
        if before is None or before.text in _ATTRIBUTES:
            return False
        return (
            before.kind is TokenKind.NAME or before.text in (">", ")", "]") or self._operator(parenthesis) is not None
        )

    def _operator(self, parenthesis: int) -> int | None:
        """Index of ``operator`` where the parenthesis opens the parameters of an operator."""
        for index in range(parenthesis - 1, max(parenthesis - 5, -1), -1):
            if self.tokens[index].text == "operator":
                return index
        return None

    def _name_before(self, parenthesis: int) -> str:
        operator = self._operator(parenthesis)
        if operator is not None:
            return "".join(token.text for token in self.tokens[operator:parenthesis])
        before = self.tokens[parenthesis - 1]
        return before.text if before.kind is TokenKind.NAME else ""

    def _past_initialisers(self, colon: int, stop: int) -> int:
        """The index after a constructor's member initialisers: ``: a(1), b{2}``."""
        index = colon + 1
        while index < stop:
            while index < stop and self._text(index) not in ("(", "{"):
                index += 1
            index = self.closing(index) + 1 if index < stop else stop
            if self._text(index) == "...":
                index += 1
            if self._text(index) != ",":
                return index
        return stop

    def _type(
        self, first: int, head: int, opening: int, closing: int, stop: int, scope: tuple[str, ...], template: bool
    ) -> Declaration:
        """A class, union or enumeration with its body, up to the semicolon."""
        index = closing + 1
        while index < stop and self._text(index) != ";":
            index = self.closing(index) + 1 if self._text(index) in _OPENING else index + 1
        key = next(i for i in range(head, opening) if self._text(i) in _TYPE_KEYS)
        return Declaration(
            kind=DeclarationKind.TYPE,
            first=first,
            stop=min(index + 1, stop),
            name=self._type_name(key, opening) or self._text(closing + 1),
            scope=scope,
            body=None if self._text(key) == "enum" else (opening + 1, closing),
            template=template,
        )

    def _type_name(self, key: int, opening: int) -> str:
        name, index = "", key + 1
        while index < opening and self._text(index) not in (":", "<"):
            if self._text(index) in _ATTRIBUTES:
                index = self.closing(index + 1)
            elif self.tokens[index].kind is TokenKind.NAME and self._text(index) not in ("final", "class", "struct"):
                name = self._text(index)
            index += 1
        return name
