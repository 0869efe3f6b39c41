"""Reads of a sector by several SMs that reach L2 as one: the request coalescer between the SMs of a GPC and L2.

While L2 has not answered the first request for a sector, further ones by SMs of the same GPC join it, up to
``Gpu.l2_requests_merged`` together; SMs of different GPCs send their own (Nsight Compute manual, unit ``lrc``; micro-benchmarks
``common_read`` and ``lagged`` on an H200). L2 answers within `Shares.merging_cycles`, and where the sector comes from DRAM by the
difference of the two latencies later.

Blocks of the first wave start together, and loads that wait keep them in step: an SM that comes late finds in L2 what the first
one fetched from DRAM, and catches up. So the n-th round trips of all SMs begin together, and within one of them each SM asks for
one sector after the other. Blocks of later waves begin one after the other, in the order of the grid. Where blocks of an SM
take turns, as asynchronous copies make them, each is in step with blocks of other SMs for its share of the time.

In long loops SMs drift apart for as long as they compute, and of what they could share they share a part by chance, in all waves.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core.constants import SECTORS_PER_LINE, ceil_div
from ..gpus.gpu import Gpu
from .fitted_shares import shares
from .l1 import missed_sectors
from .trace import SECTORS_OF_MASK, LineAccesses

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

_SMS_PER_TPC = 2


def sms_of_gpcs(gpu: Gpu) -> Integers:
    """SMs of each GPC, the TPCs (two SMs each) spread as evenly as they go.

    >>> from perfmodel.gpus.catalogue import load_gpu
    >>> sms_of_gpcs(load_gpu("h200"))
    array([16, 16, 16, 16, 16, 16, 18, 18])
    """
    tpcs = ceil_div(gpu.sm_count, _SMS_PER_TPC)
    gpcs = np.arange(gpu.gpc_count, dtype=np.int64)
    return np.sort((tpcs + gpcs) // gpu.gpc_count) * _SMS_PER_TPC


@functools.lru_cache(maxsize=1 << 10)
def blocks_of_gpcs(blocks: int, gpu: Gpu) -> tuple[int, ...]:
    """How many blocks each GPC of an idle GPU gets, of so many that each SM has one at most; consecutive ones go to one GPC.

    The first ones go to one GPC (`Shares.blocks_of_one_gpc`). The others are dealt out to the GPCs in turn, one for each TPC, and
    when all TPCs have one, a second one (micro-benchmark ``where_blocks`` on an H200, 12 grids).

    >>> from perfmodel.gpus.catalogue import load_gpu
    >>> [blocks_of_gpcs(blocks, load_gpu("h200")) for blocks in (16, 64)]
    [(9, 1, 1, 1, 1, 1, 1, 1), (12, 8, 8, 8, 7, 7, 7, 7)]
    """
    sizes = sms_of_gpcs(gpu).tolist()
    first = min(blocks, shares().blocks_of_one_gpc, sizes[0])
    tpcs = np.array([size // _SMS_PER_TPC for size in sizes])
    tpcs[0] -= ceil_div(first, _SMS_PER_TPC)
    dealt = np.zeros(len(sizes), np.int64)
    dealt[0] = first
    left = blocks - first
    for _ in range(_SMS_PER_TPC):
        for turn in range(int(tpcs.max())):
            taking = np.flatnonzero(tpcs > turn)[:left]
            dealt[taking] += 1
            left -= len(taking)
    return tuple(dealt.tolist())


def gpcs_of_blocks(blocks: int, gpu: Gpu) -> Integers:
    """GPC of each of the first blocks of a grid, shape ``(blocks,)``; once every SM has one, it is dealt out anew.

    >>> from perfmodel.gpus.catalogue import load_gpu
    >>> np.bincount(gpcs_of_blocks(132 + 16, load_gpu("h200"))).tolist()
    [25, 17, 17, 17, 17, 17, 19, 19]
    """
    whole, rest = divmod(blocks, gpu.sm_count)
    dealt = [*[tuple(sms_of_gpcs(gpu).tolist())] * whole, blocks_of_gpcs(rest, gpu)]
    layers = [np.repeat(np.arange(len(of_gpc)), of_gpc)[: gpu.sm_count] for of_gpc in dealt]
    return np.concatenate(layers).astype(np.int64)


def requests_in_step(sms: int, gpu: Gpu, sectors: int = 1) -> int:
    """Requests that L2 sees for so many sectors when blocks on so many SMs each miss one of them in turn at the same time.

    >>> from perfmodel.gpus.catalogue import load_gpu
    >>> h200 = load_gpu("h200")
    >>> requests_in_step(132, h200), requests_in_step(5, h200)  # 6 · 16 / 4 + 2 · ⌈18 / 4⌉; 4 and 1
    (34, 2)
    >>> requests_in_step(16, h200), requests_in_step(33, h200)  # 9 of 16 on one GPC; 12 of 33, and 3 on each of the others
    (10, 10)
    >>> [requests_in_step(132, h200, sectors) for sectors in (2, 4, 8, 16)]  # common_read counts 36.3, 36, 64, 128
    [36, 36, 64, 128]
    >>> requests_in_step(68, load_gpu("rtx-2080-ti"))
    68
    """
    if gpu.l2_requests_merged == 1 or sectors >= sms_of_gpcs(gpu).max():
        return sms
    of_gpc = np.array(blocks_of_gpcs(sms, gpu), np.int64)
    asking = (of_gpc[:, None] + np.arange(sectors)) // sectors
    return int(ceil_div(asking, gpu.l2_requests_merged).sum())


@functools.lru_cache(maxsize=1 << 16)
def requests_in_turns(across: int, down: int, resident: int, gpu: Gpu) -> tuple[float, float]:
    """Requests for each read of what a row of the grid's blocks reads in common, and of what a column does.

    Only the first wave's blocks are in step with others. Those that share an SM, up to ``resident``, take turns, so that each
    is in step with blocks of other SMs for its share of the time.

    >>> from perfmodel.gpus.catalogue import load_gpu
    >>> h200 = load_gpu("h200")
    >>> requests_in_turns(132, 1, 1, h200) == (34 / 132, 1.0)
    True
    >>> [round(share, 3) for share in requests_in_turns(1320, 1, 2, h200)]  # 2 of 10 blocks of an SM; half of 3/4 is saved
    [0.925, 1.0]
    """
    if gpu.l2_requests_merged == 1:
        return 1.0, 1.0
    first = np.arange(min(across * down, max(resident, 1) * gpu.sm_count), dtype=np.int64)
    gpc = gpcs_of_blocks(len(first), gpu)
    turns = max(len(first) / gpu.sm_count, 1.0) * across * down

    def share(read: Integers) -> float:
        readers = np.bincount(gpc * (int(read.max()) + 1) + read)
        return 1.0 - float(len(first) - ceil_div(readers, gpu.l2_requests_merged).sum()) / turns

    return share(first // across), share(first % across)


def shares_in_turns(across: Integers, down: Integers, resident: Integers, gpu: Gpu) -> tuple[Floats, Floats]:
    """`requests_in_turns` of n launches, each of shape ``(n,)``."""
    launches = zip(*(column.tolist() for column in np.broadcast_arrays(across, down, resident)), strict=True)
    of_rows, of_columns = np.array([requests_in_turns(*launch, gpu) for launch in launches]).reshape(-1, 2).T
    return of_rows, of_columns


@dataclass(frozen=True, slots=True, kw_only=True)
class InStep:
    """Parts of what SMs could ask for together that they do ask for together: in the first wave, and in later ones."""

    first: float
    later: float


def in_step(trips: int, works_cycles: float, gpu: Gpu) -> InStep:
    """How long SMs stay in step that begin together.

    Args:
        trips: round trips of a warp.
        works_cycles: cycles for which an SM works in one of them.
        gpu: the GPU.

    >>> from perfmodel.gpus.catalogue import load_gpu
    >>> in_step(4, 2000.0, load_gpu("h200")) == InStep(first=1.0, later=1.0)
    True
    """
    fitted = shares()
    begun = min(fitted.trips_in_step / trips, 1.0)
    waiting = gpu.dram_latency_cycles / (gpu.dram_latency_cycles + works_cycles)
    return InStep(
        first=begun + (1.0 - begun) * max(waiting, fitted.met_share), later=begun + (1.0 - begun) * fitted.met_share
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How fast SMs ask: cycles of a round trip, from one sector to the next, and from the start of a block to the next one's.

    All blocks of the first wave begin together: ``start_cycles`` is 0.
    """

    trip_cycles: float
    sector_cycles: float
    start_cycles: float = 0.0


