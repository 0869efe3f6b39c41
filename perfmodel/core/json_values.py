"""Records as what JSON can hold."""

from __future__ import annotations

from dataclasses import fields
from enum import Enum
from typing import Any

import numpy as np


def plain(record: Any) -> dict[str, Any]:
    """A problem or configuration as names and JSON values; Enum members by value, no effect as ``"none"``.

    Fields whose metadata has ``shown`` False are left out.
    """
    values = {field.name: getattr(record, field.name) for field in fields(record) if field.metadata.get("shown", True)}
    return {
        name: "none" if value is None else value.value if isinstance(value, Enum) else value
        for name, value in values.items()
    }


def number(value: Any) -> int | float:
    """A number of NumPy or Python as one of JSON, an integer where it is whole.

    >>> number(np.float64(3.0)), number(0.5)
    (3, 0.5)
    """
    found = float(np.asarray(value))
    return int(found) if found.is_integer() else found
