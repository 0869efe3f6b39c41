"""Which thread fetches what of a channel slab, and how wide: the compile-time constants of the kernel's load phase."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ....core.constants import WARP_SIZE, ceil_div
from ....gpus.gpu import Gpu
from ..problem import PointwiseConv2d
from .tiles import THREADS_PER_BLOCK, Flags, Integers, Tiles

MAX_VECTOR_WORDS = 4


def copies_asynchronously(gpu: Gpu) -> bool:
    """Whether the GPU has ``cp.async`` (PTX ISA, requirements of ``cp.async``: sm_80 or newer)."""
    return gpu.architecture.asynchronous_copies


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetch:
    """Vector widths in words, threads and passes of a slab's fetch; arrays of shape ``(n,)``.

    A slab has ``slab_groups`` groups of C_num channels. ``asynchronous``: it is copied to shared memory past the registers.

    Filters: ``row_vectors`` neighbouring threads take the slab's channels of one filter, ``filter_step`` filters a pass.
    ``filter_cached``: through L1, where copies of 16 bytes could pass it by, because a filter tile has more blocks than the
    GPU has SMs, so that an SM reads it again.
    Input: ``position_lanes`` neighbouring threads take the positions of one channel in ``position_passes``,
    ``channel_step`` channels a pass. ``read_vector``: widest reads of the input that the thread tile allows.
    """

    asynchronous: bool
    slab_groups: Integers
    slab_channels: Integers
    filter_vector: Integers
    filter_cached: Flags
    row_vectors: Integers
    filter_step: Integers
    filter_passes: Integers
    input_vector: Integers
    position_vectors: Integers
    position_lanes: Integers
    position_passes: Integers
    channel_step: Integers
    channel_passes: Integers
    read_vector: Integers

    @property
    def words(self) -> Integers:
        """Words of the next slab that a thread holds in registers, vectors and passes rounded up."""
        filters = self.filter_passes * self.filter_vector
        held = filters + self.channel_passes * self.position_passes * self.input_vector
        return np.zeros_like(held) if self.asynchronous else held

    @property
    def instructions(self) -> Integers:
        """Loads or copies of a thread for each slab."""
        return self.filter_passes + self.channel_passes * self.position_passes


def _power_of_two_from(value: Integers) -> Integers:
    power: Integers = (2 ** np.ceil(np.log2(value))).astype(np.int64)
    return power


def _filter_vector(problem: PointwiseConv2d, tile: Tiles, channels: Integers) -> Integers:
    """Channels of a filter that a thread takes at once.

    Lanes that read one channel of different filters (along the width) need rows as many words apart, modulo the banks, as
    lanes share an output; vectors keep rows aligned to their own width.
    """
    vector: Integers = np.gcd(np.gcd(MAX_VECTOR_WORDS, problem.in_channels), channels)
    return np.where(tile.filters_along_width, np.minimum(vector, tile.channel_lanes), vector)


def _input_vector(problem: PointwiseConv2d, tile: Tiles, read_vector: Integers) -> Integers:
    """Positions of a channel that a thread takes at once.

    Along the width the lanes of a channel read so many words side by side; wider vectors would keep channels from lying side
    by side on the banks.
    """
    aligned = np.where(tile.filters_along_width, tile.warp_height, tile.block_width)
    vector: Integers = np.gcd(np.gcd(MAX_VECTOR_WORDS, problem.image_positions), aligned)
    return np.where(tile.filters_along_width, vector, np.minimum(vector, tile.element_lanes * read_vector))


def fetch(problem: PointwiseConv2d, tile: Tiles, slab_groups: Integers, sm_count: int, *, asynchronous: bool) -> Fetch:
    """How the slabs of each configuration are fetched: vectors as wide as channel count, image and tile allow.

    >>> from perfmodel.families.base import Batch
    >>> from perfmodel.families.pointwise_conv2d import PointwiseConfiguration
    >>> from perfmodel.families.pointwise_conv2d.blocking.tiles import tiles
    >>> problem = PointwiseConv2d(in_channels=256, out_channels=256, height=28, width=28)
    >>> tile = tiles(problem, Batch.of([PointwiseConfiguration(block_width_split=2)]), 132)
    >>> plan = fetch(problem, tile, np.array([1]), 132, asynchronous=True)
    >>> int(plan.filter_vector[0]), int(plan.filter_passes[0])
    (4, 2)
    """
    channels = slab_groups * tile.channel_lanes
    across, _ = tile.grid(problem)
    filter_vector = _filter_vector(problem, tile, channels)
    row_vectors = channels // filter_vector
    filter_step = np.maximum(THREADS_PER_BLOCK // row_vectors, 1)
    read_vector = np.gcd(MAX_VECTOR_WORDS, tile.thread_positions)
    input_vector = _input_vector(problem, tile, read_vector)
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
        filter_cached=(filter_vector == MAX_VECTOR_WORDS) & (across > sm_count),
        row_vectors=row_vectors,
        filter_step=filter_step,
        filter_passes=ceil_div(tile.filter_tile, filter_step),
        input_vector=input_vector,
        position_vectors=position_vectors,
        position_lanes=position_lanes,
        position_passes=ceil_div(position_vectors, THREADS_PER_BLOCK),
        channel_step=channel_step,
        channel_passes=ceil_div(channels, channel_step),
        read_vector=read_vector,
    )
