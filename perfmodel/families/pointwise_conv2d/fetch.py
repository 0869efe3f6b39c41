"""Which thread fetches what of a channel slab, and how wide: the compile-time constants of the kernel's load phase."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...definitions import WARP_SIZE, ceil_div
from ...gpu import Gpu
from .blocking import THREADS_PER_BLOCK, Integers, Tiles
from .problem import PointwiseConv2d

MAX_VECTOR_WORDS = 4
ASYNC_FILTER_LANES = 8
"""Channels that neighbouring threads copy: a 32-byte sector of one filter."""
MIN_ASYNC_FILTER_STEP = WARP_SIZE // ASYNC_FILTER_LANES
"""Filters that a warp copies at once, so that the words of its lanes can lie on 32 banks."""


def copies_asynchronously(gpu: Gpu) -> bool:
    """Whether the GPU has ``cp.async`` (PTX ISA, requirements of ``cp.async``: sm_80 or newer)."""
    return gpu.compute_capability >= (8, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetch:
    """Vector widths in words, threads and passes of a slab's fetch; arrays of shape ``(n,)``.

    A slab has ``slab_groups`` groups of C_num channels. ``asynchronous``: it is copied to shared memory past the registers,
    the filters word by word, because a wider copy cannot transpose them.

    Filters: ``filter_channel_lanes`` neighbouring threads take channels of one filter, the next threads the next of
    ``filter_step`` filters, the next further channels. A pass has ``filter_step`` filters and 128 vectors.
    Input: ``position_lanes`` neighbouring threads take the positions of one channel in ``position_passes``,
    ``channel_step`` channels a pass. ``width_vector`` and ``height_vector``: widest reads that the thread tile allows.
    """

    asynchronous: bool
    slab_groups: Integers
    slab_channels: Integers
    filter_vector: Integers
    filter_channel_lanes: Integers
    filter_step: Integers
    filter_passes: Integers
    filter_channel_passes: Integers
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
        """Words of the next slab that a thread holds in registers, vectors and passes rounded up."""
        filters = self.filter_passes * self.filter_vector
        held = filters + self.channel_passes * self.position_passes * self.input_vector
        return np.zeros_like(held) if self.asynchronous else held

    @property
    def instructions(self) -> Integers:
        """Loads or copies of a thread for each slab."""
        return self.filter_passes * self.filter_channel_passes + self.channel_passes * self.position_passes


def _power_of_two_from(value: Integers) -> Integers:
    power: Integers = (2 ** np.ceil(np.log2(value))).astype(np.int64)
    return power


def _filter_lanes(
    problem: PointwiseConv2d, tile: Tiles, channels: Integers, asynchronous: bool
) -> tuple[Integers, Integers, Integers]:
    """Vector, neighbouring threads of a filter, and filters of a pass."""
    if not asynchronous:
        vector = np.gcd(np.gcd(MAX_VECTOR_WORDS, problem.in_channels), channels)
        lanes = channels // vector
        return vector, lanes, THREADS_PER_BLOCK // lanes
    lanes = np.minimum(ASYNC_FILTER_LANES, channels)
    step = np.maximum(_power_of_two_from(tile.filter_tile), MIN_ASYNC_FILTER_STEP)
    # Threads that small tiles leave over take more channels, as far as the slab has them.
    step = np.clip(step, THREADS_PER_BLOCK // channels, THREADS_PER_BLOCK // lanes)
    return np.ones_like(channels), lanes, step


def fetch(problem: PointwiseConv2d, tile: Tiles, slab_groups: Integers, *, asynchronous: bool = False) -> Fetch:
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
    filter_vector, filter_channel_lanes, filter_step = _filter_lanes(problem, tile, channels, asynchronous)
    aligned_positions = np.where(tile.filters_along_width, tile.warp_height, tile.block_width)
    input_vector = np.gcd(np.gcd(MAX_VECTOR_WORDS, problem.image_positions), aligned_positions)
    position_vectors = tile.position_tile // input_vector
    # Lanes of one phase of a store stay within one channel where threads are idle anyway: rows then cannot collide.
    spare_lanes = np.minimum(WARP_SIZE // input_vector, THREADS_PER_BLOCK // channels)
    position_lanes = np.minimum(np.maximum(_power_of_two_from(position_vectors), spare_lanes), THREADS_PER_BLOCK)
    channel_step = THREADS_PER_BLOCK // position_lanes
    return Fetch(
        asynchronous=asynchronous,
        slab_groups=slab_groups,
        slab_channels=channels,
        filter_vector=filter_vector,
        filter_channel_lanes=filter_channel_lanes,
        filter_step=filter_step,
        filter_passes=ceil_div(tile.filter_tile, filter_step),
        filter_channel_passes=channels * filter_step // (THREADS_PER_BLOCK * filter_vector),
        input_vector=input_vector,
        position_vectors=position_vectors,
        position_lanes=position_lanes,
        position_passes=ceil_div(position_vectors, THREADS_PER_BLOCK),
        channel_step=channel_step,
        channel_passes=ceil_div(channels, channel_step),
        width_vector=np.gcd(MAX_VECTOR_WORDS, tile.thread_width),
        height_vector=np.gcd(MAX_VECTOR_WORDS, tile.warp_height),
    )
