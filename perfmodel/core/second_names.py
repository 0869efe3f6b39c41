"""Fields of records that had another name in an earlier release: files and command lines may still use it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, field, fields
from typing import Any, TypeVar

ValueT = TypeVar("ValueT")

_KEY = "second_name"


def renamed(default: Any, second_name: str) -> Any:
    """A dataclass field with a default, which may also be given under ``second_name``."""
    return field(default=default, metadata={_KEY: second_name})


def second_names(kind: Any) -> dict[str, str]:
    """From second names to the names of the fields of a dataclass.

    >>> from perfmodel.families.tiled_conv2d import TiledConv2d
    >>> second_names(TiledConv2d)
    {'image_height': 'height', 'image_width': 'width'}
    """
    known: tuple[Field[Any], ...] = fields(kind)
    return {one.metadata[_KEY]: one.name for one in known if _KEY in one.metadata}


def by_field(kind: Any, values: Mapping[str, ValueT]) -> dict[str, ValueT]:
    """The values with second names replaced by the names of the fields; other names stay, also those of no field.

    >>> from perfmodel.families.tiled_conv2d import TiledConv2d
    >>> by_field(TiledConv2d, {"image_height": 8, "filter_width": 5})
    {'height': 8, 'filter_width': 5}
    """
    names = second_names(kind)
    return {names.get(name, name): value for name, value in values.items()}
