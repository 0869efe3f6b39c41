"""What decides the machine code of the pointwise kernel, and what of it follows from the algorithm."""

from __future__ import annotations

import numpy as np

from ...core.constants import ceil_div
from ...core.counts import Counts
from ...gpus.gpu import Gpu
from ..code_estimates import code_estimates
from ..compiled_members import Traits
from .blocking.tiles import WARPS_PER_BLOCK
from .counts import shuffle_steps, slabs_of
from .launch import Candidates
from .launch_bounds import most_registers
from .problem import PointwiseConv2d


def traits(problem: PointwiseConv2d, chosen: Candidates, known: Counts, gpu: Gpu) -> Traits:
    """Of every candidate; ``known`` are the counts that closed forms give."""
    about = code_estimates()
    tile, fetched = chosen.tile, chosen.fetched
    slabs, shuffles = slabs_of(problem, chosen), shuffle_steps(tile)
    reads = tile.thread_filters + tile.thread_positions / fetched.read_vector
    group = tile.accumulators + reads
    stores = ceil_div(tile.accumulators, tile.channel_lanes)
    slab = fetched.slab_groups * group + fetched.instructions + fetched.words
    epilogue = about.pointwise_shuffle_step_instructions * shuffles + stores + about.pointwise_prologue_instructions
    index_of_slab = about.pointwise_slab_instructions + about.pointwise_fetch_instructions * fetched.instructions
    index_of_warp = (
        about.pointwise_prologue_instructions + slabs * index_of_slab + about.pointwise_store_instructions * stores
    )
    groups = ceil_div(problem.in_channels, tile.channel_lanes)
    warps = (tile.blocks(problem) * WARPS_PER_BLOCK).astype(np.float64)
    requests = known.shared_load_requests + known.async_copy_requests + known.global_load_requests
    return Traits(
        sizes={
            "sums": tile.accumulators,
            "thread_width": tile.thread_width,
            "warp_height": tile.warp_height,
            "channel_lanes": tile.channel_lanes,
            "slab_groups": fetched.slab_groups,
            "slabs": slabs,
            "fetches": fetched.instructions,
            "filter_vector": fetched.filter_vector,
            "input_vector": fetched.input_vector,
            "read_vector": fetched.read_vector,
            "stores": stores,
            "shuffles": 1 + shuffles,
            "stages": chosen.stages,
            "registers_left": most_registers(np.maximum(chosen.resident, 1), gpu),
        },
        choices={
            "filters_along_width": tile.filters_along_width,
            "several_images": problem.batch > 1,
            "channels_end_within_slab": problem.in_channels % fetched.slab_channels != 0,
            "filters_end_within_tile": problem.out_channels % np.maximum(tile.filter_tile, 1) != 0,
        },
        warp_instructions=groups * group + slabs * (fetched.instructions + fetched.words) + epilogue,
        launch_instructions=known.fp32_fma + known.fp32_other + known.shuffles + requests,
        index_instructions=warps * index_of_warp,
        code_instructions=slab + epilogue,
        round_trips=slabs,
    )
