"""What the SMs of a GPC miss together in a launch's first wave of blocks, and how many requests L2 sees of it.

Blocks of the first wave start together, and loads that wait keep them in step: who comes late finds in L2 what the first one
fetched from DRAM, and catches up. So the SMs' round trips are taken to be in lock-step, one after the other, and SMs that miss
the same sectors of a line in the same one share requests (`merged_requests`). A sector that two SMs miss among different ones,
as at the border of their blocks, is asked for twice, which is what an H200 counts. Later waves begin whenever blocks end; they
are in step with nobody. Asynchronous copies run ahead of what waits for them: where blocks of an SM take turns at copying, they
meet those of other SMs for their share of the time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core.constants import SECTORS_PER_LINE, ceil_div
from .l1 import L1Rates, in_lock_step, missed_sectors
from .trace import SECTORS_OF_MASK, LineAccesses


@dataclass(frozen=True, slots=True)
class MergedTraffic:
    """Sectors that the SMs of a GPC ask for over ``blocks`` blocks, and requests for a sector that L2 sees of them."""

    blocks: int
    asked: int
    requests: int

    @property
    def share(self) -> float:
        """Requests for each sector that an SM asks for; 1 where nothing is asked."""
        return self.requests / self.asked if self.asked else 1.0

    def share_of_launch(self, asked_per_block: float, ramp_up: float) -> float:
        """The same for a launch whose blocks ask for so much each, a part ``ramp_up`` of them in step like these.

        >>> MergedTraffic(blocks=2, asked=4, requests=2).share_of_launch(1.0, 0.5)  # all that is asked is the first wave's
        0.5
        """
        first = ramp_up * self.asked / self.blocks
        return 1.0 - (1.0 - self.share) * (min(first / asked_per_block, 1.0) if asked_per_block else 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedShares:
    """Requests that L2 sees for each sector of the launch: of those that miss L1, and of those that pass it by."""

    missed: float = 1.0
    past_l1: float = 1.0


def asked_shares(
    cached: LineAccesses,
    past_l1: LineAccesses,
    runs: list[NDArray[np.int64]],
    l1_bytes: int,
    merged: int,
    rates: L1Rates,
    in_step: float,
) -> AskedShares:
    """Shares of a launch whose misses have the given rates, a part ``in_step`` of its blocks being in step."""
    through = merged_traffic(cached, runs, l1_bytes, merged)
    beside = merged_traffic(past_l1, runs, 0, merged, cached=False)
    return AskedShares(
        missed=through.share_of_launch(rates.missed * rates.asked_per_block, in_step),
        past_l1=1.0 - (1.0 - beside.share) * in_step,
    )


def merged_traffic(
    accesses: LineAccesses, runs: list[NDArray[np.int64]], l1_bytes: int, merged: int, *, cached: bool = True
) -> MergedTraffic:
    """Traffic of SMs that run the given blocks, all of one SM at once; without ``cached`` no L1 keeps anything.

    >>> both = LineAccesses(*(np.array(v) for v in ([0, 1], [0, 0], [1, 1], [7, 7], [3, 3])))
    >>> merged_traffic(both, [np.array([0]), np.array([1])], 1024, 4)  # two SMs miss two sectors, and ask once
    MergedTraffic(blocks=2, asked=4, requests=2)
    """
    keys = np.concatenate([_missed(accesses, run, l1_bytes, cached) for run in runs])
    same, sms = np.unique(keys, return_counts=True)
    sectors = SECTORS_OF_MASK[same & (len(SECTORS_OF_MASK) - 1)]
    return MergedTraffic(
        blocks=sum(len(run) for run in runs),
        asked=int((sectors * sms).sum()),
        requests=int((sectors * ceil_div(sms, merged)).sum()),
    )


def _missed(accesses: LineAccesses, run: NDArray[np.int64], l1_bytes: int, cached: bool) -> NDArray[np.int64]:
    """Step, line and sectors of it, as one number, of all that one SM asks L2 for."""
    order = in_lock_step(accesses, run)
    masks = missed_sectors(accesses, order, l1_bytes) if cached else accesses.sectors[order]
    asking = masks > 0
    trips, lines = accesses.trip[order][asking], accesses.line[order][asking]
    return np.asarray(trips << 48 | lines << SECTORS_PER_LINE | masks[asking], np.int64)
