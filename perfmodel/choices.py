"""Reading a choice by the name that people give it."""

from __future__ import annotations

from enum import Enum
from typing import TypeVar

from .errors import InputError

Choice = TypeVar("Choice", bound=Enum)


def one_of(kind: type[Choice], option: str, text: str) -> Choice:
    """The Enum member of a value given for an option; ``InputError`` lists what is accepted.

    >>> from perfmodel.prediction import Fidelity
    >>> one_of(Fidelity, "--fidelity", "compiled")
    <Fidelity.COMPILED: 'compiled'>
    """
    try:
        return kind(text)
    except ValueError:
        raise InputError(f"{option} {text!r} must be one of {', '.join(m.value for m in kind)}") from None
