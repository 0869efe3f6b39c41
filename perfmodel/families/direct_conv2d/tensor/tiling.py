"""Patches, slabs and stages of convolutions on tensor cores, their limits, and what is compiled."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import gcd
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ....compiler.request import CompileRequest
from ....core.constants import FLOAT_BYTES, SHARED_BANKS, WARP_SIZE, ceil_div, round_up
from ....gpus.gpu import Gpu
from ....memory.bank_conflicts import load_wavefronts
from ...base import Batch, Check, within_limits
from ...matrix.channels_last import (
    ChannelsLastTiles,
    channels_last_checks,
    channels_last_request,
    channels_last_tiles,
    few_channels,
)
from ...matrix.choices import OF_TENSORS, TENSOR_POSITIONS
from ...matrix.layer import MatrixLayer, filter_vector
from ...matrix.tensor_limits import tensor_checks
from ...matrix.tensor_tiles import TensorTiles, padded_pitch, product_terms
from ...matrix.tiles import Integers, matrix_compile_request
from ..configuration import DirectConv2dConfiguration
from ..launch import filter_macros
from ..problem import Conv2d

KERNEL = "tensor_convolution"
MOST_UNROLLED_PRODUCTS = 9
"""Products of a slice in a slab up to which an odd number of them is straight-line code; more become an even number."""
MOST_PATCH_PASSES = 4
"""Vectors of a channel of the patch that a thread copies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvolutionTiles(TensorTiles):
    """Sizes of n configurations, arrays of shape ``(n,)``; macros of the kernel in small letters."""

    most_slab_words: ClassVar[int] = 160
    registers_beside_factors: ClassVar[int] = 48
    registers_of_column: ClassVar[int] = 1

    patch_rows: Integers
    """Rows of the padded images, one below the other, that a tile reads."""
    patch_lead: Integers
    """Zeros in front of the first of them."""
    row_pitch: Integers
    """Elements from one of them to the next in a stage."""

    def channel_pitch(self, layer: MatrixLayer) -> Integers:
        """Elements from one channel of the patch to the next in a stage: an odd multiple of a quarter of the banks."""
        shift = channel_shift(layer)
        elements = round_up(self.patch_lead + self.patch_rows * self.row_pitch, shift)
        return np.asarray(elements + np.where(elements % (2 * shift) == 0, shift, 0), np.int64)

    def slab_products(self, layer: MatrixLayer) -> Integers:
        """Products of a warp's tile for a slab; beyond its terms the slices' turns and pairs of buffers are filled up."""
        products = ceil_div(ceil_div(self.slab_channels * layer.filter_taps, product_terms(layer)), self.channel_slices)
        odd = (products % 2 == 1) & (products > MOST_UNROLLED_PRODUCTS)
        return np.asarray((products + odd) * self.channel_slices, np.int64)

    def filter_pitch(self, layer: MatrixLayer) -> Integers:
        """Elements from one filter to the next in a stage."""
        return padded_pitch(layer, product_terms(layer) * self.slab_products(layer))

    def filter_vector(self, layer: MatrixLayer) -> Integers:
        """Elements of a copy of a filter, which no slab's end cuts."""
        return np.asarray(np.gcd(filter_vector(layer), self.slab_channels * layer.filter_taps), np.int64)

    def stage_bytes(self, layer: MatrixLayer) -> Integers:
        """One slab of filters and patch."""
        elements = self.filter_tile * self.filter_pitch(layer) + self.slab_channels * self.channel_pitch(layer)
        return np.asarray(layer.element_bytes * elements, np.int64)

    def bytes_beside_stages(self, layer: MatrixLayer) -> Integers:
        """Steps of the terms of a slab, a word each."""
        return np.asarray(FLOAT_BYTES * product_terms(layer) * self.slab_products(layer), np.int64)

    def copies_of_slab(self, layer: MatrixLayer, slab: Integers) -> Integers:
        """Filters and rows of the patch in vectors."""
        wider = replace(self, slab_channels=slab)
        of_filters = self.filter_tile * slab * layer.filter_taps // wider.filter_vector(layer)
        return np.asarray(of_filters + slab * self.patch_vectors(layer), np.int64)

    def patch_vectors(self, layer: MatrixLayer) -> Integers:
        """Copies of one channel of the patch."""
        return np.asarray(self.patch_rows * layer.input_run // self.input_vector(layer), np.int64)

    def filter_lanes(self, layer: MatrixLayer) -> Integers:
        """Neighbouring threads that copy a filter's terms of a slab."""
        return np.asarray(self.slab_channels * layer.filter_taps // self.filter_vector(layer), np.int64)

    def column_wavefronts(self, problem: Conv2d) -> NDArray[np.float64]:
        """Wavefronts of a read of eight neighbouring positions in one row, four terms each, mean over the terms of a slab."""
        columns = (self.slab_channels, self.row_pitch, self.channel_pitch(problem))
        found = [_column_wavefronts(problem, *sizes) for sizes in zip(*(c.tolist() for c in columns), strict=True)]
        return np.array(found, np.float64)

    def cost_of_slab(self, layer: MatrixLayer, slab: Integers) -> NDArray[np.float64]:
        """Terms that are multiplied, those beyond the slab's included, where a block has threads enough to copy them."""
        terms = product_terms(layer) * self.slab_products(layer)
        return np.where(self.filter_lanes(layer) <= self.threads, terms, np.inf)

    def least_slab(self, layer: MatrixLayer) -> Integers:
        """Channels of the smallest slab: those of one product at most."""
        return np.full_like(self.channel_slices, max(1, product_terms(layer) // layer.filter_taps))


@lru_cache(maxsize=4096)
def _column_wavefronts(problem: Conv2d, channels: int, row_pitch: int, channel_pitch: int) -> float:
    """Wavefronts of a read of eight neighbouring positions in one row, four terms each, mean over the terms of the channels."""
    lane, terms = np.arange(WARP_SIZE), channels * problem.filter_taps
    lanes_of_position = WARP_SIZE // TENSOR_POSITIONS
    paired, of_product = FLOAT_BYTES // problem.element_bytes, product_terms(problem)
    parts = np.arange(0, of_product, paired * lanes_of_position)[:, None] + np.arange(paired)
    first = np.arange(0, round_up(terms, of_product), of_product)[:, None, None] + parts
    term = first.reshape(-1, 1) + lane % lanes_of_position * paired
    channel, tap = np.divmod(np.where(term < terms, term, 0), problem.filter_taps)
    row, column = np.divmod(tap, problem.filter_width)
    places = channel * channel_pitch + row * row_pitch + column + lane // lanes_of_position * problem.stride
    addresses = (problem.element_bytes * places).astype(np.uint64)
    passes, _ = load_wavefronts(addresses, np.ones(places.shape, np.bool_), problem.element_bytes)
    return float(np.mean(passes))


def channel_shift(layer: MatrixLayer) -> int:
    """Elements on a quarter of the banks."""
    return SHARED_BANKS // 4 * FLOAT_BYTES // layer.element_bytes


def row_pitch(problem: Conv2d) -> int:
    """Elements from one row of a patch to the next: room for the padding, and what lets reads hit as few banks twice as can be.

    >>> sizes = {"in_channels": 8, "filter_height": 3, "filter_width": 3, "padding": 1}
    >>> [row_pitch(Conv2d(height=width, width=width, **sizes)) for width in (7, 14, 28, 56)]
    [8, 24, 44, 76]
    """
    vector, of_product = gcd(problem.vector_elements, problem.width), product_terms(problem)
    least = round_up(problem.width + problem.padding, vector)
    channels = of_product // gcd(of_product, problem.filter_taps)
    most = least + SHARED_BANKS // 2 * FLOAT_BYTES // problem.element_bytes
    return min(
        range(least, most + 1, vector),
        key=lambda pitch: (_column_wavefronts(problem, channels, pitch, channel_shift(problem)), pitch),
    )


def patch_rows(problem: Conv2d, position_tile: Integers) -> Integers:
    """Rows of the padded images, one below the other, between the first that a tile of positions reads and the last.

    >>> problem = Conv2d(batch=4, height=14, width=14, filter_height=3, filter_width=3, padding=1)
    >>> patch_rows(problem, np.array([14, 56, 64, 196, 200]))  # beyond an image two rows of padding more
    array([ 3,  8, 10, 16, 20])
    """

    def parts(extent: int, most: int) -> Integers:
        """Rows or images that a tile has outputs of."""
        step = np.gcd(position_tile, extent)
        return np.minimum((position_tile + 2 * extent - step - 1) // extent, most)

    rows = parts(problem.output_width, problem.batch * problem.output_height)
    images = parts(problem.image_positions, problem.batch)
    beyond = problem.padded_height - problem.output_height * problem.stride
    return np.asarray((rows - 1) * problem.stride + problem.filter_height + (images - 1) * beyond, np.int64)


def tiles(problem: Conv2d, batch: Batch[DirectConv2dConfiguration], gpu: Gpu) -> ConvolutionTiles | ChannelsLastTiles:
    """Sizes of a batch of configurations with ``reuse=tensor``.

    >>> from perfmodel.gpus.catalogue import load_gpu
    >>> from perfmodel.families.direct_conv2d import Reuse
    >>> chosen = DirectConv2dConfiguration(
    ...     reuse=Reuse.TENSOR, warp_filters=32, warp_positions=32, filter_warps=2, position_warps=2, channel_slices=1,
    ...     channel_split=1)
    >>> layer = Conv2d(batch=32, in_channels=128, out_channels=128, height=28, width=28, filter_height=3, filter_width=3,
    ...                padding=1)
    >>> tile = tiles(layer, Batch.of([chosen]), load_gpu("h200"))
    >>> tile.filter_tile, tile.slab_channels, tile.stages, tile.resident_blocks, tile.patch_rows
    (array([64]), array([8]), array([2]), array([3]), array([8]))
    """
    given = {name: batch[name].astype(np.int64) for name in OF_TENSORS}
    if problem.precision.channels_last:
        return _channels_last_tiles(problem, batch, gpu)
    one = np.ones_like(given["channel_split"])
    return ConvolutionTiles(
        **given,
        slab_channels=one,
        stages=one,
        resident_blocks=one,
        patch_rows=patch_rows(problem, given["position_warps"] * given["warp_positions"]),
        patch_lead=round_up(max(problem.padding, 1), problem.vector_elements) * one,
        row_pitch=row_pitch(problem) * one,
    ).fitted(problem, gpu)


def _channels_last_tiles(problem: Conv2d, batch: Batch[DirectConv2dConfiguration], gpu: Gpu) -> ChannelsLastTiles:
    """Sizes where channels lie closest; the patch of a 1x1 convolution without stride and padding is the tile's positions."""
    pixels = (batch["position_warps"] * batch["warp_positions"]).astype(np.int64)
    if problem.filter_taps == 1 and problem.stride == 1 and problem.padding == 0:
        return channels_last_tiles(problem, batch, gpu, patch_rows=np.ones_like(pixels), copied_pixels=pixels)
    few = few_channels(
        problem,
        filter_height=problem.filter_height,
        filter_width=problem.filter_width,
        stride=problem.stride,
        width=problem.width,
    )
    rows = patch_rows(problem, pixels)
    # where channels are few, rows begin at 16 bytes, too
    unit = problem.vector_elements // few.pixel_channels if few else 1
    return channels_last_tiles(
        problem,
        batch,
        gpu,
        patch_rows=rows,
        copied_pixels=rows * problem.width,
        row_pixels=round_up(problem.padded_width, unit),
        few=few,
    )


def checks(problem: Conv2d, batch: Batch[DirectConv2dConfiguration], gpu: Gpu) -> tuple[Check, ...]:
    """Limits of configurations with ``reuse=tensor``; all of the batch are such."""
    tile = tiles(problem, batch, gpu)
    if isinstance(tile, ChannelsLastTiles):
        return channels_last_checks(problem, tile, gpu, "reuse=tensor")
    vectors, lanes = tile.patch_vectors(problem), tile.filter_lanes(problem)
    most_vectors = MOST_PATCH_PASSES * tile.threads
    return (
        *within_limits(
            ("dense convolution where reuse=tensor", np.full(len(batch), problem.depthwise), "depthwise", "dense"),
            ("copies of a channel of the patch", vectors > most_vectors, vectors, most_vectors),
            ("copies of a filter's part of a slab", lanes > tile.threads, lanes, tile.threads),
            ("slices of a slab", tile.channel_slices * product_terms(problem) >= 2 * tile.slab_channels * problem.filter_taps,
             tile.channel_slices, tile.slab_channels * problem.filter_taps // product_terms(problem)),
        ),
        *tensor_checks(problem, tile, gpu, "reuse=tensor"),
    )  # fmt: skip


def compile_request(problem: Conv2d, configuration: DirectConv2dConfiguration, gpu: Gpu) -> CompileRequest:
    """Source, kernel and macros."""
    chosen = tiles(problem, Batch.of([configuration]), gpu)
    if isinstance(chosen, ChannelsLastTiles):
        sizes = {**dict(filter_macros(problem)), "HEIGHT": problem.height, "WIDTH": problem.width}
        return channels_last_request(problem, chosen, gpu, sizes)

    def macros(tile: ConvolutionTiles) -> dict[str, Any]:
        return {
            **dict(filter_macros(problem)),
            "HEIGHT": problem.height,
            "WIDTH": problem.width,
            "FILTER_PITCH": tile.filter_pitch(problem),
            "FILTER_VECTOR": tile.filter_vector(problem),
            "CHANNEL_PITCH": tile.channel_pitch(problem),
            "SLAB_PRODUCTS": tile.slab_products(problem),
            "SUMS_PITCH": tile.sums_pitch,
        }

    return matrix_compile_request(KERNEL, chosen, problem, gpu, macros)
