"""What blocked configurations execute, as it follows from their tiles.

Multiply-adds are exact; memory accesses are but for edges of the image, bank conflicts and what the assembler joins, which
compiled members show (`traits`). At compiled fidelity one block is executed, which counts all but the traffic behind L1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.constants import FLOAT_BYTES, SECTOR_BYTES, SHARED_BANKS, VECTOR_WORDS, WARP_SIZE, ceil_div
from ...core.counts import Counts
from ...gpus.gpu import Gpu
from ...launch.launch import Launch
from ...memory.bank_conflicts import load_wavefronts
from ..lanes import over_unique, wavefronts
from .layer import Layer
from .tiling import Integers, Tiles, first_warp, patch_aligned

Floats = NDArray[np.float64]

SECTOR_WORDS = SECTOR_BYTES // FLOAT_BYTES

WIDTHS = (1, 2, VECTOR_WORDS)
"""Words of a load."""


def _thread_loads(layer: Layer, tile: Tiles) -> tuple[Floats, Floats]:
    """Shared loads of a thread for one group of input channels, and their wavefronts."""
    x, y, channel = first_warp(tile.block_x, tile.block_y, tile.channel_threads)
    rows, image_rows, y = tile.rows_per_thread[:, None], tile.image_rows[:, None], y * tile.rows_per_thread[:, None]
    row = y // image_rows * ((image_rows - 1) * layer.stride + layer.filter_height) + y % image_rows * layer.stride
    element = row * tile.patch_pitch[:, None] + x * tile.columns_per_thread[:, None] * layer.stride
    aligned = patch_aligned(layer, tile.columns_per_thread)
    unused = tile.patch_shift % aligned
    of_row = unused + (tile.columns_per_thread - 1) * layer.stride + layer.filter_width
    elements = _loads(element, of_row, aligned, unused)
    taps = _loads(channel * tile.filter_pitch[:, None], tile.channel_group * layer.filter_taps, VECTOR_WORDS)
    thread_rows = tile.channel_group * ((rows[:, 0] - 1) * layer.stride + layer.filter_height)
    requests, passes = (
        thread_rows * of_row + tile.channels_per_thread * of_taps
        for of_row, of_taps in zip(elements, taps, strict=True)
    )
    return requests, passes


def _loads(first_words: Integers, words: Integers, aligned: Any, unused: Any = 0) -> tuple[Floats, Floats]:
    """Loads by which a thread reads so many words, of which it does not use the first ones, and their wavefronts.

    The compiler narrows loads to what is used, the assembler joins three words to a load of four.

    Args:
        first_words: where each lane of a warp begins, shape ``(n, 32)``.
        words: what each reads, shape ``(n,)``.
        aligned: words that they begin at multiples of.
        unused: of the words.

    >>> none = np.zeros((1, WARP_SIZE), np.int64)
    >>> [_loads(none, np.array([words]), 4, unused)[0].tolist() for words, unused in ((14, 0), (15, 2))]
    [[4], [4]]
    """
    whole, rest = words // aligned, words % aligned
    one = np.ones_like(words)
    of_load = np.stack([np.where(whole > 0, aligned, rest) - unused, aligned * one, rest])
    of_load = np.where(of_load == VECTOR_WORDS - 1, VECTOR_WORDS, of_load)
    number = np.stack([one, np.maximum(whole - 1, 0), np.where((whole > 0) & (rest > 0), 1, 0)])
    passes = np.zeros(len(words))
    for width in WIDTHS:
        times = np.where(of_load == width, number, 0).sum(axis=0)
        needed = np.flatnonzero(times)
        if len(needed):
            passes[needed] += times[needed] * _load_wavefronts(first_words[needed], width)
    return whole + (rest > 0), passes


def _load_wavefronts(words: Integers, width: int) -> Floats:
    """Wavefronts of loads of ``width`` words at these words of shared memory, shape ``(n, 32)``; many rows are equal."""
    rows = np.ascontiguousarray(words)
    packed = rows.view(np.dtype((np.void, rows.itemsize * WARP_SIZE))).ravel()
    _, first, inverse = np.unique(packed, return_index=True, return_inverse=True)
    addresses = (FLOAT_BYTES * rows[first]).astype(np.uint64)
    total, _ = load_wavefronts(addresses, np.ones(addresses.shape, np.bool_), FLOAT_BYTES * width)
    return np.asarray(total[inverse], np.float64)


def _copies_of_slab(layer: Layer, tile: Tiles) -> tuple[Floats, Floats]:
    """Copies of the patch and of filters to shared memory by the warps of a block for one slab, away from edges."""
    patch = tile.images * tile.patch_rows(layer) * tile.patch_columns(layer) // tile.patch_vector
    groups = np.where(tile.threads < 2 * patch, 1, np.minimum(tile.threads // patch, tile.slab_channels))
    of_patch = ceil_div(tile.slab_channels, groups) * ceil_div(groups * patch, WARP_SIZE)
    run = ceil_div(tile.slab_channels * layer.filter_taps, tile.filter_vector)
    of_filters = ceil_div(run, tile.filter_lanes) * ceil_div(tile.out_channels * tile.filter_lanes, WARP_SIZE)
    return np.asarray(of_patch, np.float64), np.asarray(of_filters, np.float64)


def _copy_wavefronts(row_lanes: Integers, pitch: Any, vector: Integers) -> Floats:
    """Passes of a warp over the banks where so many neighbouring lanes have vectors of one row, the others of further rows.

    Args:
        row_lanes: Lanes of a row, shape ``(n,)``.
        pitch: Words from one row to the next.
        vector: Words of a lane.
    """

    def of_kinds(row_lanes: Integers, pitch: Integers, vector: Integers) -> tuple[Floats]:
        lane, found = np.arange(WARP_SIZE), np.zeros(len(vector))
        words = lane // row_lanes[:, None] * pitch[:, None] + lane % row_lanes[:, None] * vector[:, None]
        for width in np.unique(vector).tolist():
            rows = vector == width
            found[rows] = wavefronts(words[rows], np.ones((int(rows.sum()), WARP_SIZE), np.bool_), width)
        return (found,)

    (passes,) = over_unique(of_kinds, row_lanes, np.broadcast_to(pitch % SHARED_BANKS, vector.shape), vector)
    return np.asarray(passes, np.float64)


def _row_sectors(words: Integers) -> Floats:
    """Sectors of rows of so many words that begin anywhere in a sector, on average."""
    return (words + SECTOR_WORDS - 1) / SECTOR_WORDS


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadCopies:
    """Copies of a thread for one slab as they stand in the code, arrays of shape ``(n,)``."""

    patch: Integers
    filters: Integers


def thread_copies(layer: Layer, tile: Tiles) -> ThreadCopies:
    """Of the patch all rounds of the threads over its vectors, for every channel or group of them; of filters likewise."""
    patches = tile.images * tile.patch_rows(layer) * (tile.patch_columns(layer) // tile.patch_vector)
    groups = np.clip(tile.threads // patches, 1, tile.slab_channels)
    run = ceil_div(tile.slab_channels * layer.filter_taps, tile.filter_vector)
    step = np.maximum(tile.threads // tile.filter_lanes, 1)
    return ThreadCopies(
        patch=ceil_div(patches, tile.threads) * ceil_div(tile.slab_channels, groups),
        filters=ceil_div(run, tile.filter_lanes) * ceil_div(tile.out_channels, step),
    )


def groups_of_thread(layer: Layer, tile: Tiles) -> Floats:
    """Groups of input channels that a thread adds, mean of the slices."""
    return np.asarray(layer.in_channels / (tile.channel_group * tile.channel_slices), np.float64)


def closed_form(layer: Layer, tile: Tiles, launch: Launch, gpu: Gpu, read_bytes: float) -> Counts:
    """Counts of n configurations; ``read_bytes`` are those that DRAM must deliver at least."""
    blocks, slices = np.asarray(launch.blocks, np.float64), tile.channel_slices > 1
    warps, slabs, groups = blocks * launch.warps_per_block, tile.slabs(layer), groups_of_thread(layer, tile)
    shared_loads, shared_wavefronts = _thread_loads(layer, tile)
    of_patch, of_filters = (blocks * slabs * copies for copies in _copies_of_slab(layer, tile))
    copies, row = of_patch + of_filters, tile.patch_columns(layer) // tile.patch_vector
    run_words = layer.in_channels * layer.filter_taps
    reads = of_patch * _copy_wavefronts(row, layer.width, tile.patch_vector)
    reads = reads + of_filters * _copy_wavefronts(tile.filter_lanes, run_words, tile.filter_vector)
    writes = of_patch * _copy_wavefronts(row, tile.patch_pitch, tile.patch_vector)
    writes = writes + of_filters * _copy_wavefronts(tile.filter_lanes, tile.filter_pitch, tile.filter_vector)
    inside = layer.height * layer.width / ((layer.height + layer.row_padding) * (layer.width + layer.column_padding))
    patch_sectors = inside * tile.images * tile.patch_rows(layer) * _row_sectors(tile.patch_columns(layer))
    read = blocks * layer.in_channels * (patch_sectors + tile.out_channels * layer.filter_taps / SECTOR_WORDS)
    across = ceil_div(layer.output_width, tile.columns)
    stored = layer.output_rows * across * _row_sectors(np.minimum(tile.columns, layer.output_width))
    sum_vector = np.gcd(tile.columns_per_thread, VECTOR_WORDS)
    store_vector, sums = np.gcd(sum_vector, layer.output_width), warps * tile.sums
    sliced = np.where(slices, sums, 0.0)
    in_background, none = gpu.architecture.asynchronous_copies, np.zeros_like(warps)
    loaded, copied = (none, copies) if in_background else (copies, none)
    return Counts(
        global_load_requests=loaded,
        global_load_sectors=none if in_background else read,
        global_load_lines=loaded,
        global_store_requests=sums / tile.channel_slices / store_vector,
        global_store_sectors=stored,
        shared_load_requests=warps * groups * shared_loads + sliced / store_vector,
        shared_load_wavefronts=warps * groups * shared_wavefronts + sliced,
        shared_store_requests=sliced / sum_vector + loaded,
        shared_store_wavefronts=sliced + (0.0 if in_background else writes),
        async_copy_requests=copied,
        async_copy_wavefronts=writes if in_background else none,
        async_copy_read_requests=copied,
        async_copy_read_wavefronts=reads if in_background else none,
        async_copy_read_sectors=read if in_background else none,
        fp32_fma=warps * groups * tile.channel_group * layer.filter_taps * tile.sums,
        barriers=warps * (slabs + 2 * slices),
        l2_read_sectors=read,
        l2_write_sectors=stored,
        dram_read_bytes=np.full_like(warps, read_bytes),
        dram_write_bytes=np.full_like(warps, layer.written_bytes),
    )
