"""What decides the machine code of the tiled kernel, and what of it follows from the algorithm."""

from __future__ import annotations

import numpy as np

from ...core.constants import WARP_SIZE, ceil_div
from ...core.counts import Counts
from ..code_estimates import code_estimates
from ..compiled_members import Traits, requests_of
from .counts import distinct_offsets, keeps_row_loop, tap_loads
from .launch import Geometry
from .problem import TiledConv2d


def traits(problem: TiledConv2d, sizes: Geometry, read_only: object, known: Counts) -> Traits:
    """Of every configuration; ``known`` are the counts that closed forms give."""
    about = code_estimates()
    looped = keeps_row_loop(problem, sizes)
    outputs = sizes.tile_x * sizes.tile_y
    multiply_adds = outputs * problem.filter_height * problem.filter_width
    loads = tap_loads(problem, sizes)
    columns = distinct_offsets(sizes.block_x, sizes.tile_x, problem.filter_width)
    warps = sizes.grid_x * sizes.grid_y * ceil_div(sizes.block_x * sizes.block_y, WARP_SIZE)
    fills = ceil_div(sizes.patch_width, sizes.block_x) * ceil_div(sizes.patch_height, sizes.block_y)
    shares_rows = (sizes.block_y < problem.filter_height) & (sizes.tile_y > 1)
    return Traits(
        sizes={
            "block_x": sizes.block_x,
            "block_y": sizes.block_y,
            "tile_x": sizes.tile_x,
            "tile_y": sizes.tile_y,
            "filter_width": problem.filter_width,
            "filter_height": problem.filter_height,
            "outputs": outputs,
            "multiply_adds": multiply_adds,
            "taps": loads,
            "columns": columns,
            "kept_taps": np.where(shares_rows, (sizes.tile_y - 1) * sizes.block_y * columns, 0) + 1,
            "fills": np.where(sizes.use_shmem, fills, 1),
        },
        choices={
            "shares": sizes.use_shmem,
            "read_only": read_only,
            "keeps_row_loop": looped,
            "guards": sizes.guarded,
            "shares_rows": shares_rows,
            "shares_columns": (sizes.block_x < problem.filter_width) & (sizes.tile_x > 1),
        },
        warp_instructions=multiply_adds + loads + about.prologue_instructions,
        launch_instructions=known.fp32_fma + requests_of(known),
        index_instructions=about.tiled_load_instructions * known.global_load_requests
        + known.global_store_requests
        + warps * float(about.prologue_instructions),
        code_instructions=np.where(looped, (multiply_adds + loads) / problem.filter_height, multiply_adds + loads)
        + about.prologue_instructions,
    )
