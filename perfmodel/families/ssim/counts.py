"""Counts of one version in closed form: the window's arithmetic, shared memory, and global memory's totals."""

from __future__ import annotations

from ...core.constants import FLOAT_BYTES
from ...core.counts import Counts
from ...gpus.gpu import Gpu
from ..accesses import GlobalAccesses
from .configuration import Copy, Design
from .launch import block_channels
from .problem import IMAGES, MAPS, WINDOW, Ssim
from .traffic import copies_asynchronously, map_stores, patch_sectors, pixel_reads, zero_stores


def multiply_adds(problem: Ssim, design: Design) -> int:
    """Warp-level fused multiply-adds of the launch; tiles at the image's edge do all their work.

    A block's are 55 · C · BX · (BY + 5) / 16: 5 maps of 11 taps on BX columns, over BY + 10 rows and over BY rows, 32 lanes at
    once.

    >>> from .configuration import DESIGNS, Version
    >>> [round(multiply_adds(Ssim(), DESIGNS[v]) / 1e6, 2) for v in (Version.NAIVE, Version.V2, Version.V4)]
    [99.63, 139.0, 91.48]
    """
    rows = design.patch_height + design.tile_height
    return block_channels(problem, design) * MAPS * WINDOW * design.columns * rows


def instructions(problem: Ssim, design: Design) -> dict[str, float]:
    """Executed warp instructions that do not access memory, by class, but for integer and control.

    One output takes the additions and multiplications of the kernels' ``similarity`` and its reciprocals; products are the
    squares and the product of both images.
    """
    blocks = block_channels(problem, design)
    outputs = design.tile_height * design.columns
    other, reciprocals = (28, 2) if problem.gradients else (17, 1)
    if design.neighbours:
        products = 3 * design.patch_height * (WINDOW + 1)
    else:
        products = design.patch_height * (2 * WINDOW * design.columns + design.segments)
    return {
        "fp32_fma": multiply_adds(problem, design),
        "fp32_other": blocks * (products + outputs * other),
        "special_function": blocks * outputs * reciprocals,
        "barriers": blocks * design.warps * design.barriers_per_channel,
    }


def shared_accesses(problem: Ssim, design: Design) -> tuple[int, int]:
    """Warp-level shared loads and stores but for those of row copies; none has a bank conflict."""
    blocks = block_channels(problem, design)
    if design.neighbours:
        return blocks * design.patch_height * IMAGES * (WINDOW + 1) // 2, 0
    patch = design.patch_height * design.segments
    loads = MAPS * design.columns * WINDOW * (design.patch_height + design.tile_height) + 2 * patch
    writes_of_scratch = 2 if design.clears_scratch else 1
    stores = (IMAGES + 1) * patch + writes_of_scratch * MAPS * design.patch_height * design.columns
    return blocks * loads, blocks * stores


def closed_form(problem: Ssim, design: Design, gpu: Gpu) -> Counts:
    """Counts of the launch but for index arithmetic and local memory. Multiply-adds, barriers and memory accesses are exact.

    Rows that a warp walks down are
    copied, or (before sm_80) loaded and stored; filling with zeros, a copy is issued whether or not a pixel lies in the image.
    """
    reads, maps, none = pixel_reads(problem, design), map_stores(problem, design), GlobalAccesses()
    shared_loads, shared_stores = shared_accesses(problem, design)
    asynchronous = design.copy is not Copy.LOAD and copies_asynchronously(gpu)
    loads, copied = (none, reads) if asynchronous else (reads, none)
    copies = 0
    if design.copy is not Copy.LOAD:
        everywhere = block_channels(problem, design) * design.patch_height * design.segments * IMAGES
        issued = reads.requests if design.copy is Copy.GUARDED else everywhere
        copies = issued if asynchronous else 0
        shared_stores += zero_stores(problem, design) + issued - copies
    classes = instructions(problem, design)
    requests = {
        "global_load_requests": loads.requests,
        "global_store_requests": maps.requests,
        "shared_load_requests": shared_loads,
        "shared_store_requests": shared_stores,
        "async_copy_requests": copies,
    }
    rest = {
        "global_load_sectors": loads.sectors,
        "global_load_lines": loads.lines,
        "global_store_sectors": maps.sectors,
        "shared_load_wavefronts": shared_loads * (2 if design.neighbours else 1),  # pairs of floats need two
        "shared_store_wavefronts": shared_stores,
        "async_copy_wavefronts": copies,
        "async_copy_read_requests": copied.requests,
        "async_copy_read_sectors": copied.sectors,
        "async_copy_read_wavefronts": copied.requests,
        "l2_read_sectors": patch_sectors(problem, design),
        "l2_write_sectors": maps.sectors,
        "dram_read_bytes": IMAGES * problem.pixels * FLOAT_BYTES,
        "dram_write_bytes": problem.output_maps * problem.pixels * FLOAT_BYTES,
    }
    return Counts(**{name: float(value) for name, value in (requests | classes | rest).items()})
