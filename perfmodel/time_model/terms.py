"""Demand of each resource of the GPU by a launch, as times; each function is one physical term.

All take whole-launch counts of n candidates (arrays of shape ``(n,)``) and give SM cycles of the average SM (``_cycles``), or
seconds where a resource has a clock of its own (``_seconds``). `combine` joins them. In the formulas counts and facts of the
sheet stand under their own names and coefficients under c.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.constants import FLOAT_BYTES, INSTRUCTION_BYTES, LOCAL_REQUEST_SECTORS, SECTOR_BYTES, WARP_SIZE
from ..core.counts import Counts
from ..gpus.gpu import Gpu, IntegerPorts
from ..profiles.kernel_profile import KernelProfile
from .coefficients import Coefficients

Floats = NDArray[np.float64]

LANES_OF_PASS = 4
"""Lanes that pass the texture pipe together: a quad, one lane for each texture unit of most GPUs."""


def arithmetic_cycles(counts: Counts, gpu: Gpu) -> Floats:
    """FP32 and integer instructions on the ports that they share or have for themselves (``Gpu.integer_ports``).

    max(fp32 · 32 / fp32_lanes, integer · 32 / int32_lanes) / sm_count with fp32 = fp32_fma + fp32_other; where ports are not
    separate, integer instructions are added to fp32 too.
    """
    floating = np.asarray(counts.fp32_fma + counts.fp32_other, np.float64)
    integer = np.asarray(counts.integer, np.float64)
    fp32 = WARP_SIZE / gpu.fp32_lanes_per_sm
    int32 = WARP_SIZE / gpu.int32_lanes_per_sm
    if gpu.integer_ports is IntegerPorts.SEPARATE:
        cycles = np.maximum(floating * fp32, integer * int32)
    else:
        cycles = np.maximum((floating + integer) * fp32, integer * int32)
    return np.asarray(cycles / gpu.sm_count)


def slow_pipe_cycles(counts: Counts, gpu: Gpu) -> Floats:
    """The slowest of FP64, special functions with conversions, and half precision.

    max(fp64 / fp64_lanes, (special_function + conversion) / special_function_lanes, fp16 / fp32_lanes) · 32 / sm_count.
    """
    double = counts.fp64 * (WARP_SIZE / max(gpu.fp64_lanes_per_sm, 1))
    special = (counts.special_function + counts.conversion) * (WARP_SIZE / gpu.special_function_lanes_per_sm)
    half = counts.fp16 * (WARP_SIZE / gpu.fp32_lanes_per_sm)
    return np.asarray(np.maximum(np.maximum(double, special), half) / gpu.sm_count)


def tensor_cycles(work: KernelProfile, gpu: Gpu) -> Floats:
    """Matrix products on the tensor cores of an SM's sub-partitions: tensor_cycles / (schedulers_per_sm · sm_count)."""
    return np.asarray(work.tensor_cycles / float(gpu.schedulers_per_sm * gpu.sm_count), np.float64)


def issue_cycles(counts: Counts, gpu: Gpu, tensor_cycles: Any = 0.0) -> Floats:
    """One warp instruction a cycle from each scheduler; a matrix product keeps its scheduler for a part of its time.

    (warp_instructions + max(0, tensor_issue_share · tensor_cycles − tensor)) / (schedulers_per_sm · sm_count), where tensor are
    the products and ``tensor_cycles`` what they take of tensor cores (`KernelProfile.tensor_cycles`).
    """
    held = np.maximum(gpu.tensor_issue_share * np.asarray(tensor_cycles, np.float64) - counts.tensor, 0.0)
    return np.asarray((counts.warp_instructions + held) / (gpu.schedulers_per_sm * gpu.sm_count), np.float64)


