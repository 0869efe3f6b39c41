"""Time of one launch from what its warps issue: the model of one SM, its share of the memories, and the grid around it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from ..core.constants import CONSTANT_LINE_BYTES, LINE_BYTES, SECTOR_BYTES, WARP_SIZE
from ..core.counts import Counts
from ..core.numbers import numbers
from ..gpus.gpu import Gpu
from ..launch.launch import Launch
from ..machine_code.issue_table import IssueTable, Pipe, Wait
from ..machine_code.matrix_products import TensorRate
from ..memory.l2 import stay_in_l2
from ..profiles.load_streams import CUT, LoadStreams
from ..profiles.warp_traces import MemoryDemand, WarpTraces
from .backing import Backing
from .terms import atomic_seconds

if TYPE_CHECKING:
    from .sm_records import Code, Machine, Paths, Run

Floats = NDArray[np.float64]

SIMULATED_INSTRUCTIONS = 100_000
"""Instructions that are followed, some tens of milliseconds; what comes after goes on at the same rate."""
SIMULATED_WAVES = 24
"""Blocks that are followed, in those that share an SM."""
_LEAST_WAVES = 4
_LEAST_FOLLOWED = 4
"""Followed blocks from which on the first and the last of the grid are set apart."""
_UNEVEN = 2.0
"""Times the instructions of other blocks from which on a block is one of its own kind."""
_INSTRUCTIONS_PER_LINE = 8
_WIDE_FMA_LANES = 32
"""Lanes for each scheduler from which on FP32 has two halves, and reads its registers in one cycle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SmModel:
    """The fitted numbers; ``data/calibrations/sm_model.toml`` says what each one means and what it was fitted to.

    The last three are no part of the model but its errors, on a logarithmic scale, of runs that were left out of the fit: 90 % of
    those of this package's kernels on a fitted GPU are within the first, of others' kernels there within the second, of runs on
    other GPUs within the third.
    """

    dram_latency_factor: float
    dram_efficiency: float
    l2_loaded_latency: float
    dram_loaded_latency: float
    joint_waits: float
    block_start_cycles: float
    first_block_latencies: float
    barrier_cycles: float
    branch_cycles: float
    data_queue_entries: int
    loads_in_flight: int
    write_queue_cycles: float
    fetch_cycles: float
    fetch_latency_cycles: float
    far_fetch_cycles: float
    operand_cycles: float
    operand_queue_cycles: float
    variable_latency_cycles: float
    own_kernel_log_error: float
    left_out_log_error: float
    other_gpu_log_error: float


FITTED_GPUS = ("h200",)
"""GPUs whose launches the numbers were fitted to."""
FITTED_KERNELS = ("conv1d", "direct_conv2d", "pointwise_conv2d", "tiled_conv2d")
"""Kernels of which runs on these GPUs say how far predictions are off."""


def sm_backing(gpu: Gpu, kernel: str | None = None) -> Backing:
    """What backs the time of a launch of a kernel on a GPU.

    >>> from perfmodel.gpus.catalogue import load_gpu
    >>> sm_backing(load_gpu("h200")).status
    'calibrated on other kernels on this GPU'
    >>> sm_backing(load_gpu("h200"), "conv1d").status
    'calibrated on this kernel and GPU'
    """
    model, known = sm_model(), kernel in FITTED_KERNELS
    if gpu.id not in FITTED_GPUS:
        error = max(model.other_gpu_log_error, 0.0 if known else model.left_out_log_error)
        return Backing(status=f"calibrated on other GPUs ({', '.join(FITTED_GPUS)})", log_error_90=error)
    if known:
        return Backing(status="calibrated on this kernel and GPU", log_error_90=model.own_kernel_log_error)
    return Backing(status="calibrated on other kernels on this GPU", log_error_90=model.left_out_log_error)


