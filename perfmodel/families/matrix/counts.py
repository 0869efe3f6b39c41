"""What designs that multiply matrices execute, estimated from their tiles: enough to choose which ones to compile.

Multiply-adds, shared loads, asynchronous copies and traffic follow from the tiles; integer instructions are estimates. At
compiled fidelity one block is executed, which counts all but the traffic behind L1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.constants import FLOAT_BYTES, INSTRUCTION_BYTES, WARP_SIZE, ceil_div, round_up
from ...core.counts import Counts
from ...gpus.gpu import Gpu
from ...memory.request_coalescing import shares_in_turns
from ...profiles.kernel_profile import KernelProfile, estimated_resources
from .estimates import matrix_estimates
from .layer import MatrixLayer
from .tiles import Integers, MatrixTiles

Floats = NDArray[np.float64]

SUMS_AT_ONCE = 2
"""Vectors of sums that a thread adds at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WarpWork:
    """What differs between the designs, of n configurations, arrays of shape ``(n,)``.

    Attributes:
        arithmetic: Instructions of a warp for one channel, by class.
        of_slab: Instructions of a warp for each slab beside them, by class.
        reads: Shared loads of a warp for one channel.
        wavefronts: What they need.
        ideal: What they would need without bank conflicts.
        sums: Outputs of a thread.
        registers: What the compiler gives a thread where the launch bound leaves it.
        filters: Filters that blocks side by side along the filters copy.
        filter_copies: Asynchronous copies of a warp of filters for a slab of a block.
        input_copies: And of the input.
        input_elements: Elements that these copy of one channel.
        copied_lines: Lines of global memory that each of these reads, where it passes L1; 0 past L1.
        copied_wavefronts: Data-pipe cycles to write what each of these copies.
        unrolled_channels: Channels of a warp in straight-line code.
        tensor_cycles: Cycles of a sub-partition's tensor cores for one channel of a warp.
        stored_run: Neighbouring elements of a store that does not pass through shared memory; 0 for whole sectors.
    """

    arithmetic: Mapping[str, Any]
    of_slab: Mapping[str, Any]
    reads: Floats
    wavefronts: Floats
    ideal: Floats
    sums: Any
    registers: Integers
    filters: Any
    filter_copies: Floats
    input_copies: Floats
    input_elements: Any
    copied_lines: Any
    copied_wavefronts: Any
    unrolled_channels: Any
    tensor_cycles: Any = 0.0
    stored_run: int = 0


