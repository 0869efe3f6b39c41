"""Which thread fetches what of a channel slab, and how wide: the compile-time constants of the kernel's load phase."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...definitions import WARP_SIZE, ceil_div
from .blocking import THREADS_PER_BLOCK, Integers, Tiles
from .problem import PointwiseConv2d

MAX_VECTOR_WORDS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetch:
    """Vector widths in words, threads and passes of a slab's fetch; arrays of shape ``(n,)``.

    A slab has ``slab_groups`` groups of C_num channels.

    Filters: ``filter_channel_lanes`` neighbouring threads take the channels of one filter, ``filter_step`` filters a pass.
    Input: ``position_lanes`` neighbouring threads take the positions of one channel in ``position_passes``,
    ``channel_step`` channels a pass. ``width_vector`` and ``height_vector``: widest reads that the thread tile allows.
    """

    slab_groups: Integers
    slab_channels: Integers
    filter_vector: Integers
    filter_channel_lanes: Integers
    filter_step: Integers
    filter_passes: Integers
    input_vector: Integers
    position_vectors: Integers
    position_lanes: Integers
    position_passes: Integers
    channel_step: Integers
    channel_passes: Integers
    width_vector: Integers
    height_vector: Integers

    @property
    def words(self) -> Integers:
        """Words of the next slab that a thread holds, vectors and passes rounded up."""
        filters = self.filter_passes * self.filter_vector
        return filters + self.channel_passes * self.position_passes * self.input_vector


def _power_of_two_from(value: Integers) -> Integers:
    power: Integers = (2 ** np.ceil(np.log2(value))).astype(np.int64)
    return power


def fetch(problem: PointwiseConv2d, tile: Tiles, slab_groups: Integers) -> Fetch:
    """How the slabs of each configuration are fetched: vectors as wide as channel count, image and tile allow.

    >>> import numpy as np
    >>> from ..base import Batch
    >>> from .blocking import tiles
    >>> from .configuration import PointwiseConfiguration
    >>> problem = PointwiseConv2d(in_channels=256, out_channels=256, height=28, width=28)
    >>> plan = fetch(problem, tiles(problem, Batch.of([PointwiseConfiguration(block_width_split=2)]), 132), np.array([1]))
    >>> int(plan.filter_vector[0]), int(plan.filter_passes[0])
    (4, 2)
    """
    channels = slab_groups * tile.channel_lanes
    filter_vector = np.gcd(np.gcd(MAX_VECTOR_WORDS, problem.in_channels), channels)
    filter_channel_lanes = channels // filter_vector
    filter_step = THREADS_PER_BLOCK // filter_channel_lanes
    aligned_positions = np.where(tile.filters_along_width, tile.warp_height, tile.block_width)
    input_vector = np.gcd(np.gcd(MAX_VECTOR_WORDS, problem.image_positions), aligned_positions)
    position_vectors = tile.position_tile // input_vector
    # Lanes of one phase of a store stay within one channel where threads are idle anyway: rows then cannot collide.
    spare_lanes = np.minimum(WARP_SIZE // input_vector, THREADS_PER_BLOCK // channels)
    position_lanes = np.minimum(np.maximum(_power_of_two_from(position_vectors), spare_lanes), THREADS_PER_BLOCK)
    channel_step = THREADS_PER_BLOCK // position_lanes
    return Fetch(
        slab_groups=slab_groups,
        slab_channels=channels,
        filter_vector=filter_vector,
        filter_channel_lanes=filter_channel_lanes,
        filter_step=filter_step,
        filter_passes=ceil_div(tile.filter_tile, filter_step),
        input_vector=input_vector,
        position_vectors=position_vectors,
        position_lanes=position_lanes,
        position_passes=ceil_div(position_vectors, THREADS_PER_BLOCK),
        channel_step=channel_step,
        channel_passes=ceil_div(channels, channel_step),
        width_vector=np.gcd(MAX_VECTOR_WORDS, tile.thread_width),
        height_vector=np.gcd(MAX_VECTOR_WORDS, tile.warp_height),
    )
