"""What public functions are given, held against the types that they say: a wrong one is named at once."""

from __future__ import annotations

from ..errors import InputError


def require_type(kinds: type | tuple[type, ...], accepted: str, **values: object) -> None:
    """Raise ``InputError`` naming the first value that is of none of these types.

    >>> require_type(str, "an id", gpu=3)
    Traceback (most recent call last):
    perfmodel.errors.InputError: gpu=3 must be an id
    """
    for name, value in values.items():
        if not isinstance(value, kinds):
            raise InputError(f"{name}={value!r} must be {accepted}")