def matrix_profile(layer: MatrixLayer, tile: MatrixTiles, work: WarpWork, gpu: Gpu, read_bytes: float) -> KernelProfile:
    """Counts, registers and critical path of n configurations; ``read_bytes`` are those that DRAM must deliver at least."""
    about, launch = matrix_estimates(), tile.launch(layer)
    asynchronous = gpu.architecture.asynchronous_copies
    across, down = tile.grid(layer)
    blocks = np.asarray(launch.blocks, np.float64)
    warps = blocks * ceil_div(tile.threads, WARP_SIZE)
    slabs = ceil_div(layer.in_channels, tile.slab_channels) / tile.channel_split
    channels = slabs * tile.slab_channels / tile.channel_slices

    of_position, of_input = tile.store_vector(layer), tile.input_vector(layer)
    filter_copies = blocks * slabs * np.ceil(work.filter_copies)
    input_copies = blocks * slabs * np.ceil(work.input_copies)
    copies = filter_copies + input_copies
    copied_wavefronts = filter_copies * work.copied_wavefronts + input_copies * np.maximum(
        of_input * layer.element_bytes // FLOAT_BYTES, 1
    )
    through_l1 = filter_copies * work.copied_lines + 2 * input_copies * (of_input < layer.vector_elements)
    filter_sectors = across * work.filters * layer.in_channels * layer.filter_taps / layer.sector_elements
    input_sectors = down * across * work.input_elements * layer.in_channels / layer.sector_elements

    outputs = layer.outputs
    shared_end = tile.through_shared(layer)
    parts = tile.channel_slices * tile.channel_split
    of_store = np.where(shared_end, of_position, tile.direct_vector)
    stores = np.ceil(across * tile.position_tile * layer.out_channels / of_store / WARP_SIZE)
    summed = np.where(shared_end, warps * work.sums / tile.direct_vector, 0.0)
    added = np.where(shared_end, stores * parts, 0.0)
    at_once = np.where(shared_end, layer.sector_elements, work.stored_run or layer.sector_elements)
    whole = tile.output_run(layer) % layer.sector_elements == 0
    stored = outputs / at_once * (1.0 if whole else about.uneven_store_sectors)

    loads = warps * channels * work.reads
    classes = {
        "fp32_fma": np.zeros_like(warps),
        "fp32_other": added * of_store,
        "integer": about.copy_integers * copies
        + warps * (about.prologue_instructions + about.slab_instructions * slabs)
        + about.output_integers * stores,
        "tensor": np.zeros_like(warps),
        "control": warps * (about.slab_control * slabs + about.prologue_control),
        "barriers": warps * (slabs + 2 * shared_end),
    }
    for name, of_channel in work.arithmetic.items():
        classes[name] = classes[name] + warps * channels * of_channel
    for name, of_slab in work.of_slab.items():
        classes[name] = classes[name] + warps * slabs * of_slab
    none = np.zeros_like(warps)
    moved, moved_wavefronts = (copies, copied_wavefronts) if asynchronous else (none, none)
    plain, plain_wavefronts = (none, none) if asynchronous else (copies, copied_wavefronts)
    sectors = filter_sectors + input_sectors
    of_filter_requests, of_input_requests = shares_in_turns(across, down, tile.resident_blocks, gpu)
    counts = Counts(
        global_load_requests=plain,
        global_load_sectors=none if asynchronous else sectors,
        global_store_requests=stores,
        global_store_sectors=stored + none,
        shared_load_requests=loads + added / tile.channel_split,
        shared_load_wavefronts=warps * channels * work.wavefronts
        + added / tile.channel_split * tile.summed_words(layer),
        shared_bank_conflicts=warps * channels * (work.wavefronts - work.ideal),
        shared_store_requests=summed + plain,
        shared_store_wavefronts=summed * tile.direct_vector + plain_wavefronts,
        async_copy_requests=moved,
        async_copy_wavefronts=moved_wavefronts,
        async_copy_read_requests=moved,
        async_copy_read_wavefronts=through_l1 if asynchronous else none,
        async_copy_read_sectors=sectors if asynchronous else none,
        warp_instructions=loads + added + stores + summed + copies * (1 if asynchronous else 2) + sum(classes.values()),
        l2_read_sectors=filter_sectors * of_filter_requests + input_sectors * of_input_requests,
        l2_write_sectors=stored + none,
        dram_read_bytes=np.full_like(warps, read_bytes),
        dram_write_bytes=np.full_like(warps, layer.element_bytes * outputs),
        **classes,
    )
    unit = gpu.register_allocation_unit // WARP_SIZE
    taken_registers = np.minimum(round_up(work.registers, unit), tile.most_registers(gpu))
    of_channel = work.reads + sum(work.arithmetic.values())
    return KernelProfile(
        launch=launch,
        resources=estimated_resources(launch, taken_registers.astype(np.int32)),
        counts=counts,
        global_round_trips=np.ceil(tile.slabs(layer) / tile.stages),
        warp_cycles=channels * np.maximum(of_channel, work.reads + work.tensor_cycles)
        + slabs * about.slab_cycles
        + about.prologue_cycles
        + cluster_cycles(tile, of_store, gpu),
        loop_code_bytes=INSTRUCTION_BYTES * 2 * work.unrolled_channels * of_channel,
        read_only_share=0.0 if asynchronous else 1.0,
        tensor_cycles=warps * channels * work.tensor_cycles,
    )


def cluster_cycles(tile: MatrixTiles, of_store: Any, gpu: Gpu) -> Floats:
    """Cycles in which a block waits for the others of its cluster and reads their sums; 0 without clusters."""
    part = tile.filter_tile * tile.position_tile / tile.channel_split
    rounds = np.ceil(part / of_store / tile.threads / SUMS_AT_ONCE)
    read = FLOAT_BYTES * part * (tile.channel_split - 1) * tile.channel_slices
    waited = gpu.cluster_exchange_cycles + rounds * gpu.distributed_shared_latency_cycles
    waited += read / gpu.distributed_shared_bytes_per_cycle
    return np.asarray(np.where(tile.channel_split > 1, waited, 0.0), np.float64)
