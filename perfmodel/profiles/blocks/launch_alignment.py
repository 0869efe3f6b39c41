"""Periods of block indices: after how many blocks along each axis addresses lie alike relative to sectors and lines of memory.

Blocks that execute the same accesses touch different numbers of sectors when their addresses differ modulo a line. The difference
repeats along each axis of the grid with a period that divides 32 (a line is 32 words), or, where a block's work may begin in one
image or row and end in the next, with the number of blocks after which it does so at the same place.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .launch_boxes import Box, Executed

MAX_PERIOD = 32
FIRST_LINE = 9
"""Blocks along an axis that are looked at first: enough to see a period of 4 repeat twice."""
_CHECKS = 96
"""Blocks drawn for checking from all boxes together; blocks that touch more sectors than others may be few."""
_FEWEST_CHECKS = 4
_LINES = (64, 128, 256)
"""Blocks along an axis that are looked at for any period, in turn."""


@dataclass(frozen=True, slots=True)
class AlignedTotals:
    """Sums of the compared columns over all blocks of a box; ``exact`` where blocks drawn for checking agreed."""

    sums: NDArray[np.float64]
    exact: bool


def line_of(box: Box, axis: int, length: int) -> NDArray[np.int64]:
    """Up to ``length`` consecutive blocks along an axis from the box's first corner, shape ``(n, axes)``.

    >>> line_of(Box((1, 2), (9, 2)), 0, 2).tolist()
    [[1, 2], [2, 2]]
    """
    line = np.repeat(np.array([box.low], dtype=np.int64), min(box.extents[axis], length), axis=0)
    line[:, axis] += np.arange(len(line))
    return line


def edge_lines(grid: Box) -> list[NDArray[np.int64]]:
    """Lines of blocks along every axis at both ends of the others, where merged boxes are likely to begin.

    >>> sum(len(line) for line in edge_lines(Box((0, 0), (99, 99))))
    36
    """
    axes = [axis for axis, extent in enumerate(grid.extents) if extent > 1]
    ends = [grid, *(grid.cut(axis, grid.high[axis] - 1)[1] for axis in axes)]
    return [line_of(end, axis, FIRST_LINE) for end in ends for axis in axes if end.extents[axis] > 1]


def aligned_totals(
    boxes: list[Box], executed: Executed, columns: slice, rng: np.random.Generator
) -> list[AlignedTotals]:
    """Totals of boxes whose rows depend on the block index modulo a period along each axis.

    >>> rows = Executed(lambda blocks: (blocks[:, :1] % 4).astype(float))
    >>> aligned_totals([Box((0, 0), (9, 9))], rows, slice(None), np.random.default_rng(0))
    [AlignedTotals(sums=array([130.]), exact=True)]
    """
    lines = [[(box, _elsewhere(box, axis, rng)) for axis in range(len(box.low))] for box in boxes]
    executed.at(
        np.concatenate(
            [line_of(b, axis, FIRST_LINE) for by_axis in lines for axis, pair in enumerate(by_axis) for b in pair]
        )
    )
    periods = [
        [max(_period(part, axis, executed, columns) for part in pair) for axis, pair in enumerate(by_axis)]
        for by_axis in lines
    ]
    blocks = sum(box.size for box in boxes)
    checked = [box.draw(max(_FEWEST_CHECKS, -(-_CHECKS * box.size // blocks)), rng) for box in boxes]
    corners = (_offsets(period) + box.low for period, box in zip(periods, boxes, strict=True))
    executed.at(np.concatenate([*corners, *checked]))
    by_powers = [_sums(*each, executed, columns) for each in zip(boxes, periods, checked, strict=True)]
    return [
        totals if totals.exact else _of_any_period(box, check, executed, columns)
        for box, check, totals in zip(boxes, checked, by_powers, strict=True)
    ]


def _of_any_period(box: Box, checked: NDArray[np.int64], executed: Executed, columns: slice) -> AlignedTotals:
    """Totals of a box whose rows repeat with other periods than powers of two."""
    periods = []
    for axis, extent in enumerate(box.extents):
        for length in _LINES:
            rows = executed.at(line_of(box, axis, length))[:, columns]
            repeating = (p for p in range(1, len(rows) // 2 + 1) if (rows[p:] == rows[:-p]).all())
            period = next(repeating, len(rows))
            if period < len(rows) or len(rows) == extent:
                break
        periods.append(period)
    return _sums(box, periods, checked, executed, columns)


def _elsewhere(box: Box, axis: int, rng: np.random.Generator) -> Box:
    """The box from another first block on, drawn at random along all axes but one, so that a line along that one crosses it."""
    drawn = [int(rng.integers(low, high + 1)) for low, high in zip(box.low, box.high, strict=True)]
    drawn[axis] = box.low[axis]
    return Box(tuple(drawn), box.high)


def _offsets(periods: list[int]) -> NDArray[np.int64]:
    return np.stack(np.meshgrid(*[np.arange(p) for p in periods], indexing="ij"), axis=-1).reshape(-1, len(periods))


def _sums(
    box: Box, periods: list[int], checked: NDArray[np.int64], executed: Executed, columns: slice
) -> AlignedTotals:
    offsets = _offsets(periods)
    weights = np.ones(len(offsets))
    for axis, period in enumerate(periods):
        weights *= (box.extents[axis] - offsets[:, axis] + period - 1) // period
    rows = executed.at(offsets + box.low)[:, columns]
    expected = executed.at((checked - box.low) % periods + box.low)[:, columns]
    return AlignedTotals(sums=weights @ rows, exact=bool((executed.at(checked)[:, columns] == expected).all()))


def _period(box: Box, axis: int, executed: Executed, columns: slice) -> int:
    """Smallest power of two, at most ``MAX_PERIOD``, after which rows repeat along an axis; the extent where shorter."""
    extent = box.extents[axis]
    period = 1
    length = FIRST_LINE
    while period < min(extent, MAX_PERIOD):
        length = max(length, 2 * period + 1)
        rows = executed.at(line_of(box, axis, length))[:, columns]
        if (rows[period:] == rows[:-period]).all():
            break
        period *= 2
    return min(period, extent)
