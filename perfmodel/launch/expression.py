"""Integer expressions of a user's tuning space and of buffer sizes: a small grammar, walked and never handed to ``eval``."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ..core.constants import ceil_div
from ..errors import InputError

Value = int | float | str
"""What a name may stand for and an expression may give; truth values are 1 and 0."""

MAX_CHARACTERS = 1000
_LARGEST = 2**64
_LARGEST_EXPONENT = 64
_GRAMMAR = "+ - * / // % **, comparisons, and, or, not, if … else, min, max, abs, ceil_div, round_up"


@dataclass(frozen=True, slots=True, eq=False)
class Expression:
    """A parsed expression: its text and its tree."""

    text: str
    tree: ast.expr

    @property
    def names(self) -> frozenset[str]:
        """Names that the value depends on."""
        called = {id(node.func) for node in ast.walk(self.tree) if isinstance(node, ast.Call)}
        return frozenset(
            node.id for node in ast.walk(self.tree) if isinstance(node, ast.Name) and id(node) not in called
        )

    def value(self, names: Mapping[str, Value]) -> Value:
        """The value where names stand for values; ``ExpressionError`` names the expression and what is wrong."""
        try:
            return _walk(self.tree, names)
        except _RefusedError as error:
            raise ExpressionError(f"expression {self.text!r}: {error}") from None
        except ZeroDivisionError:
            raise ExpressionError(f"expression {self.text!r} divides by zero") from None
        except (TypeError, OverflowError) as error:
            raise ExpressionError(f"expression {self.text!r}: {error}") from None
        except RecursionError:
            raise ExpressionError(f"expression {self.text[:40]!r}… is nested too deeply") from None

    def integer(self, names: Mapping[str, Value]) -> int:
        """The value where it must be an integer."""
        found = self.value(names)
        if isinstance(found, float) and found.is_integer():
            return int(found)
        if not isinstance(found, int):
            raise ExpressionError(f"expression {self.text!r} is {found!r} and no integer (// and ceil_div round)")
        return found


class ExpressionError(InputError):
    """An expression without a value; the text names it and says why."""


class _RefusedError(Exception):
    """Something that the grammar has not."""


def parse_expression(text: str | int) -> Expression:
    """An expression from its text; ``InputError`` where it is none of the grammar.

    >>> parse_expression("ceil_div(WIDTH, 4 * BLOCK) if BLOCK > 1 else WIDTH").integer({"WIDTH": 100, "BLOCK": 8})
    4
    >>> sorted(parse_expression("max(A, B)").names)
    ['A', 'B']
    """
    text = str(text).strip()
    if len(text) > MAX_CHARACTERS:
        raise InputError(f"expression {text[:40]!r}… is longer than {MAX_CHARACTERS} characters")
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise InputError(f"{text!r} is no expression (numbers, names, {_GRAMMAR})") from None
    for node in ast.walk(tree):
        if not isinstance(node, _ALLOWED) or (isinstance(node, ast.Constant) and not _constant(node.value)):
            raise InputError(f"expression {text!r} has a {type(node).__name__}; accepted: numbers, names, {_GRAMMAR}")
        if isinstance(node, ast.Call) and (
            not isinstance(node.func, ast.Name) or node.func.id not in _FUNCTIONS or node.keywords
        ):
            raise InputError(
                f"expression {text!r} calls {ast.unparse(node.func)!r}; functions: {', '.join(_FUNCTIONS)}"
            )
    return Expression(text, tree)


def _constant(value: object) -> bool:
    return isinstance(value, int | float | str)


def _power(base: int | float, exponent: int | float) -> int | float:
    if abs(exponent) > _LARGEST_EXPONENT:
        raise _RefusedError(f"the exponent {exponent} is above {_LARGEST_EXPONENT}")
    result = base**exponent
    if isinstance(result, complex):
        raise _RefusedError(f"{base} ** {exponent} is no real number")
    return result


def _divide(numerator: int | float, denominator: int | float) -> int | float:
    """A quotient that stays an integer where it is one."""
    if isinstance(numerator, int) and isinstance(denominator, int) and numerator % denominator == 0:
        return numerator // denominator
    return numerator / denominator


def _round_up(value: int, multiple: int) -> int:
    return int(ceil_div(value, multiple) * multiple)


_FUNCTIONS: Mapping[str, Callable[..., int | float]] = {
    "min": min,
    "max": max,
    "abs": abs,
    "ceil_div": ceil_div,
    "round_up": _round_up,
}
_BINARY: Mapping[type[ast.operator], Callable[..., int | float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: _divide,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: _power,
}
_UNARY: Mapping[type[ast.unaryop], Callable[..., int | float]] = {
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
    ast.Not: operator.not_,
}
_COMPARE: Mapping[type[ast.cmpop], Callable[..., bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_ALLOWED: tuple[type[ast.AST], ...] = (
    *(ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Call, ast.Name, ast.Constant, ast.Load),
    *(ast.And, ast.Or),
    *_BINARY,
    *_UNARY,
    *_COMPARE,
)


def _walk(node: ast.expr, names: Mapping[str, Value]) -> Value:
    found = _node_value(node, names)
    if isinstance(found, bool):
        return int(found)
    if isinstance(found, int | float) and not abs(found) < (_LARGEST if isinstance(found, int) else math.inf):
        raise _RefusedError(f"{ast.unparse(node)} is too large")
    return found


def _node_value(node: ast.expr, names: Mapping[str, Value]) -> Value:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float | str):
        return node.value
    if isinstance(node, ast.Name):
        if node.id not in names:
            known = f"known: {', '.join(names)}" if names else "a number is needed, or numbers as in 4 * 128"
            raise _RefusedError(f"unknown name {node.id!r} ({known})")
        return names[node.id]
    if isinstance(node, ast.IfExp):
        return _walk(node.body if _walk(node.test, names) else node.orelse, names)
    if isinstance(node, ast.BoolOp):
        stops = isinstance(node.op, ast.Or)
        return int(stops if any(bool(_walk(value, names)) is stops for value in node.values) else not stops)
    if isinstance(node, ast.Compare):
        return _comparison(node, names)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return _FUNCTIONS[node.func.id](*(_number(argument, names) for argument in node.args))
    if isinstance(node, ast.UnaryOp):
        return _UNARY[type(node.op)](_number(node.operand, names))
    if isinstance(node, ast.BinOp):
        return _BINARY[type(node.op)](_number(node.left, names), _number(node.right, names))
    raise _RefusedError(f"{ast.unparse(node)} cannot be computed")


def _number(node: ast.expr, names: Mapping[str, Value]) -> int | float:
    found = _walk(node, names)
    if isinstance(found, str):
        raise _RefusedError(f"{found!r} is no number")
    return found


def _comparison(node: ast.Compare, names: Mapping[str, Value]) -> int:
    left = _walk(node.left, names)
    for kind, right_node in zip(node.ops, node.comparators, strict=True):
        right = _walk(right_node, names)
        if not _COMPARE[type(kind)](left, right):
            return 0
        left = right
    return 1
