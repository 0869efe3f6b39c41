"""Tiles, slabs and shared memory of configurations that block for shared memory and registers, and what is compiled."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import lru_cache
from math import gcd

import numpy as np
from numpy.typing import NDArray

from ....compiler.request import CompileRequest
from ....core.batched import taken
from ....core.constants import FLOAT_BYTES, SHARED_BANKS, WARP_SIZE, ceil_div, round_up
from ....gpus.gpu import Gpu
from ....launch.launch import Launch
from ....memory.bank_conflicts import load_wavefronts
from ...base import Batch
from ...kernel_files import kernel_text
from ...lanes import over_unique
from ..configuration import DirectConv2dConfiguration
from ..launch import filter_macros
from ..problem import Conv2d

Integers = NDArray[np.int64]

KERNEL = "blocked_conv2d"
VECTOR_WORDS = 4
"""Widest access to memory of a thread."""
GROUP_CHANNELS = 4
"""Input channels whose taps always fill whole vectors."""
MAX_GROUP_FMA = 2400
"""Multiply-adds of a thread that stand in straight-line code, 38 KiB."""
MAX_SLAB_CHANNELS = 32
WANTED_STAGES = 3
REGISTERS_BESIDE_SUMS = 56
"""About what a thread needs beside its sums: elements, taps, addresses."""

GIVEN = (
    "block_x",
    "block_y",
    "rows_per_thread",
    "columns_per_thread",
    "channels_per_thread",
    "channel_threads",
    "channel_slices",
)
"""Fields that are the configuration's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiles:
    """Sizes of n configurations, arrays of shape ``(n,)``; the macros of the kernel in small letters among them."""

    block_x: Integers
    block_y: Integers
    rows_per_thread: Integers
    columns_per_thread: Integers
    channels_per_thread: Integers
    channel_threads: Integers
    channel_slices: Integers
    images: Integers
    """Images that a block works on; each has ``image_rows`` rows of its tile."""
    channel_group: Integers
    """Input channels in straight-line code."""
    slab_channels: Integers
    stages: Integers
    patch_pitch: Integers
    filter_pitch: Integers
    filter_vector: Integers
    filter_lanes: Integers
    shared_bytes: Integers

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
    def image_rows(self) -> Integers:
        """Output rows of a tile in each of its images."""
        return self.block_y * self.rows_per_thread // self.images

    @property
    def out_channels(self) -> Integers:
        """Output channels of a tile."""
        return self.channel_threads * self.channels_per_thread

    def patch_rows(self, problem: Conv2d) -> Integers:
        """Input rows that a tile reads of each of its images."""
        return (self.image_rows - 1) * problem.stride + problem.filter_height

    def patch_columns(self, problem: Conv2d) -> Integers:
        """Input columns that a tile reads; the assembler joins reads of three words to one of four."""
        of_thread = (self.columns_per_thread - 1) * problem.stride + problem.filter_width
        joined = (self.columns_per_thread * problem.stride % VECTOR_WORDS == 0) & (of_thread % VECTOR_WORDS == 3)
        return np.asarray((self.columns - 1) * problem.stride + problem.filter_width + joined, np.int64)

    def slabs(self, problem: Conv2d) -> Integers:
        """Slabs of input channels."""
        return np.asarray(ceil_div(problem.in_channels, self.slab_channels), np.int64)


def grid(problem: Conv2d, tile: Tiles) -> tuple[Integers, Integers, Integers]:
    """Tiles of an output plane, of the output channels, groups of images."""
    across, down = ceil_div(problem.output_width, tile.columns), ceil_div(problem.output_height, tile.image_rows)
    return across * down, ceil_div(problem.out_channels, tile.out_channels), ceil_div(problem.batch, tile.images)


