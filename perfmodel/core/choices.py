"""Reading a choice by the name that people give it."""

from __future__ import annotations

from enum import Enum
from typing import TypeVar

from ..errors import InputError

Choice = TypeVar("Choice", bound=Enum)


def one_of(kind: type[Choice], option: str, value: Choice | str) -> Choice:
    """The Enum member given for an option, itself or by its value; ``InputError`` lists what is accepted.

    >>> from perfmodel.launch.launch import L2State
    >>> one_of(L2State, "--l2", "cold")
    <L2State.COLD: 'cold'>
    """
    try:
        return kind(value)
    except ValueError:
        raise InputError(f"{option} {value!r} must be one of {', '.join(m.value for m in kind)}") from None
