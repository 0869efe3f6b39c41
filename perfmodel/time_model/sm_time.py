"""Time of one launch from what its warps issue: the model of one SM, its share of the memories, and the grid around it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..core.constants import CONSTANT_LINE_BYTES, LINE_BYTES, SECTOR_BYTES, WARP_SIZE
from ..core.counts import Counts
from ..gpus.gpu import Gpu
from ..gpus.occupancy import Occupancy
from ..launch.launch import Launch
from ..machine_code.issue_table import Pipe, Wait
from ..machine_code.schedule import warp_latencies
from ..memory.l2 import stay_in_l2
from ..profiles.warp_traces import WarpTraces
from .sm_costs import code_of, constant_lines, constant_sets, split_fma
from .sm_loads import Loads, bulk_events, dram_share, fresh_requests, loads_of
from .sm_model import SmModel, sm_model
from .sm_records import Code, Machine, Paths, Run, Stall
from .sm_sample import samples
from .sm_tail import Pace, rest_cycles

Floats = NDArray[np.float64]

SIMULATED_INSTRUCTIONS = 400_000
"""Instructions that are followed, some tens of milliseconds; what comes after goes on as the second half of them did."""
SIMULATED_WAVES = 24
"""Blocks that are followed, in those that share an SM."""
_LEAST_WAVES = 4
_RATED_WAVES = 2
"""Waves of blocks that say how an SM goes on; where they are too long to be followed to their ends, windows of them are."""
_LONE_PART = 5
"""Part of the budget that a warp by itself is given."""
_LEAST_FOLLOWED = 4
"""Followed blocks from which on the first and the last of the grid are set apart."""
_INSTRUCTIONS_PER_LINE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class SmTime:
    """Device time of a launch, and why warps of the followed blocks stood still: parts of their waiting, by warp state."""

    seconds: float
    stalls: dict[str, float]
    issued_share: float
    """Part of the issue slots that were used."""

    def waits(self) -> dict[str, float]:
        """Parts of the time in which no warp could issue, by the name of the term that says why (`WAITED`)."""
        idle = 1.0 - self.issued_share
        return {term: idle * sum(self.stalls[stall] for stall in stalls) for term, stalls in _STALLS_OF_TERMS.items()}


_STALLS_OF_TERMS = {
    "exposed_memory_latency": ("long_scoreboard",),
    "exposed_dependency_latency": ("wait", "short_scoreboard", "barrier"),
    "instruction_fetch": ("no_instruction",),
}
WAITED = tuple(_STALLS_OF_TERMS)
"""Terms of `combine.Terms` that warp states say better than closed forms."""


def sm_seconds(
    traces: WarpTraces,
    launch: Launch,
    counts: Counts,
    occupancy: Occupancy,
    gpu: Gpu,
    *,
    warm: bool = False,
    touched_bytes: float = math.nan,
    model: SmModel | None = None,
    budget: int = SIMULATED_INSTRUCTIONS,
) -> SmTime:
    """Time of one launch.

    Args:
        traces: what warps of some of its blocks issue.
        launch: the launch.
        counts: of the whole launch, with its traffic behind L1 where L2 is cold.
        occupancy: what of it is resident on an SM.
        gpu: the GPU.
        warm: whether the launch before was the same one, so that its data lie in L2 if they fit and what it writes stays there.
        touched_bytes: these data; what is read and what is written, apart from each other, where that is not known.
        model: fitted numbers; the package's where None.
        budget: instructions to follow.
    """
    model = model or sm_model()
    blocks_per_sm = int(occupancy.blocks_per_sm)
    least_cycles = float(launch.blocks) * gpu.block_dispatch_cycles if traces.working else 0.0
    launch = _of_working_blocks(traces, launch)
    counts, warm = _found_in_l2(traces, launch, counts, touched_bytes, gpu, warm)
    usual, lone_blocks = _usual_and_lone(traces, int(launch.blocks), gpu)
    if launch.blocks <= blocks_per_sm * gpu.sm_count:
        usual, lone_blocks = _longest_first(traces, usual, lone_blocks, math.ceil(float(launch.blocks) / gpu.sm_count))
    loads = loads_of(traces, counts, launch, blocks_per_sm, gpu)
    machine = _machine(traces, counts, launch, occupancy, loads, gpu, model, warm)
    code = code_of(traces, counts, launch, _active_sms(launch, gpu), loads, gpu, model, warm)
    run, cycles = _launch_cycles(
        traces.of_blocks(usual), launch, code, machine, float(launch.blocks), occupancy, counts, gpu, budget
    )
    if lone_blocks:
        # what one asks for first nobody has asked for, and comes from DRAM as far as what the launch asks for does
        lone = replace(loads, first_missed=1.0, common_missed=1.0, again=0.0)
        code = code_of(traces, counts, launch, 1.0, lone, gpu, model, warm)
        machine = _machine(traces, counts, launch, occupancy, lone, gpu, model, warm)
    for block in lone_blocks:
        alone, lone_cycles = _launch_cycles(
            traces.of_blocks([block]), launch, code, machine, 1.0, occupancy, counts, gpu, budget
        )
        if lone_cycles > cycles:
            run, cycles = alone, lone_cycles
    waited = float(run.stalls.sum())
    return SmTime(
        seconds=max(cycles, least_cycles) / gpu.boost_clock_hz + gpu.empty_kernel_s,
        stalls={stall.name.lower(): float(run.stalls[stall]) / max(waited, 1.0) for stall in Stall},
        issued_share=run.issued / max(run.cycles * gpu.schedulers_per_sm, 1.0),
    )


def _found_in_l2(
    traces: WarpTraces, launch: Launch, counts: Counts, touched_bytes: float, gpu: Gpu, warm: bool
) -> tuple[Counts, bool]:
    """The counts, and whether L2 is warm: what the launch before left there is read from there if all of it has stayed."""
    apart = float(counts.dram_read_bytes) + _written_once(traces, float(launch.blocks))
    stays = warm and stay_in_l2(apart if math.isnan(touched_bytes) else touched_bytes, gpu)
    return (replace(counts, dram_read_bytes=0.0) if stays else counts), stays


def _written_once(traces: WarpTraces, blocks: float) -> float:
    """Bytes of all sectors that a launch stores, each once for a block."""
    memory = traces.memory
    return float((memory.requests * memory.sectors) @ memory.first_stores) * SECTOR_BYTES * blocks / traces.observed


def _dram_bytes_per_s(traces: WarpTraces, counts: Counts, blocks: float, gpu: Gpu, warm: bool) -> float:
    """Bandwidth of DRAM for what a launch reads and writes: less the more evenly it does both, since DRAM turns round in between.

    Written bytes count as far as they leave L2, which keeps them where it is warm.
    """
    read, written = float(counts.dram_read_bytes), 0.0 if warm else _written_once(traces, blocks)
    turns = (2.0 * min(read, written) / max(read + written, 1.0)) ** 2
    return gpu.dram_read_bytes_per_s / (1.0 + turns * (1.0 / gpu.dram_copy_share - 1.0))


def _usual_and_lone(traces: WarpTraces, blocks: int, gpu: Gpu) -> tuple[list[int], list[int]]:
    """The followed blocks that stand for the grid, and others, each by itself: its first, its last and its longest one.

    Where every SM has a block at most, the longest block stands for all.
    """
    if blocks <= gpu.sm_count:
        return [int(traces.instructions.argmax())], []
    if traces.whole_grid or traces.observed < _LEAST_FOLLOWED:
        usual = list(range(traces.observed))
    else:
        usual = list(range(1, traces.observed - 1))
    return usual, [one for one in range(traces.blocks) if one not in usual]


def _of_working_blocks(traces: WarpTraces, launch: Launch) -> Launch:
    """The launch without the blocks that end at once, where most do: they leave their places to those that work."""
    return replace(launch, grid_x=traces.working, grid_y=1, grid_z=1) if traces.working else launch


def _longest_first(traces: WarpTraces, usual: list[int], lone: list[int], together: int) -> tuple[list[int], list[int]]:
    """Of blocks that all run at once the launch ends with the SM that has the longest: these are the ones to be followed.

    If the longest is not one of the usual ones, it stands there once, with those that share its SM.
    """
    longest = _instructions_of_warps(traces).max(axis=1)
    ordered = sorted(usual, key=lambda one: -longest[one])
    apart = max(lone, key=lambda one: longest[one], default=ordered[0])
    if longest[apart] <= longest[ordered[0]]:
        return ordered, lone
    others = [ordered[number % len(ordered)] for number in range(max(together - 1, 1))]
    return [apart, *others], [one for one in lone if one != apart]


def _active_sms(launch: Launch, gpu: Gpu) -> int:
    """SMs that have a block at some time."""
    return min(gpu.sm_count, int(launch.blocks))


def _machine(
    traces: WarpTraces,
    counts: Counts,
    launch: Launch,
    occupancy: Occupancy,
    loads: Loads,
    gpu: Gpu,
    model: SmModel,
    warm: bool,
) -> Machine:
    """One SM of the GPU, with its share of the memories where all SMs that have a block ask at once."""
    active = _active_sms(launch, gpu)
    clock = gpu.boost_clock_hz
    l2_share = gpu.l2_read_bytes_per_s / active / clock
    store_rate = min(float(gpu.l2_store_port_bytes_per_cycle), gpu.l2_write_share * l2_share)
    return Machine(
        schedulers=gpu.schedulers_per_sm,
        sms_per_tpc=gpu.sms_per_tpc,
        warp_places=int(occupancy.warp_places),
        split_fma=split_fma(gpu),
        l1_latency=gpu.l1_latency_cycles,
        shared_latency=gpu.shared_latency_cycles,
        l2_latency=gpu.l2_latency_cycles,
        dram_latency=model.dram_latency_factor * gpu.dram_latency_cycles,
        l2_loaded_latency=model.l2_loaded_latency,
        dram_loaded_latency=model.dram_loaded_latency,
        dram_latency_spread=model.dram_latency_spread,
        fill_cycles=gpu.l1_fill_cycles,
        miss_cycles=gpu.l1_miss_cycles,
        l2_bytes_per_cycle=min(float(gpu.l2_port_bytes_per_cycle), l2_share),
        l2_share=l2_share,
        dram_bytes_per_cycle=_dram_bytes_per_s(traces, counts, float(launch.blocks), gpu, warm) / active / clock,
        dram_share=dram_share(loads, counts, gpu),
        dram_scattered_cost=1.0 / gpu.dram_scattered_share,
        first_missed=loads.first_missed,
        first_far=loads.first_far,
        first_joint=loads.first_joint,
        common_missed=loads.common_missed,
        common_far=loads.common_far,
        common_joint=loads.common_joint,
        drift=model.drift,
        data_queue=model.data_queue_entries,
        loads_in_flight=model.loads_in_flight,
        write_queue_cycles=model.write_queue_cycles,
        operand_cycles=model.operand_cycles,
        operand_queue_cycles=model.operand_queue_cycles,
        barrier_cycles=model.barrier_cycles,
        arrival_cycles=WARP_SIZE / gpu.barrier_threads_per_cycle,
        branch_cycles=model.branch_cycles,
        block_start_cycles=model.block_start_cycles,
        first_cycles=model.first_block_latencies * gpu.dram_latency_cycles * active / gpu.sm_count,
        dispatch_cycles=active * gpu.block_dispatch_cycles,
        l0_lines=(gpu.instruction_buffer_bytes or gpu.instruction_cache_l0_bytes) // LINE_BYTES,
        fetch_cycles=model.fetch_cycles,
        fetch_latency=model.fetch_latency_cycles,
        sm_lines=_sm_code_bytes(gpu) // LINE_BYTES,
        line_fetch_cycles=model.line_fetch_cycles,
        jump_fetch_cycles=model.jump_fetch_cycles,
        l1_lines=gpu.instruction_cache_l1_bytes // LINE_BYTES,
        far_fetch_cycles=model.far_fetch_cycles,
        code_lines=-(-len(traces.table) // _INSTRUCTIONS_PER_LINE),
        prefetched_lines=model.prefetched_lines,
        constant_sets=constant_sets(gpu),
        constant_ways=gpu.constant_cache_ways,
        constant_line_cycles=gpu.constant_line_cycles,
        constant_operand_line_cycles=gpu.constant_operand_line_cycles,
        constant_latency=gpu.constant_miss_cycles,
        constant_far_latency=gpu.l2_latency_cycles if warm else gpu.dram_latency_cycles,
        cluster_barrier_cycles=gpu.cluster_barrier_cycles,
        phase_latency=warp_latencies().phase,
        bulk_bytes_per_cycle=gpu.bulk_copy_bytes_per_cycle,
        bulk_first_cycles=gpu.bulk_copy_first_cycles,
        store_bytes_per_cycle=store_rate,
        bulk_port_bytes_per_cycle=float(gpu.l2_port_bytes_per_cycle),
        bulk_asked=loads.bulk_asked,
        copies_asked=loads.copies_asked,
        bulk_written=0.0 if warm else _bulk_written(traces, counts, launch),
        product_latency=warp_latencies().product,
    )


def _sm_code_bytes(gpu: Gpu) -> int:
    """What an SM's own cache keeps of the code: the larger one, where no cache of several SMs lies behind."""
    return gpu.instruction_cache_l0_bytes if gpu.instruction_buffer_bytes else gpu.instruction_cache_l1_bytes


