"""Sectored L1 data cache of an SM, fed by the loads of its resident blocks in lock-step.

Model: lines of 128 bytes with four sectors that are filled one by one, fully associative; a line drawn at random makes room.
Stores write through and allocate nothing. Replacing at random meets the L2 reads that an RTX 2080 Ti and an H200 count better
than replacing the least recently used line: what is asked for again soon is lost now and then, what is walked through in circles
is kept in part. Resident blocks are spread over their life: those that are in their loading part at once issue their accesses in
lock-step, warp by warp, then the next ones do. The first wave finds the cache empty.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..definitions import LINE_BYTES, SECTORS_PER_LINE
from .hierarchy_trace import LineAccesses

_SEED = 0
_NORMAL_95 = 1.96
_SECTORS = tuple(bin(mask).count("1") for mask in range(1 << SECTORS_PER_LINE))


@dataclass(frozen=True, slots=True)
class L1Traffic:
    """Sectors that loads asked for and sectors that they missed, over ``blocks`` blocks."""

    blocks: int
    asked: int
    missed: int

    @property
    def rate(self) -> float:
        """Share that misses; 0 where nothing is asked."""
        return self.missed / self.asked if self.asked else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class L1Rates:
    """Share of the launch's sectors that miss, half width of its 95 % interval over the SMs, and what a block asks for."""

    missed: float
    relative_error: float
    asked_per_block: float


def launch_rates(sampled: list[tuple[L1Traffic, L1Traffic]], first_wave: float) -> L1Rates:
    """From the traffic of each sampled SM in its first and in its later waves to the launch, of which ``first_wave`` is first.

    >>> launch_rates([(L1Traffic(1, 4, 4), L1Traffic(1, 4, 0))], 0.25).missed
    0.25
    """
    rates = [first_wave * a.rate + (1.0 - first_wave) * b.rate if a.asked else b.rate for a, b in sampled]
    asked = [a.asked + b.asked for a, b in sampled]
    blocks = sum(a.blocks + b.blocks for a, b in sampled)
    missed = float(np.average(rates, weights=asked)) if sum(asked) else 0.0
    known = [rate for rate, weight in zip(rates, asked, strict=True) if weight]
    spread = float(np.std(known, ddof=1)) / len(known) ** 0.5 if len(known) > 1 else 0.0
    return L1Rates(
        missed=missed,
        relative_error=_NORMAL_95 * spread / missed if missed else 0.0,
        asked_per_block=sum(asked) / max(blocks, 1),
    )


class Cache:
    """Lines that an L1 of so many lines holds, each with the sectors that were filled."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._held: dict[int, int] = {}
        self._places: list[int] = []
        self._rng = np.random.default_rng(_SEED)

    def missed(self, lines: list[int], masks: list[int]) -> list[int]:
        """Access lines one after the other; of each the sectors, as bits, that it misses."""
        held, places, capacity = self._held, self._places, self._capacity
        given_up = self._rng.integers(capacity, size=len(lines)).tolist()
        found = []
        for line, mask, place in zip(lines, masks, given_up, strict=True):
            before = held.get(line)
            if before is None:
                before = 0
                if len(places) < capacity:
                    places.append(line)
                else:
                    del held[places[place]]
                    places[place] = line
            found.append(mask & ~before)
            held[line] = before | mask
        return found


def l1_traffic(
    accesses: LineAccesses, groups: list[NDArray[np.int64]], warming: int, l1_bytes: int
) -> tuple[L1Traffic, L1Traffic]:
    """Traffic of one SM that loads for the given groups of blocks one after the other: the first ``warming``, and the others.

    >>> once = LineAccesses(*(np.array(v) for v in ([0, 1], [0, 0], [1, 1], [7, 7], [3, 3])))
    >>> l1_traffic(once, [np.array([0]), np.array([1])], 1, 1024)  # the second block finds what the first one loaded
    (L1Traffic(blocks=1, asked=2, missed=2), L1Traffic(blocks=1, asked=2, missed=0))
    """
    cache = Cache(max(l1_bytes // LINE_BYTES, 1))
    found = [_traffic(cache, accesses, group) for group in groups]
    return _total(found[:warming]), _total(found[warming:])


def _traffic(cache: Cache, accesses: LineAccesses, group: NDArray[np.int64]) -> L1Traffic:
    _, lines, masks = in_lock_step(accesses, group)
    asked = masks.tolist()
    missed = cache.missed(lines.tolist(), asked)
    return L1Traffic(len(group), sum(_SECTORS[mask] for mask in asked), sum(_SECTORS[mask] for mask in missed))


def _total(parts: list[L1Traffic]) -> L1Traffic:
    return L1Traffic(*(sum(getattr(part, name) for part in parts) for name in ("blocks", "asked", "missed")))


def in_lock_step(
    accesses: LineAccesses, group: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Steps, lines and sectors of a group's blocks: the n-th accesses of all warps, step n, before the next ones of any."""
    chosen = np.flatnonzero(np.isin(accesses.block, group))
    warp_of = accesses.block[chosen] << 16 | accesses.warp[chosen]
    order = np.lexsort((accesses.time[chosen], warp_of))
    warp_sorted, time_sorted = warp_of[order], accesses.time[chosen][order]
    new_warp = np.ones(len(order), np.bool_)
    new_warp[1:] = warp_sorted[1:] != warp_sorted[:-1]
    new_request = new_warp.copy()
    new_request[1:] |= time_sorted[1:] != time_sorted[:-1]
    request = np.cumsum(new_request)
    step: NDArray[np.int64] = request - np.maximum.accumulate(np.where(new_warp, request, 0))
    in_order = np.lexsort((warp_sorted, step))
    by_step = chosen[order[in_order]]
    return step[in_order], accesses.line[by_step], accesses.sectors[by_step]
