"""From the columns of a measurement file to a family's problems and configurations, each cell checked."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from ..core.json_aliases import by_field, second_names
from ..core.json_values import unshown_defaults
from ..errors import InputError
from ..families.base import Batch, Column, Family, encode

RecordT = TypeVar("RecordT")

NONE_TEXT = "none"
LARGEST_INTEGER = 2**31 - 1
TRUTHS = {"0": False, "1": True, "false": False, "true": True}


MEASURABLE_MS = (1e-6, 1e12)
"""Times that a file may give in milliseconds: a nanosecond, which no launch undercuts, to more than a lifetime."""


def measurable(time_ms: float) -> bool:
    """Whether a launch may have taken so many milliseconds.

    >>> measurable(1.5), measurable(0.0), measurable(1e-320), measurable(float("inf"))
    (True, False, False, False)
    """
    return MEASURABLE_MS[0] <= time_ms <= MEASURABLE_MS[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class RawTable:
    """Rows of a file: cells by column, times, and where each row stands (``line 7``, ``entry '2,32'``) for messages.

    ``clock_recorded``: the file says at which clock the GPU ran, and marks runs during which it changed.
    """

    path: Path
    gpu: str
    columns: Mapping[str, Sequence[Any]]
    places: Sequence[str]
    time_s: NDArray[np.float64]
    clock_recorded: bool = False

    def error(self, row: int, message: str) -> InputError:
        """The error to raise about one row; names file and place."""
        return InputError(f"{self.path}: {self.places[row]}: {message}")


def only_gpu(path: Path, names: Sequence[str]) -> str:
    """The one GPU that all rows name, or an empty text where none does.

    Raises:
        InputError: The rows come from several GPUs, which cannot be judged against one prediction.
    """
    distinct = sorted(set(names))
    if len(distinct) > 1:
        raise InputError(f"{path}: holds measurements of several GPUs ({', '.join(distinct)}); give one file for each")
    return distinct[0] if distinct else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasurementSchema:
    """Which fields the rows of a family's measurements have; those in ``defaults`` may be missing, ``idle`` as in a family."""

    family_name: str
    problem_type: type
    configuration_type: type
    defaults: Mapping[str, Any]
    idle: Mapping[str, tuple[str, Any]] = field(default_factory=dict)

    @property
    def problem_fields(self) -> tuple[str, ...]:
        """Names of the problem's fields in order."""
        return tuple(field.name for field in fields(self.problem_type))

    @property
    def configuration_fields(self) -> tuple[str, ...]:
        """Names of the configuration's fields in order."""
        return tuple(field.name for field in fields(self.configuration_type))

    @property
    def required_fields(self) -> tuple[str, ...]:
        """Fields that every row must give."""
        return tuple(name for name in self.problem_fields + self.configuration_fields if name not in self.defaults)


def schema_of(family: Family[Any, Any]) -> MeasurementSchema:
    """The columns that measurements of a family have: the fields of its problem and of its configuration."""
    return MeasurementSchema(
        family_name=family.name,
        problem_type=family.problem_type,
        configuration_type=family.configuration_type,
        defaults={**family.measurement_defaults, **unshown_defaults(family.problem_type)},
        idle=family.idle_fields,
    )


def configuration_of_record(family: Family[Any, Any], values: Mapping[str, Any]) -> Any:
    """The configuration that a record's fields describe; what was recorded before a field existed may lack it.

    Raises:
        InputError: A field is missing or unknown, or its value is not of the field's type.

    >>> from perfmodel.families.registry import family
    >>> configuration_of_record(family("conv1d"), {"variant": "naive", "channels_per_thread": "none"}).block_x is None
    True
    """
    names = {field.name for field in fields(family.configuration_type)}
    absent = {name: value for name, value in family.measurement_defaults.items() if name in names}
    return record_of_fields(family.configuration_type, _texts(absent) | dict(values))


