"""Reads of a sector by several SMs that reach L2 as one: the request coalescer between the SMs of a GPC and L2.

SMs of one GPC that miss a sector at the same time send one request for every ``Gpu.l2_requests_merged`` of them; SMs of
different GPCs send their own (Nsight Compute manual, unit ``lrc``; micro-benchmark ``common_read`` on an H200).

Blocks of the first wave start together, and loads that wait keep them in step: an SM that comes late finds in L2 what the first
one fetched from DRAM, and catches up. So the SMs' round trips of the first wave are taken one after the other in step, and SMs
that miss the same sectors of a line in the same one share requests; later waves are in step with nobody. Where blocks of an SM
take turns, as asynchronous copies make them, each is in step with blocks of other SMs for its share of the time.

In long loops SMs drift apart for as long as they compute, and of what they could share they share a part by chance, in all waves.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core.constants import SECTORS_PER_LINE, ceil_div
from ..gpus.gpu import Gpu
from .fitted_shares import shares
from .l1 import L1Rates, in_lock_step, missed_sectors
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


def requests_in_step(sms: int, gpu: Gpu, sectors: int = 1) -> int:
    """Requests that L2 sees for so many sectors when SMs, taken GPC by GPC, each miss one of them in turn at the same time.

    >>> from perfmodel.gpus.catalogue import load_gpu
    >>> h200 = load_gpu("h200")
    >>> requests_in_step(132, h200), requests_in_step(5, h200)  # 6 · 16 / 4 + 2 · ⌈18 / 4⌉; 4 and 1
    (34, 2)
    >>> [requests_in_step(132, h200, sectors) for sectors in (2, 4, 8, 16)]  # common_read counts 36.3, 36, 64, 128
    [36, 36, 64, 128]
    >>> requests_in_step(68, load_gpu("rtx-2080-ti"))
    68
    """
    if gpu.l2_requests_merged == 1 or sectors >= sms_of_gpcs(gpu).max():
        return sms
    of_gpc = np.diff(np.minimum(np.cumsum(sms_of_gpcs(gpu)), sms), prepend=0)
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
    gpc = np.searchsorted(np.cumsum(sms_of_gpcs(gpu)), first % gpu.sm_count, side="right")
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


def share_in_step(ramp_up: float, trips: int, issue_cycles: float, gpu: Gpu) -> float:
    """Part of what SMs could ask for together that they do ask for together.

    Args:
        ramp_up: part of the blocks that are in the first wave; these begin in step.
        trips: round trips of a warp.
        issue_cycles: cycles for which an SM issues instructions in one of them.
        gpu: the GPU.

    >>> from perfmodel.gpus.catalogue import load_gpu
    >>> [round(share_in_step(0.5, trips, 2000.0, load_gpu("h200")), 3) for trips in (4, 64)]
    [0.5, 0.328]
    """
    fitted = shares()
    begun = min(fitted.trips_in_step / trips, 1.0)
    waiting = gpu.dram_latency_cycles / (gpu.dram_latency_cycles + issue_cycles)
    first = begun + (1.0 - begun) * max(waiting, fitted.met_share)
    return ramp_up * first + (1.0 - ramp_up) * (1.0 - begun) * fitted.met_share


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
    l1_bytes: float,
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
    accesses: LineAccesses, runs: list[NDArray[np.int64]], l1_bytes: float, merged: int, *, cached: bool = True
) -> MergedTraffic:
    """Traffic of SMs that run the given blocks, all of one SM at once; without ``cached`` no L1 keeps anything.

    >>> both = LineAccesses(*(np.array(v) for v in ([0, 1], [0, 0], [1, 1], [7, 7], [3, 3], [True, True])))
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


def _missed(accesses: LineAccesses, run: NDArray[np.int64], l1_bytes: float, cached: bool) -> NDArray[np.int64]:
    """Step, line and sectors of it, as one number, of all that one SM asks L2 for."""
    order = in_lock_step(accesses, run)
    masks = missed_sectors(accesses, order, l1_bytes) if cached else accesses.sectors[order]
    asking = masks > 0
    trips, lines = accesses.trip[order][asking], accesses.line[order][asking]
    return np.asarray(trips << 48 | lines << SECTORS_PER_LINE | masks[asking], np.int64)
