"""Requests of the SMs of a GPC for L2, in order of time: what L1 misses, which of them join, and how far blocks drift apart.

SMs whose requests join get one answer, so they go on together: four SMs that ask together stay together for as long as all of
what they wait for comes in common. A request for other sectors of the same half of a line ends the joining of those before
(micro-benchmark ``burst``). What each waits for alone, and what its own work takes longer, drives them apart: places of
lines in L2, requests that queue, blocks of an SM that share it. DRAM brings SMs together again: who comes late finds in L2 what
others have waited for (micro-benchmark ``drift`` on an H200). GPCs that are simulated together share L2, sector by sector, and
DRAM; where one stands for all, others ask DRAM for what they share with it at times that are drawn.

All resident blocks of an SM begin together. A block asks for what it misses in a round trip, waits for all of it, and works
until the next one. An SM works for all blocks that have their data at once, for the oldest most: where a step takes it longer
than memory takes to answer, the oldest goes ahead and what it loads is gone from L1 when the youngest asks for it; where memory
takes longer, a block that comes late waits for what is on its way already, and they go on together (micro-benchmark ``tiles``).
Blocks of later waves begin where those of the first one ended.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import cycle, pairwise

import numpy as np
from numpy.typing import NDArray

from ..core.constants import BANK_BYTES, LINE_BYTES, SECTOR_BYTES, SECTORS_PER_LINE
from ..gpus.gpu import Gpu
from .fitted_shares import shares
from .l1 import with_own_stacks
from .trace import LOCAL_LINES, LineAccesses, whole_sectors

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

_SEED = 0
_SM_BITS = 50
"""The stacks of an SM are fewer lines than ``2 ** 50``."""
_DRAWN = 4096
"""Random numbers of each kind that are drawn; more than so many repeat them."""
_LONG_AGO = -1e18
_SECTORS = tuple(0xFF << (8 * sector) for sector in range(SECTORS_PER_LINE))
"""The words of the sectors of a line, as bits."""
_HALVES = 0xFFFF, 0xFFFF_0000
"""The words of the halves of a line, as bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How fast blocks go on.

    Attributes:
        works_cycles: For which an SM works for a block in each round trip.
        sector_cycles: From one sector that an SM asks for to the next.
        line_cycles: From one line that an SM asks for to the next, at least.
        in_dram: Part of the lines that L2 does not hold yet.
        gpcs_of_line: That ask for such a line, on average over those that several blocks of a GPC ask for.
        share: Part of all lines that is looked at.
        ahead: Round trips that a block makes ahead of the one whose data it works with.
    """

    works_cycles: float
    sector_cycles: float
    line_cycles: float = 0.0
    in_dram: float = 1.0
    gpcs_of_line: float = 1.0
    share: float = 1.0
    ahead: int = 0


@dataclass(frozen=True, slots=True)
class MergedTraffic:
    """Sectors that ``blocks`` blocks load and that SMs ask L2 for, and requests for a sector that L2 sees of these."""

    blocks: int
    loaded: int
    asked: int
    requests: int

    @property
    def rate(self) -> float:
        """Requests for each sector that an SM asks for; 1 where nothing is asked."""
        return self.requests / self.asked if self.asked else 1.0


NO_TRAFFIC = MergedTraffic(0, 0, 0, 0)
_Trip = tuple[int, list[tuple[int, int, bool]]]
"""The number of a round trip, its lines, their words as bits, and whether they are loaded."""


def merged_traffic(
    accesses: LineAccesses,
    gpcs: Sequence[Sequence[Integers]],
    l1_bytes: float,
    pace: Pace,
    gpu: Gpu,
    *,
    cached: bool = True,
    together: int | None = None,
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
        together: how many blocks an SM runs at once, the next one when one ends; all when None.
        warmed_up_by: how many of the first blocks of each SM do not count.
        begins: of each GPC the cycles after which the first blocks of each SM begin, shape ``(SMs, blocks)``; at once when None.

    Returns:
        The traffic; and of each GPC the cycles, shape ``(SMs, blocks)``.

    >>> from perfmodel.gpus.catalogue import load_gpu
    >>> both = LineAccesses(*(np.array(v) for v in ([0, 1], [0, 0], [1, 1], [0, 0], [7, 7], [257, 257], [True, True])))
    >>> pace = Pace(works_cycles=1000.0, sector_cycles=1.0)
    >>> two_sms = [np.array([0]), np.array([1])]
    >>> merged_traffic(both, [two_sms], 1024, pace, load_gpu("h200"))[0]  # they miss two sectors each, ask once
    MergedTraffic(blocks=2, loaded=4, asked=4, requests=2)
    """
    lines = max(round(l1_bytes / LINE_BYTES), 1) if cached else 0
    memory = _Memory(pace, gpu, [len(sms) for sms in gpcs])
    ports = [_Port(pace, gpu, memory, len(sms), number) for number, sms in enumerate(gpcs)]
    run = [
        [_Sm(accesses, blocks, sm, lines, together or len(blocks), warmed_up_by, port) for sm, blocks in enumerate(sms)]
        for sms, port in zip(gpcs, ports, strict=True)
    ]
    every = [sm for sms in run for sm in sms]
    if begins is None:
        starts = [[0.0] * len(sm.blocks) for sm in every]
    else:
        starts = [times for of_gpc in begins for times in of_gpc.tolist()]
    _go(every, starts)
    loaded = sum(sm.loaded for sm in every)
    asked = sum(sm.asked for sm in every)
    requests = sum(port.requests for port in ports)
    ends = [_table([sm.ends for sm in sms]) for sms in run]
    blocks = sum(len(run) - warmed_up_by for sms in gpcs for run in sms)
    return MergedTraffic(blocks=blocks, loaded=loaded, asked=asked, requests=requests), ends


