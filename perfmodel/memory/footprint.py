"""Distinct sectors that a whole launch touches, from the words of a few blocks and how they shift with the block index.

In most kernels the words of a buffer that a block touches are those of the first block shifted by a fixed distance for each
step of the block index. Their union over the grid is then found without executing the grid: runs of words are repeated along x,
joined, repeated along y, joined, and so on. Where words do not shift so, the number of distinct sectors is that of random draws.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core.constants import SECTOR_BYTES
from .trace import WORD_BYTES

_MAX_RUNS = 20_000_000
_WORDS_PER_SECTOR = SECTOR_BYTES // WORD_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Union:
    """Distinct sectors of all blocks along the first axis, along the first two, and so on; ``exact`` unless drawn at random.

    The last element is the whole grid.
    """

    sectors: tuple[float, ...]
    exact: bool

    def __add__(self, other: Union) -> Union:
        added = tuple(a + b for a, b in zip(self.sectors, other.sectors, strict=True))
        return Union(sectors=added, exact=self.exact and other.exact)


def nothing(axes: int) -> Union:
    """The union over a grid of so many axes that touches no sector."""
    return Union(sectors=(0.0,) * axes, exact=True)


def affine_shifts(first: NDArray[np.int64], neighbours: list[NDArray[np.int64]]) -> tuple[int, ...] | None:
    """Words that one step along each axis moves a block's words by, None where they do not just move.

    A block at an edge may lack some of the words: then the words of one of the two blocks are among those of the other, moved.

    >>> affine_shifts(np.array([0, 1, 8]), [np.array([2, 3, 10])])
    (2,)
    >>> affine_shifts(np.array([64, 65]), [np.array([0, 1, 2, 3])])  # the last block of a row that ends early
    (-64,)
    """
    shifts = [_shift(first, other) for other in neighbours]
    return None if None in shifts else tuple(shift for shift in shifts if shift is not None)


def _shift(first: NDArray[np.int64], other: NDArray[np.int64]) -> int | None:
    """How far the words of ``other`` lie from those of ``first``: by their first words, else by their last ones."""
    if not (len(first) and len(other)):
        return 0 if len(first) == len(other) else None
    for end in (0, -1):
        shift = int(other[end] - first[end])
        few, many = (first + shift, other) if len(first) <= len(other) else (other, first + shift)
        if np.isin(few, many, assume_unique=True).all():
            return shift
    return None


def union_sectors(
    words: NDArray[np.int64], shifts: tuple[int, ...], shape: tuple[int, ...], low: int, high: int
) -> Union | None:
    """Distinct sectors of a block's words and all their shifts within a buffer; None where it would take too long.

    Args:
        words: sorted words of the first block.
        shifts: words for each step along every axis.
        shape: blocks along every axis.
        low: first word of the buffer.
        high: one past its last word.

    >>> union_sectors(np.arange(10), (8, 0), (4, 3), 0, 1000).sectors  # words 0 … 33
    (5.0, 5.0)
    """
    starts, ends = _runs(words, words + 1)
    sizes = []
    for shift, count in zip(shifts, shape, strict=True):
        if shift and count > 1:
            if len(starts) * count > _MAX_RUNS:
                return None
            steps = shift * np.arange(count, dtype=np.int64)[:, None]
            starts, ends = _runs((starts + steps).reshape(-1), (ends + steps).reshape(-1))
        sizes.append(_sectors(np.clip(starts, low, high), np.clip(ends, low, high)))
    return Union(sectors=tuple(sizes), exact=True)


def _runs(starts: NDArray[np.int64], ends: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Joined half-open intervals that overlap or touch."""
    if not len(starts):
        return starts, ends
    order = np.argsort(starts, kind="stable")
    starts, reach = starts[order], np.maximum.accumulate(ends[order])
    new = np.ones(len(starts), np.bool_)
    new[1:] = starts[1:] > reach[:-1]
    last = np.append(np.flatnonzero(new)[1:] - 1, len(starts) - 1)
    return starts[new], reach[last]


def _sectors(starts: NDArray[np.int64], ends: NDArray[np.int64]) -> float:
    kept = ends > starts
    first, last = starts[kept] // _WORDS_PER_SECTOR, (ends[kept] - 1) // _WORDS_PER_SECTOR
    first, stop = _runs(first, last + 1)
    return float((stop - first).sum())


def random_union(sectors_per_block: float, shape: tuple[int, ...], buffer_sectors: float) -> Union:
    """Expected distinct sectors of a buffer when every block touches so many of them at random.

    >>> round(random_union(10.0, (100,), 500.0).sectors[-1])  # 500 · (1 - e^-2)
    432
    """

    def expected(blocks: float) -> float:
        return buffer_sectors * -float(np.expm1(-sectors_per_block * blocks / max(buffer_sectors, 1.0)))

    blocks = np.cumprod(shape, dtype=np.int64).tolist()
    return Union(sectors=tuple(expected(float(number)) for number in blocks), exact=False)
