"""The configuration type of a user's tuning space: a record made at run time, with one field for each tuned macro."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, make_dataclass
from enum import Enum
from typing import Any

from ...launch.expression import Value


def configuration_type(
    name: str, tune: Mapping[str, tuple[Value, ...]], rebuild: Callable[[dict[str, Value]], Any]
) -> type:
    """A frozen record whose fields are integers, or Enums where a value is a text, a fraction or negative.

    ``rebuild`` makes a configuration of its values again; it must be importable, so that configurations travel between processes.

    >>> kind = configuration_type("Configuration", {"BLOCK": (32, 64), "TYPE": ("float", "double")}, dict)
    >>> plain_values(with_values(kind, {"BLOCK": 64, "TYPE": "float"}))
    {'BLOCK': 64, 'TYPE': 'float'}
    """

    def reduce(self: Any) -> tuple[Any, ...]:
        return rebuild, (plain_values(self),)

    return make_dataclass(
        name,
        [(macro, _hint(macro, values)) for macro, values in tune.items()],
        namespace={"__reduce__": reduce, "__doc__": "Values of the tuned macros."},
        frozen=True,
        kw_only=True,
    )


def _hint(macro: str, values: tuple[Value, ...]) -> type:
    """Type of a field; families keep columns of non-negative 32-bit integers, so that other values are numbered."""
    if all(isinstance(value, int) and 0 <= value < 2**31 for value in values):
        return int
    members = {f"value_{index}": value for index, value in enumerate(values)}
    chosen: type[Enum] = Enum(macro, members)  # type: ignore[misc]
    return chosen


def member(kind: type, name: str, value: Value) -> Any:
    """A value as the field of that name holds it."""
    hint = kind.__annotations__[name]
    return hint(value) if isinstance(hint, type) and issubclass(hint, Enum) else value


def with_values(kind: type, values: Mapping[str, Value]) -> Any:
    """The configuration with these values."""
    return kind(**{name: member(kind, name, value) for name, value in values.items()})


def plain_values(configuration: Any) -> dict[str, Value]:
    """The values of a configuration by the macros' names."""
    values = {field.name: getattr(configuration, field.name) for field in fields(configuration)}
    return {name: value.value if isinstance(value, Enum) else value for name, value in values.items()}
