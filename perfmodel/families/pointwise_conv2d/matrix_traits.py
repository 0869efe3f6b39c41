"""What decides the machine code of matrix products, and their profile with what compiled members show of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ...core.constants import INSTRUCTION_BYTES, WARP_SIZE, ceil_div, round_up
from ...gpus.gpu import Gpu
from ...profiles.kernel_profile import KernelProfile
from ..compiled_members import Traits, compiled_numbers, completed_profile, requests_of
from .matrix_counts import cluster_cycles
from .matrix_tiles import MatrixTiles, position_vector
from .problem import PointwiseConv2d

ESTIMATED = (
    "global_store_requests",
    "global_store_sectors",
    "shared_store_wavefronts",
    "async_copy_read_wavefronts",
    "async_copy_read_sectors",
)
"""Counts of memory accesses that the tiles say no nearer than by a tenth: edges, bank conflicts and images that do not begin at
sectors decide them."""


def traits(problem: PointwiseConv2d, tile: MatrixTiles, estimated: KernelProfile, gpu: Gpu) -> Traits:
    """Of every configuration; ``estimated`` is what follows from the tiles."""
    known, of_position = estimated.counts, position_vector(problem)
    filter_copies = np.ceil(tile.filter_tile * tile.slab_channels / tile.filter_vector(problem) / tile.threads)
    input_copies = np.ceil(tile.slab_channels * tile.position_tile / of_position / tile.threads)
    parts = np.where(tile.through_shared(problem), tile.channel_slices * tile.channel_split, 0)
    stores = np.where(
        parts > 0, np.ceil(tile.sums / of_position / np.maximum(parts, 1)), tile.sums / tile.direct_vector
    )
    copies = filter_copies + input_copies
    return Traits(
        sizes={
            **tile.shape,
            "channel_slices": tile.channel_slices,
            "channel_split": tile.channel_split,
            "slab_channels": tile.slab_channels,
            "unrolled_channels": tile.unrolled_channels,
            "stages": tile.stages,
            "slabs": tile.slabs(problem),
            "filter_copies": filter_copies,
            "input_copies": input_copies,
            "input_vector": of_position,
            "stores": stores,
            "registers_left": most_registers(tile, gpu),
        },
        choices={
            "several_images": problem.batch > 1,
            "channels_end_within_slab": problem.in_channels % tile.slab_channels != 0,
            "filters_end_within_tile": problem.out_channels % tile.filter_tile != 0,
            "whole_lines": tile.slab_channels % WARP_SIZE == 0,
            "through_shared": parts > 0,
        },
        warp_instructions=estimated.warp_cycles - cluster_cycles(tile, of_position, gpu) + stores * parts,
        launch_instructions=known.fp32_fma + known.fp32_other + known.tensor + requests_of(known),
        index_instructions=known.integer,
        code_instructions=estimated.loop_code_bytes / INSTRUCTION_BYTES + 8.0 * copies + 2.0 * stores * (1 + parts),
        estimates={name: getattr(known, name) for name in ESTIMATED},
    )


def most_registers(tile: MatrixTiles, gpu: Gpu) -> NDArray[np.int64]:
    """Registers that the launch bound leaves a thread."""
    unit = gpu.register_allocation_unit // WARP_SIZE
    most = gpu.registers_per_sm // (tile.resident_blocks * round_up(tile.threads, WARP_SIZE)) // unit * unit
    return np.asarray(np.clip(most, 1, gpu.max_registers_per_thread), np.int64)


def interpolated_profile(
    design: str, problem: PointwiseConv2d, tile: MatrixTiles, estimated: KernelProfile, gpu: Gpu
) -> KernelProfile:
    """What follows from the tiles, with registers, instructions and critical path of compiled members of the design."""
    known, launch = estimated.counts, estimated.launch
    asked = known.async_copy_read_sectors + known.global_load_sectors
    found = completed_profile(
        known,
        compiled_numbers(design, traits(problem, tile, estimated, gpu), launch, gpu, most_registers(tile, gpu)),
        launch,
        global_round_trips=estimated.global_round_trips,
        first_fill_sectors=asked
        / (launch.blocks * ceil_div(problem.in_channels, tile.slab_channels))
        * tile.channel_split,
        read_only_share=estimated.read_only_share,
    )
    waited = cluster_cycles(tile, position_vector(problem), gpu)  # executed blocks do not wait for others
    return replace(found, warp_cycles=found.warp_cycles + waited, tensor_cycles=estimated.tensor_cycles)