def share_of_launch(first: MergedTraffic, later: MergedTraffic, asked_per_block: float, ramp_up: float) -> float:
    """Requests for each sector that an SM asks for, of a launch whose blocks ask for so much each.

    Args:
        first: of blocks of the first wave.
        later: of blocks of later ones.
        asked_per_block: sectors, over the whole launch.
        ramp_up: part of the blocks that are in the first wave.

    >>> half = MergedTraffic(blocks=2, loaded=4, asked=4, requests=2)
    >>> all_of_it = MergedTraffic(blocks=2, loaded=4, asked=4, requests=4)
    >>> share_of_launch(half, all_of_it, 2.0, 0.5)  # half of what is asked is the first wave's
    0.75
    """
    of_first = ramp_up * first.asked / max(first.blocks, 1)
    part = min(of_first / asked_per_block, 1.0) if asked_per_block else 0.0
    return part * first.rate + (1.0 - part) * later.rate


def _table(rows: Sequence[Sequence[float]]) -> Floats:
    """Rows of numbers side by side, the shorter ones filled up with zeros."""
    found = np.zeros((len(rows), max([1, *(len(row) for row in rows)])))
    for own, row in zip(found, rows, strict=True):
        own[: len(row)] = row
    return found


def _trips(accesses: LineAccesses, block: int, sm: int) -> list[_Trip]:
    """The round trips of a block in which it asks for lines that are looked at, with local memory that no other SM has."""
    at = np.flatnonzero(accesses.block == block)
    at = at[np.lexsort((accesses.warp[at], accesses.step[at], accesses.trip[at]))]
    trip, line = accesses.trip[at], accesses.line[at]
    line = np.where(line >= LOCAL_LINES, line + (sm << _SM_BITS), line)
    entries = list(zip(line.tolist(), accesses.words[at].tolist(), accesses.load[at].tolist(), strict=True))
    numbers, begins = np.unique(trip, return_index=True)
    bounds = pairwise([*begins.tolist(), len(entries)])
    return [(number, entries[begin:end]) for number, (begin, end) in zip(numbers.tolist(), bounds, strict=True)]


@cache
def _speeds(blocks: int) -> tuple[float, ...]:
    """What of an SM each of so many blocks has that it works for at once, the oldest first (`Shares.oldest_share`)."""
    left = (1.0 - shares().oldest_share) ** np.arange(blocks)
    return tuple((left / left.sum()).tolist())


