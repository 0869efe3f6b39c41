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

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..core.constants import LINE_BYTES, SECTOR_BYTES
from ..gpus.gpu import Gpu
from .fitted_shares import shares
from .l1 import STACK_BITS
from .trace import LOCAL_LINES, LineAccesses

if TYPE_CHECKING:
    from .gpc_events import Asked, Drawn, Machine

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

_SEED = 0
_SM_BITS = 50
"""The stacks of an SM are fewer lines than ``2 ** 50``."""
_DRAWN = 4096
"""Random numbers of each kind that are drawn; more than so many repeat them."""


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
    from . import gpc_events

    runs = [run for sms in gpcs for run in sms]
    sms_of_gpc = np.array([len(sms) for sms in gpcs], np.int64)
    at_once = [together or len(run) for run in runs]
    asked, lines = _asked(accesses, runs, np.repeat(np.arange(len(gpcs)), sms_of_gpc), at_once, warmed_up_by)
    machine = _machine(
        pace, gpu, sms_of_gpc, max(round(l1_bytes / LINE_BYTES), 1) if cached else 0, max(at_once, default=1)
    )
    state = gpc_events.state_of(asked, machine, lines)
    first = _first(asked, at_once)
    place = first - asked.first_of_sm[asked.sm_of_block[first]]
    starts = np.zeros(len(first))
    if begins is not None:
        of_sms = [times for of_gpc in begins for times in of_gpc]
        starts = np.array(
            [
                of_sms[sm][at % len(of_sms[sm])]
                for sm, at in zip(asked.sm_of_block[first].tolist(), place.tolist(), strict=True)
            ]
        )
    gpc_events.run(asked, machine, _drawn(pace, sms_of_gpc, machine.lines), state, first, starts)
    ends = [state.ends[begin:end] for begin, end in pairwise(asked.first_of_sm.tolist())]
    traffic = MergedTraffic(
        blocks=int(np.count_nonzero(asked.counts)),
        loaded=int(state.loaded.sum()),
        asked=int(state.asked.sum()),
        requests=int(state.requests.sum()),
    )
    return traffic, [_table(ends[begin:end]) for begin, end in pairwise(np.append(0, np.cumsum(sms_of_gpc)).tolist())]


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


def _table(rows: Sequence[Floats]) -> Floats:
    """Rows of numbers side by side, the shorter ones filled up with zeros."""
    found = np.zeros((len(rows), max([1, *(len(row) for row in rows)])))
    for own, row in zip(found, rows, strict=True):
        own[: len(row)] = row
    return found


def _asked(
    accesses: LineAccesses, runs: Sequence[Integers], gpc_of_sm: Integers, at_once: Sequence[int], warmed_up_by: int
) -> tuple[Asked, int]:
    """What the blocks of each SM ask for, with local memory that no other SM has, and how many lines that are."""
    from .gpc_events import Asked

    first_of_sm = np.append(0, np.cumsum([len(run) for run in runs]))
    blocks = np.concatenate([*runs, np.zeros(0, np.int64)]).astype(np.int64)
    sm_of_block = np.repeat(np.arange(len(runs)), np.diff(first_of_sm))
    turn = np.arange(len(blocks)) - first_of_sm[sm_of_block]
    places = np.array(at_once, np.int64)[sm_of_block]
    by_number = np.argsort(blocks)
    at = np.flatnonzero(np.isin(accesses.block, blocks))
    block = by_number[np.searchsorted(blocks[by_number], accesses.block[at])]
    order = np.lexsort((accesses.warp[at], accesses.step[at], accesses.trip[at], block))
    at, block = at[order], block[order]
    trip, line, sm = accesses.trip[at], accesses.line[at], sm_of_block[block]
    stack = (turn[block] % places[block] << STACK_BITS) + (sm << _SM_BITS)
    lines, line = np.unique(np.where(line >= LOCAL_LINES, line + stack, line), return_inverse=True)
    begins = np.flatnonzero(np.append(True, (np.diff(block) != 0) | (np.diff(trip) != 0))[: len(at)])
    trip_of_block = np.searchsorted(block[begins], np.arange(len(blocks) + 1))
    return Asked(
        first_of_sm=first_of_sm,
        gpc_of_sm=gpc_of_sm,
        sm_of_block=sm_of_block,
        following=_following(turn, places, np.diff(first_of_sm)[sm_of_block], trip_of_block),
        counts=turn >= warmed_up_by,
        trip_of_block=trip_of_block,
        number=trip[begins],
        entry_of_trip=np.append(begins, len(at)),
        line=line,
        of_sm=_numbered(sm * len(lines) + line),
        of_gpc=_numbered(gpc_of_sm[sm] * len(lines) + line),
        words=accesses.words[at],
        load=accesses.load[at],
    ), len(lines)


