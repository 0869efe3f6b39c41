"""What blocked configurations execute, estimated from their tiles: enough to choose which ones to compile.

Multiply-adds, shared loads, asynchronous copies and traffic follow from the tiles; edges of the image and integer instructions
are estimates. At compiled fidelity one block is executed, which counts all but the traffic behind L1.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ...core.constants import FLOAT_BYTES, INSTRUCTION_BYTES, SECTOR_BYTES, WARP_SIZE, ceil_div, round_up
from ...core.counts import Counts
from ...gpus.gpu import Gpu
from ...memory.bank_conflicts import load_wavefronts
from ...profiles.kernel_profile import KernelProfile, estimated_resources
from ..lanes import over_unique
from .layer import Layer
from .tiling import (
    INSTRUCTIONS_PER_COPY,
    REGISTERS_BESIDE_SUMS,
    VECTOR_WORDS,
    Integers,
    Tiles,
    first_warp,
    launch_of,
    patch_aligned,
)

Floats = NDArray[np.float64]

SECTOR_WORDS = SECTOR_BYTES // FLOAT_BYTES
PROLOGUE_INSTRUCTIONS = 250
"""Of a warp, addresses and edges of the image, before it copies."""

_DECIDING_LOADS = (
    "block_x",
    "block_y",
    "images",
    "rows_per_thread",
    "columns_per_thread",
    "channels_per_thread",
    "channel_threads",
    "channel_group",
    "patch_shift",
    "patch_pitch",
    "filter_pitch",
)


def _widths(words: int, aligned: int, unused: int = 0) -> list[int]:
    """Words of each load by which a thread reads so many, of which it does not use the first ones.

    The compiler narrows loads to what is used, the assembler joins three words to a load of four.

    >>> _widths(14, 4), _widths(15, 4, unused=2)
    ([4, 4, 4, 2], [2, 4, 4, 4])
    """
    whole, rest = divmod(words, aligned)
    used = [aligned] * whole + [rest] * (rest > 0)
    used[0] -= unused
    return [VECTOR_WORDS if of_load == VECTOR_WORDS - 1 else of_load for of_load in used]


@lru_cache(maxsize=4096)
def _wavefronts(width: int, *offsets: int) -> int:
    """Wavefronts of one load of ``width`` words by the lanes of a warp at these words of shared memory."""
    addresses = np.array([offsets], np.uint64) * np.uint64(FLOAT_BYTES)
    total, _ = load_wavefronts(addresses, np.ones(addresses.shape, np.bool_), FLOAT_BYTES * width)
    return int(total[0])


def _loads(layer: Layer, tile: Tiles) -> tuple[Floats, Floats]:
    """Shared loads of a thread for one group of input channels, and their wavefronts."""

    def of_kinds(*kinds: Integers) -> tuple[Floats, ...]:
        return tuple(np.array([_of_group(layer, *map(int, kind)) for kind in zip(*kinds, strict=True)], np.float64).T)

    requests, wavefronts = over_unique(of_kinds, *(getattr(tile, name) for name in _DECIDING_LOADS))
    return requests, wavefronts


def _of_group(
    layer: Layer,
    block_x: int,
    block_y: int,
    images: int,
    rows: int,
    columns: int,
    channels: int,
    channel_threads: int,
    group: int,
    patch_shift: int,
    patch_pitch: int,
    filter_pitch: int,
) -> tuple[int, int]:
    x, y, channel = first_warp(block_x, block_y, channel_threads)
    image_rows = block_y * rows // images
    row = y * rows // image_rows * ((image_rows - 1) * layer.stride + layer.filter_height)
    row += y * rows % image_rows * layer.stride
    word = row * patch_pitch + x * columns * layer.stride
    aligned = int(patch_aligned(layer, columns))
    unused = patch_shift % aligned
    of_row = _widths(unused + (columns - 1) * layer.stride + layer.filter_width, aligned, unused)
    of_taps = _widths(group * layer.filter_taps, VECTOR_WORDS)
    thread_rows = group * ((rows - 1) * layer.stride + layer.filter_height)
    elements = thread_rows * sum(_wavefronts(width, *word.tolist()) for width in of_row)
    taps = channels * sum(_wavefronts(width, *(channel * filter_pitch).tolist()) for width in of_taps)
    return thread_rows * len(of_row) + channels * len(of_taps), elements + taps


def _copies_of_slab(layer: Layer, tile: Tiles) -> Floats:
    """Copies of patch and filters to shared memory by the warps of a block, away from edges."""
    patch = tile.images * tile.patch_rows(layer) * tile.patch_columns(layer) // tile.patch_vector
    groups = np.where(tile.threads < 2 * patch, 1, np.minimum(tile.threads // patch, tile.slab_channels))
    of_patch = ceil_div(tile.slab_channels, groups) * ceil_div(groups * patch, WARP_SIZE)
    run = ceil_div(tile.slab_channels * layer.filter_taps, tile.filter_vector)
    of_filters = ceil_div(run, tile.filter_lanes) * ceil_div(tile.out_channels * tile.filter_lanes, WARP_SIZE)
    return np.asarray(of_patch + of_filters, np.float64)


def _row_sectors(words: Integers) -> Floats:
    """Sectors of rows of so many words that begin anywhere in a sector, on average."""
    return (words + SECTOR_WORDS - 1) / SECTOR_WORDS


def profile(layer: Layer, tile: Tiles, gpu: Gpu, read_bytes: float) -> KernelProfile:
    """Counts, registers and critical path of n configurations; ``read_bytes`` are those that DRAM must deliver at least."""
    launch = launch_of(layer, tile)
    warps_of_block = ceil_div(tile.threads, WARP_SIZE)
    blocks = np.asarray(launch.blocks, np.float64)
    warps, slabs = blocks * warps_of_block, tile.slabs(layer)
    groups = layer.in_channels / (tile.channel_group * tile.channel_slices)
    shared_loads, shared_wavefronts = _loads(layer, tile)
    copies = blocks * slabs * _copies_of_slab(layer, tile)
    inside = layer.height * layer.width / ((layer.height + layer.row_padding) * (layer.width + layer.column_padding))
    patch_sectors = inside * tile.images * tile.patch_rows(layer) * _row_sectors(tile.patch_columns(layer))
    read = blocks * layer.in_channels * (patch_sectors + tile.out_channels * layer.filter_taps / SECTOR_WORDS)
    across = ceil_div(layer.output_width, tile.columns)
    stored = layer.output_rows * across * _row_sectors(np.minimum(tile.columns, layer.output_width))
    sum_vector = np.gcd(tile.columns_per_thread, VECTOR_WORDS)
    store_vector = np.gcd(sum_vector, layer.output_width)
    sums = warps * tile.sums
    stores = sums / tile.channel_slices / store_vector
    sliced = tile.channel_slices > 1
    multiply_adds = warps * groups * tile.channel_group * layer.filter_taps * tile.sums
    asynchronous = gpu.architecture.asynchronous_copies
    loads = warps * groups * shared_loads + sliced * sums / store_vector
    wavefronts = warps * groups * shared_wavefronts + sliced * sums
    added = sliced * sums / sum_vector
    classes = {
        "fp32_fma": multiply_adds,
        "integer": (INSTRUCTIONS_PER_COPY - 1) * copies + warps * PROLOGUE_INSTRUCTIONS,
        "control": warps * (2 * groups + 4 * slabs),
        "barriers": warps * (slabs + 2 * sliced),
    }
    none = np.zeros_like(warps)
    counts = Counts(
        global_load_requests=none if asynchronous else copies,
        global_load_sectors=none if asynchronous else read,
        global_store_requests=stores,
        global_store_sectors=stored,
        shared_load_requests=loads,
        shared_load_wavefronts=wavefronts,
        shared_store_requests=added if asynchronous else added + copies,
        shared_store_wavefronts=sliced * sums + (0 if asynchronous else copies),
        async_copy_requests=copies if asynchronous else none,
        async_copy_wavefronts=copies if asynchronous else none,
        async_copy_read_requests=copies if asynchronous else none,
        async_copy_read_wavefronts=copies if asynchronous else none,
        async_copy_read_sectors=read if asynchronous else none,
        warp_instructions=loads + stores + added + copies * (1 if asynchronous else 2) + sum(classes.values()),
        l2_read_sectors=read,
        l2_write_sectors=stored,
        dram_read_bytes=np.full_like(warps, read_bytes),
        dram_write_bytes=np.full_like(warps, layer.written_bytes),
        **classes,
    )
    unit = gpu.register_allocation_unit // WARP_SIZE
    registers = np.minimum(round_up(tile.sums + REGISTERS_BESIDE_SUMS, unit), gpu.max_registers_per_thread)
    return KernelProfile(
        launch=launch,
        resources=estimated_resources(launch, registers.astype(np.int32)),
        counts=counts,
        global_round_trips=np.ceil(slabs / (tile.stages - 1)),
        loop_code_bytes=INSTRUCTION_BYTES * tile.channel_group * layer.filter_taps * tile.sums * 1.1,
        read_only_share=0.0 if asynchronous else 1.0,
    )