def _bulk_written(traces: WarpTraces, counts: Counts, launch: Launch) -> float:
    """Part of the bytes that bulk copies store that goes on to DRAM."""
    if not len(traces.phases):
        return 0.0
    sectors = float(traces.phases.sectors[bulk_events(traces, Wait.BULK_STORE)].sum())
    stored = sectors * SECTOR_BYTES * float(launch.blocks) / traces.observed
    return min(1.0, float(counts.dram_write_bytes) / stored) if stored else 0.0


def _launch_cycles(
    traces: WarpTraces,
    launch: Launch,
    code: Code,
    machine: Machine,
    blocks: float,
    occupancy: Occupancy,
    counts: Counts,
    gpu: Gpu,
    budget: int,
) -> tuple[Run, float]:
    """The run of one SM, and the cycles of the launch.

    Of blocks that are too long windows are followed, twice, shorter ones and longer ones: all further instructions take as long
    as those by which they differ. What happens once, when a block begins and ends, counts once.
    """
    average = blocks / gpu.sm_count
    resident = max(1, min(int(occupancy.blocks_per_sm), math.ceil(average)))
    held = _held_blocks(traces, occupancy, resident, math.ceil(average))
    whole = float(traces.instructions.mean())

    def followed(part: WarpTraces) -> tuple[Run, float, float]:
        own = float(part.length.sum()) / part.blocks
        return *_followed_cycles(part, code, machine, average, occupancy, resident, held, gpu, budget), own

    rated, least = (min(math.ceil(average), waves * held) for waves in (_RATED_WAVES, _LEAST_WAVES))
    too_long = float(traces.length.sum()) / traces.blocks * rated > budget
    found = samples(traces, budget / least) if too_long else None
    if found is None:
        run, cycles, own = followed(traces)
        cycles *= whole / max(own, 1.0)
    else:
        (_, less, shorter), (run, cycles, own) = followed(found[0]), followed(found[1])
        cycles += (cycles - less) * (whole - own) / (own - shorter)
    if blocks > 1.0:
        # over many waves the blocks that were not followed count as much as those that were, over few where they are longer
        others = (float(counts.warp_instructions) - traces.idle_instructions) / (whole * blocks)
        cycles *= others if average > _LEAST_WAVES * held else max(others, 1.0)
    return run, cycles