class _Memory:
    """What L2 holds, and DRAM, which the GPCs share that are simulated; of one alone others take their parts."""

    def __init__(self, pace: Pace, gpu: Gpu, sms: Sequence[int]) -> None:
        from scipy.special import ndtri

        self._gpu, one_gpc = gpu, len(sms) == 1
        of_dram = sum(sms) / gpu.sm_count if one_gpc else 1.0
        sector = SECTOR_BYTES * gpu.boost_clock_hz / gpu.dram_read_bytes_per_s
        self._dram_sector_cycles = sector / of_dram / pace.share
        self._dram_free = 0.0
        self._in_l2: dict[int, float] = {}
        """When L2 has each sector that it has been asked for."""
        self._of_trips: dict[int, tuple[int, float, float]] = {}
        """Of each round trip how many blocks have begun it, the mean of the times, and the squares of the distances to it."""
        rng = np.random.default_rng(_SEED)
        self._held: Iterator[bool] = cycle((rng.random(_DRAWN) >= pace.in_dram).tolist())
        others = pace.gpcs_of_line - 1.0 if one_gpc else 0.0
        self._others_ask = others > 0.0
        first = rng.random(_DRAWN) ** (1.0 / max(others, 1e-9))
        self._others: Iterator[float] = cycle(ndtri(np.clip(1.0 - first, 1e-9, 1.0 - 1e-9)).tolist())

    def begins_trip(self, trip: int, time: float) -> None:
        """Take note of when a block begins a round trip."""
        count, mean, squares = self._of_trips.get(trip, (0, 0.0, 0.0))
        distance, count = time - mean, count + 1
        mean += distance / count
        self._of_trips[trip] = count, mean, squares + distance * (time - mean)

    def in_l2(self, line: int, mask: int, time: float, trip: int) -> float:
        """When L2 has sectors of a line, by their words, that are asked for at a time, in a round trip."""
        came, missing = _LONG_AGO, []
        for sector, words in enumerate(_SECTORS):
            if mask & words:
                since = self._in_l2.get(SECTORS_PER_LINE * line + sector)
                if since is None:
                    missing.append(SECTORS_PER_LINE * line + sector)
                else:
                    came = max(came, since)
        if missing:
            since = _LONG_AGO if next(self._held) else self._from_dram(time, trip, len(missing))
            self._in_l2.update(dict.fromkeys(missing, since))
            came = max(came, since)
        return came

    def _from_dram(self, time: float, trip: int, sectors: int) -> float:
        """When DRAM gives a line that is asked for at a time, if no GPC that is not simulated has done so before."""
        if self._others_ask:
            count, mean, squares = self._of_trips[trip]
            time = min(time, mean + (squares / count) ** 0.5 * next(self._others))
        served = max(time, self._dram_free)
        self._dram_free = served + sectors * self._dram_sector_cycles
        return served + self._gpu.dram_latency_cycles


