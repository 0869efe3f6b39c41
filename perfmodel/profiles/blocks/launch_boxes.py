"""Blocks of a grid grouped into boxes that behave alike: edges and interior first, cut further where executed members disagree.

What a block does is only known for the blocks that were executed. A box of block indices counts as one class when members drawn
at random agree; where two members differ, the place where behaviour changes between them is searched along the grid's axes and
the box is cut there. Behaviour that follows no such cuts (data-dependent control flow) is left to the caller as boxes that
disagree.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Position = tuple[int, ...]
Rows = NDArray[np.float64]
_PROBES = 16
_MEMBERS = 4
_MAX_CUTS = 24


@dataclass(frozen=True, slots=True)
class Box:
    """Block indices from ``low`` to ``high``, both inclusive, along every axis of the grid."""

    low: Position
    high: Position

    @classmethod
    def of(cls, grid: Position) -> Box:
        """All blocks of a grid."""
        return cls(tuple(0 for _ in grid), tuple(extent - 1 for extent in grid))

    @property
    def extents(self) -> Position:
        """Blocks along every axis."""
        return tuple(high - low + 1 for low, high in zip(self.low, self.high, strict=True))

    @property
    def size(self) -> int:
        """Number of blocks."""
        return int(np.prod(self.extents, dtype=np.int64))

    def cut(self, axis: int, after: int) -> tuple[Box, Box]:
        """The two boxes on either side of index ``after`` of an axis, which belongs to the first.

        >>> Box((0, 0), (9, 0)).cut(0, 3)[1]
        Box(low=(4, 0), high=(9, 0))
        """
        high, low = list(self.high), list(self.low)
        high[axis], low[axis] = after, after + 1
        return Box(self.low, tuple(high)), Box(tuple(low), self.high)

    def draw(self, number: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Up to ``number`` different blocks of the box drawn at random, all where it has no more; shape ``(n, axes)``."""
        chosen = np.arange(self.size) if self.size <= number else rng.choice(self.size, number, replace=False)
        return np.stack(np.unravel_index(np.sort(chosen), self.extents[::-1]), axis=1)[:, ::-1] + self.low


@dataclass(slots=True)
class Executed:
    """Blocks executed so far and the row of totals of each; every block is executed once.

    ``execute`` takes block indices of shape ``(n, axes)`` and returns rows of totals of shape ``(n, k)``.
    """

    execute: Callable[[NDArray[np.int64]], Rows]
    rows: dict[Position, NDArray[np.float64]] = field(default_factory=dict)

    def at(self, positions: NDArray[np.int64]) -> Rows:
        """Rows of the given blocks; those not known yet are executed in one call, which costs more than a block."""
        wanted = [tuple(position) for position in positions.tolist()]
        missing = [position for position in dict.fromkeys(wanted) if position not in self.rows]
        if missing:
            executed_rows = self.execute(np.array(missing, dtype=np.int64))
            self.rows.update(zip(missing, executed_rows, strict=True))
        return np.array([self.rows[position] for position in wanted])

    def inside(self, box: Box) -> NDArray[np.int64]:
        """Blocks of a box that have been executed, shape ``(n, axes)``."""
        known = np.array(list(self.rows), dtype=np.int64).reshape(-1, len(box.low))
        return known[((known >= box.low) & (known <= box.high)).all(axis=1)]

    def agree(self, box: Box, compared: slice) -> bool:
        """Whether all executed blocks of a box have equal rows in the compared columns."""
        rows = self.at(self.inside(box))[:, compared]
        return bool((rows == rows[:1]).all())


def edge_boxes(grid: Position) -> list[Box]:
    """Boxes of first, inner and last blocks along every axis.

    >>> [box.size for box in edge_boxes((4, 1, 1))]
    [1, 2, 1]
    """
    boxes = [Box.of(grid)]
    for axis, extent in enumerate(grid):
        for after in (0, extent - 2):
            if 0 <= after < extent - 1:
                boxes = [
                    part
                    for box in boxes
                    for part in (box.cut(axis, after) if box.low[axis] <= after < box.high[axis] else (box,))
                ]
    return boxes


