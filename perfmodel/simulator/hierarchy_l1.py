"""Sectored L1 data cache of an SM, fed by the loads of its resident blocks in lock-step.

Model: lines of 128 bytes with four sectors that are filled one by one, least recently used line replaced, fully associative.
Stores write through and allocate nothing. Resident blocks are spread over their life: those that are in their loading part at
once issue their accesses in lock-step, warp by warp, then the next ones do. The first groups only warm the cache.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..definitions import LINE_BYTES, SECTORS_PER_LINE
from .hierarchy_trace import LineAccesses

_SECTORS = tuple(bin(mask).count("1") for mask in range(1 << SECTORS_PER_LINE))


@dataclass(frozen=True, slots=True)
class L1Traffic:
    """Sectors that loads asked for and sectors that they missed, over ``blocks`` blocks."""

    blocks: int
    asked: int
    missed: int


def l1_traffic(accesses: LineAccesses, groups: list[NDArray[np.int64]], warming: int, l1_bytes: int) -> L1Traffic:
    """Traffic of one SM that loads for the given groups of blocks one after the other; the first ``warming`` do not count.

    >>> once = LineAccesses(*(np.array(v) for v in ([0, 1], [0, 0], [1, 1], [7, 7], [3, 3])))
    >>> l1_traffic(once, [np.array([0, 1])], 0, 1024)  # the second block finds what the first one loaded
    L1Traffic(blocks=2, asked=4, missed=2)
    """
    cache: OrderedDict[int, int] = OrderedDict()
    capacity = max(l1_bytes // LINE_BYTES, 1)
    asked = missed = blocks = 0
    for number, group in enumerate(groups):
        lines, sectors = _in_lock_step(accesses, group)
        group_missed = 0
        for line, mask in zip(lines, sectors, strict=True):
            held = cache.pop(line, 0)
            group_missed += _SECTORS[mask & ~held]
            cache[line] = held | mask
            if len(cache) > capacity:
                cache.popitem(last=False)
        if number >= warming:
            missed += group_missed
            asked += sum(_SECTORS[mask] for mask in sectors)
            blocks += len(group)
    return L1Traffic(blocks, asked, missed)


def _in_lock_step(accesses: LineAccesses, group: NDArray[np.int64]) -> tuple[list[int], list[int]]:
    """Lines and sectors of a group's blocks: the n-th accesses of all warps before the next ones of any."""
    chosen = np.flatnonzero(np.isin(accesses.block, group))
    if not len(chosen):
        return [], []
    warp_of = accesses.block[chosen] << 16 | accesses.warp[chosen]
    order = np.lexsort((accesses.time[chosen], warp_of))
    warp_sorted, time_sorted = warp_of[order], accesses.time[chosen][order]
    new_warp = np.ones(len(order), np.bool_)
    new_warp[1:] = warp_sorted[1:] != warp_sorted[:-1]
    new_request = new_warp.copy()
    new_request[1:] |= time_sorted[1:] != time_sorted[:-1]
    request = np.cumsum(new_request)
    step: NDArray[np.int64] = request - np.maximum.accumulate(np.where(new_warp, request, 0))
    by_step = order[np.lexsort((warp_sorted, step))]
    return accesses.line[chosen][by_step].tolist(), accesses.sectors[chosen][by_step].tolist()
