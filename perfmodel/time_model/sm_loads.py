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
from ..machine_code.issue_table import IssueTable, Wait
from ..profiles.load_streams import CUT, LoadStreams
from ..profiles.warp_traces import MemoryDemand, WarpTraces

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Loads:
    """Chances of loads to be missed by L1 and to wait for DRAM.

    Of sectors that a block asks for first, its own and those that are ``common`` to blocks all over the grid, and of sectors that
    it asks for ``again``. L2 is asked for the part ``bulk_asked`` of what bulk copies bring, and for ``copies_asked`` of what
    asynchronous copies past L1 do: some answers serve several SMs. ``behind_l1``: sectors of the launch that go there.
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
    copies_asked: float = 1.0
    behind_l1: float = 0.0


def loads_of(traces: WarpTraces, counts: Counts, launch: Launch, blocks_per_sm: int, gpu: Gpu) -> Loads:
    """The chances, so that as many sectors pass L1 and as many bytes come from DRAM as the counts say.

    What a block shares with blocks all over the grid stays in L1 while what it asks for alone comes and goes: L1 misses the
    latter first. Blocks of the first wave ask together for what nobody has read before, so that others than the first wait for
    it, too; no block waits for more than DRAM gives in all. Of a pair of sectors that DRAM gives together, the second one is in
    L2; so is what a block has asked for before, as long as its first requests account for all that DRAM gives. Asynchronous
    copies past L1 always go behind it, also where counts are of L2 alone, whose answers may serve several SMs.
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
    copied = scale * float(memory.requests @ copied_past_l1(memory, traces.table))
    of_copies = _first_of_copies(traces)[:end] if copied else np.zeros(end, np.bool_)
    own_copied = followed_scale * float(loads.sectors[:end][~common & of_copies].sum())
    all_copied = followed_scale * float(loads.sectors[:end][common & of_copies].sum())
    behind, of_l1 = missed_sectors(counts), float(counts.l1_missed_sectors)
    copies_asked = min(1.0, float(counts.l2_read_sectors) / max(of_l1 or asked, 1.0))
    if copied and of_l1:  # what copies bring is among them
        asked -= scale * float((memory.requests * memory.sectors) @ (copied_past_l1(memory, traces.table) > 0))
        own, of_all, missed = own - own_copied, of_all - all_copied, max(0.0, missed - copied)
        first, own_copied, all_copied = own + of_all, 0.0, 0.0
    first_missed = min(1.0, missed / own) if own else 0.0
    common_missed = min(1.0, max(0.0, missed - own) / of_all) if of_all else 0.0
    if copied and not of_l1:
        behind = copied + first_missed * (own - own_copied) + common_missed * (of_all - all_copied)
    again = max(0.0, missed - first) / max(asked - first, 1.0)
    of_stores = filled_for_stores(traces, counts, launch, gpu)
    fills = (float(counts.dram_read_bytes) / SECTOR_BYTES - of_stores) / gpu.l2_fill_sectors
    fresh = followed_scale * fresh_requests(loads, gpu)[:end]
    own_fresh = float(fresh[~common & ~of_copies].sum()) + scale * bulk.own_fresh
    common_fresh = float(fresh[common & ~of_copies].sum()) + scale * bulk.common_fresh
    own_missing = first_missed * own_fresh + float(fresh[~common & of_copies].sum())
    common_missing = common_missed * common_fresh + float(fresh[common & of_copies].sum())
    far, joint, given = [], [], max(0.0, fills)
    for missing, least in ((own_missing, 1.0), (common_missing, _most_common(traces, gpu))):
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
        copies_asked=copies_asked,
        behind_l1=behind,
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


def dram_share(loads: Loads, counts: Counts, gpu: Gpu) -> float:
    """Bytes that DRAM gives for each byte behind L1."""
    missed = loads.behind_l1 * SECTOR_BYTES
    return min(float(gpu.l2_fill_sectors), float(counts.dram_read_bytes) / missed) if missed else 0.0


def copied_past_l1(memory: MemoryDemand, table: IssueTable) -> Floats:
    """Sectors that L2 sends for each asynchronous copy past L1, which keeps none of them; 0 for other instructions.

    A sector whose halves go to different sectors of shared memory is sent for each of them (`uncached_copy_sectors`). Archives
    that do not say so have as many as are touched.
    """
    copies = (table.wait == Wait.ASYNC_COPY) & (table.past_l1 > 0)
    return np.where(copies, np.where(memory.past_l1 > 0, memory.past_l1, memory.sectors), 0.0)


def _first_of_copies(traces: WarpTraces) -> NDArray[np.bool_]:
    """Which groups of sectors are asked for by copies past L1."""
    loads = traces.loads
    ends = loads.offsets[np.arange(traces.blocks + 1) * traces.warps_per_block]
    block = np.repeat(np.arange(traces.blocks), np.diff(ends))
    known = (loads.instruction != CUT) & (loads.group >= 0)
    copies = known & (copied_past_l1(traces.memory, traces.table) > 0)[np.where(known, loads.instruction, 0)]
    found = np.zeros(int(loads.group_offsets[-1]), np.bool_)
    found[loads.group_offsets[block[copies]] + loads.group[copies]] = True
    return found


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