@dataclass(frozen=True, slots=True)
class MergedTraffic:
    """Sectors that the SMs of some GPCs ask for over ``blocks`` blocks, and requests for a sector that L2 sees of them."""

    blocks: int
    asked: int
    requests: int

    @property
    def share(self) -> float:
        """Requests for each sector that an SM asks for; 1 where nothing is asked."""
        return self.requests / self.asked if self.asked else 1.0


def share_of_launch(
    first: MergedTraffic, later: MergedTraffic, asked_per_block: float, ramp_up: float, together: InStep
) -> float:
    """Requests for each sector that an SM asks for, of a launch whose blocks ask for so much each.

    Args:
        first: of blocks of the first wave.
        later: of blocks of later ones.
        asked_per_block: sectors, over the whole launch.
        ramp_up: part of the blocks that are in the first wave.
        together: parts that are asked for together.

    >>> half = MergedTraffic(blocks=2, asked=4, requests=2)
    >>> share_of_launch(half, half, 1.0, 0.5, InStep(first=1.0, later=0.0))  # all that is asked is the first wave's
    0.5
    """
    of_first = ramp_up * first.asked / max(first.blocks, 1)
    part = min(of_first / asked_per_block, 1.0) if asked_per_block else 0.0
    saved = part * together.first * (1.0 - first.share) + (1.0 - part) * together.later * (1.0 - later.share)
    return 1.0 - saved


