"""Tiles, slabs, stages and shared memory of matrix products, and what is compiled."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from math import gcd

import numpy as np
from numpy.typing import NDArray

from ....compiler.request import CompileRequest
from ....core.batched import taken
from ....core.constants import FLOAT_BYTES, LINE_BYTES, VECTOR_WORDS, WARP_SIZE, ceil_div, round_up
from ....gpus.gpu import Gpu
from ....launch.launch import Launch
from ...base import Batch
from ...kernel_files import kernel_folder, kernel_text
from ..configuration import OF_PRODUCTS, PointwiseConfiguration
from ..problem import PointwiseConv2d

Integers = NDArray[np.int64]

KERNEL = "pointwise_product"
COPY_CHANNELS = 8
"""Least channels of a filter that neighbouring threads copy, a sector; a line of 32 where slabs are multiples of it."""
MAX_SLAB_CHANNELS = 64
MAX_SLAB_COPIES = 48
"""Copies of a thread for each slab, which stand in straight-line code before the sums."""
CHANNELS_OF_BARRIER = 4
"""What a slab costs beside its channels, as so many channels."""
MAX_UNROLLED_FMA = 512
"""Multiply-adds of a thread in straight-line code; of its two copies one switches to the next slab."""
COST_OF_SECTORS = 1.1
"""What a slab costs whose filters are copied by sectors, not lines."""
LEAST_STAGES = 2
MAX_STAGES = 6
REGISTERS_BESIDE_OPERANDS = 24
"""Addresses and counters."""
REGISTERS_OF_LARGE_TILES = 16
"""Beside them where a thread has more sums than `LARGE_TILE`, or some are spilled."""
LARGE_TILE = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductTiles:
    """Sizes of n configurations, arrays of shape ``(n,)``; macros of the kernel in small letters."""

    filters_per_thread: Integers
    positions_per_thread: Integers
    filter_threads: Integers
    position_threads: Integers
    channel_slices: Integers
    channel_split: Integers
    slab_channels: Integers
    stages: Integers
    resident_blocks: Integers
    """Blocks of an SM that the compiler leaves registers for."""

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
    def filter_pitch(self) -> Integers:
        """Words from one channel's filters to the next: whole lines, within which vectors are exchanged."""
        return np.asarray(round_up(self.filter_tile, LINE_BYTES // FLOAT_BYTES), np.int64)

    @property
    def unrolled_channels(self) -> Integers:
        """Channels of a thread in straight-line code: a power of two from four on that divides its part of a slab."""
        channels = self.slab_channels // self.channel_slices
        chosen = np.full_like(channels, VECTOR_WORDS)
        for count in (8, 16):
            chosen = np.where((channels % count == 0) & (count * self.sums <= MAX_UNROLLED_FMA), count, chosen)
        return chosen

    @property
    def stage_bytes(self) -> Integers:
        """One slab of filters and input."""
        return FLOAT_BYTES * self.slab_channels * (self.filter_pitch + self.position_tile)

    def grid(self, problem: PointwiseConv2d) -> tuple[Integers, Integers]:
        """Tiles over the positions of all images and over the filters."""
        return ceil_div(problem.positions, self.position_tile), ceil_div(problem.out_channels, self.filter_tile)

    def slabs(self, problem: PointwiseConv2d) -> Integers:
        """Slabs of the block that has most of them."""
        return np.asarray(ceil_div(ceil_div(problem.in_channels, self.slab_channels), self.channel_split), np.int64)

    def through_shared(self, problem: PointwiseConv2d) -> NDArray[np.bool_]:
        """Whether sums pass through shared memory before they are stored."""
        whole = store_vector(problem) == VECTOR_WORDS
        return (self.channel_slices > 1) | (self.channel_split > 1) | (not whole)

    def shared_bytes(self, problem: PointwiseConv2d) -> Integers:
        """All stages, or the sums of all slices that take their place at the end."""
        reduced = FLOAT_BYTES * self.channel_slices * self.filter_tile * self.position_tile
        reduced = np.where(self.through_shared(problem), reduced, 0)
        return np.asarray(np.maximum(self.stages * self.stage_bytes, reduced), np.int64)


def store_vector(problem: PointwiseConv2d) -> int:
    """Words of a copy of input or a store of output along positions, which no image's end cuts."""
    return gcd(VECTOR_WORDS, problem.image_positions)


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
    least = least_slab(given["channel_slices"])
    bare = ProductTiles(
        **given,
        slab_channels=least,
        stages=2 * one,
        resident_blocks=_resident(problem, given, gpu),
    )
    share = gpu.shared_bytes_per_sm // bare.resident_blocks - gpu.shared_reserved_bytes_per_block
    share = np.minimum(share, gpu.shared_bytes_per_block_opt_in)
    tile = _with_slabs(problem, bare, share)
    room = np.clip(share // tile.stage_bytes, 2, MAX_STAGES)
    stages = np.minimum(room, np.maximum(tile.slabs(problem), 2))
    return replace(tile, stages=stages if gpu.architecture.asynchronous_copies else 2 * one)


def least_slab(channel_slices: Integers) -> Integers:
    """Channels of the smallest slab: whole sectors, and four for each slice."""
    return np.asarray(np.maximum(COPY_CHANNELS, VECTOR_WORDS * channel_slices), np.int64)


def registers(tile: ProductTiles) -> Integers:
    """About what a thread takes: sums, filters and positions of this channel and the next, addresses."""
    operands = 2 * (tile.filters_per_thread + tile.positions_per_thread)
    large = np.where(tile.sums > LARGE_TILE, REGISTERS_OF_LARGE_TILES, 0)
    return np.asarray(tile.sums + operands + REGISTERS_BESIDE_OPERANDS + large, np.int64)


def _resident(problem: PointwiseConv2d, given: dict[str, Integers], gpu: Gpu) -> Integers:
    """Blocks that registers leave room for, never more than the grid gives an SM."""
    one = np.ones_like(given["channel_split"])
    bare = ProductTiles(**given, slab_channels=one, stages=one, resident_blocks=one)
    across, down = bare.grid(problem)
    wanted = ceil_div(across * down * bare.channel_split, gpu.sm_count)
    of_thread = round_up(registers(bare), gpu.register_allocation_unit // WARP_SIZE)
    threads = round_up(bare.threads, WARP_SIZE)
    by_registers = gpu.registers_per_sm // (np.minimum(of_thread, gpu.max_registers_per_thread) * threads)
    by_warps = gpu.max_warps_per_sm * WARP_SIZE // threads
    resident = np.minimum(np.minimum(wanted, by_registers), np.minimum(by_warps, gpu.max_blocks_per_sm))
    return np.asarray(np.maximum(resident, 1), np.int64)


def _with_slabs(problem: PointwiseConv2d, tile: ProductTiles, share: Integers) -> ProductTiles:
    """The slab with which a block walks through the fewest channels, those that do not exist and barriers included.

    Of the slabs of which two stages fit the block's share of shared memory.
    """
    least = least_slab(tile.channel_slices)
    best, cost = tile, np.full(len(least), np.inf)
    for count in range(1, MAX_SLAB_CHANNELS // COPY_CHANNELS + 1):
        slab = count * least
        wider = replace(tile, slab_channels=slab)
        slabs = wider.slabs(problem)
        copies = slab * (wider.filter_tile + wider.position_tile // store_vector(problem))
        fits = LEAST_STAGES * wider.stage_bytes <= share
        fits &= (slab <= MAX_SLAB_CHANNELS) & (copies <= MAX_SLAB_COPIES * wider.threads)
        by_sectors = np.where(slab % WARP_SIZE == 0, 1.0, COST_OF_SECTORS)
        found = slabs * (slab * by_sectors + CHANNELS_OF_BARRIER)
        better = (count == 1) | (fits & (found < cost))
        cost = np.where(better, found, cost)
        best = replace(best, slab_channels=np.where(better, slab, best.slab_channels))
    return best


def launch_of(problem: PointwiseConv2d, tile: ProductTiles) -> Launch:
    """Positions along x, filters along y, along z parts of the channels, which are one cluster."""
    across, down = tile.grid(problem)
    return Launch(
        grid_x=across,
        grid_y=down,
        grid_z=tile.channel_split,
        block_x=tile.threads,
        dynamic_shared_bytes=tile.shared_bytes(problem),
        cluster_z=tile.channel_split,
    )


def compile_request(problem: PointwiseConv2d, configuration: PointwiseConfiguration, gpu: Gpu) -> CompileRequest:
    """Source, kernel and macros; sizes are parameters, so that layers with the same tile share a compile."""
    tile = taken(tiles(problem, Batch.of([configuration]), gpu), 0)
    return CompileRequest(
        source=kernel_text(f"{KERNEL}.cu"),
        kernel=KERNEL,
        file_name=f"{KERNEL}.cu",
        include_directories=(kernel_folder(),),
        defines=(
            *((macro.name.upper(), int(getattr(tile, macro.name))) for macro in fields(tile)),
            ("FILTER_PITCH", int(tile.filter_pitch)),
            ("UNROLLED_CHANNELS", int(tile.unrolled_channels)),
            ("INPUT_VECTOR", store_vector(problem)),
            ("STORE_VECTOR", store_vector(problem)),
            ("ONE_IMAGE", int(problem.batch == 1)),
            ("CHANNEL_TAIL", int(problem.in_channels % int(tile.slab_channels) != 0)),
            ("FILTER_TAIL", int(problem.out_channels % int(tile.filter_tile) != 0)),
            ("ASYNC_COPY", int(gpu.architecture.asynchronous_copies)),
        ),
        architecture_specific=True,
    )
