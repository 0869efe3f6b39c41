"""The coefficients of the time model: every number in it that is neither counted nor a fact of a GPU's sheet.

There are 20. Thirteen are chosen once (`CHOSEN_NAMES`); seven are fitted (`COEFFICIENT_NAMES`), the same for all GPUs, and a
scale for each of three data sets whose files do not record the clock. Their standard errors stand beside them in
``data/calibrations/universal.toml``, all below 20 %.
"""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Coefficients:
    """Numbers without a unit in the name are ratios; k sets of them are arrays of shape ``(k, 1)``."""

    round_trip_latencies: float
    """Latencies of the memory that answers which a warp waits for at each group of global loads."""
    first_block_latencies: float
    """Latencies of the memory that answers until the first blocks of a launch have code, constants and addresses at hand."""
    first_wave_exposure: float
    """Part of the DRAM time of what the first resident blocks read, all at once, that they cannot hide."""
    trip_warp_cycles: float
    """SM cycles that each warp of a block with barriers adds to a round trip: all must load and store before one goes on."""
    fma_issue_intervals: float
    """Issue intervals that a lone warp needs for each FP32 instruction of its dependency chains."""
    latency_norm: float
    """Sharpness of the maximum of throughput and latency: the exponent is 1 + this · resident blocks, less where warps wait for
    one another. The more blocks share an SM, the more evenly its pipes fill."""
    contention: float
    """Part of a block's throughput demand that each other resident block waits for when their phases coincide."""

    fetch_cycles_per_instruction: float
    """SM cycles for each instruction of a warp whose code does not fit the instruction cache; warps of an SM share them."""
    compute_share: float
    """Part of the throughput demand that a block alone cannot overlap with its own latencies."""
    demand_norm: float
    """Sharpness of the maximum over the resources of an SM: exponent of the p-norm is 1 + this."""
    slab_norm: float
    """Likewise over issue slots and arithmetic pipes where a block copies slab after slab to shared memory: its warps meet at a
    barrier for each, so that all issue to the same pipe at the same time."""
    memory_norm: float
    """Sharpness of the maximum of SM time and memory time, likewise."""
    l2_ramp_latencies: float
    """L2 latencies of a block's life in which it asks L2 for nothing: before its first load and after its last store."""
    local_load_latencies: float
    """Part of the latency of the memory that answers which a warp waits for at each local load that L1 lacks."""
    release_cycles_per_warp: float
    """SM cycles that an ended warp keeps its place, for each warp of its block, before another block may have it."""
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


CHOSEN_NAMES: tuple[str, ...] = (
    "fetch_cycles_per_instruction",
    "compute_share",
    "demand_norm",
    "slab_norm",
    "memory_norm",
    "l2_ramp_latencies",
    "local_load_latencies",
    "release_cycles_per_warp",
    "settling_waves",
    "lone_block_norm",
    "step_warps",
    "sectors_awaited",
    "code_thrashing",
)
"""Coefficients that no fit changes."""
COEFFICIENT_NAMES: tuple[str, ...] = tuple(f.name for f in fields(Coefficients) if f.name not in CHOSEN_NAMES)
"""Coefficients that a fit gives."""
