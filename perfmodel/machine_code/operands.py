"""Operands of machine instructions as nvdisasm prints them, parsed to records (CUDA Binary Utilities)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from ..errors import SimulationError

_NUMBER = r"-?(?:0x[0-9a-fA-F]+|\d+)"
_REGISTER = re.compile(r"(UR|UP|R|P|B)(Z|T|\d+)((?:\.[\w.]+)?)$")
_CONSTANT = re.compile(r"c\[(0x[0-9a-f]+|UR\d+)\]\[([^\]]*)\]((?:\.[\w.]+)?)$")
_ADDRESS = re.compile(r"(?:desc\[(UR\d+|URZ)\])?\[([^\]]*)\]$")
_ADDRESS_FORMS = frozenset({"64", "U32", "X4", "X8", "X16"})
"""What a register of an address may be: a pair, extended by zeros, or scaled."""
_DESCRIPTORS = re.compile(r"gdesc\[(UR\d+)\]((?:\.\w+)*)$")
_REGISTERS = {"R": 255, "UR": 255, "P": 7, "UP": 7, "B": 32}
"""Registers of each file."""
_BRACKET = re.compile(r"[\[{(]")
_INTEGER = re.compile(_NUMBER + "$")
_FLOAT = re.compile(r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|INF|[QS]?NAN)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Register:
    """A register: ``file`` is R, UR (uniform), P, UP (predicates) or B (convergence barriers).

    ``index`` is None for RZ, URZ (zero), PT and UPT (true). ``inverted`` stands for ``~`` and, for predicates, ``!``.
    """

    file: str
    index: int | None
    negated: bool = False
    absolute: bool = False
    inverted: bool = False
    modifiers: tuple[str, ...] = ()

    @property
    def is_predicate(self) -> bool:
        """Whether it holds one bit for each lane."""
        return self.file in ("P", "UP")


@dataclass(frozen=True, slots=True, kw_only=True)
class Immediate:
    """A literal; ``value`` is None where it is printed as a float, whose bits are in the instruction word."""

    text: str
    value: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """A place in a constant bank: ``c[bank][base + offset]``."""

    bank: int
    base: Register | None
    offset: int
    negated: bool = False
    absolute: bool = False
    inverted: bool = False
    modifiers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A memory operand: ``[base * scale + uniform + offset]``; ``wide`` where the base is a pair of registers."""

    base: Register | None
    scale: int
    wide: bool
    uniform: Register | None
    offset: int
    described: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixDescriptors:
    """Uniform registers from one on that describe matrices in shared memory, with ``tnspA``, ``negB`` and the like."""

    register: Register
    modifiers: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """Anything else: a special register, a label, a scoreboard."""

    text: str


Operand = Register | Immediate | Constant | Address | MatrixDescriptors | Word


def split_operands(text: str) -> tuple[str, ...]:
    """Operands at the commas outside of brackets, and between two addresses that stand side by side.

    >>> split_operands("R0,desc[UR4][R2.64+0x10],{1,0}")
    ('R0', 'desc[UR4][R2.64+0x10]', '{1,0}')
    """
    if not _BRACKET.search(text):
        parts = [part.strip() for part in text.split(",")]
        return tuple(parts if parts[-1] else parts[:-1])
    parts, depth, current = [], 0, ""
    text = re.sub(r"^(\[[^]]*\])(?=\[)", r"\1,", text)
    for character in text:
        depth += (character in "[{(") - (character in "]})")
        if character == "," and depth == 0:
            parts.append(current.strip())
            current = ""
        else:
            current += character
    if current.strip():
        parts.append(current.strip())
    return tuple(parts)


def _register(text: str) -> Register | None:
    match = _REGISTER.match(text)
    if match is None:
        return None
    modifiers = tuple(m for m in match[3].split(".") if m and m != "reuse")
    index = None if match[2] in "ZT" else int(match[2])
    if index is not None and index >= _REGISTERS[match[1]]:
        raise SimulationError(f"register {text} does not exist")
    return Register(file=match[1], index=index, modifiers=modifiers)


def _signs(text: str) -> tuple[str, bool, bool, bool]:
    """Text without its signs, and whether it is negated, absolute and inverted."""
    negated = inverted = absolute = False
    while text[:1] in ("-", "~", "!", "+"):
        negated |= text[0] == "-"
        inverted |= text[0] in "~!"
        text = text[1:]
    match = re.match(r"\|(.*)\|((?:\.\w+)*)$", text)
    if match is not None:
        text, absolute = match[1] + match[2], True
        if text[:1] == "-":
            text = text[1:]
    return text, negated, absolute, inverted


def _with_signs(register: Register, negated: bool, absolute: bool, inverted: bool) -> Register:
    return Register(
        file=register.file,
        index=register.index,
        negated=negated,
        absolute=absolute,
        inverted=inverted,
        modifiers=register.modifiers,
    )


def _terms(text: str) -> list[str]:
    return [term for term in re.split(r"\+(?=[-\w])", text.strip()) if term]


@lru_cache(maxsize=16_384)
def parse_operand(text: str) -> Operand:
    """One operand.

    >>> parse_operand("-|R4|.reuse").absolute, parse_operand("c[0x0][0x160]").offset, parse_operand("0x10").value
    (True, 352, 16)
    """
    text = text.strip()
    match = _ADDRESS.match(text)
    if match is not None:
        return _address(text, match[2], match[1] is not None)
    described = _DESCRIPTORS.match(text)
    if described is not None:
        register = _register(described[1])
        assert register is not None
        return MatrixDescriptors(register=register, modifiers=tuple(m for m in described[2].split(".") if m))
    if _INTEGER.match(text):
        return Immediate(text=text, value=int(text, 0))
    if _FLOAT.match(text):
        return Immediate(text=text, value=None)
    bare, negated, absolute, inverted = _signs(text)
    register = _register(bare)
    if register is not None:
        return _with_signs(register, negated, absolute, inverted)
    constant = _CONSTANT.match(bare)
    if constant is not None:
        return _constant(text, constant, negated, absolute, inverted)
    return Word(text=text)


def _constant(text: str, match: re.Match[str], negated: bool, absolute: bool, inverted: bool) -> Constant:
    if match[1].startswith("UR"):
        raise SimulationError(f"constant operand {text}: bindless constant banks are not supported")
    base, offset = None, 0
    for term in _terms(match[2]):
        if _INTEGER.match(term):
            offset += int(term, 0)
            continue
        register = _register(term)
        if register is None or base is not None:
            raise SimulationError(f"constant operand {text} is not understood")
        base = register if register.index is not None else None
    return Constant(
        bank=int(match[1], 0),
        base=base,
        offset=offset,
        negated=negated,
        absolute=absolute,
        inverted=inverted,
        modifiers=tuple(m for m in match[3].split(".") if m and m != "reuse"),
    )


def _address(text: str, inside: str, described: bool) -> Address:
    base = uniform = None
    offset, scale = 0, 1
    wide = False
    for term in _terms(inside):
        if _INTEGER.match(term):
            offset += int(term, 0)
            continue
        register = _register(term)
        if register is None or register.file not in ("R", "UR") or not _ADDRESS_FORMS.issuperset(register.modifiers):
            raise SimulationError(f"address {text} is not understood")
        if register.file == "R":
            base, wide = register, "64" in register.modifiers
            scale = next((int(m[1:]) for m in register.modifiers if re.fullmatch(r"X\d+", m)), 1)
        else:
            uniform = register
    return Address(
        base=base,
        scale=scale,
        wide=wide,
        uniform=uniform,
        offset=offset,
        described=described,
    )
