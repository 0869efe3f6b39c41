"""Sectored L1 data cache of an SM, fed by the loads of its resident blocks.

Model: lines of 128 bytes with four sectors that are filled one by one; of two lines of a set, drawn at random, the one that was
not used for longer makes room. Lines of buffers fill the sets evenly, so that all of L1 is one set where there are no others;
stacks lie far apart, and their lines fall into any of the sets of four lines. Stores write through; words that are written
stay, the others of their sectors, and bytes that are written one by one, are asked for when they are loaded. All resident
blocks load, a round trip of each warp after the other: what a warp has in flight together follows without another warp's loads
between. Blocks of the first wave begin together and find the cache empty; later ones begin whenever others end, so that those
of an SM are at any point of their loads. Where loads run ahead of the arithmetic that uses them, as asynchronous copies do,
blocks advance as an SM serves them: the oldest first. Of many accesses a part of the lines is simulated, with the same part of
the cache.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.constants import LINE_BYTES
from .fitted_shares import shares
from .trace import LOCAL_LINES, SECTORS_OF_MASK, LineAccesses, sectors_of, whole_sectors

_SEED = 0
_NORMAL_95 = 1.96
STACK_BITS = 40
"""Lines of a block's stacks are fewer than ``2 ** 40``."""
WAVES = 3
"""Waves of blocks that a sampled SM runs at least, where the grid has so many: two follow the first."""


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


def launch_rates(sampled: list[tuple[L1Traffic, L1Traffic]], ramp_up: float, of_first: float | None = None) -> L1Rates:
    """From the traffic of each sampled SM in its first and in its later waves to the launch, of which ``ramp_up`` is first.

    ``of_first``: what the first wave misses, where that is known better.

    >>> launch_rates([(L1Traffic(1, 4, 4), L1Traffic(1, 4, 0))], 0.25).missed
    0.25
    """
    firsts = [(a.rate if a.asked else b.rate) if of_first is None else of_first for a, b in sampled]
    rates = [ramp_up * first + (1.0 - ramp_up) * b.rate for first, (_, b) in zip(firsts, sampled, strict=True)]
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


def pushed_out_sectors(again: Any, lines: Any, blocks: Any, l1_bytes: Any) -> NDArray[np.float64]:
    """Sectors that L1 no longer holds when blocks load them again: the part of their lines for which it has no room.

    Args:
        again: Sectors that are loaded again.
        lines: Lines that a block loads before it comes back to the first one; 0 where it does not come back.
        blocks: Blocks that share L1.
        l1_bytes: What L1 holds.

    >>> float(pushed_out_sectors(1000.0, 20, 8, 80 * 128)), float(pushed_out_sectors(1000.0, 20, 4, 80 * 128))
    (500.0, 0.0)
    """
    room = np.asarray(l1_bytes, np.float64) / LINE_BYTES
    return np.asarray(again * np.maximum(0.0, 1.0 - room / np.maximum(np.multiply(lines, blocks), room)), np.float64)


def missed_sectors(accesses: LineAccesses, order: NDArray[np.int64], l1_bytes: float) -> NDArray[np.int64]:
    """Of each load, made in the given order from an empty L1, the sectors, as bits, that it misses; 0 of stores."""
    capacity = max(round(l1_bytes / LINE_BYTES), 1)
    lines = accesses.line[order]
    sets = capacity // shares().l1_ways if (lines >= LOCAL_LINES).any() else 0
    ways = shares().l1_ways if sets else capacity
    set_of = _sets_of(lines, max(sets, 1))
    filled = [0] * max(sets, 1)
    held: dict[int, tuple[int, int]] = {}  # place of each line, and the words of it that are there
    places, used = [-1] * (len(filled) * ways), [0] * (len(filled) * ways)
    missed = []
    drawn = np.random.default_rng(_SEED).integers(ways, size=(len(order), 2)).tolist()
    columns = (lines, accesses.words[order], accesses.load[order], set_of)
    rows = zip(*(column.tolist() for column in columns), drawn, strict=True)
    for now, (line, words, load, at, (one, other)) in enumerate(rows):
        place, before = held.get(line, (-1, 0))
        if place < 0 and not load and not words:
            missed.append(0)
            continue
        if place < 0 and filled[at] < ways:
            place = at * ways + filled[at]
            filled[at] += 1
        elif place < 0:
            one, other = at * ways + one, at * ways + other
            place = one if used[one] <= used[other] else other
            del held[places[place]]
        places[place] = line
        used[place] = now
        missing = words & ~before if load else 0
        missed.append(missing)
        held[line] = (place, before | words | whole_sectors(missing))
    return sectors_of(np.array(missed, np.int64))


