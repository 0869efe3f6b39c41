"""Records of n candidates: fields are numbers, which hold for all, arrays of shape ``(n,)``, or records of such fields."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar, cast

import numpy as np

RecordT = TypeVar("RecordT")

PIECE = 16_384
"""Candidates treated at once, so that their temporary arrays stay in the cache and need no memory from the system."""


def mapped(function: Callable[..., Any], *records: RecordT) -> RecordT:
    """A record whose fields are what ``function`` makes of the same field of all records.

    >>> from perfmodel.launch.launch import Launch
    >>> mapped(lambda one, other: one + other, Launch(grid_x=1, block_x=32), Launch(grid_x=2, block_x=64)).grid_x
    3
    """
    return cast(RecordT, _mapped(function, *records))


def _mapped(function: Callable[..., Any], *values: Any) -> Any:
    first = values[0]
    if not is_dataclass(first) or isinstance(first, type):
        return function(*values)
    names = [field.name for field in fields(first)]
    parts = {name: _mapped(function, *(getattr(value, name) for value in values)) for name in names}
    return type(first)(**parts)


def taken(record: RecordT, index: Any) -> RecordT:
    """The candidates at an index, a slice, indices or a mask; numbers stay as they are.

    >>> from perfmodel.launch.launch import Launch
    >>> some = taken(Launch(grid_x=np.array([1, 2, 3]), block_x=32), [2, 0])
    >>> some.grid_x, some.block_x
    (array([3, 1]), 32)
    """
    return mapped(lambda value: value if np.ndim(value) == 0 else value[index], record)


def joined(*records: RecordT) -> RecordT:
    """The candidates of all records in order, along the last axis; numbers are taken to be the same in all.

    >>> from perfmodel.launch.launch import Launch
    >>> joined(Launch(grid_x=np.array([1, 2]), block_x=32), Launch(grid_x=np.array([3]), block_x=32)).grid_x
    array([1, 2, 3])
    """

    def together(*values: Any) -> Any:
        numbers = all(np.ndim(value) == 0 for value in values)
        return values[0] if numbers else np.concatenate(values, axis=-1)

    return mapped(together, *records)


def pieces(count: int) -> Iterator[slice]:
    """Slices of at most ``PIECE`` candidates that together are all of them.

    >>> list(pieces(20_000))
    [slice(0, 16384, None), slice(16384, 20000, None)]
    """
    return (slice(start, min(start + PIECE, count)) for start in range(0, count, PIECE))