def drawn_members(boxes: list[Box], rng: np.random.Generator) -> list[NDArray[np.int64]]:
    """The first block of each box and a few others, which stand for the box when they agree."""
    return [np.concatenate([[box.low], box.draw(_MEMBERS, rng)]) for box in boxes]


def agreeing_boxes(
    boxes: list[Box], executed: Executed, compared: slice, rng: np.random.Generator
) -> tuple[list[Box], list[Box]]:
    """Boxes whose executed members agree in the compared columns, and boxes that still disagree after cutting.

    Members are drawn from each box; blocks of it that were executed before count as well. The given boxes are cut further until
    their members agree, at most ``_MAX_CUTS`` times.
    """
    agreed: list[Box] = []
    disagreed: list[Box] = []
    cuts = 0
    pending = list(boxes)
    while pending:
        executed.at(np.concatenate(drawn_members(pending, rng)))
        following: list[Box] = []
        for box in pending:
            drawn = executed.inside(box)
            rows = executed.at(drawn)[:, compared]
            different = np.flatnonzero((rows != rows[0]).any(axis=1))
            if not len(different):
                agreed.append(box)
            elif cuts >= _MAX_CUTS:
                disagreed.append(box)
            else:
                cuts += 1
                following.extend(_cut_between(box, drawn[0], drawn[different[0]], executed, compared))
        pending = following
    return agreed, disagreed


def merged_boxes(boxes: list[Box], executed: Executed, compared: slice) -> list[Box]:
    """The same blocks in fewer boxes: neighbours that behave alike and make a box together are joined."""
    if not boxes:
        return []
    behaviour = executed.at(np.array([box.low for box in boxes], dtype=np.int64))[:, compared]
    labelled = [(box, row.tobytes()) for box, row in zip(boxes, behaviour, strict=True)]
    for axis in range(len(boxes[0].low)):
        labelled.sort(key=lambda item: (_others(item[0], axis), item[0].low[axis]))
        joined: list[tuple[Box, bytes]] = []
        for box, label in labelled:
            before = joined[-1] if joined else None
            if before is not None and before[1] == label and _adjacent(before[0], box, axis):
                joined[-1] = (Box(before[0].low, box.high), label)
            else:
                joined.append((box, label))
        labelled = joined
    return [box for box, _ in labelled]


def _others(box: Box, axis: int) -> list[tuple[int, int]]:
    """Bounds of a box along all axes but one."""
    return [bounds for other, bounds in enumerate(zip(box.low, box.high, strict=True)) if other != axis]


def _adjacent(first: Box, second: Box, axis: int) -> bool:
    """Whether the second box goes on where the first one ends along an axis, and is as wide along the others."""
    return _others(first, axis) == _others(second, axis) and first.high[axis] + 1 == second.low[axis]


def _cut_between(
    box: Box, first: NDArray[np.int64], second: NDArray[np.int64], executed: Executed, compared: slice
) -> tuple[Box, Box]:
    """Cut a box where behaviour changes on the way from one block to another along one axis after the other."""
    corners = [first.copy()]
    for axis in range(len(first)):
        corner = corners[-1].copy()
        corner[axis] = second[axis]
        corners.append(corner)
    rows = executed.at(np.array(corners))[:, compared]
    axis = next(axis for axis in range(len(first)) if (rows[axis] != rows[axis + 1]).any())
    low, high = sorted((int(corners[axis][axis]), int(corners[axis + 1][axis])))
    while high - low > 1:
        inner = np.unique(np.linspace(low, high, min(_PROBES, high - low + 1)).astype(np.int64))
        line = np.repeat(corners[axis][None, :], len(inner), axis=0)
        line[:, axis] = inner
        rows = executed.at(line)[:, compared]
        change = int(np.flatnonzero((rows[1:] != rows[:-1]).any(axis=1))[0])
        low, high = int(inner[change]), int(inner[change + 1])
    return box.cut(axis, low)
