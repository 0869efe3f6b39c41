"""Time of one launch from what its warps issue: the model of one SM, its share of the memories, and the grid around it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..core.constants import LINE_BYTES, SECTOR_BYTES, WARP_SIZE
from ..core.counts import Counts
from ..core.numbers import numbers
from ..gpus.gpu import Gpu
from ..launch.launch import Launch
from ..machine_code.issue_table import IssueTable, Pipe, Wait
from ..machine_code.matrix_products import TensorRate
from ..profiles.warp_traces import MemoryDemand, WarpTraces

if TYPE_CHECKING:
    from .sm_simulation import Code, Machine, Run

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
_UNSEEN_LOCAL = 0.02
"""First touches of a local load, which reads what its own thread has stored: it goes behind L1 only where the counts say so."""
_INSTRUCTIONS_PER_LINE = 8
_WIDE_FMA_LANES = 32
"""Lanes for each scheduler from which on FP32 has two halves, and reads its registers in one cycle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SmModel:
    """The fitted numbers; ``data/calibrations/sm_model.toml`` says what each one means and what it was fitted to.

    The last two are no part of the model but its errors, on a logarithmic scale: 90 % of the launches of programs that were left
    out of the fit are within the first on the GPU that was fitted to, and within the second on other GPUs.
    """

    latency_factor: float
    dram_efficiency: float
    loaded_latency: float
    block_start_cycles: float
    first_block_latencies: float
    barrier_cycles: float
    data_queue_entries: int
    write_queue_cycles: float
    fetch_latency_cycles: float
    operand_cycles: float
    variable_latency_cycles: float
    left_out_log_error: float
    other_gpu_log_error: float


