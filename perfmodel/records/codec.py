"""Frozen records to JSON values and back, by their annotations alone: strict keys and types, errors name the field."""

from __future__ import annotations

import functools
import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from ..errors import InputError

RecordT = TypeVar("RecordT")


def to_json(value: Any) -> Any:
    """Records become objects, Enum members their values, tuples arrays.

    >>> from perfmodel.records.schema import Failure, FailureKind
    >>> to_json(Failure(kind=FailureKind.TIME_OUT, message="no answer in 20 s"))
    {'kind': 'time-out', 'message': 'no answer in 20 s'}
    """
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {key: to_json(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [to_json(item) for item in value]
    return value


def record_from_json(kind: type[RecordT], value: Any, place: str) -> RecordT:
    """The record of the given type that a JSON object describes; fields with defaults may be missing.

    Raises:
        InputError: Unknown or missing key, or a value of another type; ``place`` and the field are named.
    """
    if not isinstance(value, dict):
        raise InputError(f"{place}: {value!r} is no object")
    hints = _hints(kind)  # type: ignore[arg-type]
    known = {field.name: field for field in fields(kind)}  # type: ignore[arg-type]
    for key in value:
        if key not in known:
            raise InputError(f"{place}: unknown key {key!r}; known are {', '.join(known)}")
    for name, field in known.items():
        if name not in value and field.default is MISSING and field.default_factory is MISSING:
            raise InputError(f"{place}: key {name!r} is missing")
    return kind(**{key: _decoded(hints[key], item, f"{place}: {key}") for key, item in value.items()})


@functools.cache
def _hints(kind: type) -> Mapping[str, Any]:
    """Annotations of a record, which cost more to resolve than a line of a file to read."""
    return get_type_hints(kind)


def _decoded(hint: Any, value: Any, place: str) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return _decoded_union(arguments, value, place)
    if origin is tuple:
        if not isinstance(value, list):
            raise InputError(f"{place}: {value!r} is no array")
        return tuple(_decoded(arguments[0], item, place) for item in value)
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(value, dict):
            raise InputError(f"{place}: {value!r} is no object")
        return {key: _decoded(arguments[1], item, f"{place}.{key}") for key, item in value.items()}
    if is_dataclass(hint):
        return record_from_json(hint, value, place)  # type: ignore[arg-type]
    return _decoded_scalar(hint, value, place)


def _decoded_union(choices: tuple[Any, ...], value: Any, place: str) -> Any:
    if value is None and type(None) in choices:
        return None
    kinds = [choice for choice in choices if choice is not type(None)]
    for kind in kinds:
        if isinstance(kind, type) and type(value) is kind:
            return value
    return _decoded(kinds[0], value, place)


def _decoded_scalar(kind: type, value: Any, place: str) -> Any:
    if issubclass(kind, Enum):
        try:
            return kind(value)
        except ValueError:
            choices = ", ".join(repr(member.value) for member in kind)
            raise InputError(f"{place}: {value!r} is none of {choices}") from None
    if kind is float and type(value) in (int, float):
        return float(value)
    if type(value) is not kind:
        raise InputError(f"{place}: {value!r} is not of type {kind.__name__}")
    return value