def merged_traffic(
    accesses: LineAccesses,
    gpcs: Sequence[Sequence[Integers]],
    l1_bytes: float,
    pace: Pace,
    gpu: Gpu,
    *,
    cached: bool = True,
    warmed_up_by: int = 0,
) -> MergedTraffic:
    """Traffic of the SMs of some GPCs, each of which runs the given blocks.

    Args:
        accesses: of the blocks.
        gpcs: for each SM of each GPC its blocks.
        l1_bytes: of an SM.
        pace: how fast the SMs ask.
        gpu: the GPU.
        cached: whether L1 keeps anything.
        warmed_up_by: how many of the first blocks of each SM do not count.

    >>> from perfmodel.gpus.catalogue import load_gpu
    >>> both = LineAccesses(*(np.array(v) for v in ([0, 1], [0, 0], [1, 1], [7, 7], [3, 3], [True, True])))
    >>> pace = Pace(trip_cycles=1000.0, sector_cycles=1.0)
    >>> merged_traffic(both, [[np.array([0]), np.array([1])]], 1024, pace, load_gpu("h200"))  # two SMs miss two sectors, ask once
    MergedTraffic(blocks=2, asked=4, requests=2)
    """
    asked = requests = 0
    for sms in gpcs:
        line, mask, time = (
            np.concatenate(column)
            for column in zip(
                *(_missed(accesses, run, l1_bytes, pace, cached, warmed_up_by) for run in sms), strict=True
            )
        )
        sectors = SECTORS_OF_MASK[mask]
        same, first = np.unique(line << SECTORS_PER_LINE | mask, return_inverse=True)
        begins = np.full(len(same), np.inf)
        np.minimum.at(begins, first, time)
        answered = gpu.dram_latency_cycles - gpu.l2_latency_cycles + shares().merging_cycles
        window = np.where(time - begins[first] < answered, -1, time // shares().merging_cycles).astype(np.int64)
        together, number = np.unique(np.stack([first, window]), axis=1, return_counts=True)
        of_same = SECTORS_OF_MASK[same & (len(SECTORS_OF_MASK) - 1)]
        asked += int(sectors.sum())
        requests += int((of_same[together[0]] * ceil_div(number, gpu.l2_requests_merged)).sum())
    return MergedTraffic(
        blocks=sum(len(run) - warmed_up_by for sms in gpcs for run in sms), asked=asked, requests=requests
    )


def _missed(
    accesses: LineAccesses, run: Integers, l1_bytes: float, pace: Pace, cached: bool, warmed_up_by: int
) -> tuple[Integers, Integers, Floats]:
    """Line, sectors of it and time, in cycles, of all that one SM asks L2 for."""
    chosen = np.flatnonzero(np.isin(accesses.block, run))
    begins = accesses.block[chosen] * pace.start_cycles + accesses.trip[chosen] * pace.trip_cycles
    in_turn = np.lexsort((accesses.warp[chosen], accesses.block[chosen], begins))
    order, begins = chosen[in_turn], begins[in_turn]
    masks = missed_sectors(accesses, order, l1_bytes) if cached else accesses.sectors[order]
    before = np.cumsum(SECTORS_OF_MASK[masks]) - SECTORS_OF_MASK[masks]
    of_trip = np.searchsorted(begins, begins)
    time = begins + pace.sector_cycles * (before - before[of_trip])
    asking = (masks > 0) & np.isin(accesses.block[order], run[warmed_up_by:])
    return accesses.line[order][asking], masks[asking], time[asking]
