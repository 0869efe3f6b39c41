"""Tiles, slabs and shared memory of configurations that block for shared memory and registers, and what is compiled."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from math import gcd
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...compiler.request import CompileRequest
from ...core.batched import taken
from ...core.constants import FLOAT_BYTES, SHARED_BANKS, VECTOR_WORDS, WARP_SIZE, ceil_div, round_up
from ...gpus.gpu import Gpu
from ...launch.launch import Launch
from ...memory.bank_conflicts import load_wavefronts
from ..base import Batch
from ..code_estimates import code_estimates
from ..kernel_files import kernel_folder, kernel_text
from ..lanes import over_unique
from .choices import GROUP_CHANNELS
from .layer import Layer

Integers = NDArray[np.int64]

KERNEL = "blocked_convolution"
MAX_GROUP_FMA = 2400
"""Multiply-adds of a thread in straight-line code up to which it adds several input channels there, 38 KiB."""
MAX_SLAB_CHANNELS = 32
WANTED_SLAB_FMA = 1024
"""Multiply-adds of a thread for a slab, about as many cycles as DRAM takes; more would only let it wait longer for the first."""
WANTED_STAGES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocking:
    """What n configurations say of their blocks and threads, arrays of shape ``(n,)``.

    A block has ``channel_threads`` · ``channel_slices`` planes of ``block_x`` × ``block_y`` threads: the first share out the
    output channels, of which a thread has ``channels_per_thread``, the others the input channels. A thread computes
    ``rows_per_thread`` × ``columns_per_thread`` neighbouring outputs of each of its channels.
    """

    block_x: Integers
    block_y: Integers
    rows_per_thread: Integers
    columns_per_thread: Integers
    channels_per_thread: Integers
    channel_threads: Integers
    channel_slices: Integers

    @property
    def threads(self) -> Integers:
        """Threads of a block."""
        return self.block_x * self.block_y * self.channel_threads * self.channel_slices

    @property
    def sums(self) -> Integers:
        """Outputs of a thread."""
        return self.rows_per_thread * self.columns_per_thread * self.channels_per_thread

    @property
    def columns(self) -> Integers:
        """Output columns of a tile."""
        return self.block_x * self.columns_per_thread

    @property
    def out_channels(self) -> Integers:
        """Output channels of a tile."""
        return self.channel_threads * self.channels_per_thread


def blocking_of(batch: Batch[Any], channels_per_thread: str = "channels_per_thread") -> Blocking:
    """What a batch of configurations says, in which the channels of a thread may have another name."""
    names = {field.name: field.name for field in fields(Blocking)} | {"channels_per_thread": channels_per_thread}
    return Blocking(**{name: batch[column].astype(np.int64) for name, column in names.items()})


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiles(Blocking):
    """Sizes of n configurations, arrays of shape ``(n,)``; the macros of the kernel in small letters among them."""

    images: Integers
    """Images that a block works on; each has ``image_rows`` rows of its tile."""
    channel_group: Integers
    """Input channels in straight-line code."""
    slab_channels: Integers
    stages: Integers
    patch_vector: Integers
    """Words that a copy of the patch takes at once."""
    patch_shift: Integers
    """Columns by which a patch begins early, so that its rows begin with a vector."""
    patch_pitch: Integers
    filter_pitch: Integers
    filter_vector: Integers
    filter_lanes: Integers
    shared_bytes: Integers

    @property
    def image_rows(self) -> Integers:
        """Output rows of a tile in each of its images."""
        return self.block_y * self.rows_per_thread // self.images

    def patch_rows(self, layer: Layer) -> Integers:
        """Input rows that a tile reads of each of its images."""
        return (self.image_rows - 1) * layer.stride + layer.filter_height

    def patch_columns(self, layer: Layer) -> Integers:
        """Input columns that a tile copies."""
        return _patch_columns(layer, self, self.patch_vector, self.patch_shift)

    def slabs(self, layer: Layer) -> Integers:
        """Slabs of input channels."""
        return np.asarray(ceil_div(layer.in_channels, self.slab_channels), np.int64)


def grid(layer: Layer, tile: Tiles) -> tuple[Integers, Integers, Integers]:
    """Tiles of an output plane, of the output channels, groups of images."""
    across, down = ceil_div(layer.output_width, tile.columns), ceil_div(layer.output_height, tile.image_rows)
    return across * down, ceil_div(layer.out_channels, tile.out_channels), ceil_div(layer.images, tile.images)


def images_of_block(layer: Layer, block_y: Integers, rows_per_thread: Integers) -> Integers:
    """Images of a block: several where its rows of threads are a multiple of those that an image needs.

    >>> layer = Layer(images=8, in_channels=1, out_channels=4, height=7, width=7, filter_width=1)
    >>> images_of_block(layer, np.array([4, 7, 14, 20]), np.array([1, 1, 1, 1]))
    array([1, 1, 2, 1])
    """
    of_image = ceil_div(layer.output_height, rows_per_thread)
    return np.where(block_y % of_image == 0, block_y // of_image, 1)


def tiles(layer: Layer, given: Blocking, gpu: Gpu) -> Tiles:
    """Sizes of n configurations."""
    one = np.ones_like(given.block_x)
    group = _channel_group(layer, given.sums)
    bare = Tiles(
        **{field.name: getattr(given, field.name) for field in fields(given)},
        images=images_of_block(layer, given.block_y, given.rows_per_thread),
        channel_group=group,
        slab_channels=group * given.channel_slices,
        stages=2 * one,
        patch_vector=one,
        patch_shift=0 * one,
        patch_pitch=one,
        filter_pitch=one,
        filter_vector=np.gcd(np.gcd(VECTOR_WORDS, group * layer.filter_taps), layer.in_channels * layer.filter_taps),
        filter_lanes=one,
        shared_bytes=0 * one,
    )
    return _with_slabs(layer, _with_patch(layer, bare), gpu)


def _channel_group(layer: Layer, sums: Integers) -> Integers:
    """Input channels in straight-line code: a divisor of all, and no more than make the code as long as wanted."""
    group = np.ones_like(sums)
    for channels in (2, GROUP_CHANNELS):
        fits = (layer.in_channels % channels == 0) & (channels * layer.filter_taps * sums <= MAX_GROUP_FMA)
        group = np.where(fits, channels, group)
    return group


def _with_patch(layer: Layer, tile: Tiles) -> Tiles:
    """Copies of the patch as wide as rows and tiles begin, where that saves more instructions than wider reads cost."""
    fewest, vector = np.full(tile.block_x.shape, np.inf), np.ones_like(tile.block_x)
    one_tile = tile.columns >= layer.output_width
    thread_rows = (tile.rows_per_thread - 1) * layer.stride + layer.filter_height
    for words in (VECTOR_WORDS, VECTOR_WORDS // 2, 1):
        begins = (layer.width % words == 0) & (one_tile | (tile.columns * layer.stride % words == 0))
        shift = -layer.column_padding % words
        copied = tile.images * tile.patch_rows(layer) * _patch_columns(layer, tile, words, shift)
        aligned = patch_aligned(layer, tile.columns_per_thread)
        reads = (
            tile.threads // tile.channel_slices * thread_rows * ceil_div(_thread_columns(layer, tile, shift), aligned)
        )
        instructions = np.where(begins, code_estimates().blocked_copy_instructions * copied / words + reads, np.inf)
        vector = np.where(instructions < fewest, words, vector)
        fewest = np.minimum(instructions, fewest)
    tile = replace(tile, patch_vector=vector, patch_shift=-layer.column_padding % vector)
    (pitch,) = over_unique(
        lambda *columns: (_patch_pitches(layer, *columns),),
        tile.block_x,
        tile.block_y // tile.images,
        tile.images,
        tile.channel_threads,
        tile.rows_per_thread,
        tile.columns_per_thread,
        tile.patch_columns(layer),
        tile.patch_vector,
    )
    return replace(tile, patch_pitch=pitch)


def patch_aligned(layer: Layer, columns_per_thread: Any) -> Any:
    """Words that a thread's reads of the patch are aligned to."""
    return np.gcd(VECTOR_WORDS, columns_per_thread * layer.stride)


