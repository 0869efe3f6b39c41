"""Numbers of machine registers in the engine's list of registers; sets of them are bits of an integer."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...ir.types import ScalarType
from ...machine_code.operands import Immediate, Operand, Register


def is_zero(operand: Operand) -> bool:
    """Whether an operand is RZ or a literal zero."""
    if isinstance(operand, Register):
        return operand.index is None and not operand.is_predicate and not operand.inverted
    return isinstance(operand, Immediate) and operand.value == 0


def is_false(operand: Operand) -> bool:
    """Whether an operand is ``!PT``."""
    return isinstance(operand, Register) and operand.is_predicate and operand.index is None and operand.inverted


def is_true(operand: Operand) -> bool:
    """Whether an operand is ``PT``."""
    return isinstance(operand, Register) and operand.is_predicate and operand.index is None and not operand.inverted


def split_predicates(operands: tuple[Operand, ...], first: int) -> tuple[list[Operand], int]:
    """Predicates that stand from a place on, and the place behind them."""
    predicates: list[Operand] = []
    while first < len(operands):
        operand = operands[first]
        if not isinstance(operand, Register) or not operand.is_predicate:
            break
        predicates.append(operand)
        first += 1
    return predicates, first


_FIRST = {"R": 0, "UR": 256, "P": 512, "UP": 520, "B": 528}
BARRIER_PREDICATE = 560
"""Predicates handed to a reducing barrier, kept until its result is read."""
RETURN_PLACE = 561
"""The two halves of the register that holds a return address."""
REGISTER_COUNT = 563
UNIFORM = range(_FIRST["UR"], _FIRST["P"])
PREDICATES = range(_FIRST["P"], _FIRST["B"])


def number_of(register: Register) -> int:
    """Place of a register that is not RZ, URZ, PT or UPT.

    >>> number_of(Register(file="P", index=3))
    515
    """
    assert register.index is not None
    return _FIRST[register.file] + register.index


def is_uniform(number: int) -> bool:
    """Whether all lanes of a warp share the register."""
    return number in UNIFORM or _FIRST["UP"] <= number < _FIRST["B"]


def type_of(number: int) -> ScalarType:
    """How a register is held."""
    return np.bool_ if number in PREDICATES or number == BARRIER_PREDICATE else np.uint32


def members(bits: int) -> Iterator[int]:
    """Registers of a set, in ascending order.

    >>> list(members(0b1010))
    [1, 3]
    """
    while bits:
        low = bits & -bits
        yield low.bit_length() - 1
        bits ^= low
