"""What each instruction of a launch takes of an SM and of its share of the memories, in cycles: the arrays of `Code`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..core.constants import BANK_BYTES, CONSTANT_LINE_BYTES, SECTOR_BYTES, SHARED_BANKS, WARP_SIZE
from ..core.counts import Counts
from ..gpus.gpu import Gpu
from ..launch.launch import Launch
from ..machine_code.issue_table import IssueTable, Pipe, Wait
from ..machine_code.matrix_products import WARPGROUP_WARPS, TensorRate
from ..profiles.warp_traces import MemoryDemand, WarpTraces
from .sm_loads import Loads, copied_past_l1, filled_for_stores, first_parts, is_atomic, is_load, misses
from .sm_model import SmModel
from .sm_records import Code
from .terms import atomic_seconds

Floats = NDArray[np.float64]

_WIDE_READ_BYTES = 16
"""Bytes of a lane of the widest loads from shared memory."""
_WIDE_FMA_LANES = 32
"""Lanes for each scheduler from which on FP32 has two halves, and reads its registers in one cycle."""


def code_of(
    traces: WarpTraces,
    counts: Counts,
    launch: Launch,
    active: float,
    loads: Loads,
    gpu: Gpu,
    model: SmModel,
    warm: bool,
) -> Code:
    """What the simulation needs of each instruction on this GPU, where so many of its SMs are active."""
    table, memory = traces.table, traces.memory
    # a generic access that reached shared memory alone waits for that
    in_memory = (table.wait >= Wait.GLOBAL_LOAD) & (table.wait <= Wait.LOCAL_STORE)
    wait = np.where(in_memory & (memory.wavefronts > 0) & (memory.lines == 0), int(Wait.SHARED), table.wait)
    scale = float(launch.blocks) / traces.observed
    pipe_cycles = _pipe_cycles(table, gpu)
    asking = np.minimum(1.0, memory.requests / np.maximum(traces.executions(), 1))
    # generic accesses that reach neither the block's own shared memory nor global memory reach that of another block
    distributed = (table.generic_bytes > 0) & (memory.lines == 0) & (launch.blocks_per_cluster > 1)
    elsewhere = np.where(distributed, 1.0 - asking, 0.0)
    wait = np.where(distributed, int(Wait.SHARED), wait)
    asking = np.where(np.isin(wait, [Wait.GLOBAL_LOAD, Wait.ASYNC_COPY]), 1.0, asking)
    chance, sectors = misses(memory, wait, loads)
    past_l1 = copied_past_l1(memory, table)
    chance, sectors = np.where(past_l1 > 0, 1.0, chance), np.where(past_l1 > 0, past_l1, sectors)
    filled = 0.0 if warm else filled_for_stores(traces, counts, launch, gpu)
    write_cycles, written = store_cycles(memory, wait, counts, scale, active, filled, gpu, warm)
    on_a_word = lanes_on_a_word(memory, wait, counts, scale)
    write_cycles = np.maximum(write_cycles, atomic_cycles(memory, wait, traces.active_lanes, on_a_word, active, gpu))
    data_cycles, latency = data_pipe(memory, wait, table.global_bytes, on_a_word, gpu)
    data_cycles = np.maximum(data_cycles, table.shared_bytes / gpu.shared_lane_bytes_per_cycle)
    copies = wait == Wait.ASYNC_COPY
    data_cycles = np.where(past_l1 > 0, copies_past_l1(memory, past_l1, gpu), data_cycles)
    # an archive that does not say which copies pass L1 by
    data_cycles = np.where(copies & (table.past_l1 < 0), memory.lines + memory.wavefronts, data_cycles)
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
        issue_cycles=np.where(table.wait == Wait.BRANCH, model.branch_issue_cycles, issue_slot_cycles(table, gpu)),
        bank_reads=_bank_reads(table, gpu),
        kept_for=table.kept_for,
        pipe_cycles=pipe_cycles,
        latency=np.where(wait == Wait.VARIABLE, model.variable_latency_cycles + pipe_cycles, latency),
        data_cycles=data_cycles,
        miss_chance=chance * asking,
        missed_bytes=sectors * SECTOR_BYTES,
        atomic_cycles=_atomics(memory, wait, counts, scale, active, gpu),
        lines_per_byte=memory.lines / np.maximum(np.where(past_l1 > 0, past_l1, memory.sectors) * SECTOR_BYTES, 1.0),
        far_chance=_far_chances(wait, past_l1, lacking_part(memory, wait, scale, filled), loads),
        write_cycles=asking * write_cycles,
        written_bytes=asking * written,
        constant_line=constant_lines(traces)[0][: len(table)],
        constant_walk=walk,
        past_l1_bytes=past_l1 * SECTOR_BYTES,
    )


def _far_chances(wait: NDArray[np.int64], past_l1: Floats, lacking: float, loads: Loads) -> Floats:
    """Chance to wait for DRAM of what goes behind L1 again: L2 has what copies past L1 ask for a second time."""
    again = np.where(past_l1 > 0, 0.0, loads.again_far)
    return np.where(wait == Wait.GLOBAL_ATOMIC, lacking, again)


def lanes_on_a_word(memory: MemoryDemand, wait: NDArray[np.int64], counts: Counts, scale: float) -> float:
    """Lanes of a warp that change one word by an atomic, of the words that most of them change, on average."""
    sectors = scale * float((memory.requests * memory.sectors) @ is_atomic(wait))
    return max(1.0, float(counts.l2_atomic_sectors) / sectors) if sectors else 1.0


def data_pipe(
    memory: MemoryDemand, wait: NDArray[np.int64], global_bytes: NDArray[np.int64], lanes_on_a_word: float, gpu: Gpu
) -> tuple[Floats, Floats]:
    """Cycles of L1's data pipe or of the constant cache for each request, and what its shape adds to its latency.

    L1 looks up some lines a cycle, and its banks give a word each, on some GPUs every other cycle. A load from global memory
    gives the words of its lanes one after the other (``global_bytes``), whether lanes ask for the same or take no part. Sectors
    that L2 takes in part leave one after the other. Atomics pass line by line, and as often as lanes change one word; what
    they return passes again. The constant cache gives one word after the other.
    """
    words = np.maximum(memory.wavefronts, 1.0)
    lines = np.ceil(memory.lines / gpu.l1_tags_per_cycle)
    loads, local = is_load(wait) & (wait != Wait.ASYNC_COPY), np.isin(wait, [Wait.LOCAL_LOAD, Wait.LOCAL_STORE])
    lines = np.where(local, np.maximum(memory.lines, lines), np.maximum(memory.wavefronts, lines))
    of_lanes = np.where(wait == Wait.GLOBAL_LOAD, global_bytes / BANK_BYTES, 0.0)
    passes = np.maximum(gpu.l1_cycles_per_request, gpu.l1_cycles_per_wavefront * np.maximum(words, of_lanes))
    cycles = np.maximum(lines, np.where(loads, passes, 1.0))
    stores = np.isin(wait, [Wait.GLOBAL_STORE, Wait.LOCAL_STORE])
    partial, _ = _partial_sectors(memory, np.where(stores, memory.sectors, 0.0), gpu)
    cycles = np.maximum(cycles, gpu.partial_store_cycles * partial)
    shared = np.maximum(gpu.shared_cycles_per_instruction, gpu.shared_cycles_per_wavefront * memory.wavefronts)
    cycles = np.where(wait == Wait.SHARED, shared, cycles)
    looked_up = np.ceil(memory.lines / gpu.l1_tags_per_cycle)
    cycles = np.where(wait == Wait.ASYNC_COPY, np.maximum(looked_up, memory.wavefronts) + gpu.async_copy_cycles, cycles)
    returned = np.where(wait == Wait.GLOBAL_ATOMIC, 2.0, 1.0)
    cycles = np.where(is_atomic(wait), np.maximum(memory.lines, 1.0) * lanes_on_a_word * returned, cycles)
    cycles = np.where(wait == Wait.CONSTANT, gpu.constant_word_cycles * words, cycles)
    further = (words - 1.0) * (gpu.l1_wavefront_latency_cycles - 1.0)
    latency = np.where(loads & ~local, np.maximum(further, 0.0), 0.0)
    latency = np.where(wait == Wait.GLOBAL_ATOMIC, gpu.l2_atomic_latency_cycles - gpu.l2_latency_cycles, latency)
    first, each = gpu.constant_latency_cycles, gpu.constant_word_latency_cycles
    return cycles, np.where(wait == Wait.CONSTANT, first + (words - 1.0) * each - cycles, latency)


def copies_past_l1(memory: MemoryDemand, sectors: Floats, gpu: Gpu) -> Floats:
    """Cycles of the data pipe for each asynchronous copy of 16 bytes a lane, which L1 does not keep, and what L2 sends for it.

    It is put into shared memory as it comes: all sectors one after the other, and each line and each pass of all banks no sooner
    than as many bytes.
    """
    parts = SHARED_BANKS * BANK_BYTES * np.maximum(memory.lines, memory.wavefronts)
    arriving = np.maximum(parts, SECTOR_BYTES * sectors) / gpu.copied_bytes_per_cycle
    return np.asarray(np.maximum(arriving, 1.0), np.float64)


def store_cycles(
    memory: MemoryDemand,
    wait: NDArray[np.int64],
    counts: Counts,
    scale: float,
    active: float,
    filled: float,
    gpu: Gpu,
    warm: bool,
) -> tuple[Floats, Floats]:
    """Cycles of each store on its way to L2, of which all SMs use their share at once, and bytes of it that DRAM takes.

    A sector that is written in part takes as long as several that are read, less where it shares its line with others of the
    request; L1 puts those of a few lines together that complete each other. A sector that a block writes again stays in L2
    meanwhile; where all data lie there, no more reach DRAM than the counts say. Of sectors that are changed in part while L2
    lacks them (``filled``) DRAM gives the rest, and takes them as a whole.
    """
    stores = np.isin(wait, [Wait.GLOBAL_STORE, Wait.LOCAL_STORE])
    sectors = np.where(stores | is_atomic(wait), memory.sectors, 0.0)
    partial, merged = _partial_sectors(memory, sectors, gpu)
    shared_line = gpu.l2_partial_line_share * (1.0 - memory.lines / np.maximum(sectors, 1.0))
    reads = gpu.l2_partial_write_reads * (1.0 - np.clip(shared_line, 0.0, 1.0))
    further = partial * np.maximum(reads * gpu.l2_write_share - 1.0, 0.0) - merged
    share = gpu.l2_write_share * gpu.l2_read_bytes_per_s / active / gpu.boost_clock_hz
    rate = min(float(gpu.l2_store_port_bytes_per_cycle), share)
    written = np.where(wait == Wait.GLOBAL_STORE, sectors * memory.first_stores, 0.0) * SECTOR_BYTES
    if warm:
        total = float(written @ memory.requests) * scale
        written = written * (min(1.0, float(counts.dram_write_bytes) / total) if total else 0.0)
    parts, lacking = first_parts(memory, wait), lacking_part(memory, wait, scale, filled)
    pairs = np.minimum(1.0, 2.0 * memory.lines / np.maximum(sectors, 1.0))
    completed = lacking * parts * pairs * gpu.dram_partial_sectors * SECTOR_BYTES
    return (sectors + further) * SECTOR_BYTES / rate, written + completed


def lacking_part(memory: MemoryDemand, wait: NDArray[np.int64], scale: float, filled: float) -> float:
    """Of the sectors that stores and atomics change in part the part that L2 lacks then (``filled``)."""
    return min(1.0, filled / max(scale * float(first_parts(memory, wait) @ memory.requests), 1.0))


def _partial_sectors(memory: MemoryDemand, sectors: Floats, gpu: Gpu) -> tuple[Floats, Floats]:
    """Of each store the sectors that L2 takes in part, and those that it does not take, as L1 has put them to others.

    L1 keeps what few lines are stored to, until the next stores. A sector that the block stores again is complete then.
    """
    partial = np.minimum(memory.partial_sectors, sectors)
    kept = np.where(memory.lines <= gpu.l2_merged_store_lines, partial, 0.0)
    stored = float(memory.requests @ kept)
    first = float(memory.requests @ (kept * memory.first_stores)) / stored if stored else 1.0
    complete = min(1.0, (1.0 - first) / first) if first else 1.0
    merged = kept * (1.0 - memory.first_stores)
    return partial - merged - complete * (kept - merged), merged


def atomic_cycles(
    memory: MemoryDemand, wait: NDArray[np.int64], lanes: Floats | None, lanes_on_a_word: float, active: float, gpu: Gpu
) -> Floats:
    """Cycles of each atomic on its way through L2, of which all SMs use their share at once.

    A line takes as long as one operation on a sector, and the lanes of a request take another one for each eight of them; those
    on one word follow one another. What is returned takes longer.
    """
    lines = np.maximum(memory.lines, 1.0) * lanes_on_a_word
    eighths = memory.sectors if lanes is None else lanes * BANK_BYTES / SECTOR_BYTES
    seconds = (lines + eighths) * gpu.l2_atomic_s / gpu.l2_slices
    returned = np.where(wait == Wait.GLOBAL_ATOMIC, gpu.l2_returned_atomics, 1.0)
    return np.where(is_atomic(wait), seconds * returned * active * gpu.boost_clock_hz, 0.0)


def _atomics(
    memory: MemoryDemand, wait: NDArray[np.int64], counts: Counts, scale: float, active: float, gpu: Gpu
) -> Floats:
    """Cycles of the busiest place of L2 for each reduction of the SM, where the other SMs send theirs at the same time.

    All atomics together take what the busiest place needs for the launch (`atomic_seconds`). Warps that wait for what an atomic
    returns fall out of step with those of other SMs, and meet no queue but their own.
    """
    requests = scale * float(memory.requests @ is_atomic(wait)) / active
    cycles = float(atomic_seconds(counts, gpu)) * gpu.boost_clock_hz
    return np.where(wait == Wait.GLOBAL_REDUCTION, cycles / max(requests, 1.0), 0.0)


def _pipe_cycles(table: IssueTable, gpu: Gpu) -> Floats:
    """Cycles that a warp instruction holds its pipe: lanes of a warp over lanes of the pipe for each scheduler."""
    schedulers = gpu.schedulers_per_sm
    half = 2.0 if split_fma(gpu) else 1.0
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
    cycles = np.maximum(np.where(rate > 0, cycles, 0.0), _product_reads(table, gpu))
    return np.asarray(cycles, np.float64)


def _product_reads(table: IssueTable, gpu: Gpu) -> Floats:
    """Cycles in which shared memory gives a warpgroup the factors that lie there: to all of its warps at once."""
    bytes_per_cycle = SHARED_BANKS * BANK_BYTES / gpu.shared_cycles_per_wavefront
    return WARPGROUP_WARPS * table.product_bytes / bytes_per_cycle


def issue_slot_cycles(table: IssueTable, gpu: Gpu) -> Floats:
    """Cycles of the issue slot: a third register of one bank takes one more where FP32 pipes are half as wide as a warp.

    Loads of 16 bytes from shared memory and integer products of 64 bits may keep it for longer, too.
    A product of a warp keeps its scheduler for a part of the time that it holds tensor cores (`Gpu.tensor_issue_share`), and
    longer where another instruction follows it (`Gpu.tensor_switch_cycles`).
    """
    products = table.tensor_operations > 0
    switches = products & ~np.append(products[1:], False)
    of_products = gpu.tensor_issue_share * tensor_cycles(table, gpu) * products + gpu.tensor_switch_cycles * switches
    third = 0 if split_fma(gpu) else np.maximum(table.bank_reads.max(axis=1, initial=0) - 2, 0)
    alone = np.where(table.shared_bytes >= _WIDE_READ_BYTES, gpu.wide_read_issue_cycles, 1.0)
    alone = np.where(table.pipe_passes > 1, gpu.wide_product_issue_cycles, alone)
    return np.asarray(np.maximum(alone + third, of_products), np.float64)


def _bank_reads(table: IssueTable, gpu: Gpu) -> Floats:
    """Registers that arithmetic reads from each bank, which gives one a cycle; other pipes wait longer for what they read.

    Shape ``(n, 2, BANKS)``: without those that are kept for reuse, and with them.
    """
    reads = np.isin(table.pipe, [Pipe.FMA, Pipe.FMA_HEAVY, Pipe.ALU]) & split_fma(gpu)
    registers = np.stack([table.bank_reads, table.bank_reads + table.kept_reads], axis=1)
    return np.where(reads[:, None, None], registers, 0.0)


def split_fma(gpu: Gpu) -> bool:
    """Whether a scheduler has two halves of FP32."""
    return gpu.fp32_lanes_per_sm / gpu.schedulers_per_sm >= _WIDE_FMA_LANES


def constant_sets(gpu: Gpu) -> int:
    """Sets of a cache of constants."""
    return gpu.constant_cache_bytes // CONSTANT_LINE_BYTES // gpu.constant_cache_ways


def constant_lines(traces: WarpTraces) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Numbers of the lines of constants that instructions name, -1 for none, and then that walks read; and these lines."""
    everything = np.concatenate([traces.table.constant_line, traces.constants.lines])
    lines, numbers = np.unique(everything, return_inverse=True)
    none = int(lines[0] < 0) if len(lines) else 0
    return numbers - none, lines[none:]