def images_of_block(problem: Conv2d, block_y: Integers, rows_per_thread: Integers) -> Integers:
    """Images of a block: several where its rows of threads are a multiple of those that an image needs.

    >>> problem = Conv2d(batch=8, height=7, width=7, filter_height=3, filter_width=3, padding=1)
    >>> images_of_block(problem, np.array([4, 7, 14, 20]), np.array([1, 1, 1, 1]))
    array([1, 1, 2, 1])
    """
    of_image = ceil_div(problem.output_height, rows_per_thread)
    return np.where(block_y % of_image == 0, block_y // of_image, 1)


def tiles(problem: Conv2d, batch: Batch[DirectConv2dConfiguration], gpu: Gpu) -> Tiles:
    """Sizes of every configuration of the batch, all of which block."""
    given = {name: batch[name].astype(np.int64) for name in GIVEN}
    one, taps = np.ones(len(batch), np.int64), problem.filter_taps
    sums = given["rows_per_thread"] * given["columns_per_thread"] * given["channels_per_thread"]
    whole = (problem.in_channels % GROUP_CHANNELS == 0) & (GROUP_CHANNELS * taps * sums <= MAX_GROUP_FMA)
    group = np.where(whole, GROUP_CHANNELS, 1)
    images = images_of_block(problem, given["block_y"], given["rows_per_thread"])
    bare = Tiles(
        **given,
        images=images,
        channel_group=group,
        slab_channels=group * given["channel_slices"],
        stages=2 * one,
        patch_pitch=one,
        filter_pitch=one,
        filter_vector=np.where(whole, VECTOR_WORDS, 1),
        filter_lanes=one,
        shared_bytes=0 * one,
    )
    (pitch,) = over_unique(
        lambda *columns: (np.array([_patch_pitch(problem, *row) for row in zip(*map(_listed, columns), strict=True)]),),
        bare.block_x,
        bare.block_y // images,
        images,
        bare.rows_per_thread,
        bare.columns_per_thread,
    )
    return _with_slabs(problem, _replaced(bare, patch_pitch=pitch), gpu)


def _listed(column: Integers) -> list[int]:
    return [int(value) for value in column]


def _replaced(tile: Tiles, **values: Integers) -> Tiles:
    return Tiles(**({field.name: getattr(tile, field.name) for field in fields(tile)} | values))


def _with_slabs(problem: Conv2d, tile: Tiles, gpu: Gpu) -> Tiles:
    """As many channels in a slab, and stages, as the block's share of the SM's shared memory holds."""
    of_plane, of_channels, of_images = grid(problem, tile)
    by_grid = ceil_div(of_plane * of_channels * of_images, gpu.sm_count)
    registers = round_up(tile.sums + REGISTERS_BESIDE_SUMS, gpu.register_allocation_unit // WARP_SIZE)
    of_block = np.minimum(registers, gpu.max_registers_per_thread) * round_up(tile.threads, WARP_SIZE)
    by_registers = gpu.registers_per_sm // of_block
    resident = np.clip(np.minimum(by_grid, by_registers), 1, gpu.max_blocks_per_sm)
    share = gpu.shared_bytes_per_sm // resident - gpu.shared_reserved_bytes_per_block
    share = np.minimum(share, gpu.shared_bytes_per_block_opt_in)
    least = tile.channel_group * tile.channel_slices
    slab = least.copy()
    while True:
        wider = 2 * slab
        stage_bytes = FLOAT_BYTES * _stage_words(problem, _replaced(tile, slab_channels=wider))
        fits = (wider <= np.maximum(MAX_SLAB_CHANNELS, least)) & (wider < 2 * problem.in_channels)
        fits &= WANTED_STAGES * stage_bytes <= share
        if not fits.any():
            break
        slab = np.where(fits, wider, slab)
    tile = _replaced(tile, slab_channels=slab)
    tile = _replaced(tile, filter_pitch=_filter_pitch(problem, tile), filter_lanes=_filter_lanes(problem, tile))
    stage_bytes = FLOAT_BYTES * _stage_words(problem, tile)
    stages = np.where((WANTED_STAGES * stage_bytes <= share) & gpu.architecture.asynchronous_copies, WANTED_STAGES, 2)
    stages = np.minimum(stages, np.maximum(tile.slabs(problem), 1) + 1)
    reduction = np.where(tile.channel_slices > 1, FLOAT_BYTES * tile.sums * tile.threads, 0)
    return _replaced(tile, stages=stages, shared_bytes=np.maximum(stages * stage_bytes, reduction))


def _filter_pitch(problem: Conv2d, tile: Tiles) -> Integers:
    """Words from one output channel's taps to the next: an odd number of vectors, so that neighbours lie on other banks."""
    group = round_up(tile.channel_group * problem.filter_taps, VECTOR_WORDS)
    vectors = tile.slab_channels // tile.channel_group * group // VECTOR_WORDS
    return np.asarray(VECTOR_WORDS * (vectors + 1 - vectors % 2), np.int64)


def _filter_lanes(problem: Conv2d, tile: Tiles) -> Integers:
    """Neighbouring threads that copy the taps of one output channel: as many as need the fewest copies, the most of these."""
    run = ceil_div(tile.slab_channels * problem.filter_taps, tile.filter_vector)
    choices = np.array([32, 16, 8, 4])[:, None]
    step = np.maximum(tile.threads // choices, 1)
    copies = ceil_div(run, choices) * ceil_div(tile.out_channels, step)
    return np.asarray(choices[:, 0][np.argmin(copies, axis=0)], np.int64)


def _stage_words(problem: Conv2d, tile: Tiles) -> Integers:
    patch = tile.slab_channels * tile.images * tile.patch_rows(problem) * tile.patch_pitch
    return np.asarray(round_up(patch, VECTOR_WORDS) + tile.out_channels * _filter_pitch(problem, tile), np.int64)


def patch_aligned(problem: Conv2d, columns_per_thread: int) -> int:
    """Words that a thread's reads of the patch are aligned to."""
    return gcd(VECTOR_WORDS, columns_per_thread * problem.stride)


@lru_cache(maxsize=4096)
def _patch_pitch(
    problem: Conv2d, block_x: int, rows: int, images: int, rows_per_thread: int, columns_per_thread: int
) -> int:
    """Words from one row of a patch to the next, the fewest with which a warp's reads have the fewest bank conflicts."""
    aligned = patch_aligned(problem, columns_per_thread)
    thread = np.arange(WARP_SIZE)
    x, y = thread % block_x, thread // block_x % (rows * images)
    row = y // rows * ((rows * rows_per_thread - 1) * problem.stride + problem.filter_height)
    row += y % rows * rows_per_thread * problem.stride
    least = round_up((block_x * columns_per_thread - 1) * problem.stride + problem.filter_width, aligned)
    pitches = np.arange(least, least + SHARED_BANKS, aligned)
    addresses = FLOAT_BYTES * (row * pitches[:, None] + x * columns_per_thread * problem.stride)
    cost, _ = load_wavefronts(addresses.astype(np.uint64), np.ones(addresses.shape, np.bool_), FLOAT_BYTES * aligned)
    return int(pitches[np.argmin(cost)])


def launch_of(problem: Conv2d, tile: Tiles) -> Launch:
    """Tiles of an output plane, of the output channels and groups of images; threads along columns, rows and channels."""
    of_plane, of_channels, of_images = grid(problem, tile)
    return Launch(
        grid_x=of_plane,
        grid_y=of_channels,
        grid_z=of_images,
        block_x=tile.block_x,
        block_y=tile.block_y,
        block_z=tile.channel_threads * tile.channel_slices,
        dynamic_shared_bytes=tile.shared_bytes,
    )


def compile_request(problem: Conv2d, configuration: DirectConv2dConfiguration, gpu: Gpu) -> CompileRequest:
    """Source, kernel and macros; sizes of image and batch are parameters, so that layers with the same tile share a compile."""
    tile = taken(tiles(problem, Batch.of([configuration]), gpu), 0)
    columns = configuration.columns_per_thread or 1
    return CompileRequest(
        source=kernel_text(f"{KERNEL}.cu"),
        kernel=KERNEL,
        file_name=f"{KERNEL}.cu",
        defines=(
            *filter_macros(problem),
            *(
                (field.name.upper(), int(getattr(tile, field.name)))
                for field in fields(tile)
                if field.name != "shared_bytes"
            ),
            ("PATCH_ALIGNED", patch_aligned(problem, columns)),
            ("SUM_VECTOR", gcd(VECTOR_WORDS, columns)),
            ("STORE_VECTOR", gcd(gcd(VECTOR_WORDS, columns), problem.output_width)),
            ("CHANNEL_TAIL", int(problem.in_channels % int(tile.slab_channels) != 0)),
            ("CHANNEL_OVERHANG", int(problem.out_channels % int(tile.out_channels) != 0)),
            ("ASYNC_COPY", int(gpu.architecture.asynchronous_copies)),
        ),
        architecture_specific=gpu.architecture.asynchronous_copies,
    )
