"""The terms joined into the time of a launch: throughput, latency within a block, memory, tail."""

from __future__ import annotations

import functools
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.batched import PIECE, joined, pieces, taken
from ..gpus.gpu import Gpu
from ..gpus.occupancy import occupancy
from ..profiles.kernel_profile import KernelProfile
from . import terms
from .coefficients import Coefficients

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Time of every resource if it were alone, in seconds; arrays of shape ``(n,)`` or numbers.

    ``exposed_memory_latency``, ``exposed_dependency_latency`` and ``instruction_fetch`` are what the resident blocks cannot
    hide. ``block_launch_rate``: starting all blocks one after the other. ``ramp_up``: what the first blocks wait for and
    later ones do not. ``local_memory`` adds to the rest, because the few warps that spill wait for it, and so does
    ``fixed_launch_cost``, what a kernel that does nothing takes; ``launch_overhead`` stands beside the device time.
    """

    arithmetic: Any
    sfu_fp64_fp16_pipes: Any
    issue_slots: Any
    lsu_data_pipe: Any
    sectors: Any
    instruction_fetch: Any
    l2: Any
    dram: Any
    atomics: Any
    local_memory: Any
    exposed_memory_latency: Any
    exposed_dependency_latency: Any
    block_launch_rate: Any
    ramp_up: Any
    fixed_launch_cost: Any
    launch_overhead: Any

    def at(self, index: int) -> Terms:
        """The terms of one candidate."""
        return taken(self, index)

    def items(self) -> list[tuple[str, Any]]:
        """Pairs of name and seconds."""
        return [(name, getattr(self, name)) for name in TERM_NAMES]


TERM_NAMES: tuple[str, ...] = tuple(field.name for field in fields(Terms))
LIMITER_NAMES: tuple[str, ...] = TERM_NAMES[:-1]


ONE_SLAB_BARRIERS = 2
"""Barriers of a block that copies one slab to shared memory: before it is read, and before outputs take its place."""

NEGLIGIBLE_WEIGHT = 1e-3
"""Share of a time below which it is not worked out."""


def p_norm(exponent: Any, *values: Any) -> Floats:
    """Smooth maximum of non-negative values; those that are 0 in all candidates cost nothing.

    >>> float(p_norm(2.0, 3.0, 4.0))
    5.0
    """
    shape = np.broadcast_shapes(np.shape(exponent), *(np.shape(value) for value in values))
    felt = [value for value in values if np.any(value)]
    if not felt:
        return np.zeros(shape)
    if len(felt) == 1:
        norm = felt[0]
    elif len(felt) == 2:
        largest, smaller = np.maximum(*felt), np.minimum(*felt)
        ratio = smaller / np.maximum(largest, np.finfo(float).tiny)
        norm = largest * (1.0 + ratio**exponent) ** (1.0 / exponent)
    else:
        largest = functools.reduce(np.maximum, felt, np.finfo(float).tiny)
        total = functools.reduce(np.add, ((value / largest) ** exponent for value in felt))
        norm = largest * total ** (1.0 / exponent)
    return np.asarray(np.broadcast_to(norm, shape), np.float64)


def blocks_of_busiest_sm(blocks: Any, resident: Any, gpu: Gpu, coefficients: Coefficients) -> tuple[Floats, Floats]:
    """Blocks that the last SM to finish has run, and how many of them were resident at once.

    A grid of a few waves ends with a partly filled one; over many waves the scheduler evens this out.
    """
    average = np.asarray(blocks, np.float64) / gpu.sm_count
    whole = np.ceil(average)
    resident = np.minimum(resident, whole)
    waves = average / np.maximum(resident, 1)
    tail = (whole - average) * np.exp(-waves / coefficients.settling_waves)
    return average + tail, np.maximum(resident, 1)


def average_resident_blocks(
    work: KernelProfile, executed: Any, resident: Any, lifetime: Any, gpu: Gpu, coefficients: Coefficients
) -> Floats:
    """Blocks that share an SM on average where some warps of each end early: their places go to further blocks.

    That takes until another block ends, so the first wave is as occupancy says (counted on an H200: an SM holds up to three
    times as many blocks as occupancy says). Shared memory stays taken until a block has ended, and a block begins only where
    all its warps find a place beside those that still work. ``lifetime``: cycles of a block.
    """
    launch, counts = work.launch, work.counts
    if np.all(np.isnan(work.longest_warp_instructions)):
        return np.asarray(resident, np.float64)
    warps = np.asarray(launch.warps_per_block, np.float64)
    longest = np.maximum(launch.blocks * np.asarray(work.longest_warp_instructions, np.float64), 1.0)
    working = np.minimum(np.nan_to_num(counts.warp_instructions / longest, nan=np.inf), warps)
    held = np.minimum(lifetime, coefficients.release_cycles_per_warp * warps)
    places = warps * held + np.maximum(working, 0.5) * (lifetime - held)
    room = occupancy(
        gpu,
        threads_per_block=np.asarray(launch.threads_per_block, np.int64),
        registers_per_thread=work.registers,
        shared_bytes_per_block=np.asarray(launch.static_shared_bytes + launch.dynamic_shared_bytes, np.int64),
    )
    beside = 1.0 + (room.warp_places - warps) / np.maximum(working, 0.5)
    most = np.minimum(np.minimum(room.most_blocks, beside), executed)
    settled = np.maximum(np.minimum(resident * warps * lifetime / np.maximum(places, 1.0), most), resident)
    return np.asarray(resident + (settled - resident) * (1.0 - resident / np.maximum(executed, 1.0)))


def sm_cycles(
    blocks: Any,
    executed: Any,
    resident: Any,
    demand: Any,
    lifetime: Any,
    coefficients: Coefficients,
    in_step: Any = 1.0,
) -> Floats:
    """Cycles of the busiest SM: throughput against latency, wave after wave or, over many waves, evenly.

    The last wave has fewer blocks than the others and takes a block's lifetime all the same. Blocks that share an SM fill its
    pipes the more evenly the more they are, and the less the more warps of each wait for one another at barriers: they load
    together and compute together.

    Args:
        blocks: Blocks of the average SM.
        executed: Blocks of the busiest SM.
        resident: Blocks that share it.
        demand: Throughput time of all its blocks, in cycles.
        lifetime: Cycles of a block alone.
        coefficients: The fitted numbers.
        in_step: Warps that wait for one another: those of a block with barriers, else 1.
    """
    each = demand / np.maximum(executed, 1.0)

    def together(count: Any) -> Floats:
        independent = 1.0 + np.maximum(count - 1.0, 0.0) / (1.0 + in_step / coefficients.step_warps)
        sharpness = 1 + coefficients.latency_norm * independent
        waiting = lifetime + coefficients.contention * each * np.maximum(count - 1.0, 0.0)
        return p_norm(sharpness, each * count, waiting)

    waves = executed / resident
    full = together(resident)
    evenly = full * waves
    weight = np.exp(-blocks / resident / coefficients.settling_waves)
    weight = np.where(weight < NEGLIGIBLE_WEIGHT, 0.0, weight)
    if not np.any(weight):
        return np.asarray(evenly)
    whole = np.ceil(blocks)
    rounds = np.floor(whole / resident + 1e-9)
    rest = np.maximum(whole - rounds * resident, 0.0)
    stepwise = rounds * full + np.where(rest > 1e-6, together(rest), 0.0)
    return np.asarray(weight * stepwise + (1.0 - weight) * evenly)


def launch_seconds(
    work: KernelProfile,
    blocks_per_sm: Any,
    gpu: Gpu,
    coefficients: Coefficients,
    sm_clock_hz: float | None = None,
) -> tuple[Floats, Terms]:
    """Device time of one launch and the terms that it was joined from.

    Args:
        work: Launch, counts and serial structure of n candidates.
        blocks_per_sm: Resident blocks by occupancy, shape ``(n,)``.
        gpu: The GPU asked about.
        coefficients: The fitted numbers; k sets of them, as arrays of shape ``(k, 1)``, give times of shape ``(k, n)``.
        sm_clock_hz: SM clock; the boost clock where None.
    """
    clock = sm_clock_hz or gpu.boost_clock_hz
    count = np.size(blocks_per_sm)
    if count <= PIECE:
        return _joined_terms(work, blocks_per_sm, gpu, coefficients, clock)
    parts = [
        _joined_terms(taken(work, piece), blocks_per_sm[piece], gpu, coefficients, clock) for piece in pieces(count)
    ]
    return np.concatenate([seconds for seconds, _ in parts], axis=-1), joined(*(terms for _, terms in parts))


def _joined_terms(
    work: KernelProfile,
    blocks_per_sm: Any,
    gpu: Gpu,
    coefficients: Coefficients,
    clock: float,
) -> tuple[Floats, Terms]:
    counts, blocks = work.counts, np.asarray(work.launch.blocks, np.float64)
    executed, resident = blocks_of_busiest_sm(blocks, blocks_per_sm, gpu, coefficients)
    stretch = executed * gpu.sm_count / np.maximum(blocks, 1)
    arithmetic = terms.arithmetic_cycles(counts, gpu) * stretch
    slow = np.maximum(terms.slow_pipe_cycles(counts, gpu), terms.tensor_cycles(work, gpu)) * stretch
    issue_slots = terms.issue_cycles(counts, gpu, work.tensor_cycles) * stretch
    shared = terms.shared_pipe_cycles(counts, gpu) * stretch
    sectors = terms.sector_cycles(counts, gpu) * stretch
    warps = np.maximum(blocks * work.launch.warps_per_block, 1)
    supply = (
        terms.supply_cycles(counts, warps, work.resources.code_bytes, work.loop_code_bytes, gpu, coefficients) * stretch
    )
    barriers = counts.barriers / warps
    copied = np.asarray(counts.async_copy_requests + counts.bulk_read_sectors)
    slabs = (copied > 0) & (np.asarray(barriers) > ONE_SLAB_BARRIERS)
    sharpness = 1 + np.where(slabs, coefficients.slab_norm, coefficients.demand_norm)
    executing = p_norm(sharpness, arithmetic, slow, issue_slots + supply)
    demand = p_norm(1 + coefficients.demand_norm, executing, shared + sectors)

    trip = terms.round_trip_cycles(counts, executed / resident, gpu, coefficients)
    own_work = np.where(np.asarray(barriers) > 0, coefficients.trip_warp_cycles * work.launch.warps_per_block, 0.0)
    load = work.global_round_trips * (trip + own_work)
    load = load + barriers * terms.barrier_cycles(work.launch.warps_per_block, gpu)
    filled = terms.first_fill_cycles(work.first_fill_sectors, resident, gpu, clock)
    load = load + filled
    chain = counts.fp32_fma / warps * terms.fma_chain_cycles(gpu, coefficients)
    alone = np.where(np.isnan(work.warp_cycles), chain, work.warp_cycles)
    in_step = np.where(np.asarray(barriers) > 0, work.launch.warps_per_block, 1.0)
    alone = alone * terms.scheduler_imbalance(in_step, gpu) ** (1.0 / coefficients.lone_block_norm)
    compute = p_norm(coefficients.lone_block_norm, alone, coefficients.compute_share * demand / np.maximum(executed, 1))
    longest = np.asarray(work.longest_warp_instructions, np.float64)
    walked = np.where(np.isnan(longest), counts.warp_instructions / warps, longest)
    fetch = terms.fetch_cycles(walked, work.loop_code_bytes, gpu, coefficients)
    l2 = terms.l2_seconds(counts, load + compute + fetch, gpu, coefficients)
    lifetime = load + compute + fetch
    resident = average_resident_blocks(work, executed, resident, lifetime, gpu, coefficients)
    waves = executed / resident

    dram = terms.dram_seconds(counts, gpu)
    atomics = terms.atomic_seconds(counts, gpu)
    dispatch = blocks * gpu.block_dispatch_cycles
    read = coefficients.first_wave_exposure * dram * clock * np.minimum(1.0, 1.0 / waves)
    # blocks that wait until their first copies have passed L2 wait for DRAM meanwhile
    exposed = dispatch * np.minimum(1.0, 1.0 / waves) + np.maximum(read - filled, 0.0)
    ramp_up = terms.first_block_cycles(counts, gpu, coefficients) + exposed
    busy = sm_cycles(blocks / gpu.sm_count, executed, resident, demand, lifetime, coefficients, in_step) + ramp_up
    local = terms.local_seconds(work, terms.local_traffic(work, resident, gpu), waves, gpu, coefficients, clock)
    total = (
        p_norm(1 + coefficients.memory_norm, busy / clock, l2, dram, atomics, dispatch / clock)
        + local
        + gpu.empty_kernel_s
    )
    parts = Terms(
        arithmetic=arithmetic / clock,
        sfu_fp64_fp16_pipes=slow / clock,
        issue_slots=issue_slots / clock,
        lsu_data_pipe=shared / clock,
        sectors=sectors / clock,
        instruction_fetch=(supply + fetch * waves) / clock,
        l2=l2,
        dram=dram,
        atomics=atomics,
        local_memory=local,
        exposed_memory_latency=load * waves / clock,
        exposed_dependency_latency=compute * waves / clock,
        block_launch_rate=dispatch / clock,
        ramp_up=ramp_up / clock,
        fixed_launch_cost=gpu.empty_kernel_s,
        launch_overhead=gpu.launch_overhead_s,
    )
    return total, parts


def limiters(parts: Terms) -> NDArray[np.int64]:
    """Index into ``LIMITER_NAMES`` of the largest term of every candidate."""
    stacked = np.stack(np.broadcast_arrays(*(np.atleast_1d(getattr(parts, name)) for name in LIMITER_NAMES)))
    return np.asarray(stacked.argmax(axis=0), np.int64)
