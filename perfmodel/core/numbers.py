"""Numbers that are measured or fitted, from the package's data: each with its meaning, its source and the data behind it."""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from importlib.resources import files
from typing import TypeVar

from msgspec import Struct

from .documents import converted, parse_toml

T = TypeVar("T")


class Number(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One number, or the names of what numbers were taken from.

    ``data`` is the file that it was taken from (``sha256`` its hash), ``residual`` what is left beside it.
    ``log_standard_error`` is that of the logarithm of a fitted number.
    """

    value: int | float | tuple[str, ...]
    meaning: str
    source: str
    data: str | None = None
    sha256: str | None = None
    residual: str | None = None
    log_standard_error: float | None = None


@cache
def read_numbers(name: str) -> dict[str, Number]:
    """The numbers of a file under ``data/calibrations``.

    >>> read_numbers("caches")["oldest_share"].residual
    '0.29 to 0.38'
    """
    place = f"calibrations/{name}.toml"
    text = (files("perfmodel.data") / place).read_text(encoding="utf-8")
    return converted(dict[str, Number], parse_toml(text, place), place)


def numbers(name: str, kind: type[T]) -> T:
    """The values as a record whose fields are the names of the numbers, all of them and no other."""
    known = read_numbers(name)
    if known.keys() != {field.name for field in fields(kind)}:  # type: ignore[arg-type]
        raise TypeError(f"calibrations/{name}.toml has {', '.join(known)}; {kind.__name__} has other fields")
    return kind(**{field: number.value for field, number in known.items()})
