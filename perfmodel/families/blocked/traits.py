"""What decides the machine code of the blocked kernel, and what of it follows from the tiles; the profile of both."""

from __future__ import annotations

import numpy as np

from ...core.constants import VECTOR_WORDS, WARP_SIZE
from ...core.counts import Counts
from ...gpus.gpu import Gpu
from ...launch.launch import Launch
from ...profiles.kernel_profile import KernelProfile
from ..code_estimates import code_estimates
from ..compiled_members import (
    Traits,
    access_estimates,
    compiled_numbers,
    completed_profile,
    requests_of,
)
from .counts import closed_form, groups_of_thread, thread_copies
from .layer import Layer
from .tiling import KERNEL, Tiles, launch_of


def traits(layer: Layer, tile: Tiles, launch: Launch, known: Counts, gpu: Gpu) -> Traits:
    """Of every configuration; ``known`` are the counts that follow from the tiles."""
    about = code_estimates()
    slabs, groups, copies = tile.slabs(layer), groups_of_thread(layer, tile), thread_copies(layer, tile)
    loads = known.shared_load_requests / (launch.blocks * launch.warps_per_block * groups)
    multiply_adds = tile.channel_group * layer.filter_taps * tile.sums
    stores = tile.sums / np.gcd(np.gcd(tile.columns_per_thread, VECTOR_WORDS), layer.output_width)
    of_slab = copies.patch + copies.filters
    index_of_slab = about.blocked_copy_instructions * of_slab + about.blocked_slab_instructions
    index_once = about.blocked_prologue_instructions + about.blocked_store_instructions * stores
    return Traits(
        sizes={
            "multiply_adds": multiply_adds,
            "channel_group": tile.channel_group,
            "rows_per_thread": tile.rows_per_thread,
            "columns_per_thread": tile.columns_per_thread,
            "channels_per_thread": tile.channels_per_thread,
            "filter_height": layer.filter_height,
            "filter_width": layer.filter_width,
            "loads": loads,
            "patch_copies": copies.patch,
            "filter_copies": copies.filters,
            "groups_of_slab": groups / slabs,
            "slabs": slabs,
            "stages": tile.stages,
            "warps": launch.warps_per_block,
            "registers_of_thread": np.clip(
                gpu.registers_per_sm // (launch.warps_per_block * WARP_SIZE), 1, gpu.max_registers_per_thread
            ),
            "patch_columns": tile.patch_columns(layer),
            "patch_vector": tile.patch_vector,
            "filter_vector": tile.filter_vector,
            "filter_lanes": tile.filter_lanes,
        },
        choices={
            "strides": layer.stride > 1,
            "pads": layer.row_padding + layer.column_padding > 0,
            "slices": tile.channel_slices > 1,
            "several_images": tile.images > 1,
            "rows_of_batch": layer.rows_of_batch,
            "channels_end_within_slab": layer.in_channels % tile.slab_channels != 0,
            "filters_end_within_tile": layer.out_channels % tile.out_channels != 0,
            "part_of_a_warp": tile.threads % WARP_SIZE != 0,
        },
        warp_instructions=groups * (multiply_adds + loads) + slabs * of_slab + stores,
        launch_instructions=known.fp32_fma + requests_of(known),
        index_instructions=launch.blocks * launch.warps_per_block * (slabs * index_of_slab + index_once),
        code_instructions=multiply_adds + loads + 2 * index_of_slab + index_once,
        estimates=access_estimates(known),
    )


def profile(layer: Layer, tile: Tiles, gpu: Gpu, read_bytes: float) -> KernelProfile:
    """Counts, registers and critical path of n configurations; ``read_bytes`` are those that DRAM must deliver at least."""
    launch = launch_of(layer, tile)
    known = closed_form(layer, tile, launch, gpu, read_bytes)
    return completed_profile(
        known,
        compiled_numbers(KERNEL, traits(layer, tile, launch, known, gpu), launch, gpu),
        launch,
        global_round_trips=np.ceil(tile.slabs(layer) / (tile.stages - 1)),
        first_fill_sectors=known.l2_read_sectors / (launch.blocks * tile.slabs(layer)),
        read_only_share=0.0 if gpu.architecture.asynchronous_copies else 1.0,
    )
