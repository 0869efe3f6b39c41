"""What the model knows of a GPU: one frozen record, read from a TOML file in which every value names its source."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class IntegerPorts(Enum):
    """How the 32-bit integer lanes of a sub-partition relate to its FP32 lanes."""

    SAME = "same"
    """Integer and FP32 instructions share all lanes (Pascal, and 10.0)."""
    SEPARATE = "separate"
    """Integer lanes stand beside the FP32 lanes (7.0, 7.5, 8.0)."""
    HALF_SHARED = "half-shared"
    """Integer instructions share half of the FP32 lanes (8.6, 8.9, 9.0)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """Hardware facts of one GPU; sizes in bytes, rates in units per second or per SM cycle, latencies in SM cycles."""

    id: str
    name: str
    compute_capability: tuple[int, int]

    sm_count: int
    gpc_count: int
    sub_partitions_per_sm: int
    base_clock_hz: float
    boost_clock_hz: float

    fp32_lanes_per_sm: int
    int32_lanes_per_sm: int
    integer_ports: IntegerPorts
    fp64_lanes_per_sm: int
    special_function_lanes_per_sm: int
    load_store_lanes_per_sm: int
    schedulers_per_sm: int

    max_warps_per_sm: int
    max_blocks_per_sm: int
    barriers_per_sm: int
    max_threads_per_block: int
    registers_per_sm: int
    registers_per_block: int
    max_registers_per_thread: int
    register_allocation_unit: int
    warp_allocation_granularity: int

    shared_bytes_per_sm: int
    shared_bytes_per_block: int
    shared_bytes_per_block_opt_in: int
    shared_reserved_bytes_per_block: int
    shared_allocation_unit_bytes: int
    shared_carve_outs_bytes: tuple[int, ...]
    shared_cycles_per_instruction: float
    shared_cycles_per_wavefront: float
    shared_bytes_apart_from_l1: int
    shared_load_wavefronts_per_store_sector: float
    shared_store_wavefronts_per_load_request: float

    l1_bytes_per_sm: int
    l1_reserved_bytes: int
    l1_bytes_per_cycle_per_sm: float
    l2_bytes: int
    l2_read_bytes_per_s: float
    l2_requests_merged: int
    l2_partial_write_reads: float
    dram_bytes: int
    dram_bytes_per_s: float
    dram_read_bytes_per_s: float
    instruction_cache_l0_bytes: int
    instruction_cache_l1_bytes: int
    instruction_cache_l2_bytes: int
    instruction_prefetch_bytes: int
    instruction_supply_cycles: float

    shared_latency_cycles: float
    l1_latency_cycles: float
    l2_latency_cycles: float
    dram_latency_cycles: float
    fp32_latency_cycles: float
    launch_overhead_s: float
    empty_kernel_s: float
    block_dispatch_cycles: float

    @property
    def architecture(self) -> str:
        """Target name of the real architecture, as the compiler spells it.

        >>> from perfmodel.gpus.catalogue import load_gpu
        >>> load_gpu("h200").architecture
        'sm_90'
        """
        major, minor = self.compute_capability
        return f"sm_{major}{minor}"
