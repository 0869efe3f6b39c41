"""Records as what JSON can hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import Field, fields
from enum import Enum
from typing import Any

import numpy as np

DEFAULT_UNSHOWN: Mapping[str, Any] = {"default_shown": False}
"""Metadata of a field that is left out where it has its default."""


def unshown_defaults(kind: type) -> dict[str, Any]:
    """Defaults of the fields of a record that `plain` leaves out where they have them."""
    return {field.name: field.default for field in fields(kind) if _leaves_out_default(field)}


def _leaves_out_default(field: Field[Any]) -> bool:
    return not field.metadata.get("default_shown", True)


def _shown(field: Field[Any], value: Any) -> bool:
    if _leaves_out_default(field) and value == field.default:
        return False
    return bool(field.metadata.get("shown", True))


def plain(record: Any) -> dict[str, Any]:
    """A problem or configuration as names and JSON values; Enum members by value, no effect as ``"none"``.

    Fields whose metadata has ``shown`` False are left out, those with ``default_shown`` False where they have their default.
    """
    values = {field.name: getattr(record, field.name) for field in fields(record)}
    values = {field.name: values[field.name] for field in fields(record) if _shown(field, values[field.name])}
    return {
        name: "none" if value is None else value.value if isinstance(value, Enum) else value
        for name, value in values.items()
    }


def fields_text(values: Iterable[tuple[str, Any]]) -> str:
    """Fields of a problem or of a configuration on one line.

    >>> fields_text((("height", 512), ("layout", "L1")))
    'height=512 layout=L1'
    """
    return " ".join(f"{name}={value}" for name, value in values)


def number(value: Any) -> int | float:
    """A number of NumPy or Python as one of JSON, an integer where it is whole.

    >>> number(np.float64(3.0)), number(0.5)
    (3, 0.5)
    """
    found = float(np.asarray(value))
    return int(found) if found.is_integer() else found
