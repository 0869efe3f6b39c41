"""Counts of one version in closed form, from its design."""

from __future__ import annotations

from ...core.constants import FLOAT_BYTES
from ...core.counts import INSTRUCTION_CLASSES, Counts
from ...gpus.gpu import Gpu
from .arithmetic import multiply_adds, output_warps, pixel_work, products_per_block
from .compiled_facts import CodeFacts
from .design import IMAGES, Copy, Design, Rows
from .problem import Ssim
from .tiling import tiling
from .traffic import (
    NO_LOADS,
    CopyAccesses,
    local_accesses,
    map_stores,
    patch_sectors,
    pixel_reads,
    row_copies,
    shared_accesses,
)


def closed_form(problem: Ssim, design: Design, facts: CodeFacts, gpu: Gpu) -> Counts:
    """Counts of the launch. Multiply-adds, barriers and memory accesses are exact; index arithmetic is an estimate.

    What local memory adds behind L1 is not in them; the time model takes it from the stack (``Work.local_bytes_per_thread``).
    """
    maps, shared, local = map_stores(problem, design), shared_accesses(problem, design), local_accesses(problem, design)
    copies = _pixel_accesses(problem, design, gpu)
    classes = _classes(problem, design, facts)
    requests = {
        "global_load_requests": copies.loads.requests,
        "global_store_requests": maps.requests,
        "shared_load_requests": shared.load_requests,
        "shared_store_requests": shared.store_requests + copies.stores,
        "async_copy_requests": copies.asynchronous,
    }
    return Counts(
        **{name: float(value) for name, value in (requests | classes).items()},
        global_load_sectors=float(copies.loads.sectors),
        global_load_lines=float(copies.loads.lines),
        global_store_sectors=float(maps.sectors),
        shared_load_wavefronts=float(shared.load_wavefronts),
        shared_store_wavefronts=float(shared.store_wavefronts + copies.stores),
        async_copy_wavefronts=float(copies.asynchronous),
        async_copy_read_requests=float(copies.copied.requests),
        async_copy_read_sectors=float(copies.copied.sectors),
        async_copy_read_wavefronts=float(copies.copied.requests),
        local_load_sectors=float(local.load_sectors),
        local_store_sectors=float(local.store_sectors),
        warp_instructions=float(sum(requests.values()) + sum(classes.values()) + local.requests),
        l2_read_sectors=float(patch_sectors(problem, design)),
        l2_write_sectors=float(maps.sectors),
        dram_read_bytes=float(IMAGES * problem.pixels * FLOAT_BYTES),
        dram_write_bytes=float(problem.output_maps * problem.pixels * FLOAT_BYTES),
    )


def copies_asynchronously(gpu: Gpu) -> bool:
    """Whether the GPU has ``cp.async`` (PTX ISA, requirements of ``cp.async``: sm_80 or newer)."""
    return gpu.compute_capability >= (8, 0)


def _pixel_accesses(problem: Ssim, design: Design, gpu: Gpu) -> CopyAccesses:
    """How pixels get to shared memory; patches are loaded whole, their stores are counted with the shared accesses."""
    if design.copy is Copy.LOAD:
        return CopyAccesses(asynchronous=0, loads=pixel_reads(problem, design), copied=NO_LOADS, stores=0)
    return row_copies(problem, design, copies_asynchronously(gpu))


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
