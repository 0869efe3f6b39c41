"""Limits of configurations that block: tiles that the layer can fill, blocks that have threads enough, code that fits."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...core.constants import MAX_GRID_YZ, ceil_div, round_up
from ..base import Check, within_limits
from .choices import SUMS, THREADS
from .layer import Layer
from .tiling import Blocking

MAX_STRAIGHT_FMA = 16_384
"""Multiply-adds of a thread in straight-line code, 256 KiB; more take the compiler minutes."""


def checks(layer: Layer, given: Blocking, blocks: NDArray[np.bool_], where: str) -> tuple[Check, ...]:
    """Limits of the configurations that block (``blocks``); the others of the batch break none.

    ``where`` is what a configuration says that blocks, for the messages.
    """
    channels, sums, threads = given.out_channels, given.sums, given.threads
    images = ceil_div(given.block_y, ceil_div(layer.output_height, np.maximum(given.rows_per_thread, 1)))
    few_sums, most_sums = SUMS
    few_threads, most_threads = THREADS
    least_channels = round_up(layer.out_channels, 4)
    grid = ceil_div(layer.out_channels, np.maximum(channels, 1))
    code = layer.filter_taps * sums
    limits = (
        (
            f"outputs per thread where {where}",
            (sums < few_sums) | (sums > most_sums),
            sums,
            f"{few_sums} to {most_sums}",
        ),
        (
            f"threads per block where {where}",
            (threads < few_threads) | (threads > most_threads),
            threads,
            f"{few_threads} to {most_threads}",
        ),
        ("multiply-adds in straight-line code", code > MAX_STRAIGHT_FMA, code, MAX_STRAIGHT_FMA),
        ("output channels per block", channels >= 2 * least_channels, channels, 2 * least_channels - 1),
        ("channel slices", given.channel_slices > layer.in_channels, given.channel_slices, layer.in_channels),
        ("images per block", images > layer.images, images, layer.images),
        ("tiles of output channels in the grid's y", grid > MAX_GRID_YZ, grid, MAX_GRID_YZ),
        ("images in the grid's z", np.full(blocks.shape, layer.images > MAX_GRID_YZ), layer.images, MAX_GRID_YZ),
    )
    return within_limits(*((reason, broken & blocks, value, limit) for reason, broken, value, limit in limits))