def _followed_cycles(
    traces: WarpTraces,
    code: Code,
    machine: Machine,
    average: float,
    occupancy: Occupancy,
    resident: int,
    held: int,
    gpu: Gpu,
    budget: int,
) -> tuple[Run, float]:
    """The run of one SM, and the cycles of a launch of such blocks, of which an SM has so many on average."""
    from .sm_run import simulate_sm

    paths = _paths(traces, gpu)
    followed = float(traces.length.sum()) / traces.blocks
    most = max(_LEAST_WAVES * held, min(SIMULATED_WAVES * held, int(budget / max(followed, 1.0))))
    simulated = min(math.ceil(average), most)
    run = simulate_sm(code, paths, machine, resident, simulated, budget, held)
    pace, rate = None, 0.0
    if len(run.finished) < simulated:
        # how fast the last warps go on says one by itself, but for what it alone waits for as it begins
        alone = simulate_sm(code, _longest_warp(paths, traces), machine, 1, 1, budget // _LONE_PART)
        rate = _rate(run, followed, resident, machine.first_cycles)
        own, shared = _busiest(traces, code, run)
        homes = run.homes[run.left > 0] if run.left.any() else run.homes.ravel()
        pace = Pace.of(rate, min(run.warp_cycles(), alone.warp_cycles()), own, shared, homes)
    cycles = _whole(run, traces, pace, simulated, average, int(occupancy.warp_places), held, rate)
    return run, cycles + max(0.0, run.atomics - run.cycles)


def _held_blocks(traces: WarpTraces, occupancy: Occupancy, resident: int, blocks: int) -> int:
    """Blocks that share an SM at most where warps end before their blocks, and leave their places to further ones."""
    of_warps = _instructions_of_warps(traces)
    working = float(of_warps.sum()) / max(float(of_warps.max(axis=1).sum()), 1.0)
    return max(resident, min(int(occupancy.most_blocks), blocks, int(int(occupancy.warp_places) / max(working, 1.0))))


def _instructions_of_warps(traces: WarpTraces) -> NDArray[np.int64]:
    """Of each warp of the followed blocks, shape ``(blocks, warps)``."""
    ends = np.append(0, np.cumsum(traces.length))[traces.offsets]
    return np.diff(ends).reshape(traces.blocks, traces.warps_per_block)


def _paths(traces: WarpTraces, gpu: Gpu) -> Paths:
    """What the warps issue and load, as the simulation takes it."""
    loads, walks, phases = traces.loads, traces.constants, traces.phases
    numbered, lines = constant_lines(traces)
    return Paths(
        first=traces.first,
        length=traces.length,
        offsets=traces.offsets,
        warps_per_block=traces.warps_per_block,
        blocks=traces.blocks,
        request_instruction=loads.instruction,
        request_group=loads.group,
        request_offsets=loads.offsets,
        group_sectors=loads.sectors,
        group_fresh=fresh_requests(loads, gpu),
        group_common=loads.common,
        group_offsets=loads.group_offsets,
        walk_lines=numbered[len(traces.table) :],
        walk_offsets=walks.offsets,
        walks=len(walks.instructions),
        constant_far=np.unique(lines // (gpu.constant_far_bytes // CONSTANT_LINE_BYTES), return_inverse=True)[1],
        constant_set=lines % constant_sets(gpu),
        event_instruction=phases.instruction,
        event_phase=phases.phase,
        event_sectors=phases.sectors,
        event_fresh=phases.fresh if gpu.l2_fill_sectors > 1 else phases.sectors,
        event_common=phases.common,
        event_offsets=phases.offsets,
        phase_ends=phases.ends,
        phase_offsets=phases.phase_offsets,
    )


def _longest_warp(paths: Paths, traces: WarpTraces) -> Paths:
    """The way of the warp that issues most, by itself."""
    warp = int(_instructions_of_warps(traces).argmax())
    block = warp // paths.warps_per_block
    own = slice(paths.offsets[warp], paths.offsets[warp + 1])
    return paths._replace(
        first=paths.first[own],
        length=paths.length[own],
        offsets=np.array([0, own.stop - own.start], np.int64),
        warps_per_block=1,
        blocks=1,
        request_offsets=paths.request_offsets[warp : warp + 2],
        group_offsets=paths.group_offsets[block : block + 2],
    )


def _whole(
    run: Run,
    traces: WarpTraces,
    pace: Pace | None,
    simulated: int,
    average: float,
    warp_places: int,
    held: int,
    rate: float,
) -> float:
    """Cycles of all blocks of an SM from those that were to be followed: what is left goes on at the rate between waves.

    Where the budget ended the run, warps go on at their ``pace``, and blocks follow blocks (`rest_cycles`).
    """
    further = max(0.0, average / held - 1.0)
    executed = average + (math.ceil(average) - average) * math.exp(-further / _LEAST_WAVES)
    finished = run.finished
    if pace is not None:
        lengths = _instructions_of_warps(traces).astype(np.float64)
        following = [lengths[number % traces.blocks] for number in range(run.begun, simulated)]
        last = run.cycles + rest_cycles(run.left.astype(np.float64), run.homes, following, warp_places, pace)
        rate *= float(lengths.sum()) / traces.blocks
    else:
        last = float(finished[-1])
    if executed <= simulated:
        return last * executed / simulated
    if pace is None:
        settled = simulated - 2 * held + 1
        rate = float(finished[-held] - finished[held - 1]) / settled
    return last + (executed - simulated) * rate


def _rate(run: Run, followed: float, resident: int, first: float) -> float:
    """Cycles for each instruction of a run that the budget has ended: after the first blocks, where these have ended long before.

    Else that of the second half of the budget, if it was used.
    """
    in_wave = resident * followed
    if run.issued >= 2 * in_wave:
        return (run.cycles - run.wave_cycles) / (run.issued - in_wave)
    begun = run.early_cycles if run.early_issued else first
    return (run.cycles - begun) / max(run.issued - run.early_issued, 1)


def _busiest(traces: WarpTraces, code: Code, run: Run) -> tuple[float, float]:
    """Cycles for each instruction of the busiest resource of a scheduler, and of the busiest one of all schedulers."""
    executed = np.zeros(len(traces.table) + 1)
    np.add.at(executed, traces.first, 1.0)
    np.add.at(executed, traces.first + traces.length, -1.0)
    executed = np.cumsum(executed)[:-1]
    each = executed / max(float(executed.sum()), 1.0)
    pipes = np.bincount(code.pipe, each * code.pipe_cycles)
    asks = (code.wait >= Wait.SHARED) & (code.wait <= Wait.ASYNC_COPY)
    own = max(float(each @ code.issue_cycles), float(pipes[np.arange(len(pipes)) != Pipe.NONE].max(initial=0.0)))
    shared = max(float(each[asks] @ code.data_cycles[asks]), float(each @ code.write_cycles))
    return own, max(shared, run.memory_cycles / max(run.issued, 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class SmIssues:
    """Instructions that the warps of one SM issue, in order, as `sm_seconds` follows them; one element for each.

    Attributes:
        warp: Number among the warps that the SM holds; those of its first block come first. A block that follows another one
            takes the numbers of its warps.
        instruction: Index in the code.
        cycle: When it is issued, in SM cycles from the start of the launch.
        warps_per_block: Warps of a block.
    """

    warp: NDArray[np.int64]
    instruction: NDArray[np.int64]
    cycle: Floats
    warps_per_block: int


def sm_issues(
    traces: WarpTraces,
    launch: Launch,
    counts: Counts,
    occupancy: Occupancy,
    gpu: Gpu,
    *,
    warm: bool = False,
    touched_bytes: float = math.nan,
    budget: int = SIMULATED_INSTRUCTIONS,
) -> SmIssues:
    """What the warps of one SM issue and when, of so many instructions; arguments as for `sm_seconds`."""
    from .sm_run import simulate_sm

    launch = _of_working_blocks(traces, launch)
    counts, warm = _found_in_l2(traces, launch, counts, touched_bytes, gpu, warm)
    blocks_per_sm = int(occupancy.blocks_per_sm)
    loads = loads_of(traces, counts, launch, blocks_per_sm, gpu)
    machine = _machine(traces, counts, launch, occupancy, loads, gpu, sm_model(), warm)
    code = code_of(traces, counts, launch, _active_sms(launch, gpu), loads, gpu, sm_model(), warm)
    average = math.ceil(float(launch.blocks) / gpu.sm_count)
    resident = max(1, min(blocks_per_sm, average))
    usual = traces.of_blocks(_usual_and_lone(traces, int(launch.blocks), gpu)[0])
    paths = _paths(usual, gpu)
    log = np.zeros((budget, 3))
    held = _held_blocks(usual, occupancy, resident, average)
    run = simulate_sm(code, paths, machine, resident, average, budget, held, log)
    kept = log[: run.issued]
    return SmIssues(
        warp=kept[:, 0].astype(np.int64),
        instruction=kept[:, 1].astype(np.int64),
        cycle=kept[:, 2],
        warps_per_block=usual.warps_per_block,
    )
