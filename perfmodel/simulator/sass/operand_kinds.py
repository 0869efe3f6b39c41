"""What operands of machine code are: RZ, PT, ``!PT``, runs of predicates."""

from __future__ import annotations

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