def shared_pipe_cycles(counts: Counts, gpu: Gpu) -> Floats:
    """The data pipe of L1 and shared memory: shared accesses, asynchronous copies, shuffles, global requests.

    (shared + predicated off + copies + max(global_load_requests · 32 / lanes, global_load_lines / l1_tags_per_cycle)
    + (global_store_requests + global_reduction_requests) · 32 / lanes + texture_pipe_passes · 4 / texture_units_per_sm
    + cycles_per_wavefront · shared_atomic_wavefronts +
    cycles_per_instruction · shuffles) / sm_count, where shared sums
    max(cycles_per_instruction · requests, cycles_per_wavefront · wavefronts) over loads and stores; lanes are
    load_store_lanes_per_sm.

    Shared accesses of warps whose lanes are all predicated off pass through it too. An asynchronous copy reads its source a
    word of each bank at a time (both counted on an H200: conv1d's naive kernel, micro-benchmark ``copy_patterns``).
    """
    instruction, wavefront = gpu.shared_cycles_per_instruction, gpu.shared_cycles_per_wavefront
    shared = np.maximum(instruction * counts.shared_load_requests, wavefront * counts.shared_load_wavefronts)
    shared = shared + np.maximum(instruction * counts.shared_store_requests, wavefront * counts.shared_store_wavefronts)
    shared = shared + wavefront * counts.shared_atomic_wavefronts
    off = counts.shared_load_predicated_off + counts.shared_store_predicated_off
    copies = counts.async_copy_requests + counts.async_copy_read_wavefronts + counts.async_copy_wavefronts
    lanes = WARP_SIZE / gpu.load_store_lanes_per_sm
    tags = np.maximum(lanes * counts.global_load_requests, counts.global_load_lines / gpu.l1_tags_per_cycle)
    writes = lanes * (counts.global_store_requests + counts.global_reduction_requests)
    textures = counts.texture_pipe_passes * (LANES_OF_PASS / gpu.texture_units_per_sm)
    accesses = shared + off + copies + tags + writes + textures
    return np.asarray((accesses + instruction * counts.shuffles) / gpu.sm_count, np.float64)


def sector_cycles(counts: Counts, gpu: Gpu) -> Floats:
    """Sectors through L1 at its bandwidth, those of local memory and of asynchronous copies with them.

    32 bytes · sectors / (l1_bytes_per_cycle_per_sm · sm_count).
    """
    sectors = counts.global_load_sectors + counts.global_store_sectors + counts.async_copy_read_sectors
    sectors = sectors + counts.texture_sectors + counts.surface_load_sectors + counts.surface_store_sectors
    local = counts.local_load_sectors + counts.local_store_sectors
    per_sector = SECTOR_BYTES / gpu.l1_bytes_per_cycle_per_sm
    return np.asarray((sectors + local) * per_sector / gpu.sm_count, np.float64)


def round_trip_cycles(counts: Counts, waves: Any, gpu: Gpu, coefficients: Coefficients) -> Floats:
    """Cycles from a group of global loads to the use of what it loaded: the latency of L1, L2 or, for first touches, DRAM.

    A group waits for what is farthest away; of sectors that are read again and again few pass L1. Blocks of the first wave
    load together what nobody has loaded before, and all wait for DRAM; over many waves the part that does is the part of
    the sectors that L2 has to fetch.

    Args:
        counts: sectors of the launch and bytes of DRAM.
        waves: blocks of an SM over those resident at once.
        gpu: latencies of its memories.
        coefficients: the fitted numbers.
    """
    fetched = np.asarray(counts.dram_read_bytes / (SECTOR_BYTES * np.maximum(counts.l2_read_sectors, 1.0)))
    fetched = np.minimum(fetched, 1.0)
    first = np.where(np.asarray(counts.dram_read_bytes) > 0, 1.0 / np.maximum(waves, 1.0), 0.0)
    from_dram = fetched + (1.0 - fetched) * first
    beyond = gpu.l2_latency_cycles + from_dram * (gpu.dram_latency_cycles - gpu.l2_latency_cycles)
    answered = (1.0 - _passing_l1(counts)) ** coefficients.sectors_awaited
    latency = beyond - answered * (beyond - gpu.l1_latency_cycles)
    return np.asarray(coefficients.round_trip_latencies * latency, np.float64)