def _thread_columns(layer: Layer, tile: Blocking, shift: Any) -> Integers:
    """Columns of a row of the patch that a thread reads, of a patch that begins early by so many."""
    first_tap = shift % patch_aligned(layer, tile.columns_per_thread)
    return np.asarray(first_tap + (tile.columns_per_thread - 1) * layer.stride + layer.filter_width, np.int64)


def _patch_columns(layer: Layer, tile: Blocking, vector: Any, shift: Any) -> Integers:
    """Whole vectors up to what the last thread of a row reads; the assembler joins reads of three words to one of four."""
    aligned, of_thread = patch_aligned(layer, tile.columns_per_thread), _thread_columns(layer, tile, shift)
    joined = (aligned == VECTOR_WORDS) & (of_thread % VECTOR_WORDS == VECTOR_WORDS - 1)
    last = shift - shift % aligned + (tile.columns - tile.columns_per_thread) * layer.stride
    return np.asarray(round_up(last + of_thread + joined, vector), np.int64)


def first_warp(block_x: Any, block_y: Any, channel_threads: Any) -> tuple[Integers, Integers, Integers]:
    """Column, row and output channel of each thread of n blocks' first warps, in threads; shape ``(n, 32)``.

    Where both numbers are even, neighbours are two channels of two places: of four lanes two read the same elements of the patch
    and two the same taps, which halves the passes that either takes.

    >>> x, _, channel = first_warp(np.array([4]), np.array([1]), np.array([8]))
    >>> x[0, :8].tolist(), channel[0, :8].tolist()
    ([0, 1, 0, 1, 2, 3, 2, 3], [0, 0, 1, 1, 0, 0, 1, 1])
    """
    wide, positions, channels = (np.asarray(value)[:, None] for value in (block_x, block_x * block_y, channel_threads))
    thread, interleaved = np.arange(WARP_SIZE), (positions % 2 == 0) & (channels % 2 == 0)
    pair, pairs = thread // 4, np.maximum(positions // 2, 1)
    position = np.where(interleaved, pair % pairs * 2 + thread % 2, thread % positions)
    channel = np.where(interleaved, pair // pairs * 2 + thread // 2 % 2, thread // positions)
    return position % wide, position // wide, channel % channels


def _patch_pitches(
    layer: Layer,
    block_x: Integers,
    rows: Integers,
    images: Integers,
    channel_threads: Integers,
    rows_per_thread: Integers,
    columns_per_thread: Integers,
    patch_columns: Integers,
    patch_vector: Integers,
) -> Integers:
    """Words from one row of a patch to the next, the fewest with which a warp's reads have the fewest bank conflicts."""
    x, y, _ = first_warp(block_x, rows * images, channel_threads)
    rows, of_thread = rows[:, None], rows_per_thread[:, None]
    row = (
        y // rows * ((rows * of_thread - 1) * layer.stride + layer.filter_height) + y % rows * of_thread * layer.stride
    )
    column = x * columns_per_thread[:, None] * layer.stride
    aligned = patch_aligned(layer, columns_per_thread)
    step, pitch = np.maximum(aligned, patch_vector), np.zeros_like(block_x)
    for width, by in set(zip(aligned.tolist(), step.tolist(), strict=True)):
        alike = np.flatnonzero((aligned == width) & (step == by))
        pitches = round_up(patch_columns[alike], by)[:, None] + np.arange(0, SHARED_BANKS, by)
        words = row[alike, None] * pitches[:, :, None] + column[alike, None]
        addresses = (FLOAT_BYTES * words).astype(np.uint64).reshape(-1, WARP_SIZE)
        cost, _ = load_wavefronts(addresses, np.ones(addresses.shape, np.bool_), FLOAT_BYTES * width)
        pitch[alike] = np.take_along_axis(pitches, np.argmin(cost.reshape(pitches.shape), axis=1)[:, None], 1)[:, 0]
    return pitch


def _with_slabs(layer: Layer, tile: Tiles, gpu: Gpu) -> Tiles:
    """As many channels in a slab, and stages, as the block's share of the SM's shared memory holds."""
    of_plane, of_channels, of_images = grid(layer, tile)
    by_grid = ceil_div(of_plane * of_channels * of_images, gpu.sm_count)
    registers = round_up(
        tile.sums + code_estimates().blocked_other_registers, gpu.register_allocation_unit // WARP_SIZE
    )
    of_block = np.minimum(registers, gpu.max_registers_per_thread) * round_up(tile.threads, WARP_SIZE)
    by_registers = gpu.registers_per_sm // of_block
    resident = np.clip(np.minimum(by_grid, by_registers), 1, gpu.max_blocks_per_sm)
    share = gpu.shared_bytes_per_sm // resident - gpu.shared_reserved_bytes_per_block
    share = np.minimum(share, gpu.shared_bytes_per_block_opt_in)
    least = tile.channel_group * tile.channel_slices
    slab = least.copy()
    while True:
        wider = 2 * slab
        stage_bytes = FLOAT_BYTES * _stage_words(layer, replace(tile, slab_channels=wider))
        fits = (wider <= np.maximum(MAX_SLAB_CHANNELS, least)) & (wider < 2 * layer.in_channels)
        fits &= WANTED_STAGES * stage_bytes <= share
        fits &= slab // tile.channel_slices * layer.filter_taps * tile.sums < WANTED_SLAB_FMA
        if not fits.any():
            break
        slab = np.where(fits, wider, slab)
    tile = replace(tile, slab_channels=slab)
    tile = replace(tile, filter_pitch=_filter_pitch(layer, tile), filter_lanes=_filter_lanes(layer, tile))
    stage_bytes = FLOAT_BYTES * _stage_words(layer, tile)
    stages = np.where((WANTED_STAGES * stage_bytes <= share) & gpu.architecture.asynchronous_copies, WANTED_STAGES, 2)
    stages = np.minimum(stages, np.maximum(tile.slabs(layer), 1) + 1)
    reduction = np.where(tile.channel_slices > 1, FLOAT_BYTES * tile.sums * tile.threads, 0)
    return replace(tile, stages=stages, shared_bytes=np.maximum(stages * stage_bytes, reduction))


def _filter_pitch(layer: Layer, tile: Tiles) -> Integers:
    """Words from one output channel's taps to the next: an odd number of vectors, so that neighbours lie on other banks."""
    group = round_up(tile.channel_group * layer.filter_taps, VECTOR_WORDS)
    vectors = tile.slab_channels // tile.channel_group * group // VECTOR_WORDS
    return np.asarray(VECTOR_WORDS * (vectors + 1 - vectors % 2), np.int64)


def _filter_lanes(layer: Layer, tile: Tiles) -> Integers:
    """Neighbouring threads that copy the taps of one output channel: as many as need the fewest copies, the most of these."""
    run = ceil_div(tile.slab_channels * layer.filter_taps, tile.filter_vector)
    choices = np.array([32, 16, 8, 4])[:, None]
    step = np.maximum(tile.threads // choices, 1)
    copies = ceil_div(run, choices) * ceil_div(tile.out_channels, step)
    return np.asarray(choices[:, 0][np.argmin(copies, axis=0)], np.int64)


def _stage_words(layer: Layer, tile: Tiles) -> Integers:
    patch = tile.slab_channels * tile.images * tile.patch_rows(layer) * tile.patch_pitch
    return np.asarray(round_up(patch, VECTOR_WORDS) + tile.out_channels * _filter_pitch(layer, tile), np.int64)


def launch_of(layer: Layer, tile: Tiles) -> Launch:
    """Tiles of an output plane, of the output channels and groups of images; all threads of a block in one dimension."""
    of_plane, of_channels, of_images = grid(layer, tile)
    return Launch(
        grid_x=of_plane,
        grid_y=of_channels,
        grid_z=of_images,
        block_x=tile.threads,
        dynamic_shared_bytes=tile.shared_bytes,
    )


def compile_request(layer: Layer, given: Blocking, gpu: Gpu) -> CompileRequest:
    """Source, kernel and macros of one configuration (arrays of shape ``(1,)``).

    Sizes of planes and batch are parameters of the kernel, so that layers with the same tile share a compile.
    """
    tile = taken(tiles(layer, given, gpu), 0)
    sum_vector = gcd(VECTOR_WORDS, int(tile.columns_per_thread))
    return CompileRequest(
        source=kernel_text(f"{KERNEL}.cu"),
        kernel=KERNEL,
        file_name=f"{KERNEL}.cu",
        include_directories=(kernel_folder(),),
        defines=(
            ("FILTER_HEIGHT", layer.filter_height),
            ("FILTER_WIDTH", layer.filter_width),
            ("STRIDE", layer.stride),
            ("ROW_PADDING", layer.row_padding),
            ("COLUMN_PADDING", layer.column_padding),
            ("ROWS_OF_BATCH", int(layer.rows_of_batch)),
            ("BIAS", int(layer.bias)),
            *(
                (field.name.upper(), int(getattr(tile, field.name)))
                for field in fields(tile)
                if field.name != "shared_bytes"
            ),
            ("PATCH_COLUMNS", int(tile.patch_columns(layer))),
            ("PATCH_ALIGNED", int(patch_aligned(layer, tile.columns_per_thread))),
            ("SUM_VECTOR", sum_vector),
            ("STORE_VECTOR", gcd(sum_vector, layer.output_width)),
            ("CHANNEL_TAIL", int(layer.in_channels % int(tile.slab_channels) != 0)),
            ("CHANNEL_OVERHANG", int(layer.out_channels % int(tile.out_channels) != 0)),
            ("ASYNC_COPY", int(gpu.architecture.asynchronous_copies)),
        ),
        architecture_specific=gpu.architecture.asynchronous_copies,
    )


def sizes_of(layer: Layer, columns: int) -> tuple[np.int32, ...]:
    """Parameters of the kernel behind its buffers, for tiles of so many output columns."""
    extents = (layer.images, layer.in_channels, layer.out_channels, layer.height, layer.width)
    return tuple(map(np.int32, (*extents, ceil_div(layer.output_width, columns))))