@cache
def sm_model() -> SmModel:
    """The numbers that the package ships.

    >>> sm_model().dram_loaded_latency
    1.4
    """
    return numbers("sm_model", SmModel)


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
    blocks_per_sm: int,
    gpu: Gpu,
    *,
    warm: bool = False,
    model: SmModel | None = None,
    budget: int = SIMULATED_INSTRUCTIONS,
) -> SmTime:
    """Time of one launch.

    Args:
        traces: what warps of some of its blocks issue.
        launch: the launch.
        counts: of the whole launch, with its traffic behind L1 where L2 is cold.
        blocks_per_sm: resident blocks by occupancy.
        gpu: the GPU.
        warm: whether the launch before was the same one, so that its data lie in L2 if they fit and what it writes stays there.
        model: fitted numbers; the package's where None.
        budget: instructions to follow.
    """
    from .sm_records import Stall

    model = model or sm_model()
    counts, warm = _found_in_l2(traces, launch, counts, gpu, warm)
    usual, longest = _usual_and_longest(traces, int(launch.blocks), gpu)
    loads = _loads_of(traces, counts, launch, blocks_per_sm, gpu, model)
    machine = _machine(traces, counts, launch, loads, gpu, model, warm)
    code = _code(traces, counts, launch, float(launch.blocks), loads, gpu, model, warm)
    run, cycles = _launch_cycles(usual, launch, code, machine, float(launch.blocks), blocks_per_sm, counts, gpu, budget)
    if longest is not None:
        # what it asks for first nobody has asked for, and comes from DRAM as far as what the launch asks for does
        lone = replace(loads, first_missed=1.0, again=0.0)
        code = _code(longest, counts, launch, 1.0, lone, gpu, model, warm)
        machine = machine._replace(first_missed=1.0)
        alone, lone_cycles = _launch_cycles(longest, launch, code, machine, 1.0, 1, counts, gpu, budget)
        if lone_cycles > cycles:
            run, cycles = alone, lone_cycles
    waited = float(run.stalls.sum())
    return SmTime(
        seconds=cycles / gpu.boost_clock_hz + gpu.empty_kernel_s,
        stalls={stall.name.lower(): float(run.stalls[stall]) / max(waited, 1.0) for stall in Stall},
        issued_share=run.issued / max(run.cycles * gpu.schedulers_per_sm, 1.0),
    )


def _found_in_l2(traces: WarpTraces, launch: Launch, counts: Counts, gpu: Gpu, warm: bool) -> tuple[Counts, bool]:
    """The counts, and whether L2 is warm: what the launch before left there is read from there if all of it has stayed."""
    read, written = float(counts.dram_read_bytes), _written_once(traces, float(launch.blocks))
    stays = warm and stay_in_l2(read, written, gpu)
    return (replace(counts, dram_read_bytes=0.0) if stays else counts), stays


def _written_once(traces: WarpTraces, blocks: float) -> float:
    """Bytes of all sectors that a launch stores, each once for a block."""
    memory = traces.memory
    return float((memory.requests * memory.sectors) @ memory.first_stores) * SECTOR_BYTES * blocks / traces.observed


