"""Requests of the SMs of a GPC for L2, round trip by round trip: which of them join, and how far SMs drift apart.

SMs whose requests join get one answer, so they go on together: four SMs that ask together stay together for as long as all of
what they wait for comes in common. What each waits for alone, and what its own work takes longer, drives them apart: places of
lines in L2, requests that queue, blocks of an SM that take turns. DRAM brings SMs together again: who comes late finds in L2 what
others have waited for (micro-benchmark ``drift`` on an H200).

All resident blocks of an SM begin together. A block asks for what it misses in a round trip, waits for all of it, and works
until the next one; an SM works for one block after the other, and passes one request after the other on. Blocks of later waves
begin where those of the first one ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..core.constants import SECTOR_BYTES
from ..gpus.gpu import Gpu
from .fitted_shares import shares
from .l1 import missed_sectors, with_own_stacks
from .trace import LOCAL_LINES, SECTORS_OF_MASK, LineAccesses

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

_SEED = 0
_SM_BITS = 50
"""The stacks of an SM are fewer lines than ``2 ** 50``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How fast blocks go on.

    Attributes:
        works_cycles: For which an SM works for a block in each round trip.
        sector_cycles: From one sector that an SM asks for to the next.
        in_dram: Part of the lines that L2 does not hold yet.
        gpcs_of_line: That ask for such a line, on average.
        share: Part of all lines that is looked at.
        steady: Whether blocks neither wait nor work longer than others, so that all stay together.
    """

    works_cycles: float
    sector_cycles: float
    in_dram: float = 1.0
    gpcs_of_line: float = 1.0
    share: float = 1.0
    steady: bool = False


@dataclass(frozen=True, slots=True)
class MergedTraffic:
    """Sectors that the SMs of some GPCs ask for over ``blocks`` blocks, and requests for a sector that L2 sees of them."""

    blocks: int
    asked: int
    requests: int

    @property
    def rate(self) -> float:
        """Requests for each sector that an SM asks for; 1 where nothing is asked."""
        return self.requests / self.asked if self.asked else 1.0


@dataclass(frozen=True, slots=True)
class _Asked:
    """What blocks of an SM ask L2 for: an entry a block, round trip and line; ``slot`` numbers blocks, ``trips`` are theirs."""

    line: Integers
    mask: Integers
    trip: Integers
    slot: Integers
    trips: Integers

    def of_sm(self, number: int) -> _Asked:
        """The same, with local memory that no other SM has."""
        return replace(self, line=np.where(self.line >= LOCAL_LINES, self.line + (number << _SM_BITS), self.line))


def merged_traffic(
    accesses: LineAccesses,
    gpcs: Sequence[Sequence[Integers]],
    l1_bytes: float,
    pace: Pace,
    gpu: Gpu,
    *,
    cached: bool = True,
    warmed_up_by: int = 0,
    begins: Sequence[Floats] | None = None,
) -> tuple[MergedTraffic, list[Floats]]:
    """Traffic of the SMs of some GPCs, each of which runs the given blocks, and when the blocks of each GPC end.

    Args:
        accesses: of the blocks.
        gpcs: for each SM of each GPC its blocks.
        l1_bytes: of an SM.
        pace: how fast the blocks go on.
        gpu: the GPU.
        cached: whether L1 keeps anything.
        warmed_up_by: how many of the first blocks of each SM do not count.
        begins: cycles after which the SMs of each GPC begin; together when None.

    Returns:
        The traffic; and of each GPC the cycles, shape ``(SMs, blocks)``.

    >>> from perfmodel.gpus.catalogue import load_gpu
    >>> both = LineAccesses(*(np.array(v) for v in ([0, 1], [0, 0], [1, 1], [0, 0], [7, 7], [3, 3], [True, True])))
    >>> pace = Pace(works_cycles=1000.0, sector_cycles=1.0)
    >>> two_sms = [np.array([0]), np.array([1])]
    >>> merged_traffic(both, [two_sms], 1024, pace, load_gpu("h200"))[0]  # they miss two sectors each, ask once
    MergedTraffic(blocks=2, asked=4, requests=2)
    """
    asked = requests = 0
    ends = []
    for number, sms in enumerate(gpcs):
        asked_by = [_asked(accesses, run, l1_bytes, cached, warmed_up_by) for run in sms]
        run = _GpcRun([one.of_sm(sm) for sm, one in enumerate(asked_by)], pace, gpu)
        run.go(np.zeros(len(sms)) if begins is None else begins[number])
        asked += run.asked
        requests += run.requests
        ends.append(run.now)
    blocks = sum(len(run) - warmed_up_by for sms in gpcs for run in sms)
    return MergedTraffic(blocks=blocks, asked=asked, requests=requests), ends


def share_of_launch(first: MergedTraffic, later: MergedTraffic, asked_per_block: float, ramp_up: float) -> float:
    """Requests for each sector that an SM asks for, of a launch whose blocks ask for so much each.

    Args:
        first: of blocks of the first wave.
        later: of blocks of later ones.
        asked_per_block: sectors, over the whole launch.
        ramp_up: part of the blocks that are in the first wave.

    >>> half = MergedTraffic(blocks=2, asked=4, requests=2)
    >>> share_of_launch(half, MergedTraffic(blocks=2, asked=4, requests=4), 2.0, 0.5)  # half of what is asked is the first wave's
    0.75
    """
    of_first = ramp_up * first.asked / max(first.blocks, 1)
    part = min(of_first / asked_per_block, 1.0) if asked_per_block else 0.0
    return part * first.rate + (1.0 - part) * later.rate


def _asked(accesses: LineAccesses, run: Integers, l1_bytes: float, cached: bool, warmed_up_by: int) -> _Asked:
    """What the blocks of an SM miss, each round trip of all of them before the next one of any, and what waits with them."""
    accesses = with_own_stacks(accesses, run, warmed_up_by or len(run))
    chosen = np.flatnonzero(np.isin(accesses.block, run))
    by_number = np.argsort(run)
    turn = by_number[np.searchsorted(run[by_number], accesses.block[chosen])]
    times = accesses.step[chosen], accesses.trip[chosen]
    in_turn = np.lexsort((accesses.warp[chosen], turn, *times, turn >= warmed_up_by))
    order, slot = chosen[in_turn], turn[in_turn] - warmed_up_by
    masks = missed_sectors(accesses, order, l1_bytes) if cached else accesses.sectors[order] * accesses.load[order]
    own = slot >= 0
    order, slot, masks = order[own], slot[own], masks[own]
    line, trip = accesses.line[order], accesses.trip[order]
    trips = np.zeros(max(len(run) - warmed_up_by, 0), np.int64)
    np.maximum.at(trips, slot, trip + 1)
    # who finds a line in L1 that is still on its way waits for it, too
    number = np.unique(line, return_inverse=True)[1]
    fetched = number * (int(trip.max(initial=0)) + 1) + trip
    waits = np.isin(fetched, fetched[masks > 0]) & accesses.load[order]
    keys = np.stack([slot[waits], fetched[waits]])
    _, first, same = np.unique(keys, axis=1, return_index=True, return_inverse=True)
    of_block = np.zeros(len(first), np.int64)
    np.bitwise_or.at(of_block, same.reshape(-1), masks[waits])
    in_time = np.argsort(first)
    kept = np.flatnonzero(waits)[first[in_time]]
    return _Asked(line[kept], of_block[in_time], trip[kept], slot[kept], trips)


class _GpcRun:
    """The SMs of one GPC on their way: ``now`` says how far each block is, in cycles, shape ``(SMs, blocks)``."""

    def __init__(self, of_sms: Sequence[_Asked], pace: Pace, gpu: Gpu) -> None:
        self._pace, self._gpu = pace, gpu
        self._shape = len(of_sms), max([1, *(len(one.trips) for one in of_sms)])
        self._trips = np.zeros(self._shape, np.int64)
        for own, one in zip(self._trips, of_sms, strict=True):
            own[: len(one.trips)] = one.trips
        sm = np.repeat(np.arange(len(of_sms)), [len(one.line) for one in of_sms])
        block = sm * self._shape[1] + np.concatenate([one.slot for one in of_sms])
        lines, number = np.unique(np.concatenate([one.line for one in of_sms]), return_inverse=True)
        mask, trip = (np.concatenate([getattr(one, name) for one in of_sms]) for name in ("mask", "trip"))
        order = np.lexsort((block, trip))
        self._sm, self._block, self._line, self._mask = (column[order] for column in (sm, block, number, mask))
        self._bounds = np.searchsorted(trip[order], np.arange(int(self._trips.max()) + 1))
        self._rng = np.random.default_rng(_SEED)
        self._in_dram = self._rng.random(len(lines)) < pace.in_dram
        self.asked, self.requests = int(SECTORS_OF_MASK[mask].sum()), 0
        self.now: Floats = np.zeros(self._shape)

    def go(self, begins: Floats) -> None:
        """Make all round trips, from the times at which the SMs begin."""
        works = 0.0 if self._pace.steady else self._pace.works_cycles
        self.now = begins[:, None] + works * np.cumsum(self._trips > 0, axis=1)
        idle_from = begins
        if not self.asked:
            return
        for trip in range(int(self._trips.max())):
            alive = self._trips > trip
            answered = self._answered(slice(*self._bounds[trip : trip + 2]), alive)
            idle_from = self._work(answered, alive, idle_from)

    def _work(self, answered: Floats, alive: NDArray[np.bool_], idle_from: Floats) -> Floats:
        """Let each SM work for one of its blocks after the other, of those that are ready any; from when on it is idle."""
        if self._pace.steady:
            self.now = np.where(alive, np.max(answered), self.now)
            return idle_from
        ready = np.where(alive, np.maximum(answered, idle_from[:, None]), np.inf)
        works = self._pace.works_cycles * (1.0 + shares().works_spread * self._rng.standard_normal(self._shape))
        order = np.lexsort((self._rng.random(self._shape), ready), axis=1)
        ready, works = (np.take_along_axis(column, order, 1) for column in (ready, np.where(alive, works, 0.0)))
        worked = np.cumsum(works, axis=1)
        ends = worked + np.maximum.accumulate(ready - (worked - works), axis=1)
        done = np.empty_like(ends)
        np.put_along_axis(done, order, ends, 1)
        self.now = np.where(alive, done, self.now)
        busy_until: Floats = np.maximum(idle_from, np.where(alive, done, -np.inf).max(axis=1))
        return busy_until

    def _answered(self, entries: slice, alive: NDArray[np.bool_]) -> Floats:
        """When each block has what it asks for in a round trip."""
        answered = self.now.copy()
        if self._pace.share < 1.0:  # of the lines that are not looked at, some are missed
            answered = np.where(alive, answered + self._gpu.l2_latency_cycles, answered)
        block = self._block[entries]
        if not len(block):
            return answered
        lines = len(self._in_dram)
        key, of_key = np.unique(self._sm[entries] * lines + self._line[entries], return_inverse=True)
        time = np.full(len(key), np.inf)
        np.minimum.at(time, of_key, self.now.reshape(-1)[block])
        first = np.full(len(key), len(block))
        np.minimum.at(first, of_key, np.arange(len(block)))
        mask = np.zeros(len(key), np.int64)
        np.bitwise_or.at(mask, of_key, self._mask[entries])
        sm, line = key // lines, key % lines
        time = _one_after_the_other(sm, time, first, SECTORS_OF_MASK[mask] * self._pace.sector_cycles)
        came = self._requested(line, mask, time, alive)[of_key]
        flat: Floats = answered.reshape(-1)
        np.maximum.at(flat, block, came)
        return flat.reshape(self._shape)

    def _requested(self, line: Integers, mask: Integers, time: Floats, alive: NDArray[np.bool_]) -> Floats:
        """When L2 answers requests for lines at some times, which are counted."""
        gpu, pace, rng = self._gpu, self._pace, self._rng
        order = np.lexsort((time, mask, line))  # only requests for the same sectors of a line join
        line, mask, time = line[order], mask[order], time[order]
        other = np.append(True, (line[1:] != line[:-1]) | (mask[1:] != mask[:-1]))
        starts = np.maximum.accumulate(np.where(other, np.arange(len(line)), 0))
        begins = time[starts]
        steady = np.ptp(self.now[alive]) == 0.0
        spread = 0.0 if steady else float(np.std(self.now[alive]))
        in_dram = self._in_dram[line]
        self._in_dram[line] = False
        others = np.full(len(line), np.inf)
        if pace.gpcs_of_line > 1.0:
            from scipy.special import ndtri

            chance = rng.random(len(self._in_dram))[line] ** (1.0 / (pace.gpcs_of_line - 1.0))
            others = np.mean(self.now[alive]) + spread * ndtri(np.clip(1.0 - chance, 1e-9, 1.0 - 1e-9))
        fetched = np.where(in_dram, np.minimum(begins, others) + gpu.dram_latency_cycles, -np.inf)
        joins = np.maximum(shares().merging_cycles, fetched - gpu.l2_latency_cycles + shares().merging_cycles - begins)
        window = np.floor(1.0 + (time - begins - joins) / shares().merging_cycles)
        window = np.where(time - begins < joins, 0.0, window)
        new = other | np.append(True, window[1:] != window[:-1])
        of_window = np.maximum.accumulate(np.where(new, np.arange(len(line)), 0))
        rank = np.arange(len(line)) - of_window
        leader = of_window + rank // gpu.l2_requests_merged * gpu.l2_requests_merged
        sent, of_request = np.unique(leader, return_inverse=True)
        sectors = SECTORS_OF_MASK[mask[sent]]
        self.requests += int(sectors.sum())
        came = np.maximum(time[leader] + gpu.l2_latency_cycles, fetched)
        if not pace.steady:
            own = (in_dram & (begins <= others) & (window == 0.0))[sent]
            of_l2 = self._queue(int(sectors.sum()), gpu.l2_read_bytes_per_s, spread)
            of_dram = self._queue(int(sectors[own].sum()), gpu.dram_read_bytes_per_s, spread)
            queue = of_l2 + np.where(own, of_dram, 0.0)
            came = came + (2.0 * rng.random(len(sent)) * (shares().slice_cycles + queue))[of_request]
        answers = np.empty(len(came))
        answers[order] = came
        return answers

    def _queue(self, sectors: int, bytes_per_s: float, spread_cycles: float) -> float:
        """Mean cycles for which one of so many sectors waits for the others, if all GPCs ask for as many."""
        scale = SECTOR_BYTES * self._gpu.sm_count / self._shape[0] / self._pace.share
        busy = sectors * scale * self._gpu.boost_clock_hz / bytes_per_s
        return busy * busy / (2.0 * (busy + 2.0 * spread_cycles)) if busy else 0.0


def _one_after_the_other(sm: Integers, time: Floats, turn: Integers, cycles: NDArray[np.floating]) -> Floats:
    """When each SM passes requests on that come at some times and take some cycles; of those that come together in turn."""
    order = np.lexsort((turn, time, sm))
    sm, time, cycles = sm[order], time[order], cycles[order]
    before = np.cumsum(cycles) - cycles
    before -= before[np.searchsorted(sm, sm)]
    apart = (sm - sm[0]) * (float(np.ptp(time)) + float(cycles.sum()) + 1.0)
    passed = np.empty(len(sm))
    passed[order] = np.maximum.accumulate(time - before + apart) - apart + before
    return passed
