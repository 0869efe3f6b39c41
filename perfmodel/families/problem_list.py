"""Problems of families in a TOML file, each under a name: what a campaign measures, one after the other.

A file has a table ``[[problem]]`` for each problem: ``name``; ``family``, a name of ``perfmodel families``; and the fields
of the family's problem. A field that has a default may be left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

from ..core.documents import nearest, parse_toml
from ..core.files import read_text
from ..core.json_aliases import by_field
from ..errors import InputError
from .base import Family, enum_of
from .registry import family

NAME_KEYS = ("name", "family")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedProblem:
    """A problem of a family under a name of its own."""

    name: str
    family: str
    problem: Any


def read_problems(path: Path) -> tuple[ListedProblem, ...]:
    """The problems of a file, in its order.

    Raises:
        InputError: The file cannot be read, has no problem, gives a name or a problem twice, or a problem is wrong; the problem's
            name, the field and what would be accepted are named.
    """
    content = parse_toml(read_text(path), str(path))
    entries = content.pop("problem", None)
    if content:
        raise InputError(f"{path}: unknown key {next(iter(content))!r}; accepted: [[problem]]")
    if not isinstance(entries, list) or not entries:
        raise InputError(f"{path}: needs a table [[problem]] for each problem")
    found = tuple(_listed(entry, f"{path}: problem {place}", str(path)) for place, entry in enumerate(entries, 1))
    _require_different([one.name for one in found], f"{path}: two problems are named")
    _require_different([one.problem for one in found], f"{path}: two names have the problem")
    return found


def _listed(entry: Any, place: str, file: str) -> ListedProblem:
    if not isinstance(entry, dict):
        raise InputError(f"{place}: must be a table")
    for key in NAME_KEYS:
        if not isinstance(entry.get(key), str):
            raise InputError(f'{place}: needs {key} = "…"')
    name = entry["name"]
    values = {key: value for key, value in entry.items() if key not in NAME_KEYS}
    try:
        chosen = family(entry["family"])
        problem = problem_of_fields(chosen, values)
    except InputError as error:
        raise InputError(f"{file}: problem {name!r}: {error}") from None
    return ListedProblem(name=name, family=chosen.name, problem=problem)


def problem_of_fields(chosen: Family[Any, Any], given: Mapping[str, Any]) -> Any:
    """The problem of a family that a table of a file describes; fields that have a default may be left out.

    Raises:
        InputError: A field is unknown, missing or wrong; in one line.

    >>> from perfmodel.families.registry import family
    >>> problem_of_fields(family("conv1d"), {"in_channels": 64, "length": 8}).output_length
    8
    """
    values = by_field(chosen.problem_type, given)
    known = {field.name: field for field in fields(chosen.problem_type)}
    for name in values:
        if name not in known:
            raise InputError(f"unknown field {name!r} of {chosen.name}; {nearest(name, known)}")
    for name, field in known.items():
        if name not in values and field.default is MISSING and field.default_factory is MISSING:
            raise InputError(f"needs {name}, which {chosen.name} has no default for")
    for name, value in values.items():
        kind = enum_of(chosen.problem_type, name)
        if kind is not None:
            members = {str(member.value): member for member in kind}
            if value not in members:
                raise InputError(f"{name}={value!r} must be one of {', '.join(members)}")
            values = {**values, name: members[value]}
    try:
        return chosen.problem_type(**values)
    except TypeError as error:  # a text where a number belongs
        raise InputError(f"{chosen.name}: {error}") from None


def _require_different(values: list[Any], complaint: str) -> None:
    for place, value in enumerate(values):
        if value in values[:place]:
            raise InputError(f"{complaint} {value!r}; each may stand once")