def _sets_of(lines: NDArray[np.int64], sets: int) -> NDArray[np.int64]:
    """In which set of L1 each line lies: those of stacks in any, the others in one set after the other."""
    found, first, number = np.unique(lines, return_index=True, return_inverse=True)
    turn = np.empty_like(first)
    turn[np.argsort(first)] = np.arange(len(first))
    of_stack = found >= LOCAL_LINES
    drawn: NDArray[np.int64] = np.random.default_rng(_SEED).integers(sets, size=len(found))
    of_line: NDArray[np.int64] = np.where(of_stack, drawn, turn % sets)[number.reshape(-1)]
    return of_line


def l1_traffic(
    accesses: LineAccesses, run: NDArray[np.int64], together: int, l1_bytes: float, *, by_age: bool = False
) -> tuple[L1Traffic, L1Traffic]:
    """Traffic of one SM that runs the given blocks, so many at once: in its first wave, and in what follows.

    Blocks advance by age, or in step in the first wave and at any point of their loads later. Of a run of fewer than `WAVES`
    waves all is what follows; where blocks do not advance by age, it is simulated wave by wave.

    >>> twice = LineAccesses(*(np.array(v) for v in ([0, 1], [0, 0], [0, 0], [0, 0], [7, 7], [257, 257], [True, True])))
    >>> l1_traffic(twice, np.array([0, 1]), 1, 1024)  # the second block finds what the first one loaded
    (L1Traffic(blocks=0, asked=0, missed=0), L1Traffic(blocks=2, asked=4, missed=2))
    """
    accesses = with_own_stacks(accesses, run, together)
    if by_age:
        order, later = _oldest_first(accesses, run, together)
        sectors = _traffic(accesses, order, l1_bytes)
        if len(run) < WAVES * together:
            return L1Traffic(0, 0, 0), _total(len(run), sectors)
        return _total(together, sectors[~later]), _total(len(run) - together, sectors[later])
    if len(run) < WAVES * together:
        waves = [in_lock_step(accesses, run[i : i + together]) for i in range(0, len(run), together)]
        return L1Traffic(0, 0, 0), _total(len(run), _traffic(accesses, np.concatenate(waves), l1_bytes))
    first = in_lock_step(accesses, run[:together])
    order, later = _at_any_point(accesses, run, together)
    return (
        _total(together, _traffic(accesses, first, l1_bytes)),
        _total(len(run) - together, _traffic(accesses, order, l1_bytes)[later]),
    )


def _traffic(accesses: LineAccesses, order: NDArray[np.int64], l1_bytes: float) -> NDArray[np.int64]:
    """Sectors that each access asks for and misses, shape ``(n, 2)``, made in the given order."""
    missed = missed_sectors(accesses, order, l1_bytes)
    asked = np.where(accesses.load[order], sectors_of(accesses.words[order]), 0)
    sectors: NDArray[np.int64] = SECTORS_OF_MASK[np.column_stack([asked, missed])]
    return sectors


def _total(blocks: int, sectors: NDArray[np.int64]) -> L1Traffic:
    asked, missed = sectors.sum(axis=0).tolist()
    return L1Traffic(blocks, asked, missed)


def in_lock_step(accesses: LineAccesses, blocks: NDArray[np.int64]) -> NDArray[np.int64]:
    """Order of the accesses of blocks that begin together: the n-th ones of all warps before the next ones of any (`_clock`)."""
    chosen = np.flatnonzero(np.isin(accesses.block, blocks))
    return chosen[np.lexsort((accesses.warp[chosen], accesses.block[chosen], _clock(accesses)[chosen]))]


