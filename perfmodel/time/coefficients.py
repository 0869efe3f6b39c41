"""The coefficients of the time model: few, named, physical; universal ones and those of an architecture."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Coefficients:
    """Everything that is fitted; what is known of the hardware stands in the GPU's file instead."""

    round_trip_latencies: float
    """Latencies of the memory that answers which a warp waits for at each group of global loads."""
    block_start_cycles: float
    """SM cycles from the launch of a block to its first load, and from its last store to its end."""
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
    """… residents ** this: the more blocks share an SM, the more evenly they fill its pipes."""
    contention: float
    """Part of a block's throughput demand that each other resident block waits for when their phases coincide."""
    memory_norm: float
    """Sharpness of the maximum of SM time and memory time, likewise."""
    memory_efficiency: float
    """Part of the measured DRAM and L2 bandwidth that kernels of this kind reach."""
    fetch_cycles_per_instruction: float
    """SM cycles for each warp instruction whose code does not fit the instruction cache."""
    async_copy_cycles: float
    """Cycles of the data pipe for each asynchronous copy of a warp beside its wavefronts."""
    constant_miss_cycles: float
    """SM cycles for each warp-level load of an indexed constant that the constant cache does not hold."""
    barrier_latencies: float
    """Shared-memory latencies that a block waits at each barrier beside its warps' arrival: store, barrier, load (derived)."""


COEFFICIENT_NAMES: tuple[str, ...] = tuple(Coefficients.__dataclass_fields__)