class _Port:
    """Where the requests of a GPC's SMs join, and its part of L2."""

    def __init__(self, pace: Pace, gpu: Gpu, memory: _Memory, sms: int, number: int) -> None:
        self.pace, self.gpu, self.memory, self.requests = pace, gpu, memory, 0
        sector = SECTOR_BYTES * gpu.boost_clock_hz * gpu.sm_count / sms / pace.share
        self._l2_sector_cycles = sector / gpu.l2_read_bytes_per_s
        self._l2_free = 0.0
        self._joining: dict[int, dict[int, tuple[float, float, int]]] = {}
        """Of a line the requests that others join, by their words: until when, when they come, and how many have joined."""
        rng = np.random.default_rng(_SEED + number)
        self.works: Iterator[float] = cycle(
            (pace.works_cycles * (1.0 + shares().works_spread * rng.standard_normal(_DRAWN))).tolist()
        )
        self._slices: Iterator[float] = cycle((2.0 * shares().slice_cycles * rng.random(_DRAWN)).tolist())
        self._merging, self._merged = shares().merging_cycles, gpu.l2_requests_merged
        self.other_lines_cycles = gpu.l2_latency_cycles if pace.share < 1.0 else 0.0
        """For which a block waits in a round trip for lines that are not looked at, of which some are missed."""

    def answered(self, line: int, mask: int, time: float, trip: int, counts: bool) -> float:
        """When a request for sectors of a line, by their words, made at a time in a round trip of its block, is answered."""
        pending = self._joining.get(line, {})
        until, came, joined = pending.get(mask, (_LONG_AGO, 0.0, 0))
        if time < until and joined < self._merged:
            pending[mask] = until, came, joined + 1
            return came
        self._joining[line] = pending = {words: one for words, one in pending.items() if not _of_one_half(words, mask)}
        sectors = _sectors(mask)
        self.requests += sectors * counts
        in_l2 = self.memory.in_l2(line, mask, time, trip)
        served = max(time, self._l2_free)
        self._l2_free = served + sectors * self._l2_sector_cycles
        came = max(served + self.gpu.l2_latency_cycles, in_l2) + next(self._slices)
        until = max(time, in_l2 - self.gpu.l2_latency_cycles) + self._merging
        pending[mask] = until, came, 1
        return came


class _Sm:
    """An SM with its L1 and its blocks, the oldest first: ``ends`` says when each of them has what it asked for last."""

    def __init__(
        self,
        accesses: LineAccesses,
        run: Integers,
        number: int,
        lines: int,
        together: int,
        warmed_up_by: int,
        port: _Port,
    ) -> None:
        accesses = with_own_stacks(accesses, run, together)
        self.blocks = [_trips(accesses, block, number) for block in run.tolist()]
        self._port, self._lines, self._together, self._warmed_up_by = port, lines, together, warmed_up_by
        self._l1: dict[int, tuple[int, float, int, int]] = {}
        """Of each line the words that it has, when they have come, when it was used last and its place."""
        self._places: list[int] = []
        """The line in each place of L1."""
        self._uses = 0
        self._drawn: Iterator[int] = cycle(
            np.random.default_rng(_SEED).integers(max(lines, 1), size=_DRAWN + 1).tolist()
        )
        self.trip = [0] * len(self.blocks)
        self.ends = [0.0] * len(self.blocks)
        self._came: list[list[float]] = [[] for _ in self.blocks]
        """When each block has what it asks for in each round trip."""
        self._work: dict[int, float] = {}
        """Cycles that are left of the work for each block that has its data, if the SM worked for it alone; the oldest first."""
        self.now = self._port_free = 0.0
        self.plans = 0
        """How often the next end of a block's work has been planned: earlier plans do not hold any more."""
        self.loaded = self.asked = 0

    def after(self, block: int) -> int | None:
        """The block that begins when one ends, if there is one; those without loads are passed over."""
        block += self._together
        while block < len(self.blocks) and not self.blocks[block]:
            block += self._together
        return block if block < len(self.blocks) else None

    @property
    def first(self) -> list[int]:
        """The blocks that begin first, in each of its places."""
        found = [self.after(place - self._together) for place in range(self._together)]
        return [block for block in found if block is not None]

    def go_on(self, time: float) -> None:
        """Work until a time."""
        passed, self.now = time - self.now, time
        if passed > 0.0:
            for block, speed in zip(self._work, _speeds(len(self._work)), strict=True):
                self._work[block] -= passed * speed

    def next_end(self) -> float:
        """When the work for a block ends next, if nothing comes between."""
        ends = [left / speed for left, speed in zip(self._work.values(), _speeds(len(self._work)), strict=True)]
        return self.now + max(min(ends), 0.0)

    def has_data(self, block: int) -> None:
        """A block has what it has waited for, and works until its next round trip of those that are looked at."""
        step, trips = self.trip[block], self.blocks[block]
        works = next(self._port.works) * (trips[step][0] - (trips[step - 1][0] if step else -1))
        if not self._work or block > next(reversed(self._work)):
            self._work[block] = works
        else:
            self._work = dict(sorted([*self._work.items(), (block, works)]))

    @property
    def works(self) -> bool:
        """Whether it has something to do."""
        return bool(self._work)

    def finished(self) -> list[int]:
        """Blocks that the SM has done the work for; they are worked for no more."""
        least = max(min(self._work.values()), 0.0)
        done = [block for block, left in self._work.items() if left <= least]
        for block in done:
            del self._work[block]
        return done

    def ask(self, block: int) -> float:
        """A block has worked: when it has what it needs to go on, after the round trips that it makes now."""
        step, ahead, came, trips = self.trip[block], self._port.pace.ahead, self._came[block], self.blocks[block]
        came += [self._asked(block, *trips[place]) for place in range(len(came), min(step + ahead + 1, len(trips)))]
        self.trip[block] += 1
        further = trips[step + 1][0] - trips[step][0] - 1 if step + 1 < len(trips) else 0
        self.ends[block] = max(self.now, came[step]) + further * self._port.other_lines_cycles
        return self.ends[block]

    def _asked(self, block: int, trip: int, lines: list[tuple[int, int, bool]]) -> float:
        """A block makes a round trip: when it has all that it loads."""
        port, counts = self._port, block >= self._warmed_up_by
        port.memory.begins_trip(trip, self.now)
        came, free = self.now + port.other_lines_cycles, max(self.now, self._port_free)
        for line, words, load in lines:
            held, since, _, _ = self._l1.get(line, (0, _LONG_AGO, 0, -1))
            if not load:
                if held or (words and self._lines):
                    self._fill(line, held | words, since)
                continue
            self.loaded += _sectors(whole_sectors(words)) * counts
            came = max(came, since)
            missing = whole_sectors(words & ~held)
            if missing:
                sectors = _sectors(missing)
                self.asked += sectors * counts
                since = max(since, port.answered(line, missing, free, trip, counts))
                free += max(sectors * port.pace.sector_cycles, port.pace.line_cycles)
                came = max(came, since)
            if self._lines:
                self._fill(line, held | missing, since)
        self._port_free = free
        return came

    def _fill(self, line: int, words: int, since: float) -> None:
        """Put words into L1, where of two lines that are drawn the one that was not used for longer makes room (`l1`)."""
        self._uses += 1
        place = self._l1[line][3] if line in self._l1 else len(self._places)
        if place == self._lines:
            place, other = next(self._drawn), next(self._drawn)
            if self._l1[self._places[other]][2] < self._l1[self._places[place]][2]:
                place = other
            del self._l1[self._places[place]]
            self._places[place] = line
        elif place == len(self._places):
            self._places.append(line)
        self._l1[line] = words, since, self._uses, place


