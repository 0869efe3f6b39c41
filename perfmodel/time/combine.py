"""The terms joined into the time of a launch: throughput, latency within a block, memory, tail."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..gpu import Gpu
from ..work import Work
from . import terms
from .coefficients import Coefficients
from .local_memory import local_traffic

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Time of every resource if it were alone, in seconds; arrays of shape ``(n,)`` or numbers.

    ``load_latency`` and ``compute_latency`` are what the resident blocks cannot hide by themselves; ``block_dispatch`` is
    starting all blocks one after the other; ``local_memory`` adds to the rest, because the few warps that spill wait for it,
    and so does ``empty_kernel``, what a kernel that does nothing takes; ``launch_overhead`` stands beside the device time.
    """

    arithmetic: Any
    slow_pipes: Any
    issue: Any
    shared_pipe: Any
    sectors: Any
    instruction_fetch: Any
    constant_cache: Any
    l2: Any
    dram: Any
    local_memory: Any
    load_latency: Any
    compute_latency: Any
    block_dispatch: Any
    empty_kernel: Any
    launch_overhead: Any

    def at(self, index: int) -> Terms:
        """The terms of one candidate."""
        return Terms(**{n: v if np.ndim(v) == 0 else v[index] for n, v in self.items()})

    def items(self) -> list[tuple[str, Any]]:
        """Pairs of name and seconds."""
        return [(name, getattr(self, name)) for name in TERM_NAMES]


TERM_NAMES: tuple[str, ...] = tuple(field.name for field in fields(Terms))
LIMITER_NAMES: tuple[str, ...] = TERM_NAMES[:-1]


def p_norm(exponent: Any, *values: Any) -> Floats:
    """Smooth maximum of non-negative values.

    >>> float(p_norm(2.0, 3.0, 4.0))
    5.0
    """
    largest = values[0]
    for value in values[1:]:
        largest = np.maximum(largest, value)
    largest = np.maximum(largest, np.finfo(float).tiny)
    total: Any = 0.0
    for value in values:
        total = total + (value / largest) ** exponent
    return np.asarray(largest * total ** (1.0 / exponent))


def blocks_of_busiest_sm(blocks: Any, resident: Any, gpu: Gpu) -> tuple[Floats, Floats]:
    """Blocks that the last SM to finish has run, and how many of them were resident at once.

    A grid of a few waves ends with a partly filled one; over many waves the scheduler evens this out.
    """
    average = np.asarray(blocks, np.float64) / gpu.sm_count
    whole = np.ceil(average)
    resident = np.minimum(resident, whole)
    waves = average / np.maximum(resident, 1)
    tail = (whole - average) * np.exp(-waves / 4.0)
    return average + tail, np.maximum(resident, 1)


def launch_seconds(
    work: Work,
    blocks_per_sm: Any,
    gpu: Gpu,
    coefficients: Coefficients,
    sm_clock_hz: float | None = None,
    without: Collection[str] = (),
) -> tuple[Floats, Terms]:
    """Device time of one launch and the terms that it was joined from.

    Args:
        work: Launch, counts and serial structure of n candidates.
        blocks_per_sm: Resident blocks by occupancy, shape ``(n,)``.
        gpu: The GPU asked about.
        coefficients: The fitted numbers.
        sm_clock_hz: SM clock; the boost clock where None.
        without: Terms (``LIMITER_NAMES``) that are left out, to see what each is worth.
    """

    def kept(name: str, value: Any) -> Any:
        return np.zeros_like(value) if name in without else value

    clock = sm_clock_hz or gpu.boost_clock_hz
    counts, blocks = work.counts, np.asarray(work.launch.blocks, np.float64)
    executed, resident = blocks_of_busiest_sm(blocks, blocks_per_sm, gpu)
    stretch = executed * gpu.sm_count / np.maximum(blocks, 1)
    arithmetic = kept("arithmetic", terms.arithmetic_cycles(counts, gpu) * stretch)
    slow = kept("slow_pipes", terms.slow_pipe_cycles(counts, gpu) * stretch)
    issue = kept("issue", terms.issue_cycles(counts, gpu) * stretch)
    shared = kept("shared_pipe", terms.shared_pipe_cycles(counts, gpu, coefficients) * stretch)
    sectors = kept("sectors", terms.sector_cycles(counts, gpu, coefficients) * stretch)
    fetch = kept("instruction_fetch", terms.fetch_cycles(counts, work.loop_code_bytes, gpu, coefficients) * stretch)
    constants = terms.constant_cycles(counts, work.constant_bytes, coefficients, gpu) * stretch
    constants = kept("constant_cache", constants)
    demand = p_norm(1 + coefficients.demand_norm, arithmetic, slow, issue + fetch, shared + sectors, constants)

    warps = np.maximum(blocks * work.launch.warps_per_block, 1)
    barriers = counts.barriers / warps
    trip = terms.round_trip_cycles(counts, executed / resident, gpu, coefficients)
    scheduled = ~np.isnan(work.warp_cycles)
    own_work = np.where(np.asarray(barriers) > 0, coefficients.trip_warp_cycles * work.launch.warps_per_block, 0.0)
    load = work.global_round_trips * (trip + own_work) + coefficients.block_start_cycles
    load = load + barriers * terms.barrier_cycles(work.launch.warps_per_block, gpu, coefficients)
    chain = counts.fp32_fma / warps * terms.fma_chain_cycles(gpu, coefficients)
    alone = np.where(scheduled, work.warp_cycles, chain)
    compute = p_norm(3.0, alone, coefficients.compute_share * demand / np.maximum(executed, 1))
    load_latency = kept("load_latency", load * executed / resident)
    compute_latency = kept("compute_latency", compute * executed / resident)
    queue = coefficients.contention * demand * (resident - 1) / resident
    sharpness = 1 + coefficients.latency_norm * resident**coefficients.latency_norm_growth
    dispatch = kept("block_dispatch", blocks * gpu.block_dispatch_cycles)
    first_wave = dispatch * np.minimum(1.0, resident / np.maximum(executed, 1))
    sm_cycles = p_norm(sharpness, demand, load_latency + compute_latency + queue + first_wave)

    l2 = kept("l2", terms.l2_seconds(counts, gpu, coefficients))
    dram = kept("dram", terms.dram_seconds(counts, gpu, coefficients))
    spilled = local_traffic(work, resident, gpu)
    local = np.maximum(terms.l2_seconds(spilled, gpu, coefficients), terms.dram_seconds(spilled, gpu, coefficients))
    local = kept("local_memory", local)
    empty = kept("empty_kernel", gpu.empty_kernel_s)
    total = p_norm(1 + coefficients.memory_norm, sm_cycles / clock, l2, dram, dispatch / clock) + local + empty
    parts = Terms(
        arithmetic=arithmetic / clock,
        slow_pipes=slow / clock,
        issue=issue / clock,
        shared_pipe=shared / clock,
        sectors=sectors / clock,
        instruction_fetch=fetch / clock,
        constant_cache=constants / clock,
        l2=l2,
        dram=dram,
        local_memory=local,
        load_latency=load_latency / clock,
        compute_latency=compute_latency / clock,
        block_dispatch=dispatch / clock,
        empty_kernel=empty,
        launch_overhead=gpu.launch_overhead_s,
    )
    return total, parts


def limiters(parts: Terms) -> NDArray[np.int64]:
    """Index into ``LIMITER_NAMES`` of the largest term of every candidate."""
    stacked = np.stack(np.broadcast_arrays(*(np.atleast_1d(getattr(parts, name)) for name in LIMITER_NAMES)))
    return np.asarray(stacked.argmax(axis=0), np.int64)
