"""What a query on the rows of a file may say: arithmetic and comparisons of columns, nothing that is called."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..launch.expression import parse_expression

if TYPE_CHECKING:
    import pandas as pd

_QUOTED = re.compile(r"`[^`]*`")
"""A column whose name is no identifier, as pandas writes it."""
_ALLOWED = (
    ast.Expression, ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Name, ast.Constant, ast.List, ast.Tuple,
    ast.Load, ast.boolop, ast.operator, ast.unaryop, ast.cmpop,
)  # fmt: skip


_REFUSED_BY_PANDAS = (
    SyntaxError,
    TypeError,  # texts and numbers compared
    ValueError,
    LookupError,
    AttributeError,  # an operator that pandas has not, such as <<
    NotImplementedError,  # numbers alone joined by ``or``, or ``is``
)


def flags_of(columns: pd.DataFrame, query: str) -> NDArray[np.bool_]:
    """Whether a query holds for each row.

    Raises:
        InputError: The query is no plain expression on these columns, or gives no truth value for each row.

    >>> import pandas
    >>> flags_of(pandas.DataFrame({"a": [1, 2, 3]}), "a % 2 == 1").tolist()
    [True, False, True]
    """
    require_plain(query)
    try:
        mask = columns.eval(query, engine="python", local_dict={}, global_dict={})
    except NameError as error:
        known = ", ".join(map(str, columns.columns))
        raise InputError(f"--filter {_short(query)!r}: {error}; columns: {known}") from error
    except _REFUSED_BY_PANDAS as error:
        raise InputError(f"--filter {query!r}: {' '.join(str(error).split())}") from error
    flags = np.asarray(mask)
    if flags.dtype != np.bool_ or flags.shape != (len(columns),):
        raise InputError(f"--filter {query!r}: is not true or false for each row")
    return flags


def require_plain(query: str) -> None:
    """That a query has numbers, texts, names of columns, arithmetic and comparisons alone.

    Calls, attributes and indices would reach whatever pandas can do, such as writing files. What is computed of constants alone
    has the bounds of `parse_expression`.

    Raises:
        InputError: It has anything else, or is no expression.

    >>> require_plain("tile_size_x * `tile size y` < 14 and read_only == 0")
    >>> require_plain("x.sum() > 3")
    Traceback (most recent call last):
    perfmodel.errors.InputError: --filter 'x.sum() > 3': has a Call; accepted: columns, numbers, arithmetic, comparisons
    """
    try:
        tree = ast.parse(_QUOTED.sub("quoted", query).strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise InputError(
            f"--filter {_short(query)!r}: is no expression of columns, such as 'tile_size_x < 4'"
        ) from None
    for node in ast.walk(tree):
        if not isinstance(node, _ALLOWED):
            accepted = "accepted: columns, numbers, arithmetic, comparisons"
            raise InputError(f"--filter {_short(query)!r}: has a {type(node).__name__}; {accepted}")
        if isinstance(node, ast.BinOp | ast.UnaryOp) and not any(isinstance(part, ast.Name) for part in ast.walk(node)):
            _require_bounded(query, node)


def _require_bounded(query: str, node: ast.expr) -> None:
    """That what is computed of constants alone is a number of the usual size."""
    try:
        parse_expression(ast.unparse(node)).value({})
    except InputError as error:
        raise InputError(f"--filter {_short(query)!r}: {error}") from None


def _short(query: str) -> str:
    return query if len(query) <= 80 else f"{query[:80]}…"