FITTED_GPUS = ("h200",)
"""GPUs whose launches the numbers were fitted to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SmEvidence:
    """What backs a time by the model of one SM: a phrase, and half the width of the 90 % interval on a logarithmic scale."""

    status: str
    log_error_90: float

    def interval_s(self, seconds: float) -> tuple[float, float]:
        """The 90 % interval around a time."""
        factor = math.exp(self.log_error_90)
        return seconds / factor, seconds * factor


def sm_evidence(gpu: Gpu) -> SmEvidence:
    """What backs the time of a launch on a GPU.

    >>> from perfmodel.gpus.catalogue import load_gpu
    >>> sm_evidence(load_gpu("h200")).status
    'fitted to other kernels on this GPU'
    """
    if gpu.id in FITTED_GPUS:
        return SmEvidence(status="fitted to other kernels on this GPU", log_error_90=sm_model().left_out_log_error)
    return SmEvidence(
        status=f"fitted to other kernels on {', '.join(FITTED_GPUS)}", log_error_90=sm_model().other_gpu_log_error
    )


@cache
def sm_model() -> SmModel:
    """The numbers that the package ships.

    >>> sm_model().loaded_latency
    1.17
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
        counts: of the whole launch, with its traffic behind L1.
        blocks_per_sm: resident blocks by occupancy.
        gpu: the GPU.
        warm: whether its data lies in L2, so that what it writes stays there.
        model: fitted numbers; the package's where None.
        budget: instructions to follow.
    """
    from .sm_simulation import Stall

    model = model or sm_model()
    usual, longest = _usual_and_longest(traces, int(launch.blocks), gpu)
    code = _code(traces, counts, launch, blocks_per_sm, gpu, model)
    machine = _machine(traces, counts, launch, gpu, model, warm)
    run, cycles = _launch_cycles(usual, code, machine, float(launch.blocks), blocks_per_sm, counts, gpu, budget)
    if longest is not None:
        alone, lone_cycles = _launch_cycles(longest, code, machine, 1.0, 1, counts, gpu, budget)
        if lone_cycles > cycles:
            run, cycles = alone, lone_cycles
    cycles += model.first_block_latencies * gpu.dram_latency_cycles
    waited = float(run.stalls.sum())
    return SmTime(
        seconds=cycles / gpu.boost_clock_hz + gpu.empty_kernel_s,
        stalls={stall.name.lower(): float(run.stalls[stall]) / max(waited, 1.0) for stall in Stall},
        issued_share=run.issued / max(run.cycles * gpu.schedulers_per_sm, 1.0),
    )


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
    uneven = most is not None and traces.instructions[most] > _UNEVEN * traces.instructions[usual].mean()
    return traces.of_blocks(usual), traces.of_blocks([most]) if uneven and most is not None else None


def _machine(traces: WarpTraces, counts: Counts, launch: Launch, gpu: Gpu, model: SmModel, warm: bool) -> Machine:
    """One SM of the GPU, with its share of the memories where all SMs that have a block ask at once."""
    from .sm_simulation import Machine

    active = min(gpu.sm_count, int(launch.blocks))
    clock = gpu.boost_clock_hz
    read, written = float(counts.l2_read_sectors) * SECTOR_BYTES, float(counts.l2_write_sectors) * SECTOR_BYTES
    back = float(counts.dram_write_bytes) if warm else max(written, float(counts.dram_write_bytes))
    return Machine(
        schedulers=gpu.schedulers_per_sm,
        split_fma=_split_fma(gpu),
        l1_latency=gpu.l1_latency_cycles,
        shared_latency=gpu.shared_latency_cycles,
        l2_latency=model.latency_factor * gpu.l2_latency_cycles,
        dram_latency=model.latency_factor * gpu.dram_latency_cycles,
        loaded_latency=model.loaded_latency,
        l2_bytes_per_cycle=min(float(gpu.l2_port_bytes_per_cycle), gpu.l2_read_bytes_per_s / active / clock),
        dram_bytes_per_cycle=model.dram_efficiency * gpu.dram_read_bytes_per_s / active / clock,
        dram_share=min(1.0, float(counts.dram_read_bytes) / read) if read else 0.0,
        write_back=min(1.0, back / written) if written else 0.0,
        data_queue=model.data_queue_entries,
        write_queue_cycles=model.write_queue_cycles,
        operand_cycles=model.operand_cycles,
        barrier_cycles=model.barrier_cycles + traces.warps_per_block * WARP_SIZE / gpu.barrier_threads_per_cycle,
        block_start_cycles=model.block_start_cycles,
        dispatch_cycles=active * gpu.block_dispatch_cycles,
        l0_lines=gpu.instruction_cache_l0_bytes // LINE_BYTES,
        fetch_cycles=gpu.instruction_supply_cycles * _INSTRUCTIONS_PER_LINE * gpu.schedulers_per_sm,
        fetch_latency=model.fetch_latency_cycles,
        code_lines=-(-len(traces.table) // _INSTRUCTIONS_PER_LINE),
    )


def _launch_cycles(
    traces: WarpTraces,
    code: Code,
    machine: Machine,
    blocks: float,
    blocks_per_sm: int,
    counts: Counts,
    gpu: Gpu,
    budget: int,
) -> tuple[Run, float]:
    """The run of one SM, and the cycles of the launch."""
    from .sm_simulation import Paths, simulate_sm

    average = blocks / gpu.sm_count
    resident = max(1, min(blocks_per_sm, math.ceil(average)))
    paths = Paths(traces.first, traces.length, traces.offsets, traces.warps_per_block, traces.blocks)
    followed = float(traces.length.sum()) / traces.blocks
    most = max(_LEAST_WAVES * resident, min(SIMULATED_WAVES * resident, int(budget / max(followed, 1.0))))
    simulated = min(math.ceil(average), most)
    run = simulate_sm(code, paths, machine, resident, simulated, budget)
    cycles = _whole(run.cycles, run.finished, run.issued, simulated, average, resident, followed)
    own = float(traces.instructions.mean())
    cycles *= own / max(followed, 1.0)
    if average > _LEAST_WAVES * resident:
        # over many waves the blocks that were not followed count as much as those that were
        least, largest = 1.0 / _UNEVEN, _UNEVEN
        cycles *= min(max(float(counts.warp_instructions) / (own * blocks), least), largest)
    return run, cycles


def _whole(
    cycles: float, finished: Floats, issued: int, simulated: int, average: float, resident: int, followed: float
) -> float:
    """Cycles of all blocks of an SM from those that were followed: what is left goes on at the rate between waves."""
    waves = average / resident
    executed = average + (math.ceil(average) - average) * math.exp(-waves / _LEAST_WAVES)
    if len(finished) < simulated:
        return cycles * executed * followed / max(issued, 1)
    last = float(finished[-1])
    if executed <= simulated:
        return last * executed / simulated
    settled = simulated - 2 * resident + 1
    rate = float(finished[-resident] - finished[resident - 1]) / settled
    return last + (executed - simulated) * rate


def _split_fma(gpu: Gpu) -> bool:
    return gpu.fp32_lanes_per_sm / gpu.schedulers_per_sm >= _WIDE_FMA_LANES


def _code(traces: WarpTraces, counts: Counts, launch: Launch, blocks_per_sm: int, gpu: Gpu, model: SmModel) -> Code:
    """What the simulation needs of each instruction on this GPU."""
    from .sm_simulation import Code

    table, memory = traces.table, traces.memory
    blocks = int(launch.blocks)
    waves = max(1.0, blocks / gpu.sm_count / max(blocks_per_sm, 1))
    copies = table.wait == Wait.ASYNC_COPY
    # a generic access that reached shared memory alone waits for that
    reaches_shared = (memory.wavefronts > 0) & (memory.lines == 0) & ~copies
    wait = np.where(reaches_shared, int(Wait.SHARED), table.wait)
    pipe_cycles = _pipe_cycles(table, gpu)
    lines = np.maximum(memory.lines, memory.sectors * SECTOR_BYTES / gpu.l1_bytes_per_cycle_per_sm)
    shared = np.maximum(gpu.shared_cycles_per_instruction, gpu.shared_cycles_per_wavefront * memory.wavefronts)
    passes = np.where(copies, memory.wavefronts, gpu.shared_cycles_per_wavefront * memory.wavefronts)
    data_cycles = np.where(wait == Wait.SHARED, shared, np.maximum(lines + passes, 1.0))
    asking = np.minimum(1.0, memory.requests / np.maximum(traces.executions(), 1))
    data_cycles = np.where(memory.requests > 0, asking * data_cycles + (1.0 - asking), data_cycles)
    chance, sectors = _misses(memory, wait, counts, blocks / traces.observed)
    stores = np.isin(wait, [Wait.GLOBAL_STORE, Wait.LOCAL_STORE, Wait.GLOBAL_REDUCTION])
    return Code(
        pipe=table.pipe,
        wait=wait,
        stall_cycles=table.stall_cycles.astype(np.float64),
        write_barrier=table.write_barrier,
        read_barrier=table.read_barrier,
        wait_mask=table.wait_mask,
        groups_left=table.groups_left,
        issue_cycles=_issue_cycles(table, gpu),
        pipe_cycles=pipe_cycles,
        latency=model.variable_latency_cycles + pipe_cycles,
        data_cycles=data_cycles,
        miss_chance=chance * asking,
        missed_bytes=sectors * SECTOR_BYTES,
        far_chance=_far(memory, counts, waves),
        stored_bytes=np.where(stores, asking * memory.sectors * SECTOR_BYTES, 0.0),
    )


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


def _issue_cycles(table: IssueTable, gpu: Gpu) -> Floats:
    """Cycles of the issue slot: a bank gives one register a cycle to the wide FP32 pipe, two to pipes half as wide."""
    most = table.bank_reads.max(axis=1, initial=0)
    if _split_fma(gpu):
        return np.where(table.pipe == Pipe.FMA, np.maximum(most, 1), 1).astype(np.float64)
    return np.asarray(1.0 + np.maximum(most - 2, 0), np.float64)


def _misses(memory: MemoryDemand, wait: NDArray[np.int64], counts: Counts, scale: float) -> tuple[Floats, Floats]:
    """Chance of a request to go behind L1, and the sectors that it then asks for.

    Loads that touch sectors for the first time miss most; all are scaled alike so that as many sectors pass L1 as the counts
    say. A request to many lines misses where any of them does. What is new to a warp and not to its block is on its way: the warp
    waits as long, and no further sectors are asked for.
    """
    first = memory.first_touches + np.where(wait == Wait.LOCAL_LOAD, _UNSEEN_LOCAL, 0.0)
    loads = np.isin(wait, [Wait.GLOBAL_LOAD, Wait.LOCAL_LOAD, Wait.ASYNC_COPY]) & (memory.requests > 0)
    asked = np.where(loads, memory.requests * memory.sectors * scale, 0.0)
    target = min(float(counts.l2_read_sectors), float(asked.sum()))
    low, high = 1e-6, 1e6
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if np.minimum(1.0, middle * first) @ asked < target else (low, middle)
    missed = np.where(loads, np.minimum(1.0, low * first), 0.0)
    waiting = np.where(loads, np.minimum(1.0, low * np.maximum(first, memory.first_touches_of_warps)), 0.0)
    chance = np.minimum(1.0, waiting * np.maximum(memory.lines, 1.0))
    atomics = wait == Wait.GLOBAL_ATOMIC
    chance = np.where(atomics, 1.0, chance)
    sectors = np.where(atomics, memory.sectors, missed * memory.sectors / np.maximum(chance, 1e-12))
    return chance, sectors


def _far(memory: MemoryDemand, counts: Counts, waves: float) -> Floats:
    """Part of the requests behind L1 that wait for DRAM.

    As many as the bytes say that L2 lacks; and blocks of the first wave ask together for what nobody has read before, so that
    all of them wait for it.
    """
    read = float(counts.l2_read_sectors) * SECTOR_BYTES
    share = min(1.0, float(counts.dram_read_bytes) / read) if read else 0.0
    together = memory.first_touches / waves if share > 0 else np.zeros_like(memory.first_touches)
    return np.asarray(share + (1.0 - share) * together)


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
    from .sm_simulation import Paths, simulate_logged

    usual, _ = _usual_and_longest(traces, int(launch.blocks), gpu)
    code = _code(traces, counts, launch, blocks_per_sm, gpu, sm_model())
    machine = _machine(traces, counts, launch, gpu, sm_model(), warm)
    average = math.ceil(float(launch.blocks) / gpu.sm_count)
    resident = max(1, min(blocks_per_sm, average))
    paths = Paths(usual.first, usual.length, usual.offsets, usual.warps_per_block, usual.blocks)
    log = np.zeros((budget, 3))
    run = simulate_logged(code, paths, machine, resident, average, budget, log)
    kept = log[: run.issued]
    return SmIssues(
        warp=kept[:, 0].astype(np.int64),
        instruction=kept[:, 1].astype(np.int64),
        cycle=kept[:, 2],
        warps_per_block=usual.warps_per_block,
    )