def first_fill_cycles(sectors: Any, resident: Any, gpu: Gpu, clock_hz: float) -> Floats:
    """Cycles in which a block waits for its first copies to shared memory beyond their latency: all resident ones begin together.

    resident · 32 bytes · sectors / (l2_read_bytes_per_s / clock / sm_count), where ``sectors`` are those of a block, NaN where it
    does not begin with such copies.
    """
    per_cycle = gpu.l2_read_bytes_per_s / (clock_hz * gpu.sm_count)
    return np.asarray(resident * SECTOR_BYTES * np.nan_to_num(np.asarray(sectors, np.float64)) / per_cycle, np.float64)


def _passing_l1(counts: Counts) -> Floats:
    """Part of the sectors that loads and copies ask for which L1 lacks; all where what passes it was not counted."""
    of_objects = counts.texture_sectors + counts.surface_load_sectors
    asked = np.asarray(counts.global_load_sectors + counts.async_copy_read_sectors + of_objects, np.float64)
    passed = np.asarray(counts.l2_read_sectors, np.float64)
    return np.where(passed > 0, np.minimum(passed / np.maximum(asked, 1.0), 1.0), 1.0)


def first_block_cycles(counts: Counts, gpu: Gpu, coefficients: Coefficients) -> Floats:
    """Cycles that a launch takes longer because its first blocks find code, constants and address translations nowhere near.

    c.first_block_latencies · latency: of L2 where the data lies there (a launch that reads nothing from DRAM), else of DRAM.
    """
    latency = np.where(np.asarray(counts.dram_read_bytes) > 0, gpu.dram_latency_cycles, gpu.l2_latency_cycles)
    return np.asarray(coefficients.first_block_latencies * latency, np.float64)


def fma_chain_cycles(gpu: Gpu, coefficients: Coefficients) -> float:
    """Cycles of a lone warp for each FP32 instruction of its chains: so many intervals at which its scheduler may issue one."""
    interval = WARP_SIZE * gpu.schedulers_per_sm / gpu.fp32_lanes_per_sm
    return coefficients.fma_issue_intervals * interval


def scheduler_imbalance(warps_in_step: Any, gpu: Gpu) -> Floats:
    """Warps on the busiest scheduler over the mean, where the warps of a block go on together after a barrier.

    Six warps on four schedulers: two on the busiest, one and a half on average. A warp that waits for no other is in step with
    none: over time the schedulers have equally many of such warps, 1.
    """
    warps = np.asarray(warps_in_step, np.float64)
    busiest = np.ceil(warps / gpu.schedulers_per_sm) * gpu.schedulers_per_sm
    return np.asarray(np.where(warps > 1, busiest / np.maximum(warps, 1.0), 1.0))


def barrier_cycles(warps_per_block: Any, gpu: Gpu) -> Floats:
    """Cycles from a block's first arrival at a barrier to its last, at the published rate.

    CUDA C++ Programming Guide, synchronization instruction.
    """
    return np.asarray(warps_per_block, np.float64) * (WARP_SIZE / gpu.barrier_threads_per_cycle)


def fetch_cycles(instructions: Any, loop_code_bytes: Any, gpu: Gpu, coefficients: Coefficients) -> Floats:
    """Cycles that a warp waits for code from beyond the SM's instruction cache, because its loop is larger than that.

    Warps that walk through the same code share what is fetched: on an H200 a walk through code beyond the cache takes as long
    for 1 to 16 warps of an SM (micro-benchmark ``code_walk``). A quarter more than the cache holds is as good as none of it.
    ``instructions``: what the warp executes.
    """
    missed = _missed(loop_code_bytes, gpu.instruction_cache_l1_bytes, coefficients)
    return np.asarray(missed * instructions * coefficients.fetch_cycles_per_instruction, np.float64)


