"""What passes L1 and L2 in a launch: sectors and bytes, from sampled blocks and the footprint of the whole grid.

L1 is simulated for a few SMs with the loads of blocks that are resident together (`l1`); loads past L1 and asynchronous copies
of 16 bytes ask L2 for all that they read. DRAM traffic is the launch's distinct sectors (`footprint`), read once, plus what a
row or plane of blocks loads again after L2 has lost it. L2 is cold at the begin; what is written and still lies in it at the end
does not count as DRAM traffic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..compiler.resources import Resources
from ..core.constants import SECTOR_BYTES
from ..core.counts import Counts
from ..gpus.gpu import Gpu
from ..launch.launch import KernelCall, Launch
from ..simulator.access import Action, WarpAccess
from ..simulator.execution import Code, execute_code
from ..simulator.global_memory import Segment
from ..simulator.simulation import Budget, Mode
from .access_counts import BLOCK_TOTALS, AccessCounts
from .block_schedule import Schedule, position_of, residency, schedule_blocks
from .footprint import Union, affine_shifts, nothing, random_union, union_sectors
from .l1 import l1_traffic, launch_rates
from .l2 import kept_bytes, local_traffic, refilled_sectors
from .request_coalescing import AskedShares, asked_shares
from .trace import WORD_BYTES, Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Hierarchy:
    """Traffic behind L1 of one launch.

    ``l2_read_sectors`` is what loads miss in L1 and what passes it by, local memory's with it; ``instruction_read_sectors``
    what instruction caches miss. ``relative_error`` is the half width of the 95 % interval of the L1 miss rate over the
    sampled SMs; ``exact`` says that the footprint of the grid follows from that of its blocks; ``notes`` says what was
    estimated.
    """

    l1_hit_rate: float
    l2_read_sectors: float
    instruction_read_sectors: float
    l2_write_sectors: float
    dram_read_bytes: float
    dram_write_bytes: float
    relative_error: float
    exact: bool
    notes: tuple[str, ...]
    blocks_executed: int


class CacheObserver:
    """Watches the blocks of a launch from which the traffic of its caches follows; one run may serve other observers too.

    Args:
        launch: the launch.
        gpu: caches and SMs.
        resources: registers, shared memory and stack of the compiled kernel.
        shape: the grid's extents as the kernel sees them (`LaunchCounts.shape`); the launch's own when None.
        seed: of the SMs and blocks that are drawn.
        also: further blocks that the run executes for other observers; they are left out here.
    """

    def __init__(
        self,
        launch: Launch,
        gpu: Gpu,
        resources: Resources,
        *,
        shape: tuple[int, ...] | None = None,
        seed: int = 0,
        also: Sequence[int] = (),
    ) -> None:
        self.launch, self.gpu, self.resources = launch, gpu, resources
        self.resident, self.l1_bytes = residency(launch, gpu, resources)
        axes = shape or tuple(extent for extent in launch.grid if extent > 1) or (1,)
        self.schedule = schedule_blocks(launch, axes, gpu, self.resident, np.random.default_rng(seed))
        own = self.schedule.all_blocks()
        self.blocks = np.union1d(own, np.array(also, np.int64))
        """Linear indices of the blocks to execute, in order."""
        self._own = np.isin(self.blocks, own)
        self._trace = Trace(self.schedule.footprint_blocks())
        self._accesses = AccessCounts(len(self.blocks))

    def access(self, access: WarpAccess) -> None:
        """Take note of one access."""
        self._trace.access(access)
        self._accesses.access(access)

    def hierarchy(
        self,
        segments: Sequence[Segment],
        counts: Counts,
        *,
        trips: Mapping[int, int] | None = None,
        instruction_read_sectors: float = 0.0,
    ) -> Hierarchy:
        """The traffic, after ``blocks`` have been executed.

        Args:
            segments: buffers of the run (`Simulation.segments`).
            counts: counts of the whole launch, local memory's from the machine code.
            trips: round trip of each global load; each has its own when None.
            instruction_read_sectors: what instruction caches miss.
        """
        launch, gpu, schedule = self.launch, self.gpu, self.schedule
        trips = trips or {}
        past_l1 = frozenset(one.instruction for one in self._accesses.instructions() if one.uncached_sectors)
        column = BLOCK_TOTALS.index("uncached_sectors")
        tables = self._accesses.tables()
        scale = float(launch.blocks) / int(self._own.sum())
        uncached, uncached_loads = (
            scale * sum(float(table[self._own, column].sum()) for site, table in tables if site.action in actions)
            for actions in (tuple(Action), (Action.LOAD,))
        )
        copies = any(site.action is Action.ASYNC_COPY for site, _ in tables)
        lines = self._trace.lines(trips, without=past_l1)
        ramp_up = min(self.resident * gpu.sm_count / launch.blocks, 1.0)
        sampled = [l1_traffic(lines, run, schedule.together, self.l1_bytes, by_age=copies) for run in schedule.runs]
        rates = launch_rates(sampled, ramp_up)
        asked = AskedShares()
        if schedule.gpc:
            turns = max(min(self.resident, launch.blocks / gpu.sm_count), 1.0) if copies else 1.0
            by_copies = self._trace.lines(trips, only=past_l1)
            asked = asked_shares(
                lines, by_copies, schedule.gpc, self.l1_bytes, gpu.l2_requests_merged, rates, ramp_up / turns
            )
        every_load = rates.asked_per_block * float(launch.blocks)
        cached = (
            every_load
            if float(counts.async_copy_requests)
            else max(float(counts.global_load_sectors) - uncached_loads, 0.0)
        )
        missed = cached * rates.missed
        read, written = (_grid_union(self._trace, schedule, segments, store) for store in (False, True))
        refilled = refilled_sectors(read, written, schedule.shape, gpu, self.resident * gpu.sm_count)
        local = local_traffic(
            float(counts.local_load_sectors),
            float(counts.local_store_sectors),
            float(self.resident * launch.threads_per_block) * self.resources.stack_bytes_per_thread,
            float(self.l1_bytes),
            gpu.l2_bytes / gpu.sm_count,
        )
        kept = kept_bytes(SECTOR_BYTES * read.sectors[-1], SECTOR_BYTES * written.sectors[-1], gpu)
        exact = read.exact and written.exact
        loads = cached + uncached
        return Hierarchy(
            l1_hit_rate=1.0 - ((missed + uncached) / loads if loads else 0.0),
            l2_read_sectors=missed * asked.missed + uncached * asked.past_l1 + local.l2_read_sectors,
            instruction_read_sectors=instruction_read_sectors,
            l2_write_sectors=float(counts.global_store_sectors + counts.bulk_write_sectors) + local.l2_write_sectors,
            dram_read_bytes=SECTOR_BYTES * (refilled + local.dram_read_sectors),
            dram_write_bytes=SECTOR_BYTES * (written.sectors[-1] + local.dram_write_sectors) - float(kept),
            relative_error=rates.relative_error,
            exact=exact,
            notes=() if exact else ("the grid's footprint is estimated: blocks' addresses do not just shift",),
            blocks_executed=int(self._own.sum()),
        )


def memory_hierarchy(
    kernel: Code,
    launch: Launch,
    call: KernelCall,
    gpu: Gpu,
    counts: Counts,
    resources: Resources,
    *,
    trips: Mapping[int, int] | None = None,
    instruction_read_sectors: float = 0.0,
    shape: tuple[int, ...] | None = None,
    seed: int = 0,
    budget: Budget | None = None,
) -> Hierarchy:
    """Traffic behind L1 of one launch on a GPU, from a run of its own; arguments as for `CacheObserver`.

    Raises:
        SimulationError: the kernel cannot be executed on the CPU.
    """
    caches = CacheObserver(launch, gpu, resources, shape=shape, seed=seed)
    run = execute_code(kernel, launch, call, mode=Mode.TRACE, blocks=caches.blocks, budget=budget, observers=[caches])
    return caches.hierarchy(run.segments, counts, trips=trips, instruction_read_sectors=instruction_read_sectors)


def with_hierarchy(counts: Counts, hierarchy: Hierarchy) -> Counts:
    """The counts with the traffic behind L1 put in."""
    return replace(
        counts,
        l2_read_sectors=hierarchy.l2_read_sectors,
        l2_instruction_sectors=hierarchy.instruction_read_sectors,
        l2_write_sectors=hierarchy.l2_write_sectors,
        dram_read_bytes=hierarchy.dram_read_bytes,
        dram_write_bytes=hierarchy.dram_write_bytes,
    )


def _grid_union(trace: Trace, schedule: Schedule, segments: Sequence[Segment], store: bool) -> Union:
    """Distinct sectors that the launch reads or writes, summed over its buffers."""

    def words(block: int, segment: Segment) -> NDArray[np.int64]:
        footprint = trace.footprint(block)
        found = footprint.written if store else footprint.read
        low, high = np.searchsorted(found, [segment.start // WORD_BYTES, _end(segment)])
        return found[low:high]

    shape = schedule.shape
    total = nothing(len(shape))
    for segment in segments:
        centre = words(schedule.middle, segment)
        if not (len(centre) or any(len(words(block, segment)) for block in schedule.checked.tolist())):
            continue
        around = [words(block, segment) for block in schedule.neighbours]
        shifts = affine_shifts(centre, around)
        union = None
        if shifts is not None:
            steps = tuple(-shift for shift in shifts)
            moved = [centre, *(found - shift for found, shift in zip(around, shifts, strict=True))]
            origin = max(moved, key=len) - int(np.dot(steps, schedule.centre))
            union = union_sectors(origin, steps, shape, segment.start // WORD_BYTES, _end(segment))
            for block in schedule.checked.tolist():
                predicted = origin + int(np.dot(steps, position_of(block, shape)))
                if not np.isin(words(block, segment), predicted).all():
                    union = None
        sectors = len(np.unique(centre * WORD_BYTES // SECTOR_BYTES))
        total += union or random_union(float(sectors), shape, segment.size_bytes / SECTOR_BYTES)
    return total


def _end(segment: Segment) -> int:
    return -(-(segment.start + segment.size_bytes) // WORD_BYTES)
