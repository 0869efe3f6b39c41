"""Limits of configurations with `reuse=block`: tiles that the problem can fill, blocks that have threads enough."""

from __future__ import annotations

import numpy as np

from ....core.constants import MAX_BLOCK_Z, MAX_GRID_YZ, ceil_div, round_up
from ...base import Batch, Check
from ..configuration import BLOCKED_SUMS, BLOCKED_THREADS, DirectConv2dConfiguration, Reuse
from ..problem import Conv2d


def checks(problem: Conv2d, batch: Batch[DirectConv2dConfiguration]) -> tuple[Check, ...]:
    """Limits of configurations that block; the others of the batch break none."""
    blocks = batch.equals("reuse", Reuse.BLOCK)
    given = {name: column.astype(np.int64) for name, column in batch.columns.items()}
    channels = given["channel_threads"] * given["channels_per_thread"]
    sums = given["rows_per_thread"] * given["columns_per_thread"] * given["channels_per_thread"]
    threads = given["block_x"] * given["block_y"] * given["channel_threads"] * given["channel_slices"]
    images = ceil_div(given["block_y"], ceil_div(problem.output_height, np.maximum(given["rows_per_thread"], 1)))
    few_sums, most_sums = BLOCKED_SUMS
    few_threads, most_threads = BLOCKED_THREADS
    in_z = given["channel_threads"] * given["channel_slices"]
    least_channels = round_up(problem.out_channels, 4)
    grid = ceil_div(problem.out_channels, np.maximum(channels, 1))
    limits = (
        ("dense convolution where reuse=block", np.full(len(batch), problem.depthwise), "depthwise", "is not"),
        (
            "outputs per thread where reuse=block",
            (sums < few_sums) | (sums > most_sums),
            sums,
            f"{few_sums} to {most_sums}",
        ),
        (
            "threads per block where reuse=block",
            (threads < few_threads) | (threads > most_threads),
            threads,
            f"{few_threads} to {most_threads}",
        ),
        ("output channels per block", channels >= 2 * least_channels, channels, 2 * least_channels - 1),
        ("channels in the block's z", in_z > MAX_BLOCK_Z, in_z, MAX_BLOCK_Z),
        ("channel slices", given["channel_slices"] > problem.in_channels, given["channel_slices"], problem.in_channels),
        ("images per block", images > max(1, problem.batch), images, problem.batch),
        ("tiles of output channels in the grid's y", grid > MAX_GRID_YZ, grid, MAX_GRID_YZ),
        ("images in the grid's z", np.full(len(batch), problem.batch > MAX_GRID_YZ), problem.batch, MAX_GRID_YZ),
    )
    return tuple(
        Check(reason=reason, rejected=broken & blocks, value=value, limit=limit, relation="is not within")
        for reason, broken, value, limit in limits
    )
