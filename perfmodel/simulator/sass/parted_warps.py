"""Groups of lanes of a warp that branches have parted: where the hardware may issue for several of them at once.

On an H200 the smaller part of a warp runs first, until it waits or ends; the larger one is put aside, and goes on when all that
came of the smaller one wait. Groups that are put aside at one instruction may then go on as one. So what is issued there is
known only as long as no second group is put aside where another one still is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...core.constants import WARP_SIZE
from ..plan import Mask, rows_and_warps, warp_bits

_NO_LANES: Mask = np.zeros((1, 1), np.bool_)


@dataclass(slots=True)
class _Aside:
    """Lanes that have been put aside at a place, and those of their warps that run before them; shape ``(1 | rows, threads)``."""

    lanes: Mask
    before: Mask


class PartedWarps:
    """Lanes of a batch that have been put aside since they last met others of their warp.

    Of two parts of equal size either may be the one: it is not looked at which runs first.

    Args:
        threads: of a block, in whole warps.
    """

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._places: dict[int, _Aside] = {}

    def part(self, groups: Sequence[tuple[int, Mask]]) -> int | None:
        """Lanes of one step go to several places; gives a place where groups of a warp may go on as one."""
        met: int | None = None
        sizes = [self._sizes(mask) for _, mask in groups]
        running = np.logical_or.reduce(np.broadcast_arrays(*(mask for _, mask in groups)))
        added = []
        for number, (place, mask) in enumerate(groups):
            before, aside = _NO_LANES, np.zeros_like(sizes[number], np.bool_)
            for other, (_, first) in enumerate(groups):
                if other != number:
                    waits = (sizes[other] > 0) & (sizes[number] >= sizes[other])
                    aside = aside | waits
                    before = before | (first & self._of_warps(waits))
            lanes = mask & self._of_warps(aside)
            if not lanes.any():
                continue
            there = self._places.get(place)
            if there is not None:
                others = rows_and_warps(there.lanes & ~running, self._threads)
                within = rows_and_warps(there.before & running, self._threads)
                if (others & within & rows_and_warps(lanes, self._threads)).any():
                    met = place
            added.append((place, lanes, before))
        for place, lanes, before in added:
            there = self._places.get(place)
            if there is not None:
                lanes, before = there.lanes | lanes, there.before | before
            self._places[place] = _Aside(lanes, before)
        return met

    def _sizes(self, mask: Mask) -> NDArray[np.uint8]:
        sizes: NDArray[np.uint8] = np.bitwise_count(warp_bits(mask, self._threads))
        return sizes

    @staticmethod
    def _of_warps(warps: Mask) -> Mask:
        lanes: Mask = np.repeat(warps, WARP_SIZE, axis=1)
        return lanes

    def join(self, mask: Mask | None) -> None:
        """Lanes have passed a barrier of their warps together, all lanes when None: those among them are aside no more."""
        if mask is None:
            self._places.clear()
            return
        for place, there in list(self._places.items()):
            together = rows_and_warps(there.lanes & mask, self._threads) & rows_and_warps(
                there.before & mask, self._threads
            )
            if together.any():
                apart = ~np.repeat(together, WARP_SIZE, axis=1)
                there.lanes, there.before = there.lanes & apart, there.before & apart
                if not there.lanes.any():
                    del self._places[place]


def bits_of_warps(mask: Mask, threads: int) -> NDArray[np.uint32]:
    """For each lane the lanes of its warp that a mask holds, as bits; shape ``(rows, threads)``."""
    return np.repeat(warp_bits(mask, threads), WARP_SIZE, axis=1)
