"""Which loads of a launch pass L1 and which wait for DRAM: chances of those that a block asks for first and of others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..core.constants import SECTOR_BYTES
from ..core.counts import Counts
from ..gpus.gpu import Gpu
from ..launch.launch import Launch
from ..machine_code.issue_table import Wait
from ..profiles.load_streams import CUT, LoadStreams
from ..profiles.warp_traces import MemoryDemand, WarpTraces

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Loads:
    """Chances of loads to be missed by L1 and to wait for DRAM.

    Of sectors that a block asks for first, its own and those that are ``common`` to blocks all over the grid, and of sectors that
    it asks for ``again``. L2 is asked for the part ``bulk_asked`` of what bulk copies bring: some answers serve several SMs.
    """

    first_missed: float
    first_far: float
    first_joint: float
    common_missed: float
    common_far: float
    common_joint: float
    again: float
    again_far: float
    bulk_asked: float = 1.0


def loads_of(traces: WarpTraces, counts: Counts, launch: Launch, blocks_per_sm: int, gpu: Gpu) -> Loads:
    """The chances, so that as many sectors pass L1 and as many bytes come from DRAM as the counts say.

    What a block shares with blocks all over the grid stays in L1 while what it asks for alone comes and goes: L1 misses the
    latter first. Blocks of the first wave ask together for what nobody has read before, so that others than the first wait for
    it, too; no block waits for more than DRAM gives in all. Of a pair of sectors that DRAM gives together, the second one is in
    L2; so is what a block has asked for before, as long as its first requests account for all that DRAM gives.
    """
    memory, loads, wait = traces.memory, traces.loads, traces.table.wait
    bulk = _bulk_loads(traces)
    scale = float(launch.blocks) / traces.observed
    waves = max(1.0, float(launch.blocks) / gpu.sm_count / max(blocks_per_sm, 1))
    end = loads.group_offsets[traces.observed]
    followed_scale = _followed_scale(traces, launch)
    common = loads.common[:end] > 0
    of_all = followed_scale * float(loads.sectors[:end][common].sum())
    own = followed_scale * float(loads.sectors[:end][~common].sum())
    of_all += scale * bulk.common_sectors
    own += scale * bulk.own_sectors
    first = own + of_all
    asked = scale * (float((memory.requests * memory.sectors) @ is_load(wait)) + bulk.own_sectors + bulk.common_sectors)
    missed = min(missed_sectors(counts), asked)
    first_missed = min(1.0, missed / own) if own else 0.0
    common_missed = min(1.0, max(0.0, missed - own) / of_all) if of_all else 0.0
    again = max(0.0, missed - first) / max(asked - first, 1.0)
    of_stores = filled_for_stores(traces, counts, launch, gpu)
    fills = (float(counts.dram_read_bytes) / SECTOR_BYTES - of_stores) / gpu.l2_fill_sectors
    fresh = followed_scale * fresh_requests(loads, gpu)[:end]
    own_fresh = float(fresh[~common].sum()) + scale * bulk.own_fresh
    common_fresh = float(fresh[common].sum()) + scale * bulk.common_fresh
    far, joint, given = [], [], max(0.0, fills)
    for missing, least in ((first_missed * own_fresh, 1.0), (common_missed * common_fresh, _most_common(traces, gpu))):
        share = min(1.0, max(0.0, fills) / max(missing, 1.0))
        far.append(share)
        joint.append(min(1.0, given / least) * (1.0 - share) / waves)
        fills -= missing
    left = max(0.0, fills) * gpu.l2_fill_sectors
    return Loads(
        first_missed=first_missed,
        first_far=far[0],
        first_joint=joint[0],
        common_missed=common_missed,
        common_far=far[1],
        common_joint=joint[1],
        again=min(1.0, again),
        bulk_asked=min(1.0, missed / first) if first else 1.0,
        again_far=min(1.0, left / (missed - first)) if missed > first else 0.0,
    )


def _most_common(traces: WarpTraces, gpu: Gpu) -> float:
    """Requests to DRAM that bring what one of the observed blocks shares with others, at least one: the most of any of them."""
    loads = traces.loads
    end = loads.group_offsets[: traces.observed + 1]
    fresh = np.append(0, np.cumsum(np.where(loads.common > 0, fresh_requests(loads, gpu), 0)))
    return float(np.diff(fresh[end]).max(initial=1))


def _followed_scale(traces: WarpTraces, launch: Launch) -> float:
    """Groups of loads of the launch for each that was followed: requests that were not kept touch as many."""
    loads, wait = traces.loads, traces.table.wait
    kept = loads.instruction[: loads.offsets[traces.observed * traces.warps_per_block]] != CUT
    all_of_them = float(traces.memory.requests @ (is_load(wait) & (wait != Wait.LOCAL_LOAD)))
    return float(launch.blocks) / traces.observed * max(1.0, all_of_them / max(float(np.count_nonzero(kept)), 1.0))


def filled_for_stores(traces: WarpTraces, counts: Counts, launch: Launch, gpu: Gpu) -> float:
    """Sectors that DRAM gives because they are changed in part while L2 does not hold them: what loads do not account for."""
    changed = float(first_parts(traces.memory, traces.table.wait) @ traces.memory.requests)
    fresh = float(fresh_requests(traces.loads, gpu)[: traces.loads.group_offsets[traces.observed]].sum())
    bulk, scale = _bulk_loads(traces), float(launch.blocks) / traces.observed
    asked = _followed_scale(traces, launch) * fresh + scale * (bulk.own_fresh + bulk.common_fresh)
    left = float(counts.dram_read_bytes) / SECTOR_BYTES - asked * gpu.l2_fill_sectors
    return min(scale * changed, max(0.0, left))


class _BulkLoads(NamedTuple):
    """What bulk copies of the observed blocks read: sectors, and pairs of which they have read none before."""

    own_sectors: float
    common_sectors: float
    own_fresh: float
    common_fresh: float


def _bulk_loads(traces: WarpTraces) -> _BulkLoads:
    phases = traces.phases
    if not len(phases):
        return _BulkLoads(0.0, 0.0, 0.0, 0.0)
    counted = bulk_events(traces, Wait.BULK_LOAD)
    parts = [
        float(values[counted & (phases.common == common)].sum())
        for values in (phases.sectors, phases.fresh)
        for common in (0, 1)
    ]
    return _BulkLoads(*parts)


def bulk_events(traces: WarpTraces, kind: Wait) -> NDArray[np.bool_]:
    """Which events of the observed blocks are bulk copies of a kind."""
    phases = traces.phases
    of_kind = (traces.table.wait[np.maximum(phases.instruction, 0)] == kind) & (phases.instruction != CUT)
    return np.asarray(of_kind & (phases.event_blocks(traces.warps_per_block) < traces.observed), np.bool_)


def fresh_requests(loads: LoadStreams, gpu: Gpu) -> NDArray[np.int64]:
    """Of each group how many requests to DRAM it may need: one for a pair of sectors, or for each of them."""
    return loads.fresh if gpu.l2_fill_sectors > 1 else loads.sectors


def missed_sectors(counts: Counts) -> float:
    """Sectors that L1 has not; where only what is asked of L2 was counted, these."""
    return max(float(counts.l1_missed_sectors), float(counts.l2_read_sectors))


def dram_share(counts: Counts, gpu: Gpu) -> float:
    """Bytes that DRAM gives for each byte behind L1."""
    missed = missed_sectors(counts) * SECTOR_BYTES
    return min(float(gpu.l2_fill_sectors), float(counts.dram_read_bytes) / missed) if missed else 0.0


def first_parts(memory: MemoryDemand, wait: NDArray[np.int64]) -> Floats:
    """Sectors of each request that a block changes in part and has not stored before; of atomics any may be the first."""
    stored = np.minimum(memory.partial_sectors, memory.sectors) * memory.first_stores
    return np.where(wait == Wait.GLOBAL_STORE, stored, np.where(is_atomic(wait), memory.sectors, 0.0))


def misses(memory: MemoryDemand, wait: NDArray[np.int64], loads: Loads) -> tuple[Floats, Floats]:
    """Chance of a request to go behind L1 though its sectors were asked for before, and the sectors that it then asks for.

    A request to many lines misses where any of them does. Atomics always go to L2.
    """
    lines = np.maximum(memory.lines, 1.0)
    chance = np.where(is_load(wait), np.minimum(1.0, loads.again * lines), 0.0)
    sectors = loads.again * memory.sectors / np.maximum(chance, 1e-12)
    atomics = wait == Wait.GLOBAL_ATOMIC
    return np.where(atomics, 1.0, chance), np.where(atomics, memory.sectors, np.where(chance > 0, sectors, 0.0))


def is_load(wait: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether an instruction loads from global or local memory."""
    return np.isin(wait, [Wait.GLOBAL_LOAD, Wait.LOCAL_LOAD, Wait.ASYNC_COPY])


def is_atomic(wait: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether an instruction is an atomic on global memory."""
    return np.isin(wait, [Wait.GLOBAL_REDUCTION, Wait.GLOBAL_ATOMIC])