def _following(turn: Integers, places: Integers, of_sm: Integers, trip_of_block: Integers) -> Integers:
    """The block that begins when one ends, -1 if there is none; those without loads are passed over."""
    following = np.full(len(turn), -1)
    for block in range(len(turn) - 1, -1, -1):
        after = block + int(places[block])
        if turn[block] + places[block] < of_sm[block]:
            following[block] = after if trip_of_block[after] < trip_of_block[after + 1] else following[after]
    return following


def _first(asked: Asked, at_once: Sequence[int]) -> Integers:
    """The blocks that begin first, in each place of each SM."""
    first = []
    for number, (begin, end) in zip(at_once, pairwise(asked.first_of_sm.tolist()), strict=True):
        for block in range(begin, min(begin + number, end)):
            first.append(
                block if asked.trip_of_block[block] < asked.trip_of_block[block + 1] else asked.following[block]
            )
    return np.array([block for block in first if block >= 0], np.int64)


def _numbered(keys: Integers) -> Integers:
    """The keys themselves, or numbers without gaps in their place where they leave many out."""
    if int(keys.max(initial=0)) < 4 * len(keys):
        return keys
    return np.unique(keys, return_inverse=True)[1]


@cache
def _speeds(blocks: int) -> Floats:
    """What of an SM each of up to so many blocks has that it works for at once, the oldest first (`Shares.oldest_share`)."""
    left = (1.0 - shares().oldest_share) ** np.arange(blocks)
    table = [
        np.where(np.arange(blocks) < number, left / left[: max(number, 1)].sum(), 0.0) for number in range(blocks + 1)
    ]
    return np.array(table)


def _machine(pace: Pace, gpu: Gpu, sms_of_gpc: Integers, lines: int, places: int) -> Machine:
    """Numbers of the GPU, of which some GPCs are simulated together, or one for all."""
    from .gpc_events import Machine

    of_dram = float(sms_of_gpc.sum()) / gpu.sm_count if len(sms_of_gpc) == 1 else 1.0
    return Machine(
        lines=lines,
        speeds=_speeds(places),
        ahead=pace.ahead,
        other_lines_cycles=float(gpu.l2_latency_cycles) if pace.share < 1.0 else 0.0,
        sector_cycles=float(pace.sector_cycles),
        line_cycles=float(pace.line_cycles),
        l2_sector_cycles=SECTOR_BYTES
        * gpu.boost_clock_hz
        * gpu.sm_count
        / sms_of_gpc
        / pace.share
        / gpu.l2_read_bytes_per_s,
        dram_sector_cycles=SECTOR_BYTES * gpu.boost_clock_hz / gpu.dram_read_bytes_per_s / of_dram / pace.share,
        l2_latency_cycles=float(gpu.l2_latency_cycles),
        dram_latency_cycles=float(gpu.dram_latency_cycles),
        merging_cycles=float(shares().merging_cycles),
        merged=gpu.l2_requests_merged,
        others_ask=len(sms_of_gpc) == 1 and pace.gpcs_of_line > 1.0,
    )


def _drawn(pace: Pace, sms_of_gpc: Integers, lines: int) -> Drawn:
    """Random numbers, the same every time."""
    from scipy.special import ndtri

    from .gpc_events import Drawn

    works, slices = [], []
    for number in range(len(sms_of_gpc)):
        rng = np.random.default_rng(_SEED + number)
        works.append(pace.works_cycles * (1.0 + shares().works_spread * rng.standard_normal(_DRAWN)))
        slices.append(2.0 * shares().slice_cycles * rng.random(_DRAWN))
    rng = np.random.default_rng(_SEED)
    held = rng.random(_DRAWN) >= pace.in_dram
    first = rng.random(_DRAWN) ** (1.0 / max(pace.gpcs_of_line - 1.0, 1e-9))
    return Drawn(
        works=np.stack(works),
        slices=np.stack(slices),
        held=held,
        others=ndtri(np.clip(1.0 - first, 1e-9, 1.0 - 1e-9)),
        places=np.random.default_rng(_SEED).integers(max(lines, 1), size=_DRAWN + 1),
    )
