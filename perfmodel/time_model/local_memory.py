"""Spilled registers and stack arrays: how much of their traffic L1 and L2 keep from DRAM, and what it takes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.constants import FLOAT_BYTES, SECTOR_BYTES, WARP_SIZE
from ..core.counts import Counts
from ..gpus.gpu import Gpu
from ..profiles.kernel_profile import KernelProfile
from . import terms
from .coefficients import Coefficients

REQUEST_SECTORS = WARP_SIZE * FLOAT_BYTES // SECTOR_BYTES
"""Sectors of a local access of a whole warp, whose words lie side by side."""


def local_traffic(work: KernelProfile, resident: Any, gpu: Gpu) -> Counts:
    """Traffic of the local accesses alone: what passes L1 as L2 sectors, what passes L2 as DRAM bytes.

    The resident threads' local memory competes for each cache as a whole: a cache serves the part of the accesses that it
    can hold. Stores are written through L1. ``work.local_bytes_per_thread`` is 0 where caches were simulated.
    """
    launch, counts = work.launch, work.counts
    if np.ndim(work.local_bytes_per_thread) == 0 and not work.local_bytes_per_thread:
        return Counts()
    footprint = np.asarray(work.local_bytes_per_thread, np.float64) * launch.threads_per_block * resident
    shared = np.asarray(launch.static_shared_bytes + launch.dynamic_shared_bytes, np.float64) * resident
    beside_shared = np.maximum(gpu.l1_bytes_per_sm - (shared if gpu.shared_carve_outs_bytes else 0.0), 0.0)
    held_by_l1 = np.minimum(1.0, beside_shared / np.maximum(footprint, 1.0))
    held_by_l2 = np.minimum(1.0, gpu.l2_bytes / np.maximum(footprint * gpu.sm_count, 1.0))
    reads = np.where(footprint > 0, counts.local_load_sectors * (1.0 - held_by_l1), 0.0)
    writes = np.where(footprint > 0, counts.local_store_sectors, 0.0)
    return Counts(
        l2_read_sectors=reads,
        l2_write_sectors=writes,
        dram_read_bytes=reads * SECTOR_BYTES * (1.0 - held_by_l2),
        dram_write_bytes=writes * SECTOR_BYTES * (1.0 - held_by_l2),
    )


def local_seconds(
    work: KernelProfile, traffic: Counts, waves: Any, gpu: Gpu, coefficients: Coefficients, clock_hz: float
) -> Any:
    """Time of the local accesses beside everything else: the longest of passing L2, passing DRAM and being waited for.

    A warp that spills reads back what it needs next and waits for it, and few such warps share an SM; all resident ones wait
    at the same time. ``traffic``: of `local_traffic`. ``waves``: blocks of an SM over those resident at once.
    """
    sectors = traffic.l2_read_sectors + traffic.l2_write_sectors
    if np.ndim(sectors) == 0 and not sectors:
        return 0.0
    passing = sectors * SECTOR_BYTES / (gpu.l2_read_bytes_per_s * coefficients.memory_efficiency)
    warps = np.maximum(np.asarray(work.launch.blocks, np.float64) * work.launch.warps_per_block, 1.0)
    answers = traffic.l2_read_sectors * gpu.l2_latency_cycles
    fetched = traffic.dram_read_bytes / SECTOR_BYTES * (gpu.dram_latency_cycles - gpu.l2_latency_cycles)
    waiting = coefficients.local_load_latencies * (answers + fetched) / (REQUEST_SECTORS * warps)
    waited = waiting * np.maximum(waves, 1.0) / clock_hz
    return np.maximum(np.maximum(passing, terms.dram_burst_seconds(traffic, gpu, coefficients)), waited)
