"""Counts of one version in closed form, from its design."""

from __future__ import annotations

from ...counts import INSTRUCTION_CLASSES, Counts
from ...definitions import FLOAT_BYTES
from ...gpu import Gpu
from .arithmetic import multiply_adds, output_warps, pixel_work, products_per_block
from .compiled_facts import CodeFacts
from .design import IMAGES, Design, Rows
from .problem import Ssim
from .tiling import tiling
from .traffic import copies, local_accesses, map_stores, patch_sectors, pixel_reads, shared_accesses


def closed_form(problem: Ssim, design: Design, facts: CodeFacts, gpu: Gpu) -> Counts:
    """Counts of the launch. Multiply-adds, barriers and memory accesses are exact; index arithmetic is an estimate."""
    stores = map_stores(problem, design)
    shared = shared_accesses(problem, design)
    local = local_accesses(problem, design)
    asynchronous = copies(problem, design)
    reads = None if asynchronous else pixel_reads(problem, design)
    classes = _classes(problem, design, facts)
    missed = local_miss_fraction(design, facts, gpu)
    memory = {
        "global_load_requests": reads.requests if reads else 0,
        "global_store_requests": stores.requests,
        "shared_load_requests": shared.load_requests,
        "shared_store_requests": shared.store_requests,
        "async_copy_requests": asynchronous,
    }
    return Counts(
        **{name: float(value) for name, value in (memory | classes).items()},
        global_load_sectors=float(reads.sectors if reads else 0),
        global_load_lines=float(reads.lines if reads else 0),
        global_store_sectors=float(stores.sectors),
        shared_load_wavefronts=float(shared.load_wavefronts),
        shared_store_wavefronts=float(shared.store_wavefronts),
        async_copy_wavefronts=float(asynchronous),
        local_load_sectors=float(local.load_sectors),
        local_store_sectors=float(local.store_sectors),
        warp_instructions=float(sum(memory.values()) + sum(classes.values()) + local.requests),
        l2_read_sectors=float(patch_sectors(problem, design) + missed * local.load_sectors),
        l2_write_sectors=float(stores.sectors + missed * local.store_sectors),
        dram_read_bytes=float(IMAGES * problem.pixels * FLOAT_BYTES),
        dram_write_bytes=float(problem.output_maps * problem.pixels * FLOAT_BYTES),
    )


def _classes(problem: Ssim, design: Design, facts: CodeFacts) -> dict[str, float]:
    """Executed warp instructions that do not access memory, by class."""
    blocks = tiling(problem, design).block_channels
    pixel = pixel_work(problem)
    outputs = output_warps(design)
    steps = design.warps if design.rows is Rows.SHARED else design.patch_height
    classes = dict.fromkeys(INSTRUCTION_CLASSES, 0.0)
    return classes | {
        "fp32_fma": multiply_adds(problem, design),
        "fp32_other": blocks * (products_per_block(design) + outputs * pixel.fp32_other),
        "special_function": blocks * outputs * pixel.special_function,
        "integer": blocks * steps * facts.integer,
        "control": blocks * steps * facts.control,
        "barriers": blocks * design.warps * design.barriers_per_channel,
    }


def local_miss_fraction(design: Design, facts: CodeFacts, gpu: Gpu) -> float:
    """Part of the local memory traffic that L1 cannot hold for the resident warps.

    Every row passes through the whole ring, so what exceeds the cache is evicted before it is read again.
    """
    if not design.stack_bytes:
        return 0.0
    warps = min(gpu.max_warps_per_sm, gpu.max_blocks_per_sm, gpu.registers_per_sm // (facts.registers * 32))
    footprint = warps * 32 * design.stack_bytes
    shared = warps * (design.shared_bytes + gpu.shared_reserved_bytes_per_block)
    unified = gpu.compute_capability >= (7, 0)
    cache = max(gpu.l1_bytes_per_sm - shared, 0) if unified else gpu.l1_bytes_per_sm
    return max(0.0, 1.0 - cache / footprint)
