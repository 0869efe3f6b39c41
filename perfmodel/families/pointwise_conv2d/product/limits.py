"""Limits of configurations with `layout=product`: what a thread and a block may hold, what the problem can fill."""

from __future__ import annotations

import numpy as np

from ....core.constants import MAX_GRID_YZ, VECTOR_WORDS, ceil_div, round_up
from ....gpus.gpu import Gpu
from ...base import Batch, Check, within_limits
from ..configuration import PointwiseConfiguration
from ..problem import PointwiseConv2d
from .tiling import COPY_CHANNELS, least_slab, tiles

SUMS = (8, 64)
"""Fewest and most outputs of a thread."""
THREADS = (64, 512)
"""Fewest and most threads of a block."""
CLUSTER_SHARE = 10 / 11
"""Of the SMs, those that clusters of four or eight blocks fill at once: 30 and 15 of them with one block on each of an H200's
132 SMs (cudaOccupancyMaxActiveClusters). A cluster beyond waits for another one to end."""
MAX_CLUSTER = 8
"""Most blocks of a cluster that every GPU with clusters runs (CUDA C++ Programming Guide, thread block clusters)."""


def checks(problem: PointwiseConv2d, batch: Batch[PointwiseConfiguration], gpu: Gpu) -> tuple[Check, ...]:
    """Limits of matrix products; all of the batch are such."""
    tile = tiles(problem, batch, gpu)
    few_sums, most_sums = SUMS
    few_threads, most_threads = THREADS
    across, down = tile.grid(problem)
    filters = round_up(problem.out_channels, 2 * tile.filters_per_thread)
    positions = round_up(problem.positions, tile.positions_per_thread)
    most_split = MAX_CLUSTER if gpu.architecture.has_clusters else 1
    slabs = ceil_div(problem.in_channels, tile.slab_channels)
    clusters, wide = across * down, 2 ** np.ceil(np.log2(tile.channel_split)).astype(np.int64)
    at_once = tile.resident_blocks * (gpu.sm_count * CLUSTER_SHARE // wide).astype(np.int64)
    return within_limits(
        ("outputs per thread where layout=product", (tile.sums < few_sums) | (tile.sums > most_sums), tile.sums,
         f"{few_sums} to {most_sums}"),
        ("threads per block where layout=product", (tile.threads < few_threads) | (tile.threads > most_threads),
         tile.threads, f"{few_threads} to {most_threads}"),
        ("filters of a block", tile.filter_tile > filters, tile.filter_tile, filters),
        ("positions of a block", tile.position_tile > positions, tile.position_tile, positions),
        ("blocks of a cluster", tile.channel_split > most_split, tile.channel_split, most_split),
        ("clusters that run at once", (tile.channel_split > 2) & (clusters > at_once), clusters, at_once),
        ("parts of the slabs", tile.channel_split > slabs, tile.channel_split, slabs),
        ("channels of the slices", least_slab(tile.channel_slices) > round_up(problem.in_channels, COPY_CHANNELS),
         tile.channel_slices, ceil_div(problem.in_channels, 2)),
        ("filter_threads", tile.filter_threads % 2 != 0, tile.filter_threads, "even numbers"),
        (
            "filters per thread",
            tile.filters_per_thread % VECTOR_WORDS != 0,
            tile.filters_per_thread,
            f"multiples of {VECTOR_WORDS}",
        ),
        ("positions per thread", tile.positions_per_thread % VECTOR_WORDS != 0, tile.positions_per_thread,
         f"multiples of {VECTOR_WORDS}"),
        ("tiles of filters in the grid's y", down > MAX_GRID_YZ, down, MAX_GRID_YZ),
    )  # fmt: skip
