"""Sectors of code that a launch reads from L2.

The SMs of a GPC ask for a line of code as one: a line that several of them want while it is on its way is fetched once, and
whoever comes late catches up. A launch's code is prefetched into every GPC; blocks that follow one another on an SM miss what
does not fit the instruction cache again, together on all SMs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..core.constants import INSTRUCTION_BYTES, SECTOR_BYTES
from ..gpus.gpu import Gpu
from ..launch.launch import Launch
from ..machine_code.program import MachineCode
from .fitted_shares import shares


def instruction_sectors(code: MachineCode, executions: NDArray[np.float64], launch: Launch, gpu: Gpu) -> float:
    """Sectors of code that a launch fetches from L2.

    Args:
        code: the machine code.
        executions: warp executions of each of its instructions over the whole launch.
        launch: the launch.
        gpu: GPCs, SMs, instruction cache and what is prefetched.
    """
    sizes = np.array([INSTRUCTION_BYTES * len(block.instructions) for block in code.blocks], np.float64)
    of_blocks = executions[[block.first for block in code.blocks]]
    passes = of_blocks / max(float(launch.blocks * launch.warps_per_block), 1.0)
    return fetched_sectors(sizes, passes, int(launch.blocks), gpu)


def fetched_sectors(sizes_bytes: NDArray[np.float64], passes: NDArray[np.float64], blocks: int, gpu: Gpu) -> float:
    """Sectors of code that the blocks of a launch fetch.

    Args:
        sizes_bytes: code bytes of the basic blocks, shape ``(n,)``.
        passes: how often a warp passes each, shape ``(n,)``.
        blocks: blocks of the launch.
        gpu: GPCs, SMs, instruction cache and what is prefetched.

    >>> from perfmodel.gpus.catalogue import load_gpu
    >>> h100 = load_gpu("h100-sxm-80gb")
    >>> once = [fetched_sectors(np.array([size]), np.array([1.0]), 132, h100) for size in (50_176.0, 115_712.0)]
    >>> [round(sectors / 8 * 32) for sectors in once]  # bytes for each GPC: counted were 52,992 and 115,500
    [53476, 115712]
    """
    code = float(sizes_bytes[passes > 0.0].sum())
    active = 1 if blocks <= shares().blocks_of_one_gpc else gpu.gpc_count
    prefetched = min(code + shares().read_ahead_bytes, float(gpu.instruction_prefetch_bytes))
    fetched = gpu.gpc_count * prefetched + active * max(code - prefetched, 0.0)
    missed = missed_bytes(sizes_bytes, passes, float(gpu.instruction_cache_l1_bytes))
    walks = max(blocks / gpu.sm_count, 1.0)
    return (fetched + active * max(walks * missed - code, 0.0)) / SECTOR_BYTES


def missed_bytes(sizes_bytes: NDArray[np.float64], passes: NDArray[np.float64], cache_bytes: float) -> float:
    """Bytes of code that miss a cache that evicts the least recently used line while a block executes the code once.

    A loop that fits is missed once, one that does not in each of its passes. Code that is passed more often than other code
    is taken for a loop inside of it, and what some warps jump over for code that all pass.

    >>> sizes, passes = np.array([100.0, 50.0]), np.array([1.0, 4.0])
    >>> [missed_bytes(sizes, passes, room) for room in (150.0, 60.0, 40.0)]
    [0.0, 150.0, 300.0]
    """
    times = np.where(passes > 0.0, np.maximum(passes, 1.0), 0.0)
    missed = np.zeros_like(sizes_bytes)
    for often in np.unique(times[times > 0.0]):
        inside = times >= often
        if float(sizes_bytes[inside].sum()) > cache_bytes:
            missed[inside] = often
    return float((sizes_bytes * missed).sum())
