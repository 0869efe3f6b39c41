"""What passes L1 and L2 in a launch: sectors and bytes, from sampled blocks and the footprint of the whole grid.

L1 is simulated for a few SMs with the accesses of blocks that are resident together (`l1`); loads past L1 and asynchronous copies
of 16 bytes ask L2 for all that they read. L2 is simulated for a part of its lines with the accesses of all blocks of the grid
(`grid_streams`, `l2`). It is cold at the begin, of code, too; what is written and still lies in it at the end does not count as
DRAM traffic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..compiler.resources import Resources
from ..core.constants import BANK_BYTES, LINE_BYTES, SECTOR_BYTES, WARP_SIZE, ceil_div
from ..core.counts import Counts
from ..gpus.gpu import Gpu
from ..launch.launch import KernelCall, Launch
from ..simulator.access import Action, WarpAccess
from ..simulator.execution import Code, execute_code
from ..simulator.global_memory import Segment
from ..simulator.simulation import Budget, Mode
from .access_counts import BLOCK_TOTALS, READS, AccessCounts
from .atomics import AtomicObserver, Contention, Slices
from .block_placement import Placement, place_blocks
from .block_schedule import Schedule, begins_of_blocks, residency, schedule_blocks
from .cache_record import CacheRecord
from .fitted_shares import shares
from .gpc_simulation import NO_TRAFFIC, MergedTraffic, Pace, merged_traffic, share_of_launch
from .grid_streams import GridStreams
from .l1 import L1Traffic, l1_traffic, launch_rates
from .l2 import DramTraffic, partition_of_sms, sampled_dram_traffic
from .request_coalescing import gpcs_of_blocks
from .store_queue import StoreTrace, left_share
from .trace import LOCAL_LINES, BlockStream, Integers, Kind, LineAccesses, Trace

_DRAWN_ACCESSES = 50_000
"""Accesses of blocks that are looked at to learn how many GPCs read a line, about."""


_FIRST_SMS = 3
"""SMs of the first wave that are looked at where those of a stretch of the grid load nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hierarchy:
    """Traffic behind L1 of one launch.

    ``l1_missed_sectors`` is what loads miss in L1 and what passes it by, local memory's with it, ``l2_read_sectors`` what is
    left of it where SMs ask L2 together; ``instruction_read_sectors`` what instruction caches miss. ``relative_error`` is the
    half width of the 95 % interval of the L1 miss rate over the sampled SMs; ``exact`` says that the footprint of the grid
    follows from that of its blocks; ``notes`` says what was estimated; ``contention`` where atomics queue.
    """

    l1_hit_rate: float
    l1_missed_sectors: float
    l2_read_sectors: float
    instruction_read_sectors: float
    l2_write_sectors: float
    dram_read_bytes: float
    dram_write_bytes: float
    touched_bytes: float
    relative_error: float
    exact: bool
    notes: tuple[str, ...]
    blocks_executed: int
    contention: Contention