def _sectors(words: int) -> int:
    """How many sectors these words are, all of each."""
    return words.bit_count() // (SECTOR_BYTES // BANK_BYTES)


def _of_one_half(words: int, others: int) -> bool:
    """Whether both have words of the same half of a line."""
    return any(words & half and others & half for half in _HALVES)


def _go(sms: Sequence[_Sm], begins: Sequence[Sequence[float]]) -> None:
    """Let SMs run all their blocks, from the times at which the first ones begin."""
    coming: list[tuple[float, int, int, int]] = []
    """Times, and either a plan of an SM (-1 in place of a block) or a block that has its data."""
    for number, (sm, times) in enumerate(zip(sms, begins, strict=True)):
        for block in sm.first:
            heapq.heappush(coming, (times[block % len(times)], number, block, 0))
    while coming:
        time, number, block, of_plan = heapq.heappop(coming)
        sm = sms[number]
        if block < 0 and of_plan != sm.plans:
            continue
        sm.go_on(time)
        if block >= 0:
            sm.has_data(block)
        else:
            for done in sm.finished():
                came = sm.ask(done)
                following = done if sm.trip[done] < len(sm.blocks[done]) else sm.after(done)
                if following is not None:
                    heapq.heappush(coming, (came, number, following, 0))
        sm.plans += 1
        if sm.works:
            heapq.heappush(coming, (sm.next_end(), number, -1, sm.plans))