def _texts(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values as records have them: members of an Enum by value."""
    return {name: value.value if isinstance(value, Enum) else value for name, value in values.items()}


def check_columns(path: object, names: Sequence[str], schema: MeasurementSchema, place: str) -> None:
    """Raise an ``InputError`` that names the first column a file of this family lacks."""
    given = by_field(schema.problem_type, dict.fromkeys(names))
    missing = [name for name in schema.required_fields if name not in given]
    if missing:
        raise InputError(
            f"{path}: {place}: column {missing[0]!r} is missing; "
            f"measurements of {schema.family_name} need {', '.join(schema.required_fields)}"
        )


def with_both_names(table: RawTable, schema: MeasurementSchema) -> RawTable:
    """The table with the columns of fields that have a second name under both, so that queries may use either."""
    pairs = second_names(schema.problem_type)
    both = {new: table.columns[old] for old, new in pairs.items() if old in table.columns}
    both |= {old: table.columns[new] for old, new in pairs.items() if new in table.columns}
    return replace(table, columns={**both, **table.columns})


def problems_of(table: RawTable, schema: MeasurementSchema) -> tuple[tuple[Any, ...], NDArray[np.intp]]:
    """The distinct problems in order of first appearance, and for each row the index of its problem."""
    cells = [_parsed_column(table, schema, schema.problem_type, name) for name in schema.problem_fields]
    index_of: dict[tuple[Any, ...], int] = {}
    problems: list[Any] = []
    index = np.empty(len(table.places), dtype=np.intp)
    for row, values in enumerate(zip(*cells, strict=True)):
        if values not in index_of:
            index_of[values] = len(problems)
            problems.append(_constructed(table, row, schema.problem_type, schema.problem_fields, values))
        index[row] = index_of[values]
    return tuple(problems), index


def batch_of(table: RawTable, schema: MeasurementSchema) -> Batch[Any]:
    """The configuration of every row, as columns; each distinct one is constructed once, so that its own checks run."""
    kind, names = schema.configuration_type, schema.configuration_fields
    columns = {name: _parsed_column(table, schema, kind, name) for name in names}
    for name, (other, value) in schema.idle.items():
        columns[name] = [None if at == value else cell for cell, at in zip(columns[name], columns[other], strict=True)]
    cells = list(columns.values())
    seen: set[tuple[Any, ...]] = set()
    for row, values in enumerate(zip(*cells, strict=True)):
        if values not in seen:
            seen.add(values)
            _constructed(table, row, kind, names, values)
    return Batch(kind, {name: _encoded(kind, name, values) for name, values in zip(names, cells, strict=True)})


def _constructed(table: RawTable, row: int, kind: type, names: Sequence[str], values: Sequence[Any]) -> Any:
    try:
        return kind(**dict(zip(names, values, strict=True)))
    except ValueError as error:
        raise table.error(row, str(error)) from error


def _encoded(kind: type, name: str, values: Sequence[Any]) -> Column:
    codes = {value: encode(kind, name, value) for value in set(values)}
    return np.array([codes[value] for value in values], dtype=np.int32)


def _parsed_column(table: RawTable, schema: MeasurementSchema, kind: type, name: str) -> Sequence[Any]:
    if name not in table.columns:
        return [schema.defaults[name]] * len(table.places)
    parse = cell_parser(get_type_hints(kind)[name])
    known: dict[str, Any] = {}
    if schema.defaults.get(name) is not None:  # some rows were measured before the field existed
        known[cell_text(None)] = schema.defaults[name]
    values = []
    for row, cell in enumerate(table.columns[name]):
        text = cell_text(cell)
        if text not in known:
            try:
                known[text] = parse(text)
            except ValueError as error:
                raise table.error(row, f"column {name!r}: {error}") from error
        values.append(known[text])
    return values


def cell_text(cell: object) -> str:
    """A cell as text, the same for a CSV file (text already) and for JSON (numbers, true, null).

    >>> cell_text(None), cell_text(True), cell_text(8), cell_text(" 8 ")
    ('none', 'true', '8', '8')
    """
    if cell is None:
        return NONE_TEXT
    if isinstance(cell, bool):
        return str(cell).lower()
    return str(cell).strip()


def cell_parser(hint: Any) -> Callable[[str], Any]:
    """The function from a cell's text to a value of the annotated type: int, bool, Enum, or one of these or None."""
    if get_origin(hint) in (Union, types.UnionType):
        inner = cell_parser(next(argument for argument in get_args(hint) if argument is not type(None)))
        return lambda text: None if text in (NONE_TEXT, "") else inner(text)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return lambda text: _member(hint, text)
    return _truth if hint is bool else _integer


def _member(kind: type[Enum], text: str) -> Enum:
    for member in kind:
        if str(member.value) == text:
            return member
    raise ValueError(f"{text!r} is none of {', '.join(str(member.value) for member in kind)}")


def _truth(text: str) -> bool:
    if text.lower() not in TRUTHS:
        raise ValueError(f"{text!r} is neither true nor false")
    return TRUTHS[text.lower()]


def _integer(text: str) -> int:
    if text.lower() in TRUTHS:
        return int(TRUTHS[text.lower()])
    try:
        number = float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number") from None
    if not number.is_integer() or not 0 <= number <= LARGEST_INTEGER:
        raise ValueError(f"{text!r} is not a whole number from 0 to {LARGEST_INTEGER}")
    return int(number)


def record_of_fields(kind: type[RecordT], values: Mapping[str, Any]) -> RecordT:
    """The problem or configuration that a record's fields describe, the reverse of `perfmodel.core.json_values.plain`.

    Raises:
        InputError: A field is missing or unknown, or its value is not of the field's type.

    >>> from perfmodel.families.tiled_conv2d import TiledConv2d
    >>> record_of_fields(TiledConv2d, {"height": 8, "width": 9, "filter_height": 3, "filter_width": 5})
    TiledConv2d(height=8, width=9, filter_height=3, filter_width=5)
    """
    hints = get_type_hints(kind)
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    values = _texts(unshown_defaults(kind)) | by_field(kind, values)
    if set(names) != set(values):
        odd = sorted(set(names) ^ set(values))[0]
        raise InputError(f"{kind.__name__}: field {odd!r} is {'missing' if odd in names else 'unknown'}")
    try:
        return kind(**{name: cell_parser(hints[name])(cell_text(values[name])) for name in names})
    except ValueError as error:
        raise InputError(f"{kind.__name__}: {error}") from error
