"""Matrix products of tensors whose channels lie closest, in half precision or TF32: tiles, work, limits, what is compiled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import gcd
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ...compiler.request import CompileRequest
from ...core.constants import FLOAT_BYTES, VECTOR_BYTES, VECTOR_WORDS, WARP_SIZE, ceil_div, round_up
from ...gpus.gpu import Gpu
from ..base import Batch, Check, within_limits
from .choices import MOST_WARP_TILES_CHANNELS_LAST, OF_TENSORS
from .counts import WarpWork
from .layer import MatrixLayer
from .tensor_counts import tensor_work
from .tensor_limits import tensor_checks
from .tensor_tiles import TensorTiles, padded_pitch, product_terms, shifted_pitch
from .tiles import LEAST_STAGES, Integers, matrix_compile_request

KERNEL = "channels_last_convolution"
ROW_POSITIONS, COLUMN_FILTERS = 16, 8
"""Positions and filters of one product (PTX ISA, ``mma.m16n8k16`` in half precision, ``mma.m16n8k8`` of TF32 numbers).

A warpgroup has as many positions for each warp (``wgmma.m64``).
"""
READ_COLUMNS = 2
"""Tiles of filters whose factors one read brings (``ldmatrix.x4``)."""
READ_WAVEFRONTS = 4
"""Of such a read."""
REGISTERS_OF_PASS = 2
"""Where a thread copies a pixel from, and where to."""
WANTED_STAGES = 4
"""Of products of matrices."""
WARPS_OF_GROUP = 4
WARPGROUP_FILTERS = (32, 64, 96, 128)
"""Columns of the products of warpgroups that the kernel knows."""
WARPGROUP_SLABS_BYTES = (32, 64, 128, 256)
"""Of the channels of a slab: the rows whose exchanged chunks ``wgmma`` knows (PTX ISA, swizzling modes), or two of the last."""
MOST_GROUPED_SLICES = 4
"""Slices of a slab of warpgroups: those of 128 bytes."""
SWIZZLE_BYTES = 1024
"""After so many the exchange of chunks is repeated: eight rows of 128 bytes."""
COPIED_AT_ONCE = 2
"""Pixels of few channels that a thread copies at once."""
MOST_PASSES = 12
"""Pixels up to which a thread keeps that, and copies are straight-line code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelsLastTiles(TensorTiles):
    """Sizes of n configurations, arrays of shape ``(n,)``; macros of the kernel in small letters."""

    most_slab_words: ClassVar[int] = 160
    registers_beside_factors: ClassVar[int] = 36

    warpgroups: Integers
    """1 where four neighbouring warps share a product (``wgmma``), whose columns, filters, are read from shared memory."""
    patch_rows: Integers
    """Rows of the padded images, one below the other, that a tile reads; 1 where the patch is the tile's positions."""
    patch_pixels: Integers
    """Pixels of the patch, with the padding."""
    copied_pixels: Integers
    """Those that are copied."""
    row_pixels: Integers
    """Pixels from one row of the patch to the next."""
    taps: Integers
    """Runs of neighbouring terms of a filter: those of a tap, or where channels are few those of a row of taps."""
    pixel_channels: Integers
    """Elements from one pixel of the patch to the next where channels are few, else 0."""
    copy_pixels: Integers
    """Pixels that a thread copies at once, which no row's end cuts; 1 where channels are many."""
    row_terms: Integers
    """Terms of a filter's row where channels are few, with zeros behind them; else 0."""

    @property
    def rows(self) -> Integers:
        """Tiles of the tensor cores along the positions of a warp."""
        return self.warp_positions // ROW_POSITIONS

    @property
    def columns(self) -> Integers:
        """Tiles of the tensor cores along the filters of a warp."""
        return self.warp_filters // COLUMN_FILTERS

    @property
    def sums_pitch(self) -> Integers:
        """Words from the sums of a position to those of the next."""
        return shifted_pitch(self.filter_tile)

    @property
    def shared_sums(self) -> NDArray[np.bool_]:
        """Whether several slices or blocks have sums of an output, so that these pass through shared memory in FP32."""
        return (self.channel_slices > 1) | (self.channel_split > 1)

    def tile_pitch(self, layer: MatrixLayer) -> Integers:
        """Elements from the outputs of a position to those of the next in shared memory: stores of a warp meet all banks."""
        return np.where(layer.element_bytes < FLOAT_BYTES, padded_pitch(layer, self.filter_tile), self.sums_pitch)

    def through_shared(self, layer: MatrixLayer) -> NDArray[np.bool_]:
        """All outputs pass through shared memory before they are stored."""
        return np.ones_like(self.shared_sums)

    def shared_bytes(self, layer: MatrixLayer) -> Integers:
        """All stages, or the outputs or the sums of all slices that take their place at the end."""
        of_sums = FLOAT_BYTES * self.channel_slices * self.position_tile * self.sums_pitch
        of_outputs = layer.element_bytes * self.position_tile * self.tile_pitch(layer)
        end = np.where(self.shared_sums, of_sums, of_outputs)
        return np.asarray(np.maximum(self.stages * self.stage_bytes(layer), end), np.int64)

    def output_run(self, layer: MatrixLayer) -> int:
        """Elements of the output that lie side by side: the channels of a position."""
        return layer.out_channels

    def store_vector(self, layer: MatrixLayer) -> Integers:
        """Elements of a store, which no position's end cuts; of sums as many as words of them."""
        widest = np.where(self.shared_sums, VECTOR_WORDS, layer.vector_elements)
        return np.asarray(np.gcd(widest, layer.out_channels), np.int64)

    def summed_words(self, layer: MatrixLayer) -> Integers:
        """Words that such a store takes in shared memory: sums in FP32, outputs as they are stored."""
        vector = self.store_vector(layer)
        return np.where(self.shared_sums, vector, ceil_div(vector * layer.element_bytes, FLOAT_BYTES))

    @property
    def few_channels(self) -> bool:
        """Whether a filter's row takes the place of the channels of a tap: so or not of all configurations of a layer."""
        return bool(np.any(self.pixel_channels > 0))

    def input_vector(self, layer: MatrixLayer) -> int:
        """Elements of a copy of the channels of a pixel or tap, or of a few pixels, which no pixel's or row's end cuts."""
        return gcd(layer.vector_elements, layer.in_channels * int(np.max(self.copy_pixels)))

    def filter_vector(self, layer: MatrixLayer) -> int:
        """Elements of a copy of a filter, which no tap's end cuts."""
        return gcd(layer.vector_elements, layer.in_channels)

    def copied_channels(self, layer: MatrixLayer) -> Integers:
        """Channels of a slab that exist; in the others there are zeros for good."""
        return np.minimum(self.slab_channels, layer.in_channels)

    def stage_unit(self, layer: MatrixLayer) -> Integers:
        """Elements of which a stage has a multiple: whole vectors; chunks of warpgroups are exchanged by their addresses."""
        return np.where(self.warpgroups, SWIZZLE_BYTES, VECTOR_BYTES) // layer.element_bytes

    def stage_bytes(self, layer: MatrixLayer) -> Integers:
        """One slab of filters and patch."""
        padded = padded_pitch(layer, self.slab_channels)
        of_filters = self.filter_tile * self.taps * np.where(self.warpgroups, self.slab_channels, padded)
        of_pixel = np.where(self.pixel_channels > 0, self.pixel_channels, padded)
        stage = round_up(of_filters + self.patch_pixels * of_pixel, self.stage_unit(layer))
        return np.asarray(layer.element_bytes * stage, np.int64)

    def copies_of_slab(self, layer: MatrixLayer, slab: Integers) -> Integers:
        """Taps of filters and pixels in vectors."""
        lines = self.filter_tile * layer.filter_taps + self.copied_pixels
        return np.asarray(np.minimum(slab, layer.in_channels) * lines // self.input_vector(layer), np.int64)

    def cost_of_slab(self, layer: MatrixLayer, slab: Integers) -> NDArray[np.float64]:
        """Its terms, where a block has threads enough to copy the channels of a pixel and warpgroups can read the filters."""
        lanes = np.minimum(slab, layer.in_channels) // self.input_vector(layer)
        known = (self.warpgroups == 0) | np.isin(slab * layer.element_bytes, WARPGROUP_SLABS_BYTES)
        return np.where(known & (lanes <= self.threads), np.asarray(slab * layer.filter_taps, np.float64), np.inf)

    def wanted_stages(self, layer: MatrixLayer) -> Integers:
        """No more than slabs; of convolutions, whose slabs are multiplied for long, two."""
        wanted = LEAST_STAGES if layer.filter_taps > 1 else WANTED_STAGES
        return np.minimum(wanted, self.slabs(layer))

    def fitted(self, layer: MatrixLayer, gpu: Gpu) -> Self:
        """The same tiles with the residents, slabs and stages that GPU and layer let them have; a single slab takes one stage."""
        tile = TensorTiles.fitted(self, layer, gpu)  # slots leave no super()
        tile = replace(tile, slab_channels=np.where(tile.row_terms > 0, tile.row_terms, tile.slab_channels))
        return replace(tile, stages=np.where(tile.slabs(layer) == 1, 1, tile.stages))

    def registers(self, layer: MatrixLayer) -> Integers:
        """About what a thread takes: sums, factors of this product and the next, and where it copies from."""
        sums = 4 * self.rows * self.columns
        factors = 4 * self.rows + np.where(self.warpgroups, 0, 2 * self.columns)
        passes = ceil_div(self.copied_pixels * self.copied_channels(layer) // self.input_vector(layer), self.threads)
        kept = REGISTERS_OF_PASS * np.where((passes <= MOST_PASSES) & (self.pixel_channels == 0), passes, 1)
        return np.asarray(sums + 2 * factors + kept + self.registers_beside_factors, np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class FewChannels:
    """How a convolution of few input channels is multiplied: the row of a filter is what the channels of a tap are else."""

    taps: int
    """Rows of a filter."""
    pixel_channels: int
    """Elements from one pixel of the patch to the next: windows, ``stride`` pixels apart, begin at 16 bytes (``ldmatrix``)."""
    row_terms: int
    """Terms of a filter's row, whole products."""
    copy_pixels: int
    """Pixels of a copy."""
    read_beyond: int
    """Pixels beyond the last window that its reads reach."""


def few_channels(
    layer: MatrixLayer, *, filter_height: int, filter_width: int, stride: int, width: int
) -> FewChannels | None:
    """None where the channels of a pixel fill 16 bytes, or the terms of a filter's row no slab.

    >>> from perfmodel.families.direct_conv2d import Conv2d
    >>> from perfmodel.families.precision import Precision
    >>> stem = Conv2d(in_channels=3, height=224, width=224, filter_height=7, filter_width=7, precision=Precision.FLOAT16)
    >>> few_channels(stem, filter_height=7, filter_width=7, stride=2, width=224)
    FewChannels(taps=7, pixel_channels=4, row_terms=32, copy_pixels=2, read_beyond=1)
    """
    whole = layer.vector_elements
    if layer.in_channels >= whole or filter_width == 1:
        return None
    pixel = next(size for size in (whole // 2, whole) if size >= layer.in_channels and stride * size % whole == 0)
    terms = round_up(filter_width * pixel, product_terms(layer))
    if terms * layer.element_bytes > max(WARPGROUP_SLABS_BYTES):
        return None
    beyond = ceil_div(terms - filter_width * pixel, pixel)
    copied = gcd(COPIED_AT_ONCE, width)
    return FewChannels(
        taps=filter_height, pixel_channels=pixel, row_terms=terms, copy_pixels=copied, read_beyond=beyond
    )


def channels_last_tiles(
    layer: MatrixLayer,
    batch: Batch[Any],
    gpu: Gpu,
    *,
    patch_rows: Integers,
    copied_pixels: Integers,
    row_pixels: int = 0,
    few: FewChannels | None = None,
) -> ChannelsLastTiles:
    """Sizes of a batch of configurations that multiply on tensor cores, arrays of shape ``(n,)``.

    ``row_pixels``: pixels from one row of the patch to the next; 0 where the patch is the tile's positions.
    """
    given = {name: batch[name].astype(np.int64) for name in OF_TENSORS}
    one = np.ones_like(given["channel_split"])
    patch_pixels = patch_rows * row_pixels if row_pixels else copied_pixels
    grouped = given["position_warps"] % WARPS_OF_GROUP == 0
    grouped &= np.isin(given["warp_filters"], WARPGROUP_FILTERS) & gpu.architecture.has_warpgroup_products
    bare = ChannelsLastTiles(
        **given,
        warpgroups=grouped.astype(np.int64),
        slab_channels=one,
        stages=one,
        resident_blocks=one,
        patch_rows=patch_rows,
        patch_pixels=patch_pixels + (few.read_beyond if few else 0),
        copied_pixels=copied_pixels,
        row_pixels=row_pixels * one,
        taps=(few.taps if few else layer.filter_taps) * one,
        pixel_channels=(few.pixel_channels if few else 0) * one,
        copy_pixels=(few.copy_pixels if few else 1) * one,
        row_terms=(few.row_terms if few else 0) * one,
    )
    return bare.fitted(layer, gpu)


def channels_last_work(
    layer: MatrixLayer, tile: ChannelsLastTiles, gpu: Gpu, *, inside: float = 1.0, stride: int = 1
) -> WarpWork:
    """What a warp does of n configurations; ``inside``: share of the copied pixels that exist."""
    reads_of_filters = tile.columns // READ_COLUMNS
    work = tensor_work(
        layer,
        tile,
        gpu,
        products_of_channel=tile.taps / product_terms(layer),
        input_copies=tile.copied_channels(layer) * tile.copied_pixels / tile.input_vector(layer) * inside / WARP_SIZE,
        input_elements=tile.copied_pixels * inside,
        column_reads=np.where(tile.warpgroups, 0, reads_of_filters),
        column_wavefronts=READ_WAVEFRONTS * np.where(tile.warpgroups, 0, reads_of_filters),
        column_conflicts=READ_WAVEFRONTS * (stride - 1) * tile.rows,
    )
    vector = tile.input_vector(layer)
    lines = (vector < layer.vector_elements) * np.ceil(WARP_SIZE * vector / tile.slab_channels)
    filter_copies = tile.filter_tile * layer.filter_taps * tile.copied_channels(layer) / vector / WARP_SIZE
    of_warps = work.arithmetic["tensor"]
    return replace(
        work,
        arithmetic={**work.arithmetic, "tensor": np.where(tile.warpgroups, of_warps / tile.columns, of_warps)},
        tensor_cycles=work.tensor_cycles * np.where(tile.warpgroups, gpu.tensor_warp_share, 1.0),
        copied_lines=lines,
        filter_copies=filter_copies,
        unrolled_channels=tile.slab_channels / 2,
        stored_run=0,
    )


def channels_last_checks(layer: MatrixLayer, tile: ChannelsLastTiles, gpu: Gpu, where: str) -> tuple[Check, ...]:
    """Limits of n configurations; ``where`` is what they say that multiplies on tensor cores, for the messages."""
    lanes = tile.copied_channels(layer) // tile.input_vector(layer)
    slab_bytes = tile.slab_channels * layer.element_bytes
    return (
        *within_limits(
            ("positions of a warp where channels lie closest", tile.warp_positions % ROW_POSITIONS != 0, tile.warp_positions,
             f"multiples of {ROW_POSITIONS}"),
            ("channels of a slab of warpgroups", (tile.warpgroups > 0) & ~np.isin(slab_bytes, WARPGROUP_SLABS_BYTES),
             slab_bytes, ", ".join(map(str, WARPGROUP_SLABS_BYTES)) + " bytes"),
            ("slices of a slab of warpgroups", (tile.warpgroups > 0) & (tile.channel_slices > MOST_GROUPED_SLICES),
             tile.channel_slices, f"1 to {MOST_GROUPED_SLICES}"),
            ("copies of the channels of a pixel", lanes > tile.threads, lanes, tile.threads),
        ),
        *tensor_checks(layer, tile, gpu, where, most_tiles=MOST_WARP_TILES_CHANNELS_LAST),
    )  # fmt: skip


def channels_last_request(
    layer: MatrixLayer, tile: ChannelsLastTiles, gpu: Gpu, sizes: Mapping[str, int]
) -> CompileRequest:
    """Source, kernel and macros of one configuration; ``sizes`` of filter, stride, padding and image."""

    def macros(one: ChannelsLastTiles) -> dict[str, Any]:
        return {
            **sizes,
            "MOST_PASSES": MOST_PASSES,
            "STAGE_UNIT": one.stage_unit(layer),
            "SLAB_PITCH": padded_pitch(layer, one.slab_channels),
            "COPIED_CHANNELS": one.copied_channels(layer),
            "SUMS_PITCH": one.sums_pitch,
            "TILE_PITCH": one.tile_pitch(layer),
            **({"CHANNELS": layer.in_channels} if one.few_channels else {}),
        }

    return matrix_compile_request(KERNEL, tile, layer, gpu, macros)
