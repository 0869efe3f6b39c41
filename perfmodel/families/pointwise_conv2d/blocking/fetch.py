"""Which thread fetches what of a channel slab, and how wide: the compile-time constants of the kernel's load phase."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ....core.constants import VECTOR_WORDS, WARP_SIZE, ceil_div
from ....gpus.gpu import Gpu
from ..problem import PointwiseConv2d
from .tiles import THREADS_PER_BLOCK, Flags, Integers, Tiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetch:
    """Vector widths in words, threads and passes of a slab's fetch; arrays of shape ``(n,)``.

    A slab has ``slab_groups`` groups of C_num channels. ``asynchronous``: it is copied to shared memory past the registers.

    Filters: ``row_vectors`` neighbouring threads take the slab's channels of one filter. ``filter_cached``: through L1, where
    copies of 16 bytes could pass it by, because a filter tile has more blocks than the GPU has SMs, so that an SM reads it
    again. Input: ``position_lanes`` neighbouring threads take the positions of one channel in ``position_passes``.
    ``read_vector``: widest reads of the input that the thread tile allows.
    """

    asynchronous: bool
    slab_groups: Integers
    slab_channels: Integers
    filter_vector: Integers
    filter_cached: Flags
    row_vectors: Integers
    filter_passes: Integers
    input_vector: Integers
    position_lanes: Integers
    position_passes: Integers
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


def fetch(problem: PointwiseConv2d, tile: Tiles, slab_groups: Integers, gpu: Gpu) -> Fetch:
    """How the slabs of each configuration are fetched: vectors as wide as channel count, image and tile allow.

    >>> from perfmodel.families.base import Batch
    >>> from perfmodel.families.pointwise_conv2d import PointwiseConfiguration
    >>> from perfmodel.families.pointwise_conv2d.blocking.tiles import tiles
    >>> from perfmodel.gpus.catalogue import load_gpu
    >>> problem = PointwiseConv2d(in_channels=256, out_channels=256, height=28, width=28)
    >>> tile = tiles(problem, Batch.of([PointwiseConfiguration(block_width_split=2)]), 132)
    >>> fetched = fetch(problem, tile, np.array([1]), load_gpu("h200"))
    >>> int(fetched.filter_vector[0]), int(fetched.filter_passes[0])
    (4, 2)
    """
    along_width, channels = tile.filters_along_width, slab_groups * tile.channel_lanes
    # Vectors keep rows aligned to their own width. Lanes that read one channel of different filters (along the width) need
    # rows as many words apart, modulo the banks, as lanes share an output.
    filter_vector = np.gcd(np.gcd(VECTOR_WORDS, problem.in_channels), channels)
    filter_vector = np.where(along_width, np.minimum(filter_vector, tile.channel_lanes), filter_vector)
    row_vectors = channels // filter_vector
    # Along the width the lanes of a channel read as many positions side by side as a vector has; wider ones would keep
    # channels from lying side by side on the banks.
    read_vector = np.gcd(VECTOR_WORDS, tile.thread_positions)
    aligned = np.where(along_width, tile.warp_height, tile.block_width)
    input_vector = np.gcd(np.gcd(VECTOR_WORDS, problem.image_positions), aligned)
    input_vector = np.where(along_width, input_vector, np.minimum(input_vector, tile.element_lanes * read_vector))
    # Lanes of one phase of a store stay within one channel where threads are idle anyway: rows then cannot collide.
    position_vectors = tile.position_tile // input_vector
    spare_lanes = np.minimum(WARP_SIZE // input_vector, THREADS_PER_BLOCK // channels)
    position_lanes = np.maximum((2 ** np.ceil(np.log2(position_vectors))).astype(np.int64), spare_lanes)
    position_lanes = np.minimum(position_lanes, THREADS_PER_BLOCK)
    across, _ = tile.grid(problem)
    return Fetch(
        asynchronous=gpu.architecture.asynchronous_copies,
        slab_groups=slab_groups,
        slab_channels=channels,
        filter_vector=filter_vector,
        filter_cached=(filter_vector == VECTOR_WORDS) & (across > gpu.sm_count),
        row_vectors=row_vectors,
        filter_passes=ceil_div(tile.filter_tile, np.maximum(THREADS_PER_BLOCK // row_vectors, 1)),
        input_vector=input_vector,
        position_lanes=position_lanes,
        position_passes=ceil_div(position_vectors, THREADS_PER_BLOCK),
        channel_passes=ceil_div(channels, THREADS_PER_BLOCK // position_lanes),
        read_vector=read_vector,
    )