def _usual_and_longest(traces: WarpTraces, blocks: int, gpu: Gpu) -> tuple[WarpTraces, WarpTraces | None]:
    """The blocks that stand for the grid, and the longest of the others where it does far more.

    Where every SM has a block at most, the longest block stands for all.
    """
    if blocks <= gpu.sm_count:
        return traces.of_blocks([int(traces.instructions.argmax())]), None
    if traces.whole_grid or traces.observed < _LEAST_FOLLOWED:
        usual = list(range(traces.observed))
    else:
        usual = list(range(1, traces.observed - 1))
    others = [block for block in range(traces.blocks) if block not in usual]
    most = max(others, key=lambda block: float(traces.instructions[block]), default=None)
    if most is None or traces.instructions[most] <= _UNEVEN * traces.instructions[usual].mean():
        return traces.of_blocks(usual), None
    return traces.of_blocks(usual), structs.replace(traces.of_blocks([most]), observed=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Loads:
    """Chances of loads: of sectors that a block asks for first to be missed by L1 and to wait for DRAM, of others likewise."""

    first_missed: float
    first_far: float
    again: float
    again_far: float


def _loads_of(
    traces: WarpTraces, counts: Counts, launch: Launch, blocks_per_sm: int, gpu: Gpu, model: SmModel
) -> _Loads:
    """The chances, so that as many sectors pass L1 and as many bytes come from DRAM as the counts say.

    Blocks of the first wave ask together for what nobody has read before, so that others than the first wait for it, too. Of a
    pair of sectors that DRAM gives together, the second one is in L2; so is what a block has asked for before, as long as its
    first requests account for all that DRAM gives.
    """
    memory, loads, wait = traces.memory, traces.loads, traces.table.wait
    scale = float(launch.blocks) / traces.observed
    waves = max(1.0, float(launch.blocks) / gpu.sm_count / max(blocks_per_sm, 1))
    end, requests = loads.group_offsets[traces.observed], loads.offsets[traces.observed * traces.warps_per_block]
    followed = float(np.count_nonzero(loads.instruction[:requests] != CUT))
    all_of_them = float(memory.requests @ (_loads(wait) & (wait != Wait.LOCAL_LOAD)))
    followed_scale = scale * max(1.0, all_of_them / max(followed, 1.0))  # requests that were not kept touch as many
    first = followed_scale * float(loads.sectors[:end].sum())
    asked = scale * float((memory.requests * memory.sectors) @ _loads(wait))
    missed = min(_missed_sectors(counts), asked)
    first_missed = min(1.0, missed / first) if first else 0.0
    again = max(0.0, missed - first) / max(asked - first, 1.0)
    fills = float(counts.dram_read_bytes) / SECTOR_BYTES / gpu.l2_fill_sectors
    fresh = followed_scale * float(_fresh(loads, gpu)[:end].sum())
    share = min(1.0, fills / max(fresh * first_missed, 1.0)) if fills else 0.0
    left = max(0.0, fills - fresh * first_missed) * gpu.l2_fill_sectors
    return _Loads(
        first_missed=first_missed,
        first_far=share + model.joint_waits * (1.0 - share) / waves if share else 0.0,
        again=min(1.0, again),
        again_far=min(1.0, left / (missed - first)) if missed > first else 0.0,
    )


def _fresh(loads: LoadStreams, gpu: Gpu) -> NDArray[np.int64]:
    """Of each group how many requests to DRAM it may need: one for a pair of sectors, or for each of them."""
    return loads.fresh if gpu.l2_fill_sectors > 1 else loads.sectors


def _missed_sectors(counts: Counts) -> float:
    """Sectors that L1 has not; where only what is asked of L2 was counted, these."""
    return max(float(counts.l1_missed_sectors), float(counts.l2_read_sectors))


def _dram_share(counts: Counts, gpu: Gpu) -> float:
    """Bytes that DRAM gives for each byte behind L1."""
    missed = _missed_sectors(counts) * SECTOR_BYTES
    return min(float(gpu.l2_fill_sectors), float(counts.dram_read_bytes) / missed) if missed else 0.0


def _machine(
    traces: WarpTraces, counts: Counts, launch: Launch, loads: _Loads, gpu: Gpu, model: SmModel, warm: bool
) -> Machine:
    """One SM of the GPU, with its share of the memories where all SMs that have a block ask at once."""
    from .sm_records import Machine

    active = min(gpu.sm_count, int(launch.blocks))
    clock = gpu.boost_clock_hz
    l2_share = gpu.l2_read_bytes_per_s / active / clock
    return Machine(
        schedulers=gpu.schedulers_per_sm,
        split_fma=_split_fma(gpu),
        l1_latency=gpu.l1_latency_cycles,
        shared_latency=gpu.shared_latency_cycles,
        l2_latency=gpu.l2_latency_cycles,
        dram_latency=model.dram_latency_factor * gpu.dram_latency_cycles,
        l2_loaded_latency=model.l2_loaded_latency,
        dram_loaded_latency=model.dram_loaded_latency,
        fill_cycles=gpu.l1_fill_cycles,
        miss_cycles=gpu.l1_miss_cycles,
        l2_bytes_per_cycle=min(float(gpu.l2_port_bytes_per_cycle), l2_share),
        l2_share=l2_share,
        dram_bytes_per_cycle=model.dram_efficiency * gpu.dram_read_bytes_per_s / active / clock,
        dram_share=_dram_share(counts, gpu),
        dram_scattered_cost=1.0 / gpu.dram_scattered_share,
        first_missed=loads.first_missed,
        first_far=loads.first_far,
        data_queue=model.data_queue_entries,
        loads_in_flight=model.loads_in_flight,
        write_queue_cycles=model.write_queue_cycles,
        operand_cycles=model.operand_cycles,
        operand_queue_cycles=model.operand_queue_cycles,
        barrier_cycles=model.barrier_cycles,
        arrival_cycles=WARP_SIZE / gpu.barrier_threads_per_cycle,
        branch_cycles=model.branch_cycles,
        block_start_cycles=model.block_start_cycles,
        first_cycles=model.first_block_latencies * gpu.dram_latency_cycles,
        dispatch_cycles=active * gpu.block_dispatch_cycles,
        l0_lines=gpu.instruction_cache_l0_bytes // LINE_BYTES,
        fetch_cycles=model.fetch_cycles,
        fetch_latency=model.fetch_latency_cycles,
        l1_lines=gpu.instruction_cache_l1_bytes // LINE_BYTES,
        far_fetch_cycles=model.far_fetch_cycles,
        code_lines=-(-len(traces.table) // _INSTRUCTIONS_PER_LINE),
        constant_sets=_constant_sets(gpu),
        constant_ways=gpu.constant_cache_ways,
        constant_line_cycles=gpu.constant_line_cycles,
        constant_operand_line_cycles=gpu.constant_operand_line_cycles,
        constant_latency=gpu.constant_miss_cycles,
        constant_far_latency=gpu.l2_latency_cycles if warm else gpu.dram_latency_cycles,
        cluster_barrier_cycles=gpu.cluster_barrier_cycles,
    )


def _launch_cycles(
    traces: WarpTraces,
    launch: Launch,
    code: Code,
    machine: Machine,
    blocks: float,
    blocks_per_sm: int,
    counts: Counts,
    gpu: Gpu,
    budget: int,
) -> tuple[Run, float]:
    """The run of one SM, and the cycles of the launch."""
    from .sm_simulation import simulate_sm

    average = blocks / gpu.sm_count
    resident = max(1, min(blocks_per_sm, math.ceil(average)))
    paths = _paths(traces, gpu)
    followed = float(traces.length.sum()) / traces.blocks
    held = _held_blocks(traces, launch, resident, math.ceil(average), gpu)
    most = max(_LEAST_WAVES * held, min(SIMULATED_WAVES * held, int(budget / max(followed, 1.0))))
    simulated = min(math.ceil(average), most)
    run = simulate_sm(code, paths, machine, resident, simulated, budget, held)
    cycles = _whole(run, simulated, average, held, followed, machine.first_cycles)
    left = max(0.0, run.atomics - run.cycles)
    own = float(traces.instructions.mean())
    cycles *= own / max(followed, 1.0)
    if average > _LEAST_WAVES * held:
        # over many waves the blocks that were not followed count as much as those that were
        cycles *= float(counts.warp_instructions) / (own * blocks)
    return run, cycles + left


def _held_blocks(traces: WarpTraces, launch: Launch, resident: int, blocks: int, gpu: Gpu) -> int:
    """Blocks that share an SM at most where warps end before their blocks, and leave their places to further ones.

    Shared memory stays taken until a block has ended.
    """
    shared = float(launch.static_shared_bytes + launch.dynamic_shared_bytes)
    most = min(gpu.max_blocks_per_sm, blocks, int(gpu.shared_bytes_per_sm / shared) if shared else blocks)
    begins, ends = traces.offsets[:-1], traces.offsets[1:]
    total = np.append(0, np.cumsum(traces.length))
    of_warps = (total[ends] - total[begins]).reshape(-1, traces.warps_per_block)
    busy = float(of_warps.sum()) / max(float(of_warps.max(axis=1).sum()) * traces.warps_per_block, 1.0)
    return max(resident, min(most, int(resident / max(busy, 1e-9))))


def _paths(traces: WarpTraces, gpu: Gpu) -> Paths:
    """What the warps issue and load, as the simulation takes it."""
    from .sm_records import Paths

    loads, walks = traces.loads, traces.constants
    numbered, lines = _constant_lines(traces)
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
        group_fresh=_fresh(loads, gpu),
        group_offsets=loads.group_offsets,
        walk_lines=numbered[len(traces.table) :],
        walk_offsets=walks.offsets,
        walks=len(walks.instructions),
        constant_far=np.unique(lines // (gpu.constant_far_bytes // CONSTANT_LINE_BYTES), return_inverse=True)[1],
        constant_set=lines % _constant_sets(gpu),
    )


def _constant_sets(gpu: Gpu) -> int:
    return gpu.constant_cache_bytes // CONSTANT_LINE_BYTES // gpu.constant_cache_ways


def _constant_lines(traces: WarpTraces) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Numbers of the lines of constants that instructions name, -1 for none, and then that walks read; and these lines."""
    everything = np.concatenate([traces.table.constant_line, traces.constants.lines])
    lines, numbers = np.unique(everything, return_inverse=True)
    none = int(lines[0] < 0) if len(lines) else 0
    return numbers - none, lines[none:]


def _whole(run: Run, simulated: int, average: float, resident: int, followed: float, first: float) -> float:
    """Cycles of all blocks of an SM from those that were followed: what is left goes on at the rate between waves.

    Where the budget ended the run, what is left goes on as it went after the first blocks, where these have ended long before,
    else as all of it went from the ``first`` instruction on.
    """
    waves = average / resident
    executed = average + (math.ceil(average) - average) * math.exp(-waves / _LEAST_WAVES)
    finished = run.finished
    if len(finished) < simulated:
        in_wave = resident * followed
        rate = (run.cycles - first) / max(run.issued, 1)
        if run.issued >= 2 * in_wave:
            rate = (run.cycles - run.wave_cycles) / (run.issued - in_wave)
        return run.cycles + max(0.0, executed * followed - run.issued) * rate
    last = float(finished[-1])
    if executed <= simulated:
        return last * executed / simulated
    settled = simulated - 2 * resident + 1
    rate = float(finished[-resident] - finished[resident - 1]) / settled
    return last + (executed - simulated) * rate


def _split_fma(gpu: Gpu) -> bool:
    return gpu.fp32_lanes_per_sm / gpu.schedulers_per_sm >= _WIDE_FMA_LANES


def _code(
    traces: WarpTraces,
    counts: Counts,
    launch: Launch,
    blocks: float,
    loads: _Loads,
    gpu: Gpu,
    model: SmModel,
    warm: bool,
) -> Code:
    """What the simulation needs of each instruction on this GPU, where so many blocks run."""
    from .sm_records import Code

    table, memory = traces.table, traces.memory
    # a generic access that reached shared memory alone waits for that
    in_memory = (table.wait >= Wait.GLOBAL_LOAD) & (table.wait <= Wait.LOCAL_STORE)
    wait = np.where(in_memory & (memory.wavefronts > 0) & (memory.lines == 0), int(Wait.SHARED), table.wait)
    scale = blocks / traces.observed
    pipe_cycles = _pipe_cycles(table, gpu)
    asking = np.minimum(1.0, memory.requests / np.maximum(traces.executions(), 1))
    # generic accesses that reach neither the block's own shared memory nor global memory reach that of another block
    distributed = (table.generic_bytes > 0) & (memory.lines == 0) & (launch.blocks_per_cluster > 1)
    elsewhere = np.where(distributed, 1.0 - asking, 0.0)
    wait = np.where(distributed, int(Wait.SHARED), wait)
    asking = np.where(np.isin(wait, [Wait.GLOBAL_LOAD, Wait.ASYNC_COPY]), 1.0, asking)
    chance, sectors = _misses(memory, wait, loads)
    write_cycles, written = _stores(memory, wait, counts, scale, blocks, gpu, warm)
    data_cycles, latency = _data_pipe(memory, wait, gpu)
    walk = np.full(len(table), -1)
    walk[traces.constants.instructions] = np.arange(len(traces.constants.instructions))
    # what lies between a hit in L1 and the end of the texture pipe
    latency = np.where(table.pipe == Pipe.TEXTURE, gpu.texture_latency_cycles - gpu.l1_latency_cycles, latency)
    data_cycles = np.where(memory.requests > 0, asking * data_cycles + (1.0 - asking), data_cycles)
    data_cycles += elsewhere * WARP_SIZE * table.generic_bytes / gpu.distributed_shared_bytes_per_cycle
    latency += elsewhere * max(gpu.distributed_shared_latency_cycles - gpu.shared_latency_cycles, 0.0)
    return Code(
        pipe=table.pipe,
        wait=wait,
        stall_cycles=table.stall_cycles.astype(np.float64),
        write_barrier=table.write_barrier,
        read_barrier=table.read_barrier,
        wait_mask=table.wait_mask,
        groups_left=table.groups_left,
        issue_cycles=issue_slot_cycles(table, gpu),
        bank_reads=_bank_reads(table, gpu),
        pipe_cycles=pipe_cycles,
        latency=np.where(wait == Wait.VARIABLE, model.variable_latency_cycles + pipe_cycles, latency),
        data_cycles=data_cycles,
        miss_chance=chance * asking,
        missed_bytes=sectors * SECTOR_BYTES,
        atomic_cycles=_atomics(memory, wait, counts, scale, blocks, gpu),
        lines_per_byte=memory.lines / np.maximum(memory.sectors * SECTOR_BYTES, 1.0),
        far_chance=np.where(wait == Wait.GLOBAL_ATOMIC, min(1.0, _dram_share(counts, gpu)), loads.again_far),
        write_cycles=asking * write_cycles,
        written_bytes=asking * written,
        constant_line=_constant_lines(traces)[0][: len(table)],
        constant_walk=walk,
    )


def _data_pipe(memory: MemoryDemand, wait: NDArray[np.int64], gpu: Gpu) -> tuple[Floats, Floats]:
    """Cycles of L1's data pipe or of the constant cache for each request, and what its shape adds to its latency.

    L1 looks up some lines a cycle, its banks give a word each, and no request passes in less than its least time. The constant
    cache gives one word after the other.
    """
    words = np.maximum(memory.wavefronts, 1.0)
    lines = np.maximum(
        memory.lines / gpu.l1_tags_per_cycle, memory.sectors * SECTOR_BYTES / gpu.l1_bytes_per_cycle_per_sm
    )
    loads, local = _loads(wait) & (wait != Wait.ASYNC_COPY), np.isin(wait, [Wait.LOCAL_LOAD, Wait.LOCAL_STORE])
    lines = np.where(local, np.maximum(memory.lines, lines), np.maximum(memory.wavefronts, lines))
    cycles = np.maximum(lines, np.where(loads, gpu.l1_cycles_per_request, 1.0))
    shared = np.maximum(gpu.shared_cycles_per_instruction, gpu.shared_cycles_per_wavefront * memory.wavefronts)
    cycles = np.where(wait == Wait.SHARED, shared, cycles)
    cycles = np.where(wait == Wait.ASYNC_COPY, np.maximum(memory.lines + memory.wavefronts, 1.0), cycles)
    cycles = np.where(wait == Wait.CONSTANT, gpu.constant_word_cycles * words, cycles)
    further = (words - 1.0) * (gpu.l1_wavefront_latency_cycles - 1.0)
    latency = np.where(loads & ~local, np.maximum(further, 0.0), 0.0)
    first, each = gpu.constant_latency_cycles, gpu.constant_word_latency_cycles
    return cycles, np.where(wait == Wait.CONSTANT, first + (words - 1.0) * each - cycles, latency)


def _loads(wait: NDArray[np.int64]) -> NDArray[np.bool_]:
    return np.isin(wait, [Wait.GLOBAL_LOAD, Wait.LOCAL_LOAD, Wait.ASYNC_COPY])


def _stores(
    memory: MemoryDemand, wait: NDArray[np.int64], counts: Counts, scale: float, blocks: float, gpu: Gpu, warm: bool
) -> tuple[Floats, Floats]:
    """Cycles of each store on its way to L2, of which all SMs use their share at once, and bytes of it that DRAM takes.

    A sector that is written in part takes as long as several that are read. A sector that a block writes again stays in L2
    meanwhile; where all data lie there, no more reach DRAM than the counts say.
    """
    stores = np.isin(wait, [Wait.GLOBAL_STORE, Wait.LOCAL_STORE, Wait.GLOBAL_REDUCTION])
    sectors = np.where(stores, memory.sectors, 0.0)
    partial = np.minimum(memory.partial_sectors, sectors) * max(
        gpu.l2_partial_write_reads * gpu.l2_write_share - 1.0, 0.0
    )
    share = gpu.l2_write_share * gpu.l2_read_bytes_per_s / min(gpu.sm_count, blocks) / gpu.boost_clock_hz
    rate = min(float(gpu.l2_store_port_bytes_per_cycle), share)
    first = np.where(wait == Wait.GLOBAL_STORE, memory.first_stores, np.where(wait == Wait.LOCAL_STORE, 0.0, 1.0))
    written = sectors * first * SECTOR_BYTES
    if warm:
        total = float(written @ memory.requests) * scale
        written = written * (min(1.0, float(counts.dram_write_bytes) / total) if total else 0.0)
    return (sectors + partial) * SECTOR_BYTES / rate, written


def _atomics(
    memory: MemoryDemand, wait: NDArray[np.int64], counts: Counts, scale: float, blocks: float, gpu: Gpu
) -> Floats:
    """Cycles of the busiest place of L2 for each reduction of the SM, where the other SMs send theirs at the same time.

    All atomics together take what the busiest place needs for the launch (`atomic_seconds`). Warps that wait for what an atomic
    returns fall out of step with those of other SMs, and meet no queue but their own.
    """
    atomics = np.isin(wait, [Wait.GLOBAL_REDUCTION, Wait.GLOBAL_ATOMIC])
    requests = scale * float(memory.requests @ atomics) / min(gpu.sm_count, blocks)
    cycles = float(atomic_seconds(counts, gpu)) * gpu.boost_clock_hz
    return np.where(wait == Wait.GLOBAL_REDUCTION, cycles / max(requests, 1.0), 0.0)


def _pipe_cycles(table: IssueTable, gpu: Gpu) -> Floats:
    """Cycles that a warp instruction holds its pipe: lanes of a warp over lanes of the pipe for each scheduler."""
    schedulers = gpu.schedulers_per_sm
    half = 2.0 if _split_fma(gpu) else 1.0
    cycles = {
        Pipe.FMA: half * WARP_SIZE * schedulers / gpu.fp32_lanes_per_sm,
        Pipe.FMA_HEAVY: half * WARP_SIZE * schedulers / gpu.fp32_lanes_per_sm,
        Pipe.ALU: WARP_SIZE * schedulers / gpu.int32_lanes_per_sm,
        Pipe.FP64: WARP_SIZE * schedulers / max(gpu.fp64_lanes_per_sm, 1),
        Pipe.XU: WARP_SIZE * schedulers / gpu.special_function_lanes_per_sm,
    }
    found = np.zeros(len(table))
    for pipe, held in cycles.items():
        found[table.pipe == pipe] = held
    return found * table.pipe_passes + tensor_cycles(table, gpu)


def tensor_cycles(table: IssueTable, gpu: Gpu) -> Floats:
    """Cycles that matrix products hold a sub-partition's tensor cores: operations over the sheet's rate for their types.

    Those of single warps reach a part of the rate (`Gpu.tensor_warp_share`); a rate of 0 is not known and takes no time.
    """
    rates = np.zeros(len(TensorRate))
    rates[TensorRate.F16], rates[TensorRate.F16_F32] = gpu.tensor_f16_per_sm, gpu.tensor_f16_f32_per_sm
    rates[TensorRate.TF32], rates[TensorRate.F8] = gpu.tensor_tf32_per_sm, gpu.tensor_f8_per_sm
    rates[TensorRate.I8], rates[TensorRate.I4] = gpu.tensor_i8_per_sm, gpu.tensor_i4_per_sm
    rates[TensorRate.F64] = gpu.tensor_f64_per_sm
    of_warps = (table.tensor_operations > 0) & (table.tensor_rate != TensorRate.F64)
    rate = rates[table.tensor_rate] * np.where(of_warps, gpu.tensor_warp_share, 1.0)
    cycles = np.abs(table.tensor_operations) * float(gpu.schedulers_per_sm) / np.maximum(rate, 1.0)
    return np.asarray(np.where(rate > 0, cycles, 0.0), np.float64)


def issue_slot_cycles(table: IssueTable, gpu: Gpu) -> Floats:
    """Cycles of the issue slot: a third register of one bank takes one more where FP32 pipes are half as wide as a warp.

    A product of a warp keeps its scheduler for a part of the time that it holds tensor cores (`Gpu.tensor_issue_share`).
    """
    of_products = gpu.tensor_issue_share * tensor_cycles(table, gpu) * (table.tensor_operations > 0)
    third = 0 if _split_fma(gpu) else np.maximum(table.bank_reads.max(axis=1, initial=0) - 2, 0)
    return np.asarray(np.maximum(1.0 + third, of_products), np.float64)


def _bank_reads(table: IssueTable, gpu: Gpu) -> Floats:
    """Registers that the wide FP32 pipe reads from each bank, which gives one a cycle."""
    reads = (table.pipe == Pipe.FMA) & _split_fma(gpu)
    return np.where(reads[:, None], table.bank_reads, 0.0)


def _misses(memory: MemoryDemand, wait: NDArray[np.int64], loads: _Loads) -> tuple[Floats, Floats]:
    """Chance of a request to go behind L1 though its sectors were asked for before, and the sectors that it then asks for.

    A request to many lines misses where any of them does. Atomics always go to L2.
    """
    lines = np.maximum(memory.lines, 1.0)
    chance = np.where(_loads(wait), np.minimum(1.0, loads.again * lines), 0.0)
    sectors = loads.again * memory.sectors / np.maximum(chance, 1e-12)
    atomics = wait == Wait.GLOBAL_ATOMIC
    return np.where(atomics, 1.0, chance), np.where(atomics, memory.sectors, np.where(chance > 0, sectors, 0.0))


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
    blocks_per_sm: int,
    gpu: Gpu,
    *,
    warm: bool = False,
    budget: int = SIMULATED_INSTRUCTIONS,
) -> SmIssues:
    """What the warps of one SM issue and when, of so many instructions; arguments as for `sm_seconds`."""
    from .sm_simulation import simulate_logged

    usual, _ = _usual_and_longest(traces, int(launch.blocks), gpu)
    counts, warm = _found_in_l2(traces, launch, counts, gpu, warm)
    loads = _loads_of(traces, counts, launch, blocks_per_sm, gpu, sm_model())
    machine = _machine(traces, counts, launch, loads, gpu, sm_model(), warm)
    code = _code(traces, counts, launch, float(launch.blocks), loads, gpu, sm_model(), warm)
    average = math.ceil(float(launch.blocks) / gpu.sm_count)
    resident = max(1, min(blocks_per_sm, average))
    paths = _paths(usual, gpu)
    log = np.zeros((budget, 3))
    held = _held_blocks(usual, launch, resident, average, gpu)
    run = simulate_logged(code, paths, machine, resident, held, average, budget, log)
    kept = log[: run.issued]
    return SmIssues(
        warp=kept[:, 0].astype(np.int64),
        instruction=kept[:, 1].astype(np.int64),
        cycle=kept[:, 2],
        warps_per_block=usual.warps_per_block,
    )
