"""What a query on the rows of a file may say: arithmetic and comparisons of columns, nothing that is called."""

from __future__ import annotations

import ast
import re

from ..errors import InputError

_QUOTED = re.compile(r"`[^`]*`")
"""A column whose name is no identifier, as pandas writes it."""
_ALLOWED = (
    ast.Expression, ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Name, ast.Constant, ast.List, ast.Tuple,
    ast.Load, ast.boolop, ast.operator, ast.unaryop, ast.cmpop,
)  # fmt: skip


def require_plain(query: str) -> None:
    """That a query has numbers, texts, names of columns, arithmetic and comparisons alone.

    Calls, attributes and indices would reach whatever pandas can do, such as writing files.

    Raises:
        InputError: It has anything else, or is no expression.

    >>> require_plain("tile_size_x * `tile size y` < 14 and read_only == 0")
    >>> require_plain("x.sum() > 3")
    Traceback (most recent call last):
    perfmodel.errors.InputError: --where 'x.sum() > 3': has a Call; accepted: columns, numbers, arithmetic, comparisons
    """
    try:
        tree = ast.parse(_QUOTED.sub("quoted", query).strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise InputError(f"--where {_short(query)!r}: is no expression of columns, such as 'tile_size_x < 4'") from None
    for node in ast.walk(tree):
        if not isinstance(node, _ALLOWED):
            accepted = "accepted: columns, numbers, arithmetic, comparisons"
            raise InputError(f"--where {_short(query)!r}: has a {type(node).__name__}; {accepted}")


def _short(query: str) -> str:
    return query if len(query) <= 80 else f"{query[:80]}…"
