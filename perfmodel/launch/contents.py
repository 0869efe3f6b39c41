"""What a buffer holds before a launch, made no further than it is looked at: a period repeated, or a rule."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Contents(ABC):
    """An array of one axis whose elements are made when they are asked for; each is the same whatever is asked for before.

    ``np.asarray`` makes all of them.
    """

    dtype: np.dtype[Any]
    size: int

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.dtype.itemsize

    @property
    def shape(self) -> tuple[int]:
        """Shape of the array."""
        return (self.size,)

    @abstractmethod
    def elements(self, first: int, stop: int) -> NDArray[Any]:
        """The elements from ``first`` up to ``stop`` (exclusive)."""

    @property
    def all_zero(self) -> bool:
        """Whether it is known that all bytes are zero."""
        return False

    def write_bytes(self, first: int, target: NDArray[np.uint8]) -> None:
        """Put the bytes from ``first`` on into an array."""
        width = self.dtype.itemsize
        begin, stop = first // width, -(-(first + len(target)) // width)
        made = self.elements(begin, stop).view(np.uint8)
        target[:] = made[first - begin * width :][: len(target)]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """All elements."""
        return self.elements(0, self.size).astype(self.dtype if dtype is None else dtype, copy=False)

    def __len__(self) -> int:
        return self.size


@dataclass(frozen=True, eq=False)
class Repeated(Contents):
    """A period over and over.

    >>> np.asarray(Repeated(np.array([1, 2, 3]), 5)).tolist()
    [1, 2, 3, 1, 2]
    """

    period: NDArray[Any]
    size: int

    @property
    def dtype(self) -> np.dtype[Any]:  # type: ignore[override]
        """Type of the elements."""
        return self.period.dtype

    @property
    def all_zero(self) -> bool:
        """Whether all bytes are zero."""
        return not self.period.view(np.uint8).any()

    def elements(self, first: int, stop: int) -> NDArray[Any]:
        """The elements from ``first`` up to ``stop`` (exclusive)."""
        found = np.empty(stop - first, self.dtype)
        place, offset = 0, first % len(self.period)
        while place < len(found):
            part = self.period[offset : offset + len(found) - place]
            found[place : place + len(part)] = part
            place, offset = place + len(part), 0
        return found


@dataclass(frozen=True, eq=False)
class Computed(Contents):
    """Elements that follow from their indices.

    >>> np.asarray(Computed("i8 arange", lambda index: index.astype(np.int8), np.dtype(np.int8), 3)).tolist()
    [0, 1, 2]
    """

    name: str
    """What tells this rule from others."""
    rule: Callable[[NDArray[np.int64]], NDArray[Any]]
    dtype: np.dtype[Any]
    size: int

    def elements(self, first: int, stop: int) -> NDArray[Any]:
        """The elements from ``first`` up to ``stop`` (exclusive)."""
        return self.rule(np.arange(first, stop, dtype=np.int64))
