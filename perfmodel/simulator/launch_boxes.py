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

Position = tuple[int, int, int]
Rows = NDArray[np.float64]
_PROBES = 16
_MEMBERS = 4
_MAX_CUTS = 24


@dataclass(frozen=True, slots=True)
class Box:
    """Block indices from ``low`` to ``high``, both inclusive, along x, y and z."""

    low: Position
    high: Position

    @property
    def size(self) -> int:
        """Number of blocks."""
        return int(np.prod([high - low + 1 for low, high in zip(self.low, self.high, strict=True)]))

    def cut(self, axis: int, after: int) -> tuple[Box, Box]:
        """The two boxes on either side of index ``after`` of an axis, which belongs to the first.

        >>> Box((0, 0, 0), (9, 0, 0)).cut(0, 3)[1]
        Box(low=(4, 0, 0), high=(9, 0, 0))
        """
        high, low = list(self.high), list(self.low)
        high[axis], low[axis] = after, after + 1
        return Box(self.low, (high[0], high[1], high[2])), Box((low[0], low[1], low[2]), self.high)

    def draw(self, number: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Up to ``number`` different blocks of the box drawn at random, all where it has no more; shape ``(n, 3)``."""
        extent = np.array(self.high) - self.low + 1
        chosen = np.arange(self.size) if self.size <= number else rng.choice(self.size, number, replace=False)
        return np.stack(np.unravel_index(np.sort(chosen), extent[::-1]), axis=1)[:, ::-1] + self.low


@dataclass(slots=True)
class Executed:
    """Blocks executed so far and the row of totals of each; every block is executed once.

    ``execute`` takes block indices of shape ``(n, 3)`` and returns rows of totals of shape ``(n, k)``.
    """

    execute: Callable[[NDArray[np.int64]], Rows]
    rows: dict[Position, NDArray[np.float64]] = field(default_factory=dict)

    def at(self, positions: NDArray[np.int64]) -> Rows:
        """Rows of the given blocks."""
        wanted = [(int(x), int(y), int(z)) for x, y, z in positions]
        missing = [position for position in dict.fromkeys(wanted) if position not in self.rows]
        if missing:  # one call for all, as a call costs more than a block
            found = self.execute(np.array(missing, dtype=np.int64))
            self.rows.update(zip(missing, found, strict=True))
        return np.array([self.rows[position] for position in wanted])


def edge_boxes(grid: Position) -> list[Box]:
    """Boxes of first, inner and last blocks along every axis.

    >>> [box.size for box in edge_boxes((4, 1, 1))]
    [1, 2, 1]
    """
    boxes = [Box((0, 0, 0), (grid[0] - 1, grid[1] - 1, grid[2] - 1))]
    for axis in range(3):
        for after in (0, grid[axis] - 2):
            if 0 <= after < grid[axis] - 1:
                boxes = [
                    part
                    for box in boxes
                    for part in (box.cut(axis, after) if box.low[axis] <= after < box.high[axis] else (box,))
                ]
    return boxes


def agreeing_boxes(
    boxes: list[Box],
    executed: Executed,
    compared: slice,
    rng: np.random.Generator,
    ahead: list[NDArray[np.int64]],
) -> tuple[list[Box], list[Box]]:
    """Boxes whose drawn members agree in the compared columns, and boxes that still disagree after cutting.

    The given boxes are cut further until their members agree, at most ``_MAX_CUTS`` times. Blocks ``ahead`` are executed with the
    first members, for later use.
    """
    agreed: list[Box] = []
    disagreed: list[Box] = []
    cuts = 0
    pending = list(boxes)
    while pending:
        members = [np.concatenate([[box.low], box.draw(_MEMBERS, rng)]) for box in pending]
        executed.at(np.concatenate([*members, *ahead]))
        ahead = []
        following: list[Box] = []
        for box, drawn in zip(pending, members, strict=True):
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
    behaviour = executed.at(np.array([box.low for box in boxes], dtype=np.int64).reshape(-1, 3))[..., compared]
    labelled = [(box, row.tobytes()) for box, row in zip(boxes, behaviour, strict=True)] if boxes else []
    for axis in range(3):
        others = [other for other in range(3) if other != axis]
        labelled.sort(key=lambda item: ([(item[0].low[o], item[0].high[o]) for o in others], item[0].low[axis]))
        joined: list[tuple[Box, bytes]] = []
        for box, label in labelled:
            before = joined[-1] if joined else None
            if before is not None and before[1] == label and _adjacent(before[0], box, axis):
                joined[-1] = (Box(before[0].low, box.high), label)
            else:
                joined.append((box, label))
        labelled = joined
    return [box for box, _ in labelled]


def _adjacent(first: Box, second: Box, axis: int) -> bool:
    """Whether the second box goes on where the first one ends along an axis, and is as wide along the others."""
    alike = all((first.low[o], first.high[o]) == (second.low[o], second.high[o]) for o in range(3) if o != axis)
    return alike and first.high[axis] + 1 == second.low[axis]


def _cut_between(
    box: Box, first: NDArray[np.int64], second: NDArray[np.int64], executed: Executed, compared: slice
) -> tuple[Box, Box]:
    """Cut a box where behaviour changes on the way from one block to another along x, then y, then z."""
    corners = [first.copy()]
    for axis in range(3):
        corner = corners[-1].copy()
        corner[axis] = second[axis]
        corners.append(corner)
    rows = executed.at(np.array(corners))[:, compared]
    axis = next(axis for axis in range(3) if (rows[axis] != rows[axis + 1]).any())
    low, high = sorted((int(corners[axis][axis]), int(corners[axis + 1][axis])))
    while high - low > 1:
        inner = np.unique(np.linspace(low, high, min(_PROBES, high - low + 1)).astype(np.int64))
        line = np.repeat(corners[axis][None, :], len(inner), axis=0)
        line[:, axis] = inner
        found = executed.at(line)[:, compared]
        change = int(np.flatnonzero((found[1:] != found[:-1]).any(axis=1))[0])
        low, high = int(inner[change]), int(inner[change + 1])
    return box.cut(axis, low)
