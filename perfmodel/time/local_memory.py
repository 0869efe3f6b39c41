"""Where spilled registers and stack arrays go: how much of their traffic L1 and L2 keep from DRAM."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..counts import Counts
from ..definitions import SECTOR_BYTES
from ..gpu import Gpu
from ..work import Work


def local_traffic(work: Work, resident: Any, gpu: Gpu) -> Counts:
    """Traffic of the local accesses alone: what passes L1 as L2 sectors, what passes L2 as DRAM bytes.

    The resident threads' local memory competes for each cache as a whole: a cache serves the part of the accesses that it
    can hold. Stores are written through L1. ``work.local_bytes_per_thread`` is 0 where caches were simulated.
    """
    launch, counts = work.launch, work.counts
    if not np.any(work.local_bytes_per_thread):
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
