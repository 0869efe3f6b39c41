"""What the model knows of a GPU: one frozen record, read from a TOML file in which every value names its source."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Annotated

from msgspec import Meta

from .architecture import Architecture

_LARGEST = 2**62
"""More than any fact of a GPU; sums and products of them stay within 64 bits or are floating-point."""
Positive = Annotated[int, Meta(gt=0, le=_LARGEST)]
NotNegative = Annotated[int, Meta(ge=0, le=_LARGEST)]
Share = Annotated[float, Meta(ge=0, le=1)]
Rate = Annotated[float, Meta(gt=0, le=float(_LARGEST))]
Cost = Annotated[float, Meta(ge=0, le=float(_LARGEST))]


class IntegerPorts(Enum):
    """How the 32-bit integer lanes of a sub-partition relate to its FP32 lanes."""

    SAME = "same"
    """Integer and FP32 instructions share all lanes (Pascal, and from 10.0 on)."""
    SEPARATE = "separate"
    """Integer lanes stand beside the FP32 lanes (7.0, 7.5, 8.0)."""
    HALF_SHARED = "half-shared"
    """Integer instructions share half of the FP32 lanes (8.6, 8.9, 9.0)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """Hardware facts of one GPU; sizes in bytes, rates in units per second or per SM cycle, latencies in SM cycles."""

    id: str
    name: str
    architecture: Architecture

    sm_count: Positive
    gpc_count: Positive
    sms_per_tpc: Positive
    sub_partitions_per_sm: Positive
    base_clock_hz: Rate
    boost_clock_hz: Rate

    fp32_lanes_per_sm: Positive
    int32_lanes_per_sm: Positive
    integer_ports: IntegerPorts
    fp64_lanes_per_sm: Positive
    special_function_lanes_per_sm: Positive
    load_store_lanes_per_sm: Positive
    texture_units_per_sm: Positive
    tensor_f16_per_sm: NotNegative
    tensor_f16_f32_per_sm: NotNegative
    tensor_tf32_per_sm: NotNegative
    tensor_f8_per_sm: NotNegative
    tensor_i8_per_sm: NotNegative
    tensor_i4_per_sm: NotNegative
    tensor_f64_per_sm: NotNegative
    tensor_warp_share: Rate
    tensor_issue_share: Share
    tensor_switch_cycles: Cost
    """Part of the time that a product of a warp holds tensor cores, in which its scheduler issues nothing else."""
    schedulers_per_sm: Positive

    max_warps_per_sm: Positive
    max_blocks_per_sm: Positive
    barriers_per_sm: NotNegative
    barrier_threads_per_cycle: Positive
    max_threads_per_block: Positive
    registers_per_sm: Positive
    registers_per_block: Positive
    max_registers_per_thread: Positive
    register_allocation_unit: Positive
    warp_allocation_granularity: Positive

    shared_bytes_per_sm: Positive
    shared_bytes_per_block: Positive
    shared_bytes_per_block_opt_in: Positive
    shared_reserved_bytes_per_block: NotNegative
    shared_allocation_unit_bytes: Positive
    shared_carve_outs_bytes: tuple[NotNegative, ...]
    shared_cycles_per_instruction: Rate
    shared_cycles_per_wavefront: Rate

    l1_bytes_per_sm: Positive
    l1_reserved_bytes: NotNegative
    l1_bytes_per_cycle_per_sm: Rate
    l1_tags_per_cycle: Positive
    l1_miss_cycles: Rate
    l1_fill_cycles: Rate
    l1_cycles_per_request: Rate
    l1_cycles_per_wavefront: Rate
    l1_wavefront_latency_cycles: Rate
    async_copy_cycles: Cost
    copied_bytes_per_cycle: Rate
    shared_lane_bytes_per_cycle: Cost
    wide_read_issue_cycles: Cost
    wide_product_issue_cycles: Cost
    constant_cache_bytes: Positive
    constant_cache_ways: Positive
    constant_word_cycles: Rate
    constant_latency_cycles: Rate
    constant_word_latency_cycles: Rate
    constant_line_cycles: Rate
    constant_operand_line_cycles: Rate
    constant_miss_cycles: Rate
    constant_far_bytes: Positive
    cluster_barrier_cycles: float
    cluster_exchange_cycles: Cost
    cluster_sm_share: Share
    distributed_shared_latency_cycles: float
    distributed_shared_bytes_per_cycle: Rate
    bulk_copy_bytes_per_cycle: Rate
    bulk_copy_first_cycles: Cost
    l2_bytes: Positive
    l2_read_bytes_per_s: Rate
    l2_port_bytes_per_cycle: Positive
    l2_store_port_bytes_per_cycle: Positive
    l2_write_share: Rate
    l2_fill_sectors: Positive
    dram_scattered_share: Rate
    dram_partial_sectors: Rate
    dram_copy_share: Share
    l2_requests_merged: Positive
    l2_partial_write_reads: Rate
    l2_partial_line_share: Share
    l2_merged_store_lines: Positive
    partial_store_cycles: Cost
    l2_slices: Positive
    l2_slice_bytes: Positive
    l2_slice_pair_bytes: Positive
    l2_atomic_s: Rate
    l2_partial_sector_atomics: Rate
    l2_returned_atomics: Rate
    l2_atomic_latency_cycles: Rate
    l2_word_atomic_s: Rate
    l2_float_atomic_s: Rate
    dram_bytes: Positive
    dram_bytes_per_s: Rate
    dram_read_bytes_per_s: Rate
    instruction_buffer_bytes: NotNegative
    instruction_cache_l0_bytes: NotNegative
    instruction_cache_l1_bytes: Positive
    instruction_cache_l2_bytes: Positive
    instruction_prefetch_bytes: NotNegative
    instruction_supply_cycles: Cost

    shared_latency_cycles: Rate
    l1_latency_cycles: Rate
    texture_latency_cycles: Rate
    l2_latency_cycles: Rate
    dram_latency_cycles: Rate
    fp32_latency_cycles: Rate
    launch_overhead_s: Cost
    empty_kernel_s: Cost
    block_dispatch_cycles: Cost
