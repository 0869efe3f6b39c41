"""What decides the machine code of matrix products, and their profile with what compiled members show of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...core.constants import INSTRUCTION_BYTES, WARP_SIZE, ceil_div
from ...gpus.gpu import Gpu
from ...profiles.kernel_profile import KernelProfile
from ..compiled_members import Traits, compiled_numbers, completed_profile, requests_of
from .counts import WarpWork, cluster_cycles
from .layer import MatrixLayer
from .tiles import MatrixTiles

ESTIMATED = (
    "global_store_requests",
    "global_store_sectors",
    "shared_store_wavefronts",
    "async_copy_read_wavefronts",
    "async_copy_read_sectors",
)
"""Counts of memory accesses that the tiles say no nearer than by a tenth: edges, bank conflicts and images that do not begin at
sectors decide them."""


def traits(layer: MatrixLayer, tile: MatrixTiles, work: WarpWork, estimated: KernelProfile, gpu: Gpu) -> Traits:
    """Of every configuration; ``estimated`` is what follows from tiles and ``work``."""
    known, of_position = estimated.counts, tile.store_vector(layer)
    filter_copies, input_copies = (
        np.ceil(copies * WARP_SIZE / tile.threads) for copies in (work.filter_copies, work.input_copies)
    )
    parts = np.where(tile.through_shared(layer), tile.channel_slices * tile.channel_split, 0)
    stores = np.where(
        parts > 0, np.ceil(work.sums / of_position / np.maximum(parts, 1)), work.sums / tile.direct_vector
    )
    copies = filter_copies + input_copies
    return Traits(
        sizes={
            **tile.shape,
            "channel_slices": tile.channel_slices,
            "channel_split": tile.channel_split,
            "slab_channels": tile.slab_channels,
            "unrolled_channels": work.unrolled_channels,
            "stages": tile.stages,
            "slabs": tile.slabs(layer),
            "filter_copies": filter_copies,
            "input_copies": input_copies,
            "input_vector": tile.input_vector(layer),
            "stores": stores,
            "registers_left": tile.most_registers(gpu),
        },
        choices={
            "several_images": layer.batch > 1,
            "channels_end_within_slab": layer.in_channels % tile.slab_channels != 0,
            "filters_end_within_tile": layer.out_channels % tile.filter_tile != 0,
            "whole_lines": tile.slab_channels % WARP_SIZE == 0,
            "through_shared": parts > 0,
        },
        warp_instructions=estimated.warp_cycles - cluster_cycles(tile, of_position, gpu) + stores * parts,
        launch_instructions=known.fp32_fma + known.fp32_other + known.tensor + requests_of(known),
        index_instructions=known.integer,
        code_instructions=estimated.loop_code_bytes / INSTRUCTION_BYTES + 8.0 * copies + 2.0 * stores * (1 + parts),
        estimates={name: getattr(known, name) for name in ESTIMATED},
    )


def interpolated_profile(
    design: str, layer: MatrixLayer, tile: MatrixTiles, own: Traits, estimated: KernelProfile, gpu: Gpu
) -> KernelProfile:
    """What follows from the tiles, with registers, instructions and critical path of compiled members of the design."""
    known, launch = estimated.counts, estimated.launch
    asked = known.async_copy_read_sectors + known.global_load_sectors
    found = completed_profile(
        known,
        compiled_numbers(design, own, launch, gpu, tile.most_registers(gpu)),
        launch,
        global_round_trips=estimated.global_round_trips,
        first_fill_sectors=asked
        / (launch.blocks * ceil_div(layer.in_channels, tile.slab_channels))
        * tile.channel_split,
        read_only_share=estimated.read_only_share,
    )
    waited = cluster_cycles(tile, tile.store_vector(layer), gpu)  # executed blocks do not wait for others
    return replace(found, warp_cycles=found.warp_cycles + waited, tensor_cycles=estimated.tensor_cycles)