def supply_cycles(
    counts: Counts, warps: Any, code_bytes: Any, loop_code_bytes: Any, gpu: Gpu, coefficients: Coefficients
) -> Floats:
    """Cycles in which the schedulers of an SM get no instruction, because their own caches lack it.

    Code that runs straight on passes a cache that it does not fit once for each warp, a loop in every iteration. What comes
    from beyond the SM's cache is `fetch_cycles`.

    Args:
        counts: instructions of the launch.
        warps: of the launch.
        code_bytes: all of the code.
        loop_code_bytes: its largest loop.
        gpu: the schedulers' caches, and the cycles for each instruction from beyond them.
        coefficients: how soon a loop that does not fit is lost.
    """
    if not gpu.instruction_supply_cycles:
        return np.zeros(np.shape(warps))
    near = gpu.instruction_cache_l0_bytes
    executed = counts.warp_instructions / warps
    straight = np.minimum(np.asarray(code_bytes) / INSTRUCTION_BYTES, executed)
    lacked = np.maximum(
        _missed(loop_code_bytes, near, coefficients) * executed, _missed(code_bytes, near, coefficients) * straight
    )
    fetched = lacked * (1.0 - _missed(loop_code_bytes, gpu.instruction_cache_l1_bytes, coefficients)) * warps
    schedulers = gpu.sm_count * gpu.schedulers_per_sm
    return np.asarray(gpu.instruction_supply_cycles * fetched / schedulers, np.float64)


def _missed(code_bytes: Any, cache_bytes: int, coefficients: Coefficients) -> Floats:
    """Part of the instructions that a cache lacks; a quarter more than it holds is as good as none of it."""
    beyond = np.maximum(0.0, 1.0 - cache_bytes / np.maximum(code_bytes, 1.0))
    return np.asarray(np.minimum(1.0, coefficients.code_thrashing * beyond), np.float64)


def l2_seconds(counts: Counts, lifetime: Any, gpu: Gpu, coefficients: Coefficients) -> Floats:
    """Sectors that pass L1, read or written: they go opposite ways, and the greater part decides.

    Reads reach the part of the L2's measured bandwidth that blocks of that lifetime can: the measurement's blocks live long,
    short ones ask for nothing while they start and end, and for that part of their lives others have to fill in; many blocks
    together do so only in part. A whole sector is written in the time of a read, a part of one in that of several
    (``Gpu.l2_partial_write_reads``). ``lifetime``: SM cycles of a block alone, no less than one answer of L2 takes.
    """
    lived = np.maximum(lifetime, gpu.l2_latency_cycles)
    ramp = 1.0 + coefficients.l2_ramp_latencies * gpu.l2_latency_cycles / lived
    partial = partial_writes(counts) * (gpu.l2_partial_write_reads - 1.0)
    sectors = np.maximum(counts.l2_read_sectors * ramp, counts.l2_write_sectors + partial)
    return np.asarray(sectors * SECTOR_BYTES / gpu.l2_read_bytes_per_s, np.float64)


def partial_writes(counts: Counts) -> Floats:
    """Writes of a part of a sector to L2: from half of it on, where a row begins or ends, to a word.

    As many as make up what is missing from whole sectors, half a sector each; all where more is missing. Written are the bytes
    that reach DRAM in the end, or a word for each lane of the stores where that is more, because they overwrite one another.

    >>> float(partial_writes(Counts(l2_write_sectors=5.0, dram_write_bytes=128.0, global_store_requests=1.0)))
    2.0
    """
    writes = np.asarray(counts.l2_write_sectors, np.float64)
    written = np.maximum(counts.dram_write_bytes, counts.global_store_requests * float(WARP_SIZE * FLOAT_BYTES))
    missing = np.maximum(writes * SECTOR_BYTES - written, 0.0)
    return np.asarray(np.minimum(missing / (SECTOR_BYTES / 2), writes), np.float64)


