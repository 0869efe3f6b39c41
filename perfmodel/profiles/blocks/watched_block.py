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


def middle_block(launch: Launch) -> int:
    """Linear index of the block in the middle of the grid.

    >>> middle_block(Launch(grid_x=4, grid_y=3, block_x=32))
    5
    """
    gx, gy, gz = launch.grid
    return int(((gz - 1) // 2 * gy + (gy - 1) // 2) * gx + (gx - 1) // 2)


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
