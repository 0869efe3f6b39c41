"""The coefficients of the time model: every number in it that is neither counted nor a fact of a GPU's sheet.

There are 27. Five are chosen once (`CHOSEN_NAMES`); 22 are fitted (`COEFFICIENT_NAMES`), all of them shared by all GPUs. Twelve
of these an architecture that was measured has for its own as well: ``round_trip_latencies``, ``read_only_latency``,
``block_start_cycles``, ``fma_issue_intervals``, ``compute_share``, ``sector_cycles``, ``demand_norm``, ``latency_norm``,
``latency_norm_growth``, ``contention``, ``async_copy_cycles``, ``barrier_latencies``. The shipped calibration has four such
architectures (7.5, 8.0, 8.6, 9.0), so 22 + 4 · 12 = 70 fitted numbers, and a scale for each of three data sets whose files do not
record the clock. Their standard errors stand beside them in ``data/calibrations/universal.toml``; where a data set says nothing
of a coefficient it stays near what ``data/calibrations/prior.toml`` expects.
"""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Coefficients:
    """Numbers without a unit in the name are ratios; k sets of them are arrays of shape ``(k, 1)``."""

    round_trip_latencies: float
    """Latencies of the memory that answers which a warp waits for at each group of global loads."""
    read_only_latency: float
    """Latency of a load by the read-only path (``ld.global.nc``), relative to that of any other load."""
    first_block_latencies: float
    """Latencies of the memory that answers until the first blocks of a launch have code, constants and addresses at hand."""
    first_wave_exposure: float
    """Part of the DRAM time of what the first resident blocks read, all at once, that they cannot hide."""
    block_start_cycles: float
    """SM cycles from the launch of a block to its first load, and from its last store to its end."""
    release_cycles_per_warp: float
    """SM cycles that an ended warp keeps its place, for each warp of its block, before another block may have it."""
    trip_warp_cycles: float
    """SM cycles that each warp of a block with barriers adds to a round trip: all must load and store before one goes on."""
    fma_issue_intervals: float
    """Issue intervals that a lone warp needs for each FP32 instruction of its dependency chains."""
    compute_share: float
    """Part of the throughput demand that a block alone cannot overlap with its own latencies."""
    sector_cycles: float
    """Cost of a sector in the fill and store path of L1, relative to the measured L1 bandwidth."""
    demand_norm: float
    """Sharpness of the maximum over the resources of an SM: exponent of the p-norm is 1 + this."""
    latency_norm: float
    """Sharpness of the maximum of throughput and latency with one resident block: the exponent is 1 + this · …"""
    latency_norm_growth: float
    """… residents ** this, less where warps wait for one another: the more blocks share an SM, the more evenly its pipes fill."""
    contention: float
    """Part of a block's throughput demand that each other resident block waits for when their phases coincide."""
    memory_norm: float
    """Sharpness of the maximum of SM time and memory time, likewise."""
    memory_efficiency: float
    """Part of the measured DRAM bandwidth that a launch reaches while it moves no more than L2 holds; streams reach all of it."""
    l2_ramp_latencies: float
    """L2 latencies of a block's life in which it asks L2 for nothing: before its first load and after its last store."""
    local_load_latencies: float
    """Part of the latency of the memory that answers which a warp waits for at each local load that L1 lacks."""
    fetch_cycles_per_instruction: float
    """SM cycles for each instruction of a warp whose code does not fit the instruction cache; warps of an SM share them."""
    async_copy_cycles: float
    """Cycles of the data pipe for each step of an asynchronous copy: its request, its reads of L1, its writes."""
    constant_miss_cycles: float
    """SM cycles for each warp-level load of an indexed constant that the constant cache does not hold."""
    barrier_latencies: float
    """Shared-memory latencies that a block waits at each barrier beside its warps' arrival: store, barrier, load (derived)."""

    settling_waves: float
    """Waves after which blocks no longer start and end together."""
    lone_block_norm: float
    """Sharpness of the maximum of what a block alone waits for: its warps' own chains and the pipes."""
    step_warps: float
    """Warps behind one barrier with which a further block evens an SM's pipes out half as much as one of single warps."""
    sectors_awaited: float
    """Sectors that the loads of a group ask for one after the other, any of which may be the one that L1 lacks."""
    code_thrashing: float
    """Inverse of the part of a loop beyond the instruction cache from which on the cache holds nothing of it."""


CHOSEN_NAMES: tuple[str, ...] = ("settling_waves", "lone_block_norm", "step_warps", "sectors_awaited", "code_thrashing")
"""Coefficients that no fit changes."""
COEFFICIENT_NAMES: tuple[str, ...] = tuple(f.name for f in fields(Coefficients) if f.name not in CHOSEN_NAMES)
"""Coefficients that a fit gives."""
