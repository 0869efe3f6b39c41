"""Functions as Numba compiles them, kept on disk for the next process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


def compiled(function: FunctionT, *, inline: str = "never", for_python: bool = True) -> FunctionT:
    """A function as Numba compiles it.

    It makes no arrays, and those that it is given are held by its first caller: nobody has to count who uses them (``_nrt``).

    Args:
        function: what to compile.
        inline: whether other compiled functions take it in as if it stood there: ``always``, or ``never``.
        for_python: whether Python calls it, too; what compiled functions alone call is compiled sooner.
    """
    wrapped = not for_python
    made: FunctionT = numba.njit(
        cache=True, inline=inline, _nrt=False, no_cpython_wrapper=wrapped, no_cfunc_wrapper=wrapped
    )(function)
    return made