def _clock(accesses: LineAccesses) -> NDArray[np.int64]:
    """When a warp makes each access: how many round trips, and accesses to its stack in them, come before it.

    >>> zero, step = np.zeros(4, np.int64), np.array([0, 1, 2, 0])
    >>> _clock(LineAccesses(zero, zero, np.array([3, 3, 3, 4]), step, zero, zero, zero == 0)).tolist()
    [3, 4, 5, 6]
    """
    warps, trips = int(accesses.warp.max(initial=0)) + 1, int(accesses.trip.max(initial=0)) + 1
    key = (accesses.block * warps + accesses.warp) * trips + accesses.trip
    keys, of_trip = np.unique(key, return_inverse=True)
    warp = keys // trips
    steps = np.zeros(len(keys), np.int64)
    np.maximum.at(steps, of_trip, accesses.step)
    before = np.cumsum(steps) - steps
    before -= before[np.searchsorted(warp, warp)]
    clock: NDArray[np.int64] = accesses.trip + before[of_trip] + accesses.step
    return clock


def _at_any_point(
    accesses: LineAccesses, run: NDArray[np.int64], together: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Order of the accesses of blocks that follow one another in so many places, and which are not the first one's of a place.

    The first block of each place begins anywhere within the time that one takes.
    """
    chosen, turn, _ = _turns(accesses, run)
    clock = _clock(accesses)[chosen]
    takes = np.zeros(len(run), np.int64)
    np.maximum.at(takes, turn, clock + 1)
    begins = np.random.default_rng(_SEED).integers(0, max(int(takes.max()), 1), together)
    begin = np.concatenate([begins, np.zeros(len(run) - together, np.int64)])
    for later in range(together, len(run)):
        begin[later] = begin[later - together] + takes[later - together]
    order = np.lexsort((accesses.warp[chosen], turn, begin[turn] + clock))
    return chosen[order], turn[order] >= together


def _oldest_first(
    accesses: LineAccesses, run: NDArray[np.int64], together: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Order of the accesses of blocks that advance by age, and which are not the first one's of a place.

    The block that makes its next round trip is drawn, each with the ``oldest_share`` of what older ones leave.
    """
    oldest = shares().oldest_share
    chosen, turn, trips = _turns(accesses, run)
    made, total = [0] * len(run), trips.tolist()
    waiting = list(range(len(run)))  # by age; an SM holds the first ones
    step_of = np.zeros((len(run), int(trips.max(initial=0)) + 1), np.int64)
    drawn = np.random.default_rng(_SEED).random(int(trips.sum()) + len(run))
    for step, chance in enumerate(drawn.tolist()):
        resident = min(together, len(waiting))
        if not resident:
            break
        served = 1.0 - chance * (1.0 - (1.0 - oldest) ** resident)
        rank = min(int(log(served) / log(1.0 - oldest)), resident - 1)
        block = waiting[rank]
        step_of[block, made[block]] = step
        made[block] += 1
        if made[block] >= total[block]:
            waiting.pop(rank)
    order = np.lexsort((accesses.warp[chosen], turn, accesses.step[chosen], step_of[turn, accesses.trip[chosen]]))
    return chosen[order], turn[order] >= together


def with_own_stacks(accesses: LineAccesses, run: NDArray[np.int64], together: int) -> LineAccesses:
    """The accesses of a run's blocks, with local memory of its own for each of the places that an SM has for them.

    A block uses the stacks of the one before it in its place.
    """
    chosen, turn, _ = _turns(accesses, run)
    kept = accesses.of(chosen)
    line = np.where(kept.line >= LOCAL_LINES, kept.line + (turn % together << STACK_BITS), kept.line)
    return replace(kept, line=line)


def _turns(
    accesses: LineAccesses, run: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The accesses of a run's blocks, at which place in the run each one's block is, and the round trips of each block."""
    chosen = np.flatnonzero(np.isin(accesses.block, run))
    by_number = np.argsort(run)
    turn = by_number[np.searchsorted(run[by_number], accesses.block[chosen])]
    trips = np.zeros(len(run), np.int64)
    np.maximum.at(trips, turn, accesses.trip[chosen] + 1)
    return chosen, turn, trips
