"""Tiles, slabs, stages and shared memory of matrix products, and what is compiled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....compiler.request import CompileRequest
from ....core.constants import FLOAT_BYTES, LINE_BYTES, VECTOR_WORDS, WARP_SIZE, round_up
from ....gpus.gpu import Gpu
from ...base import Batch
from ...code_estimates import code_estimates
from ...matrix.layer import MatrixLayer, position_vector
from ...matrix.tiles import Integers, MatrixTiles, matrix_compile_request
from ..configuration import OF_PRODUCTS, PointwiseConfiguration
from ..problem import PointwiseConv2d

KERNEL = "pointwise_product"
MAX_UNROLLED_FMA = 512
"""Multiply-adds of a thread in straight-line code; of its two copies one switches to the next slab."""
LARGE_TILE = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductTiles(MatrixTiles):
    """Sizes of n configurations, arrays of shape ``(n,)``; macros of the kernel in small letters."""

    filters_per_thread: Integers
    positions_per_thread: Integers
    filter_threads: Integers
    position_threads: Integers

    @property
    def threads(self) -> Integers:
        """Threads of a block."""
        return self.filter_threads * self.position_threads * self.channel_slices

    @property
    def sums(self) -> Integers:
        """Outputs of which a thread sums its share of the channels."""
        return self.filters_per_thread * self.positions_per_thread

    @property
    def filter_tile(self) -> Integers:
        """Filters of a block."""
        return self.filter_threads * self.filters_per_thread

    @property
    def position_tile(self) -> Integers:
        """Positions of a block."""
        return self.position_threads * self.positions_per_thread

    @property
    def shape(self) -> Mapping[str, Integers]:
        """The tile of a thread, and the threads of a slice."""
        return {name: getattr(self, name) for name in OF_PRODUCTS[:4]}

    @property
    def filter_pitch(self) -> Integers:
        """Words from one channel's filters to the next: whole lines, within which vectors are exchanged."""
        return np.asarray(round_up(self.filter_tile, LINE_BYTES // FLOAT_BYTES), np.int64)

    @property
    def sums_pitch(self) -> Integers:
        """Words from the sums of a filter to those of the next."""
        return self.position_tile

    @property
    def unrolled_channels(self) -> Integers:
        """Channels of a thread in straight-line code: a power of two from four on that divides its part of a slab."""
        channels = self.slab_channels // self.channel_slices
        chosen = np.full_like(channels, VECTOR_WORDS)
        for count in (8, 16):
            chosen = np.where((channels % count == 0) & (count * self.sums <= MAX_UNROLLED_FMA), count, chosen)
        return chosen

    def stage_bytes(self, layer: MatrixLayer) -> Integers:
        """One slab of filters and input."""
        return FLOAT_BYTES * self.slab_channels * (self.filter_pitch + self.position_tile)

    def least_slab(self, layer: MatrixLayer) -> Integers:
        """Channels of the smallest slab: whole sectors, and four for each slice."""
        return np.asarray(np.maximum(layer.sector_elements, VECTOR_WORDS * self.channel_slices), np.int64)

    def registers(self, layer: MatrixLayer) -> Integers:
        """About what a thread takes: sums, filters and positions of this channel and the next, addresses."""
        operands = 2 * (self.filters_per_thread + self.positions_per_thread)
        about = code_estimates()
        large = np.where(self.sums > LARGE_TILE, about.product_large_tile_registers, 0)
        return np.asarray(self.sums + operands + about.product_other_registers + large, np.int64)

    def copies_of_slab(self, layer: MatrixLayer, slab: Integers) -> Integers:
        """Filters word by word, the input in vectors."""
        return slab * (self.filter_tile + self.position_tile // position_vector(layer))

    def cost_of_slab(self, layer: MatrixLayer, slab: Integers) -> NDArray[np.float64]:
        """Channels, more where filters are copied by sectors."""
        return np.where(slab % WARP_SIZE == 0, 1.0, code_estimates().product_sector_copy_cost) * slab


def tiles(problem: PointwiseConv2d, batch: Batch[PointwiseConfiguration], gpu: Gpu) -> ProductTiles:
    """Sizes of a batch of configurations with ``layout=product``.

    >>> from perfmodel.families.pointwise_conv2d import Layout
    >>> from perfmodel.gpus.catalogue import load_gpu
    >>> chosen = PointwiseConfiguration(
    ...     layout=Layout.PRODUCT, filter_split=None, block_width_split=None, blocks_per_sm=None, channel_lanes=None,
    ...     filters_per_thread=8, positions_per_thread=8, filter_threads=16, position_threads=16,
    ...     channel_slices=1, channel_split=1)
    >>> tile = tiles(PointwiseConv2d(), Batch.of([chosen]), load_gpu("h200"))
    >>> tile.filter_tile, tile.slab_channels, tile.stages, tile.resident_blocks
    (array([128]), array([64]), array([3]), array([1]))
    """
    given = {name: batch[name].astype(np.int64) for name in OF_PRODUCTS}
    one = np.ones_like(given["channel_split"])
    return ProductTiles(**given, slab_channels=one, stages=one, resident_blocks=one).fitted(problem, gpu)


def compile_request(problem: PointwiseConv2d, configuration: PointwiseConfiguration, gpu: Gpu) -> CompileRequest:
    """Source, kernel and macros."""

    def macros(tile: ProductTiles) -> dict[str, Any]:
        return {"FILTER_PITCH": tile.filter_pitch, "UNROLLED_CHANNELS": tile.unrolled_channels}

    return matrix_compile_request(KERNEL, tiles(problem, Batch.of([configuration]), gpu), problem, gpu, macros)
