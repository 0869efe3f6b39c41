"""What the warps of one block do: their visits of the code, and which of their loads go behind L1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ...core.constants import SECTOR_BYTES
from ...ir.instruction import Space
from ...launch.launch import Launch
from ...simulator.access import LANE_GROUPS, Action, WarpAccess

_LOADED = (Space.GLOBAL, Space.TEXTURE, Space.SURFACE)
"""Where loads go behind L1."""


_MIDDLE = 0.382
"""Of each side of the grid: near its half, but no simple fraction. Where rows of tiles follow each other along a side, a half or
three eighths of it is the end of a row, whose tile does less than the others."""


def middle_block(launch: Launch) -> int:
    """Linear index of a block well inside of the grid, which is taken for all others; not exactly in the middle.

    >>> middle_block(Launch(grid_x=4, grid_y=3, block_x=32))
    5
    >>> middle_block(Launch(grid_x=2 * 126, block_x=32))  # two rows of 126 tiles: tile 96 of the first, not its last
    96
    """
    gx, gy, gz = launch.grid
    x, y, z = (int(_MIDDLE * side) for side in (gx, gy, gz))
    return (z * gy + y) * gx + x


@dataclass(slots=True)
class WatchedBlock:
    """An observer of one block of a run that executes others too.

    A load goes behind L1 where it passes L1 by or touches a sector that its block has not touched before; the others are
    served by L1.
    """

    block: int
    visits: NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    """Visits of each basic block by each warp, shape ``(warps, basic blocks)``, put in after the run."""
    _past_l1: list[NDArray[np.int64]] = field(default_factory=list)
    _warps: list[NDArray[np.int64]] = field(default_factory=list)
    _sectors: list[NDArray[np.uint64]] = field(default_factory=list)
    _numbers: list[NDArray[np.int64]] = field(default_factory=list)
    _loads: int = 0

    @property
    def executed(self) -> bool:
        """Whether the block has been executed."""
        return bool(len(self.visits))

    def take_visits(self, visits_by_warp: Mapping[int, NDArray[np.int64]]) -> None:
        """Put in the visits that a simulation counted (`Simulation.visits_by_warp`)."""
        self.visits = visits_by_warp[self.block]

    def access(self, access: WarpAccess) -> None:
        """Keep the sectors of one load; a lane that reads across sectors counts by its first."""
        site = access.site
        bulk = site.action is Action.BULK_READ  # no warp waits for it but by its mbarrier
        if access.writes or bulk or site.space not in _LOADED or site.action in LANE_GROUPS:
            return
        if self.block not in access.blocks:
            return
        warps = access.of_warps
        own = warps.block == self.block
        warp = warps.warp[own]
        if access.site.instruction.loads_past_l1:
            self._past_l1.append(warp)
            return
        rows, lanes = np.nonzero(warps.active[own])
        self._warps.append(warp[rows])
        self._sectors.append(warps.addresses[own][rows, lanes] // np.uint64(SECTOR_BYTES))
        self._numbers.append(self._loads + rows)
        self._loads += len(warp)

    def missing_loads(self) -> NDArray[np.int64]:
        """How many loads of each warp go behind L1, shape ``(warps,)``."""
        warps = len(self.visits)
        missing = np.bincount(np.concatenate([*self._past_l1, np.zeros(0, np.int64)]), minlength=warps)
        if not self._warps:
            return missing
        warp, number = np.concatenate(self._warps), np.concatenate(self._numbers)
        _, first = np.unique(np.concatenate(self._sectors), return_index=True)
        _, once = np.unique(number[first], return_index=True)
        return missing + np.bincount(warp[first][once], minlength=warps)
