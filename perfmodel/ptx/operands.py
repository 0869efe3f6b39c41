"""Operand text to its parts (PTX ISA 5.5), and which registers an instruction reads and writes."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..ir.instruction import Effects, Instruction
from ..ir.types import ScalarType, constant, is_float, unsigned_of, width_bytes

_INTEGER = re.compile(r"-?(?:0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)U?$")
_FLOAT_BITS = re.compile(r"0(?:[fF]([0-9a-fA-F]{8})|[dD]([0-9a-fA-F]{16}))$")
_DECIMAL = re.compile(r"-?\d+\.\d*(?:[eE][-+]?\d+)?$")
_ADDRESS = re.compile(r"\[\s*([%\w$@~.]+)\s*(?:\+\s*(-?\w+))?\s*\]$")
_TOKEN = re.compile(r"(?<![\w$%.])%?[A-Za-z_$][\w$@~.]*")

WITHOUT_DESTINATION = frozenset(
    [
        "st",
        "red",
        "bra",
        "brx",
        "ret",
        "exit",
        "trap",
        "bar",
        "barrier",
        "membar",
        "fence",
        "cp",
        "prefetch",
        "prefetchu",
        "discard",
        "applypriority",
        "nanosleep",
        "pmevent",
        "griddepcontrol",
        "brkpt",
        "stackrestore",
        "stmatrix",
        "sust",
    ]
)
"""Instructions whose first operand is not written (``bar.red`` excepted)."""


CARRY = "%cc"
"""The carry flag, as a register of its own (PTX ISA 9.7.2)."""


@dataclass(frozen=True, slots=True)
class Address:
    """A memory operand: register, symbol or absolute base, and a byte offset."""

    base: str
    offset: int


def integer(text: str) -> int | None:
    """Value of an integer literal, or None.

    >>> integer("0x10"), integer("%r1")
    (16, None)
    """
    if not _INTEGER.match(text):
        return None
    digits = text.rstrip("U")
    plain = digits.lstrip("-")
    if len(plain) > 1 and plain[0] == "0" and plain.isdigit():
        return int(digits, 8) if not set(plain) & {"8", "9"} else None
    return int(digits, 0)


def parse_address(instruction: Instruction, position: int) -> Address:
    """The memory operand at a position; SimulationError where it is none."""
    match = _ADDRESS.match(instruction.operand(position))
    offset = integer(match[2]) if match is not None and match[2] else 0
    if match is None or offset is None:
        raise instruction.error(f"address {instruction.operand(position)!r} is not supported")
    return Address(match[1], offset)


def vector(text: str) -> tuple[str, ...]:
    """Elements of a braced operand, or the operand alone.

    >>> vector("{%f1, %f2}")
    ('%f1', '%f2')
    """
    if text.startswith("{") and text.endswith("}"):
        return tuple(part.strip() for part in text[1:-1].split(","))
    return (text,)


def literal(text: str, scalar_type: ScalarType) -> object | None:
    """Uniform ``(1, 1)`` array of a literal read as a type, or None where the text is no literal that fits."""
    value = integer(text)
    if value is not None:
        if is_float(scalar_type):
            return constant(value, unsigned_of(width_bytes(scalar_type))).view(scalar_type)  # type: ignore[no-any-return]
        return constant(value, scalar_type)  # type: ignore[no-any-return]
    bits = _FLOAT_BITS.match(text)
    if bits is not None:
        width = 4 if bits[1] else 8
        pattern = constant(int(bits[1] or bits[2], 16), unsigned_of(width))
        if width_bytes(scalar_type) == width:
            return pattern.view(scalar_type)  # type: ignore[no-any-return]
        if is_float(scalar_type):
            return pattern.view(np.float32 if width == 4 else np.float64).astype(scalar_type)  # type: ignore[no-any-return]
    if _DECIMAL.match(text) and is_float(scalar_type):
        return constant(float(text), scalar_type)  # type: ignore[no-any-return]
    return None


def names(text: str) -> list[str]:
    """Every name in an operand, registers and symbols alike.

    >>> names("[%rd1+8]")
    ['%rd1']
    """
    return _TOKEN.findall(text)


def effects(instruction: Instruction, is_register: Callable[[str], bool]) -> Effects:
    """Registers written and read; a guarded instruction also reads what it writes, because it may leave it."""
    operands = instruction.operands
    has_destination = instruction.name not in WITHOUT_DESTINATION or ".red." in instruction.opcode
    written = operands[:1] if has_destination else ()
    writes = tuple(name for text in written for name in names(text) if is_register(name))
    reads = [name for text in operands[len(written) :] for name in names(text) if is_register(name)]
    if instruction.name in ("addc", "subc", "madc") and is_register(CARRY):
        reads.append(CARRY)
    if "cc" in instruction.parts and is_register(CARRY):
        writes = (*writes, CARRY)
    if instruction.guard and is_register(instruction.guard):
        reads.append(instruction.guard)
        reads.extend(writes)
    return Effects(writes, tuple(reads))
