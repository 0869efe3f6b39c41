"""Wavefronts of shared memory that are repeated because data of L1 passes through the same memory: the one home of the rule.

Shared memory and L1 are one memory in two parts, and one of them holds shared memory alone. Beyond it, a load meets sectors that
stores send on, a store meets what loads bring, and one of the two is made again. Counters hold these wavefronts; no kernel
asks for them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.constants import ceil_div
from ..core.counts import Counts
from ..gpus.gpu import Gpu
from ..gpus.occupancy import Occupancy
from ..launch.launch import Launch


def with_contention(counts: Counts, launch: Launch, resident: Occupancy, gpu: Gpu) -> Counts:
    """Counts with the wavefronts of shared loads and stores that the launch repeats, of one launch or of n candidates."""
    if not (gpu.shared_load_wavefronts_per_store_sector or gpu.shared_store_wavefronts_per_load_request):
        none = np.zeros(np.shape(counts.shared_load_wavefronts))
        return replace(counts, shared_load_contention=none, shared_store_contention=none)
    share = share_beside_l1(gpu, _shared_bytes_in_use(launch, resident, gpu))
    brought = np.asarray(counts.global_load_requests) + counts.async_copy_read_requests
    loads = gpu.shared_load_wavefronts_per_store_sector * np.asarray(counts.global_store_sectors)
    stores = gpu.shared_store_wavefronts_per_load_request * brought
    return replace(
        counts,
        shared_load_contention=share * np.minimum(loads, counts.shared_load_wavefronts),
        shared_store_contention=share * np.minimum(stores, counts.shared_store_wavefronts),
    )


def share_beside_l1(gpu: Gpu, shared_bytes_in_use: ArrayLike) -> NDArray[np.float64]:
    """Part of the shared memory in use on an SM, in bytes, that lies where data of L1 lies too.

    >>> from perfmodel.gpus.catalogue import load_gpu
    >>> share_beside_l1(load_gpu("rtx-2080-ti"), [0, 32_768, 65_536]).tolist()
    [0.0, 0.0, 0.5]
    """
    in_use = np.maximum(np.asarray(shared_bytes_in_use, np.float64), 1.0)
    return np.asarray(np.maximum(1.0 - gpu.shared_bytes_apart_from_l1 / in_use, 0.0))


def _shared_bytes_in_use(launch: Launch, resident: Occupancy, gpu: Gpu) -> Any:
    """What the blocks that an SM holds at once allocate; a small grid does not fill it."""
    blocks = np.maximum(resident.blocks_per_sm, 1)
    return resident.shared_bytes_per_sm * np.minimum(ceil_div(launch.blocks, gpu.sm_count) / blocks, 1.0)