def atomic_seconds(counts: Counts, gpu: Gpu) -> Floats:
    """Atomics on global memory, which L2 does one after the other: on the busiest slice, or on the busiest word.

    max(l2_busiest_slice_atomics · l2_atomic_s, l2_busiest_word_atomics · l2_word_atomic_s, l2_busiest_float_atomics ·
    l2_float_atomic_s).
    """
    slice_ = np.asarray(counts.l2_busiest_slice_atomics, np.float64) * gpu.l2_atomic_s
    word = np.asarray(counts.l2_busiest_word_atomics, np.float64) * gpu.l2_word_atomic_s
    floating = np.asarray(counts.l2_busiest_float_atomics, np.float64) * gpu.l2_float_atomic_s
    return np.asarray(np.maximum(np.maximum(slice_, word), floating), np.float64)


def dram_seconds(counts: Counts, gpu: Gpu) -> Floats:
    """Bytes that pass L2, at the DRAM's measured bandwidth."""
    moved = counts.dram_read_bytes + counts.dram_write_bytes
    return np.asarray(moved / gpu.dram_read_bytes_per_s, np.float64)


def local_traffic(work: KernelProfile, resident: Any, gpu: Gpu) -> Counts:
    """Traffic of the local accesses alone: what passes L1 as L2 sectors, what passes L2 as DRAM bytes.

    The resident threads' local memory competes for each cache as a whole: a cache serves the part of the accesses that it
    can hold. Stores are written through L1. ``work.local_bytes_per_thread`` is 0 where caches were simulated.
    """
    launch, counts = work.launch, work.counts
    if np.ndim(work.local_bytes_per_thread) == 0 and not work.local_bytes_per_thread:
        return Counts()
    footprint = np.asarray(work.local_bytes_per_thread, np.float64) * launch.threads_per_block * resident
    shared = np.asarray(launch.static_shared_bytes + launch.dynamic_shared_bytes, np.float64) * resident
    beside_shared = np.maximum(gpu.l1_bytes_per_sm - (shared if gpu.shared_carve_outs_bytes else 0.0), 0.0)
    held_by_l1 = np.minimum(1.0, beside_shared / np.maximum(footprint, 1.0))
    held_by_l2 = np.minimum(1.0, gpu.l2_bytes / np.maximum(footprint * gpu.sm_count, 1.0))
    reads = np.where(footprint > 0, counts.local_load_sectors * (1.0 - held_by_l1), 0.0)
    writes = np.where(footprint > 0, counts.local_store_sectors, 0.0)
    return Counts(
        l2_read_sectors=reads,
        l2_write_sectors=writes,
        dram_read_bytes=reads * SECTOR_BYTES * (1.0 - held_by_l2),
        dram_write_bytes=writes * SECTOR_BYTES * (1.0 - held_by_l2),
    )


def local_seconds(
    work: KernelProfile, traffic: Counts, waves: Any, gpu: Gpu, coefficients: Coefficients, clock_hz: float
) -> Any:
    """Time of the local accesses beside everything else: the longest of passing L2, passing DRAM and being waited for.

    A warp that spills reads back what it needs next and waits for it, and few such warps share an SM; all resident ones wait
    at the same time. ``traffic``: of `local_traffic`. ``waves``: blocks of an SM over those resident at once.
    """
    sectors = traffic.l2_read_sectors + traffic.l2_write_sectors
    if np.ndim(sectors) == 0 and not sectors:
        return 0.0
    passing = sectors * SECTOR_BYTES / gpu.l2_read_bytes_per_s
    warps = np.maximum(np.asarray(work.launch.blocks, np.float64) * work.launch.warps_per_block, 1.0)
    answers = traffic.l2_read_sectors * gpu.l2_latency_cycles
    fetched = traffic.dram_read_bytes / SECTOR_BYTES * (gpu.dram_latency_cycles - gpu.l2_latency_cycles)
    waiting = coefficients.local_load_latencies * (answers + fetched) / (LOCAL_REQUEST_SECTORS * warps)
    waited = waiting * np.maximum(waves, 1.0) / clock_hz
    return np.maximum(np.maximum(passing, dram_seconds(traffic, gpu)), waited)