class CacheObserver:
    """Watches the blocks of a launch from which the traffic of its caches follows; one run may serve other observers too.

    Args:
        launch: the launch.
        gpu: caches and SMs for which the blocks are chosen.
        resources: registers, shared memory and stack of the compiled kernel.
        shape: the grid's extents as the kernel sees them (`LaunchCounts.shape`); the launch's own when None.
        working: linear indices of the blocks that access memory, in order; all when None. The others leave their places at once,
            so that a grid of several waves is placed as if it had no others.
        trips: round trip of each global load; each has its own when None.
        cycles: when a warp alone issues each instruction (`issue_cycles`); not known when None.
        ahead: groups of asynchronous copies that are on their way while others are used (`copies_ahead`).
        seed: of the SMs and blocks that are drawn.
    """

    def __init__(
        self,
        launch: Launch,
        gpu: Gpu,
        resources: Resources,
        *,
        shape: tuple[int, ...] | None = None,
        working: Integers | None = None,
        trips: Mapping[int, int] | None = None,
        cycles: Integers | None = None,
        ahead: int = 0,
        seed: int = 0,
    ) -> None:
        resident, _ = residency(launch, gpu, resources)
        schedule, _, _ = _schedule(launch, shape or grid_shape(launch), gpu, resident, working, seed)
        self.blocks = schedule.all_blocks()
        """Linear indices of the blocks to execute, in order."""
        self._trace = Trace(
            self.blocks,
            schedule.of_l1(),
            schedule.streamed,
            warps=-(-int(launch.threads_per_block) // WARP_SIZE),
            stack_words=_stack_words(resources),
            trips=trips or {},
        )
        of_sm = schedule.runs[0][: schedule.together]
        self._stores = StoreTrace(self.blocks, of_sm, np.zeros(0, np.int64) if cycles is None else cycles)
        self._accesses = AccessCounts(len(self.blocks))
        self._ahead = ahead
        self._atomics = AtomicObserver(Slices.of(gpu))

    def access(self, access: WarpAccess) -> None:
        """Take note of one access."""
        self._trace.access(access)
        self._stores.access(access)
        self._accesses.access(access)
        self._atomics.access(access)

    def record(self, segments: Sequence[Segment]) -> CacheRecord:
        """What ``blocks`` asked of memory, after they have been executed.

        Args:
            segments: buffers of the run (`Simulation.segments`).
        """
        column = BLOCK_TOTALS.index("uncached_sectors")
        tables = self._accesses.tables()
        uncached, uncached_loads = (
            sum(float(table[:, column].sum()) for site, table in tables if site.action in actions)
            for actions in (READS, (Action.LOAD,))
        )
        return CacheRecord(
            traced=self._trace.traced(),
            atomics=self._atomics.found(),
            stores=self._stores.stores(),
            segments=tuple(segments),
            uncached_sectors=uncached,
            uncached_load_sectors=uncached_loads,
            copies=any(site.action is Action.ASYNC_COPY for site, _ in tables),
            ahead=self._ahead,
            executed=len(self.blocks),
        )


def grid_shape(launch: Launch) -> tuple[int, ...]:
    """The grid's extents, x first, but for axes of one block."""
    return tuple(extent for extent in launch.grid if extent > 1) or (1,)


def _schedule(
    launch: Launch, shape: tuple[int, ...], gpu: Gpu, resident: int, working: Integers | None, seed: int
) -> tuple[Schedule, Launch, Integers | None]:
    """Which blocks SMs run; the launch that these make, and the blocks in it, None for the whole grid.

    In a grid of one wave each block has its own place, whether it works or not.
    """
    rng = np.random.default_rng(seed)
    if working is None or launch.blocks <= resident * gpu.sm_count:
        return schedule_blocks(launch, shape, gpu, resident, rng), launch, None
    alone = replace(launch, grid_x=len(working), grid_y=1, grid_z=1)
    return schedule_blocks(alone, (len(working),), gpu, resident, rng).of_blocks(working), alone, working


def _stack_words(resources: Resources) -> int:
    """4-byte words of a thread's stack."""
    return int(ceil_div(resources.stack_bytes_per_thread, BANK_BYTES))


def hierarchy_of(
    record: CacheRecord,
    launch: Launch,
    gpu: Gpu,
    counts: Counts,
    resources: Resources,
    *,
    instruction_read_sectors: float = 0.0,
    shape: tuple[int, ...] | None = None,
    working: Integers | None = None,
    seed: int = 0,
) -> Hierarchy:
    """Traffic behind L1 of one launch on a GPU, whichever one the blocks were executed for.

    Args:
        record: what the executed blocks asked of memory.
        launch: the launch.
        gpu: caches and SMs.
        counts: counts of the whole launch, local memory's from the machine code.
        resources: as for `CacheObserver`.
        instruction_read_sectors: what instruction caches miss.
        shape: as for `CacheObserver`.
        working: likewise.
        seed: likewise.
    """
    shape = shape or grid_shape(launch)
    resident, l1_bytes = residency(launch, gpu, resources)
    schedule, launch, working = _schedule(launch, shape, gpu, resident, working, seed)
    scale = float(launch.blocks) / record.executed
    uncached, uncached_loads = scale * record.uncached_sectors, scale * record.uncached_load_sectors
    streams = record.streams(_small_buffers(record.segments, gpu.l2_bytes / 2))
    placement = place_blocks(streams, shape, len(record.segments) + 1, working)
    lines, by_copies = record.l1_accesses(schedule.of_l1(), placement, shape)
    share = record.traced.l1_share
    simulated_bytes = l1_bytes * share
    ramp_up = min(resident * gpu.sm_count / launch.blocks, 1.0)

    def sampled(runs: Sequence[Integers]) -> list[tuple[L1Traffic, L1Traffic]]:
        return [l1_traffic(lines, run, schedule.together, simulated_bytes, by_age=record.copies) for run in runs]

    sampled_runs = sampled(schedule.runs)
    if not launch_rates(sampled_runs, ramp_up).asked_per_block:
        # the SMs that were drawn have blocks that load nothing; those of the first wave may
        sampled_runs = sampled([run for sms in schedule.gpcs for run in sms][:_FIRST_SMS])
    rates = launch_rates(sampled_runs, ramp_up)
    asked, asked_past_l1 = 1.0, 1.0
    if schedule.gpcs:
        gpcs_of_line, new = _readers(record, streams, placement, launch, gpu, resident, seed)
        pace = replace(_pace(lines, record, launch, gpu, counts), gpcs_of_line=gpcs_of_line)

        def traffic(accesses: LineAccesses, l1_bytes: float) -> tuple[MergedTraffic, MergedTraffic]:
            cached = l1_bytes > 0
            first, ends = merged_traffic(accesses, schedule.gpcs, l1_bytes, pace, gpu, cached=cached)
            if not schedule.later:
                return first, NO_TRAFFIC
            places = len(schedule.later[0]) // 2
            rng = np.random.default_rng(seed)
            begins = rng.permuted(ends[0], axis=1)[:, np.arange(places) % ends[0].shape[1]]
            of_all = replace(
                pace,
                in_dram=new,
                gpcs_of_line=float(gpu.gpc_count),
                works_cycles=pace.works_cycles * min(resident, ends[0].shape[1]) / places,
            )
            later, _ = merged_traffic(
                accesses,
                [schedule.later],
                l1_bytes,
                of_all,
                gpu,
                cached=cached,
                together=places,
                warmed_up_by=places,
                begins=[begins],
            )
            return first, later

        first, later = traffic(lines, simulated_bytes)
        if first.loaded and _runs_whole_wave(schedule, launch, gpu, resident) and not (lines.line >= LOCAL_LINES).any():
            rates = launch_rates(sampled_runs, ramp_up, first.asked / first.loaded)
        asked = share_of_launch(first, later, rates.missed * rates.asked_per_block, ramp_up)
        first, later = traffic(by_copies, 0.0)
        asked_past_l1 = share_of_launch(first, later, first.asked / max(first.blocks, 1), ramp_up)
    every_load = rates.asked_per_block * float(launch.blocks) / share
    cached = max(float(counts.global_load_sectors) - uncached_loads, 0.0) + float(counts.local_load_sectors)
    missed_share = rates.missed if rates.asked_per_block or not cached else 1.0
    cached += float(counts.texture_sectors + counts.surface_load_sectors)
    if float(counts.async_copy_requests):
        cached = every_load
    missed = cached * missed_share
    beside_dram_s = _seconds_beside_dram((lines, by_copies), launch, gpu, resident, counts)
    dram = _dram(record, streams, placement, launch, gpu, resident, resources, beside_dram_s, seed)
    loads, stored = cached + uncached, float(counts.global_store_sectors + counts.local_store_sectors)
    exact = placement.exact
    return Hierarchy(
        l1_hit_rate=1.0 - ((missed + uncached) / loads if loads else 0.0),
        l1_missed_sectors=missed + uncached,
        l2_read_sectors=missed * asked + uncached * asked_past_l1,
        instruction_read_sectors=instruction_read_sectors,
        l2_write_sectors=stored * _left_share(record, launch, gpu, counts, missed + uncached + stored, dram, seed)
        + float(counts.surface_store_sectors + counts.bulk_write_sectors),
        dram_read_bytes=SECTOR_BYTES * dram.read_sectors + _code_bytes(resources),
        dram_write_bytes=SECTOR_BYTES * dram.written_sectors,
        touched_bytes=SECTOR_BYTES * dram.touched_sectors,
        relative_error=rates.relative_error,
        exact=exact,
        notes=() if exact else ("L2 and DRAM traffic is estimated: addresses of blocks differ by more than a shift",),
        blocks_executed=record.executed,
        contention=record.atomics.contention(record.executed, int(launch.blocks), Slices.of(gpu), record.segments),
    )


def _left_share(
    record: CacheRecord,
    launch: Launch,
    gpu: Gpu,
    counts: Counts,
    l2_sectors: float,
    dram: DramTraffic,
    seed: int,
) -> float:
    """Part of the stored sectors that leave an SM, others having joined them, where L2 is asked for ``l2_sectors`` in all."""
    blocks = len(np.unique(record.stores.block))
    part = blocks / float(launch.blocks)
    sms = min(float(gpu.sm_count), float(launch.blocks))
    of_l2 = l2_sectors / gpu.l2_read_bytes_per_s * gpu.sm_count
    of_dram = (dram.read_sectors + dram.written_sectors) / gpu.dram_read_bytes_per_s * sms
    moving = max(of_l2, of_dram) * SECTOR_BYTES * gpu.boost_clock_hz
    return left_share(
        record.stores,
        gpu,
        busy_cycles=max(_busy_cycles(counts, gpu), moving) * part,
        issued=float(counts.warp_instructions) * part,
        warps=blocks * int(ceil_div(int(launch.threads_per_block), WARP_SIZE)),
        seed=seed,
    )


def _code_bytes(resources: Resources) -> float:
    """Bytes that a launch reads from DRAM besides what its instructions ask for: L2 holds no code either when it begins."""
    return float(resources.code_bytes) + shares().beside_code_bytes if resources.code_bytes else 0.0


def _working_share(lines: LineAccesses, trips: int) -> float:
    """Part of the blocks that make at least half as many round trips as the longest; 1 where none does any."""
    blocks, place = np.unique(lines.block, return_inverse=True)
    made = np.zeros(len(blocks), np.int64)
    np.maximum.at(made, place, lines.trip + 1)
    return float(np.mean(2 * made >= trips)) if len(blocks) else 1.0


def _busy_cycles(counts: Counts, gpu: Gpu) -> float:
    """Cycles for which one SM would issue the instructions of a launch, or pass its requests through L1's data pipe.

    >>> from perfmodel.gpus.catalogue import load_gpu
    >>> copies = Counts(warp_instructions=16, async_copy_requests=2, async_copy_read_wavefronts=2, async_copy_wavefronts=8)
    >>> _busy_cycles(copies, load_gpu("h200"))  # 12 passes; 16 instructions take four schedulers 4 cycles
    12.0
    """
    issued = float(counts.warp_instructions) / gpu.schedulers_per_sm
    passed = counts.shared_load_wavefronts + counts.shared_store_wavefronts + counts.global_load_lines
    copies = counts.async_copy_requests + counts.async_copy_read_wavefronts + counts.async_copy_wavefronts
    return max(issued, float(passed + copies))


def _seconds_beside_dram(
    accesses: Sequence[LineAccesses], launch: Launch, gpu: Gpu, resident: int, counts: Counts
) -> float:
    """Seconds of a launch whose blocks wait for no other's data: the work of an SM, and the round trips of wave after wave."""
    blocks, place = np.unique(np.concatenate([one.block for one in accesses]), return_inverse=True)
    trips = np.zeros(len(blocks), np.int64)
    np.maximum.at(trips, place, np.concatenate([one.trip for one in accesses]) + 1)
    waves = max(float(launch.blocks) / (resident * gpu.sm_count), 1.0)
    waited = waves * float(np.mean(trips)) * gpu.dram_latency_cycles if len(trips) else 0.0
    return (waited + _busy_cycles(counts, gpu) / min(gpu.sm_count, float(launch.blocks))) / gpu.boost_clock_hz


def _pace(lines: LineAccesses, record: CacheRecord, launch: Launch, gpu: Gpu, counts: Counts) -> Pace:
    """How fast the blocks of a launch go on."""
    trips = int(lines.trip.max(initial=0)) + 1
    share = record.traced.l1_share
    bytes_per_cycle = gpu.l2_read_bytes_per_s / gpu.sm_count / gpu.boost_clock_hz
    return Pace(
        works_cycles=_busy_cycles(counts, gpu) / (float(launch.blocks) * _working_share(lines, trips)) / trips,
        sector_cycles=SECTOR_BYTES / bytes_per_cycle / share,
        line_cycles=gpu.l1_miss_cycles / share,
        share=share,
        ahead=record.ahead,
    )


def _runs_whole_wave(schedule: Schedule, launch: Launch, gpu: Gpu, resident: int) -> bool:
    """Whether the SMs that are simulated together run all blocks that they have at once."""
    of_sm = min(resident, int(ceil_div(int(launch.blocks), gpu.sm_count)))
    return max(len(run) for sms in schedule.gpcs for run in sms) >= of_sm


def _readers(
    record: CacheRecord,
    streams: Mapping[int, BlockStream],
    placement: Placement,
    launch: Launch,
    gpu: Gpu,
    resident: int,
    seed: int,
) -> tuple[float, float]:
    """GPCs that read a line in the first wave, and the part of what later waves read that the first did not.

    GPCs are counted on average over the lines that several blocks of a GPC read: only of these do requests join.
    """
    blocks = np.arange(int(launch.blocks))
    first = min(resident * gpu.sm_count, len(blocks))
    gpc = np.full(len(blocks), gpu.gpc_count)
    gpc[:first] = gpcs_of_blocks(first, gpu)
    grid = GridStreams(streams, record.segments, placement, 0 * blocks, blocks, seed)
    drawn = grid.drawn(max(ceil_div(grid.entries, _DRAWN_ACCESSES), 1), 0)
    reads = np.isin(drawn.kind, (Kind.READ, Kind.READ_ONCE))
    line, of_gpc, _ = np.unique(np.stack([drawn.line[reads], gpc[drawn.block[reads]], drawn.block[reads]]), axis=1)
    (line, of_gpc), readers = np.unique(np.stack([line, of_gpc]), axis=1, return_counts=True)
    known, place, gpcs = np.unique(line[of_gpc < gpu.gpc_count], return_inverse=True, return_counts=True)
    joint = np.zeros(len(known), np.bool_)
    joint[place[readers[of_gpc < gpu.gpc_count] > 1]] = True
    later = line[of_gpc == gpu.gpc_count]
    new = 1.0 - float(np.mean(np.isin(later, known))) if len(later) else 0.0
    return float(np.mean(gpcs[joint])) if joint.any() else 1.0, new


def _dram(
    record: CacheRecord,
    streams: Mapping[int, BlockStream],
    placement: Placement,
    launch: Launch,
    gpu: Gpu,
    resident: int,
    resources: Resources,
    beside_dram_s: float,
    seed: int,
) -> DramTraffic:
    """What passes L2."""
    slots = resident * gpu.sm_count
    blocks = np.arange(int(launch.blocks))
    warps = -(-int(launch.threads_per_block) // WARP_SIZE)
    stacks = blocks % slots * (warps * _stack_words(resources))
    steps = np.array([1 + streams[block].step.max(initial=0) for block in placement.executed.tolist()])
    begins = begins_of_blocks(steps[np.searchsorted(placement.executed, placement.like)], slots)
    beside = partition_of_sms(gpu)[blocks % gpu.sm_count]
    company = blocks // slots * gpu.architecture.l2_partitions + beside
    grid = GridStreams(streams, record.segments, placement, stacks, company, seed)
    return sampled_dram_traffic(grid, begins, beside, gpu, beside_dram_s=beside_dram_s)


def executed_record(
    kernel: Code,
    launch: Launch,
    call: KernelCall,
    gpu: Gpu,
    resources: Resources,
    *,
    trips: Mapping[int, int] | None = None,
    cycles: Integers | None = None,
    ahead: int = 0,
    shape: tuple[int, ...] | None = None,
    working: Integers | None = None,
    seed: int = 0,
    budget: Budget | None = None,
) -> CacheRecord:
    """What the blocks that the caches of a GPU ask for do, from a run of its own; arguments as for `CacheObserver`.

    Raises:
        SimulationError: the kernel cannot be executed on the CPU.
    """
    caches = CacheObserver(
        launch, gpu, resources, shape=shape, working=working, trips=trips, cycles=cycles, ahead=ahead, seed=seed
    )
    run = execute_code(kernel, launch, call, mode=Mode.TRACE, blocks=caches.blocks, budget=budget, observers=[caches])
    return caches.record(run.segments)


def with_hierarchy(counts: Counts, hierarchy: Hierarchy) -> Counts:
    """The counts with the traffic behind L1 put in."""
    return replace(
        counts,
        l1_missed_sectors=hierarchy.l1_missed_sectors,
        l2_read_sectors=hierarchy.l2_read_sectors,
        l2_instruction_sectors=hierarchy.instruction_read_sectors,
        l2_write_sectors=hierarchy.l2_write_sectors,
        dram_read_bytes=hierarchy.dram_read_bytes,
        dram_write_bytes=hierarchy.dram_write_bytes,
        l2_busiest_slice_atomics=hierarchy.contention.busiest_slice,
        l2_busiest_word_atomics=hierarchy.contention.busiest_word,
        l2_busiest_float_atomics=hierarchy.contention.busiest_float,
    )


def _small_buffers(segments: Sequence[Segment], room_bytes: float) -> list[tuple[int, int]]:
    """First and last line of the smallest buffers, as many as fit together."""
    small = []
    for segment in sorted(segments, key=lambda segment: segment.size_bytes):
        room_bytes -= segment.size_bytes
        if room_bytes < 0.0:
            break
        small.append((segment.start // LINE_BYTES, (segment.start + segment.size_bytes) // LINE_BYTES))
    return small
