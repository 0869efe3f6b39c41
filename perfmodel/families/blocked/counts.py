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
from .tiling import REGISTERS_BESIDE_SUMS, VECTOR_WORDS, Integers, Tiles, launch_of, patch_aligned

Floats = NDArray[np.float64]

SECTOR_WORDS = SECTOR_BYTES // FLOAT_BYTES
INTEGERS_PER_COPY = 4
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


def _vectors(words: int, aligned: int) -> int:
    """Loads of so many words by the widest vectors that the alignment allows."""
    wide, rest = divmod(words, aligned)
    return wide + rest.bit_count()


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
    thread = np.arange(WARP_SIZE)
    y = thread // block_x % block_y
    image_rows = block_y * rows // images
    row = y * rows // image_rows * ((image_rows - 1) * layer.stride + layer.filter_height)
    row += y * rows % image_rows * layer.stride
    word = row * patch_pitch + thread % block_x * columns * layer.stride
    aligned = int(patch_aligned(layer, columns))
    of_row = _vectors(patch_shift % aligned + (columns - 1) * layer.stride + layer.filter_width, aligned)
    elements = group * ((rows - 1) * layer.stride + layer.filter_height) * of_row
    taps = channels * _vectors(group * layer.filter_taps, VECTOR_WORDS)
    channel = thread // (block_x * block_y) % channel_threads
    of_elements = _wavefronts(aligned, *word.tolist())
    of_taps = _wavefronts(VECTOR_WORDS, *(channel * filter_pitch).tolist())
    return elements + taps, elements * of_elements + taps * of_taps


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
    patch = tile.images * tile.patch_rows(layer) * tile.patch_columns(layer)
    run = layer.in_channels * layer.filter_taps / tile.filter_vector
    patch_copies = layer.in_channels * np.maximum(patch / tile.patch_vector / WARP_SIZE, 1)
    copies = blocks * (patch_copies + tile.out_channels * np.maximum(run / WARP_SIZE, 1))
    inside = layer.height * layer.width / ((layer.height + layer.row_padding) * (layer.width + layer.column_padding))
    patch_sectors = inside * tile.images * tile.patch_rows(layer) * _row_sectors(tile.patch_columns(layer))
    read = blocks * layer.in_channels * (patch_sectors + tile.out_channels * layer.filter_taps / SECTOR_WORDS)
    across = ceil_div(layer.output_width, tile.columns)
    stored = layer.output_rows * across * _row_sectors(np.minimum(tile.columns, layer.output_width))
    stores = warps * tile.sums / np.gcd(tile.columns_per_thread, VECTOR_WORDS)
    reduced = np.where(tile.channel_slices > 1, warps * tile.sums / np.gcd(tile.columns_per_thread, VECTOR_WORDS), 0.0)
    multiply_adds = warps * groups * tile.channel_group * layer.filter_taps * tile.sums
    asynchronous = gpu.architecture.asynchronous_copies
    loads = warps * groups * shared_loads + reduced
    wavefronts = warps * groups * shared_wavefronts + reduced * tile.columns_per_thread
    classes = {
        "fp32_fma": multiply_adds,
        "integer": INTEGERS_PER_COPY * copies + warps * PROLOGUE_INSTRUCTIONS,
        "control": warps * (2 * groups + 4 * slabs),
        "barriers": warps * (slabs + 2 * (tile.channel_slices > 1)),
    }
    none = np.zeros_like(warps)
    counts = Counts(
        global_load_requests=none if asynchronous else copies,
        global_load_sectors=none if asynchronous else read,
        global_store_requests=stores,
        global_store_sectors=stored,
        shared_load_requests=loads,
        shared_load_wavefronts=wavefronts,
        shared_store_requests=reduced if asynchronous else reduced + copies,
        shared_store_wavefronts=reduced * tile.columns_per_thread + (0 if asynchronous else copies),
        async_copy_requests=copies if asynchronous else none,
        async_copy_wavefronts=copies if asynchronous else none,
        async_copy_read_requests=copies if asynchronous else none,
        async_copy_read_wavefronts=copies if asynchronous else none,
        async_copy_read_sectors=read if asynchronous else none,
        warp_instructions=loads + stores + reduced + copies * (1 if asynchronous else 2) + sum(classes.values()),
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
