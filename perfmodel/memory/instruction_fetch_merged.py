"""Instructions that L2 is asked for where the SMs of a GPC ask for them as one.

An H100 prefetches a launch's code into the cache of every GPC, and a line that several SMs of a GPC want while it is on its way
is fetched once. Whoever comes late finds what the first one fetched and catches up, so blocks that walk through the code one
after another on their SM miss together on all SMs, and each line once for each such walk.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..core.constants import SECTOR_BYTES
from ..gpus.gpu import Gpu

_READ_AHEAD_BYTES = 3_300
"""What is prefetched beyond the end of the code: 3.2 to 3.5 KiB in launches of 9 to 50 KB of code (h100-code-fetch.json.gz)."""
_BLOCKS_OF_ONE_GPC = 8
"""The same record: 1, 2, 4 and 8 blocks fetch as one GPC does, 16 blocks as all."""


def merged_sectors(sizes_bytes: NDArray[np.float64], passes: NDArray[np.float64], blocks: int, gpu: Gpu) -> float:
    """Sectors of code that a launch fetches.

    Args:
        sizes_bytes: code bytes of the basic blocks, shape (n,).
        passes: how often a warp passes each, shape (n,).
        blocks: blocks of the launch.
        gpu: GPCs, SMs, cache of instructions and what is prefetched.

    >>> from perfmodel.gpus.catalogue import load_gpu
    >>> h100 = load_gpu("h100-sxm-80gb")
    >>> once = [merged_sectors(np.array([size]), np.array([1.0]), 132, h100) for size in (50_176.0, 115_712.0)]
    >>> [round(sectors / 8 * 32) for sectors in once]  # bytes for each GPC: counted were 52,992 and 115,500
    [53476, 115712]
    """
    code = float(sizes_bytes[passes > 0.0].sum())
    active = 1 if blocks <= _BLOCKS_OF_ONE_GPC else gpu.gpc_count
    prefetched = min(code + _READ_AHEAD_BYTES, float(gpu.instruction_prefetch_bytes))
    fetched = gpu.gpc_count * prefetched + active * max(code - prefetched, 0.0)
    missed = missed_in_step(sizes_bytes, passes, float(gpu.instruction_cache_l1_bytes))
    walks = max(blocks / gpu.sm_count, 1.0)
    return (fetched + active * max(walks * missed - code, 0.0)) / SECTOR_BYTES


def missed_in_step(sizes_bytes: NDArray[np.float64], passes: NDArray[np.float64], cache_bytes: float) -> float:
    """Bytes that a walk misses when all walk in step and the line that was not used for longest makes room.

    Then a loop that fits is missed once, and one that does not in each of its passes. Code that is passed more often than other
    code is taken for a loop inside of it, and what some warps jump over for code that all pass.

    >>> sizes, passes = np.array([100.0, 50.0]), np.array([1.0, 4.0])
    >>> [missed_in_step(sizes, passes, room) for room in (150.0, 60.0, 40.0)]
    [0.0, 150.0, 300.0]
    """
    times = np.where(passes > 0.0, np.maximum(passes, 1.0), 0.0)
    missed = np.zeros_like(sizes_bytes)
    for often in np.unique(times[times > 0.0]):
        inside = times >= often
        if float(sizes_bytes[inside].sum()) > cache_bytes:
            missed[inside] = often
    return float((sizes_bytes * missed).sum())
