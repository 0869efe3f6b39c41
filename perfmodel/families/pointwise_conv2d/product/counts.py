"""What matrix products execute, estimated from their tiles: enough to choose which ones to compile.

Multiply-adds, shared loads, asynchronous copies and traffic follow from the tiles; integer instructions are estimates. At
compiled fidelity one block is executed, which counts all but the traffic behind L1.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ....core.constants import FLOAT_BYTES, INSTRUCTION_BYTES, SECTOR_BYTES, VECTOR_WORDS, WARP_SIZE, ceil_div, round_up
from ....core.counts import Counts
from ....gpus.gpu import Gpu
from ....memory.bank_conflicts import load_wavefronts
from ....memory.request_coalescing import shares_in_turns
from ....profiles.kernel_profile import KernelProfile, estimated_resources
from ...lanes import over_unique
from ..problem import PointwiseConv2d
from .tiling import (
    COPY_CHANNELS,
    Integers,
    ProductTiles,
    launch_of,
    registers,
    store_vector,
)

Floats = NDArray[np.float64]

SECTOR_WORDS = SECTOR_BYTES // FLOAT_BYTES
INTEGERS_PER_COPY = 3
INTEGERS_PER_OUTPUT = 8
"""Of a vector of outputs, where they pass through shared memory and where they do not."""
PROLOGUE_INSTRUCTIONS = 150
SLAB_INSTRUCTIONS = 25
SPARE_REGISTERS = 20
"""What the compiler takes beyond its need where the launch bound leaves it."""


@lru_cache(maxsize=65536)
def _wavefronts(filter_threads: int, position_threads: int) -> tuple[int, int, int, int]:
    """Wavefronts of a warp's read of a vector of its filters, and of its positions, each with those without conflicts."""
    lane = np.arange(WARP_SIZE)
    position = lane // 2 % position_threads * VECTOR_WORDS
    row = (lane // 2 // position_threads * 2 + lane % 2) % filter_threads * VECTOR_WORDS
    everyone, width = np.ones((1, WARP_SIZE), np.bool_), FLOAT_BYTES * VECTOR_WORDS
    costs = [load_wavefronts((word[None] * FLOAT_BYTES).astype(np.uint64), everyone, width) for word in (row, position)]
    (of_filters, ideal_of_filters), (of_positions, ideal_of_positions) = costs
    return int(of_filters[0]), int(of_positions[0]), int(ideal_of_filters[0]), int(ideal_of_positions[0])


def _reads(tile: ProductTiles) -> tuple[Floats, Floats, Floats]:
    """Reads of a warp for one channel, their wavefronts, and those without conflicts."""

    def of_kinds(*kinds: Integers) -> tuple[Floats, ...]:
        return tuple(np.array([_wavefronts(*map(int, kind)) for kind in zip(*kinds, strict=True)], np.float64).T)

    found = over_unique(of_kinds, tile.filter_threads, tile.position_threads)
    of_filters, of_positions, ideal_of_filters, ideal_of_positions = found
    filters, positions = tile.filters_per_thread / VECTOR_WORDS, tile.positions_per_thread / VECTOR_WORDS
    return (
        filters + positions,
        filters * of_filters + positions * of_positions,
        filters * ideal_of_filters + positions * ideal_of_positions,
    )


def profile(problem: PointwiseConv2d, tile: ProductTiles, gpu: Gpu) -> KernelProfile:
    """Counts, registers and critical path of n configurations."""
    launch = launch_of(problem, tile)
    asynchronous = gpu.architecture.asynchronous_copies
    across, down = tile.grid(problem)
    blocks = np.asarray(launch.blocks, np.float64)
    warps = blocks * ceil_div(tile.threads, WARP_SIZE)
    all_slabs = ceil_div(problem.in_channels, tile.slab_channels)
    slabs = all_slabs / tile.channel_split
    channels = slabs * tile.slab_channels / tile.channel_slices
    reads, wavefronts, ideal = _reads(tile)

    of_position = store_vector(problem)
    filter_copies = blocks * slabs * np.ceil(tile.filter_tile * tile.slab_channels / WARP_SIZE)
    input_copies = blocks * slabs * np.ceil(tile.slab_channels * tile.position_tile / of_position / WARP_SIZE)
    copies = filter_copies + input_copies
    passes = np.where(tile.slab_channels % WARP_SIZE == 0, 1, WARP_SIZE // COPY_CHANNELS)  # lines of a copy of filters
    copied_wavefronts = filter_copies * passes + input_copies * of_position
    through_l1 = filter_copies * passes + 2 * input_copies * (of_position < VECTOR_WORDS)
    filter_sectors = across * tile.filter_tile * down * problem.in_channels / SECTOR_WORDS
    input_sectors = down * across * tile.position_tile * problem.in_channels / SECTOR_WORDS

    outputs = problem.outputs
    shared_end = tile.through_shared(problem)
    parts = tile.channel_slices * tile.channel_split
    of_store = np.where(shared_end, of_position, VECTOR_WORDS)
    stores = np.ceil(across * tile.position_tile * problem.out_channels / of_store / WARP_SIZE)
    summed = np.where(shared_end, warps * tile.sums / VECTOR_WORDS, 0.0)
    added = np.where(shared_end, stores * parts, 0.0)
    stored = outputs / SECTOR_WORDS * (1.0 if problem.image_positions % SECTOR_WORDS == 0 else 1.15)

    multiply_adds = warps * channels * tile.sums
    loads = warps * channels * reads
    classes = {
        "fp32_fma": multiply_adds,
        "fp32_other": added * of_store,
        "integer": INTEGERS_PER_COPY * copies
        + warps * (PROLOGUE_INSTRUCTIONS + SLAB_INSTRUCTIONS * slabs)
        + INTEGERS_PER_OUTPUT * stores,
        "control": warps * (3 * slabs + 10),
        "barriers": warps * (slabs + 2 * shared_end),
    }
    read_bytes = FLOAT_BYTES * (problem.positions + problem.out_channels) * problem.in_channels
    none = np.zeros_like(warps)
    moved, moved_wavefronts = (copies, copied_wavefronts) if asynchronous else (none, none)
    plain, plain_wavefronts = (none, none) if asynchronous else (copies, copied_wavefronts)
    sectors = filter_sectors + input_sectors
    of_filter_requests, of_input_requests = shares_in_turns(across, down, tile.resident_blocks, gpu)
    counts = Counts(
        global_load_requests=plain,
        global_load_sectors=none if asynchronous else sectors,
        global_store_requests=stores,
        global_store_sectors=np.full_like(warps, stored),
        shared_load_requests=loads + added / tile.channel_split,
        shared_load_wavefronts=warps * channels * wavefronts + added / tile.channel_split * of_store,
        shared_bank_conflicts=warps * channels * (wavefronts - ideal),
        shared_store_requests=summed + plain,
        shared_store_wavefronts=summed * VECTOR_WORDS + plain_wavefronts,
        async_copy_requests=moved,
        async_copy_wavefronts=moved_wavefronts,
        async_copy_read_requests=moved,
        async_copy_read_wavefronts=through_l1 if asynchronous else none,
        async_copy_read_sectors=sectors if asynchronous else none,
        warp_instructions=loads + added + stores + summed + copies * (1 if asynchronous else 2) + sum(classes.values()),
        l2_read_sectors=filter_sectors * of_filter_requests + input_sectors * of_input_requests,
        l2_write_sectors=np.full_like(warps, stored),
        dram_read_bytes=np.full_like(warps, read_bytes),
        dram_write_bytes=np.full_like(warps, FLOAT_BYTES * outputs),
        **classes,
    )
    unit = gpu.register_allocation_unit // WARP_SIZE
    most = gpu.registers_per_sm // (tile.resident_blocks * round_up(tile.threads, WARP_SIZE)) // unit * unit
    wanted = round_up(registers(tile) + SPARE_REGISTERS, unit)
    taken_registers = np.minimum(np.minimum(wanted, most), gpu.max_registers_per_thread)
    return KernelProfile(
        launch=launch,
        resources=estimated_resources(launch, taken_registers.astype(np.int32)),
        counts=counts,
        global_round_trips=np.ceil(tile.slabs(problem) / tile.stages),
        warp_cycles=channels * (tile.sums + reads) + slabs * (SLAB_INSTRUCTIONS * 2) + PROLOGUE_INSTRUCTIONS * 3.0,
        loop_code_bytes=INSTRUCTION_BYTES * 2 * tile.unrolled_channels * (tile.sums + reads),
        read_only_share=0.0 if asynchronous else 1.0,
    )
