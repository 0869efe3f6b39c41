"""What passes L1 and L2 in a launch: sectors and bytes, from sampled waves of blocks and the footprint of the whole grid.

L1 is simulated for a few SMs with the loads of blocks that are resident together (`hierarchy_l1`); loads past L1 and asynchronous
copies of 16 bytes (`copy_sectors`) pass it by and ask L2 for all that they read. DRAM traffic is the launch's distinct sectors
(`hierarchy_footprint`), read once, plus what a row or plane of blocks loads again after L2 has lost it. L2 is cold at the begin;
what is written and still lies in it at the end does not count as DRAM traffic.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..compiler.resources import Resources
from ..core.constants import SECTOR_BYTES
from ..core.counts import Counts
from ..gpus.gpu import Gpu
from ..launch.launch import KernelCall, Launch
from ..machine_code.code_profile import CodeProfile
from ..profiles.matching.executed import ExecutedCode
from ..profiles.matching.load_trips import load_trips
from ..program.kernel import Kernel
from ..simulator.access import Action
from ..simulator.global_memory import Segment
from ..simulator.initialise import initialise
from ..simulator.program import Program
from ..simulator.simulation import Budget, Mode, simulate
from .access_counts import AccessCounts
from .block_schedule import Schedule, position_of, residency, schedule_blocks
from .footprint import Union, affine_shifts, nothing, random_union, union_sectors
from .instruction_fetch import instruction_sectors
from .l1 import L1Rates, l1_traffic, launch_rates
from .l2_capacity import kept_bytes, shared_l2_bytes
from .local_traffic import LocalTraffic, local_traffic
from .merging import AskedShares, asked_shares
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


def memory_hierarchy(
    kernel: Kernel,
    launch: Launch,
    call: KernelCall,
    gpu: Gpu,
    counts: Counts,
    resources: Resources,
    profile: CodeProfile | None = None,
    code: ExecutedCode | None = None,
    *,
    shape: tuple[int, ...] | None = None,
    seed: int = 0,
    budget: Budget | None = None,
) -> Hierarchy:
    """Traffic behind L1 of one launch on a GPU.

    Args:
        kernel: the kernel.
        launch: the launch.
        call: its arguments.
        gpu: caches and SMs.
        counts: counts of the whole launch, local memory's from the machine code.
        resources: registers, shared memory and stack of the compiled kernel.
        profile: the machine code; without it instructions are taken to fit their cache.
        code: its executed counts.
        shape: the grid's extents as the kernel sees them (`LaunchCounts.shape`); the launch's own when None.
        seed: of the SMs and blocks that are drawn.
        budget: of the simulation.
    """
    resident, l1_bytes = residency(launch, gpu, resources)
    axes = shape or tuple(extent for extent in launch.grid if extent > 1) or (1,)
    schedule = schedule_blocks(launch, axes, gpu, resident, np.random.default_rng(seed))
    trace = Trace(schedule.footprint_blocks())
    blocks = schedule.all_blocks()
    accesses = AccessCounts()
    simulate(kernel, launch, call, mode=Mode.TRACE, blocks=blocks, budget=budget, observers=[trace, accesses])
    counted = accesses.instructions()
    past_l1 = [count for count in counted if count.uncached_sectors]
    uncached = sum(count.uncached_sectors for count in past_l1) / len(blocks) * float(launch.blocks)
    copying = frozenset(count.instruction for count in past_l1)
    trips = load_trips(kernel, profile)
    lines = trace.lines(trips, without=copying)
    ramp_up = min(resident * gpu.sm_count / launch.blocks, 1.0)
    copies = any(count.action is Action.ASYNC_COPY for count in counted)
    sampled = [l1_traffic(lines, run, schedule.together, l1_bytes, by_age=copies) for run in schedule.runs]
    rates = launch_rates(sampled, ramp_up)
    segments = initialise(Program(kernel), call).memory.segments
    read, written = (_grid_union(trace, schedule, segments, store) for store in (False, True))
    threads = float(resident * launch.threads_per_block)
    local = local_traffic(
        float(counts.local_load_sectors),
        float(counts.local_store_sectors),
        threads * resources.stack_bytes_per_thread,
        float(l1_bytes),
        gpu.l2_bytes / gpu.sm_count,
    )
    fetched = 0.0
    if profile is not None and code is not None:
        fetched = instruction_sectors(profile, code.block_executions, counts, launch, resident, gpu)
    refilled = refilled_sectors(read, written, axes, gpu, resident * gpu.sm_count)
    turns = max(min(resident, launch.blocks / gpu.sm_count), 1.0) if copies else 1.0
    asked = AskedShares()
    if schedule.gpc:
        by_copies = trace.lines(trips, only=copying)
        asked = asked_shares(lines, by_copies, schedule.gpc, l1_bytes, gpu.l2_requests_merged, rates, ramp_up / turns)
    return _joined(launch, gpu, counts, rates, asked, uncached, read, written, refilled, local, fetched, len(blocks))


def with_hierarchy(counts: Counts, found: Hierarchy) -> Counts:
    """The counts with the traffic behind L1 put in."""
    return replace(
        counts,
        l2_read_sectors=found.l2_read_sectors,
        l2_instruction_sectors=found.instruction_read_sectors,
        l2_write_sectors=found.l2_write_sectors,
        dram_read_bytes=found.dram_read_bytes,
        dram_write_bytes=found.dram_write_bytes,
    )


def _grid_union(trace: Trace, schedule: Schedule, segments: list[Segment], store: bool) -> Union:
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


def _joined(
    launch: Launch,
    gpu: Gpu,
    counts: Counts,
    rates: L1Rates,
    asked: AskedShares,
    uncached: float,
    read: Union,
    written: Union,
    refilled: float,
    local: LocalTraffic,
    fetched: float,
    blocks_executed: int,
) -> Hierarchy:
    every_load = rates.asked_per_block * float(launch.blocks)
    cached = max(float(counts.global_load_sectors) - uncached, 0.0)
    loads = cached if not float(counts.async_copy_requests) else every_load
    behind = loads * rates.missed + uncached
    bytes_read = SECTOR_BYTES * (refilled + local.dram_read_sectors)
    bytes_written = SECTOR_BYTES * (written.sectors[-1] + local.dram_write_sectors)
    kept = kept_bytes(SECTOR_BYTES * read.sectors[-1], SECTOR_BYTES * written.sectors[-1], gpu)
    notes = (
        ()
        if read.exact and written.exact
        else ("the grid's footprint is estimated: blocks' addresses do not just shift",)
    )
    return Hierarchy(
        l1_hit_rate=1.0 - (behind / (loads + uncached) if loads + uncached else 0.0),
        l2_read_sectors=loads * rates.missed * asked.missed + uncached * asked.past_l1 + local.l2_read_sectors,
        instruction_read_sectors=fetched,
        l2_write_sectors=float(counts.global_store_sectors) + local.l2_write_sectors,
        dram_read_bytes=bytes_read,
        dram_write_bytes=bytes_written - float(kept),
        relative_error=rates.relative_error,
        exact=not notes,
        notes=notes,
        blocks_executed=blocks_executed,
    )


def refilled_sectors(read: Union, written: Union, shape: tuple[int, ...], gpu: Gpu, together: int) -> float:
    """Sectors read from DRAM: each once, and again what a row or plane of blocks pushes out before the next one wants it.

    Rows of which blocks run ``together`` on the GPU read at a time. What SMs of both halves of an L2 want stands in both.
    """
    factor = 1.0
    l2_bytes = shared_l2_bytes(gpu)
    for axis in range(1, len(shape)):
        inner, outer = read.sectors[axis - 1], read.sectors[axis]
        passed = (inner + written.sectors[axis - 1]) * SECTOR_BYTES
        lost = min(max(passed / l2_bytes - 1.0, 0.0), 1.0)
        at_a_time = max(together // math.prod(shape[:axis]), 1)
        passes = math.ceil(shape[axis] / at_a_time)
        factor *= 1.0 + lost * max(passes * inner / outer - 1.0, 0.0) if outer else 1.0
    return factor * read.sectors[-1]
