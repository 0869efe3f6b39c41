"""Distinct sectors that a whole launch touches, from the words of a few blocks and how they shift with the block index.

In most kernels the words of a buffer that a block touches are those of the first block shifted by a fixed distance for each
step of the block index. Their union over the grid is then found without executing the grid: runs of words are repeated along x,
joined, repeated along y, joined, and so on. Where words do not shift so, the number of distinct sectors is that of random draws.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..definitions import SECTOR_BYTES
from .hierarchy_trace import WORD_BYTES

_MAX_RUNS = 20_000_000
_WORDS_PER_SECTOR = SECTOR_BYTES // WORD_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Union:
    """Sectors touched by one row of blocks along x, one plane of blocks, and the whole grid; ``exact`` unless drawn at random."""

    row_sectors: float
    plane_sectors: float
    grid_sectors: float
    exact: bool

    def __add__(self, other: Union) -> Union:
        return Union(
            row_sectors=self.row_sectors + other.row_sectors,
            plane_sectors=self.plane_sectors + other.plane_sectors,
            grid_sectors=self.grid_sectors + other.grid_sectors,
            exact=self.exact and other.exact,
        )


NOTHING = Union(row_sectors=0.0, plane_sectors=0.0, grid_sectors=0.0, exact=True)


def affine_shifts(first: NDArray[np.int64], neighbours: list[NDArray[np.int64] | None]) -> tuple[int, int, int] | None:
    """Words that one step along x, y and z moves a block's words by, None where they do not just move.

    >>> affine_shifts(np.array([0, 1, 8]), [np.array([2, 3, 10]), None, None])
    (2, 0, 0)
    """
    shifts = []
    for other in neighbours:
        if other is None:
            shifts.append(0)
            continue
        if len(other) != len(first) or (len(first) and (other - first != other[0] - first[0]).any()):
            return None
        shifts.append(int(other[0] - first[0]) if len(first) else 0)
    return shifts[0], shifts[1], shifts[2]


def union_sectors(
    words: NDArray[np.int64], shifts: tuple[int, int, int], grid: tuple[int, int, int], low: int, high: int
) -> Union | None:
    """Distinct sectors of a block's words and all their shifts within a buffer; None where it would take too long.

    Args:
        words: sorted words of block (0, 0, 0).
        shifts: words for each step along x, y, z.
        grid: blocks along x, y, z.
        low: first word of the buffer.
        high: one past its last word.

    >>> union_sectors(np.arange(10), (8, 0, 0), (4, 3, 1), 0, 1000).grid_sectors  # words 0 … 33
    5.0
    """
    starts, ends = _runs(words, words + 1)
    sizes = []
    for shift, count in zip(shifts, grid, strict=True):
        if shift and count > 1:
            if len(starts) * count > _MAX_RUNS:
                return None
            steps = shift * np.arange(count, dtype=np.int64)[:, None]
            starts, ends = _runs((starts + steps).reshape(-1), (ends + steps).reshape(-1))
        sizes.append(_sectors(np.clip(starts, low, high), np.clip(ends, low, high)))
    return Union(row_sectors=sizes[0], plane_sectors=sizes[1], grid_sectors=sizes[2], exact=True)


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


def random_union(sectors_per_block: float, grid: tuple[int, int, int], buffer_sectors: float) -> Union:
    """Expected distinct sectors of a buffer when every block touches so many of them at random.

    >>> round(random_union(10.0, (100, 1, 1), 500.0).grid_sectors)  # 500 · (1 - e^-2)
    432
    """

    def expected(blocks: float) -> float:
        return buffer_sectors * -float(np.expm1(-sectors_per_block * blocks / max(buffer_sectors, 1.0)))

    return Union(
        row_sectors=expected(grid[0]),
        plane_sectors=expected(grid[0] * grid[1]),
        grid_sectors=expected(grid[0] * grid[1] * grid[2]),
        exact=False,
    )
