"""Traffic that is no global access of the kernel's own: local memory, and instructions that no longer fit their cache."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..compiler.sass import INSTRUCTION_BYTES, CodeProfile
from ..definitions import SECTOR_BYTES
from .hierarchy_shares import shares


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalTraffic:
    """Sectors of local memory that pass L1 and that pass L2."""

    l2_read_sectors: float
    l2_write_sectors: float
    dram_read_sectors: float
    dram_write_sectors: float


def local_traffic(
    load_sectors: float, store_sectors: float, resident_bytes_per_sm: float, l1_bytes: float, l2_bytes_per_sm: float
) -> LocalTraffic:
    """Traffic of stacks that all resident threads use at once.

    L1 keeps its size of the stacks and writes through; L2 keeps written sectors in a part of itself, and reads pass it when the
    stacks of all SMs exceed it.

    >>> local_traffic(100.0, 50.0, 4096.0, 2048.0, 8192.0).l2_read_sectors
    50.0
    """
    beyond_l1 = max(0.0, 1.0 - l1_bytes / resident_bytes_per_sm) if resident_bytes_per_sm else 0.0
    beyond_l2 = resident_bytes_per_sm / l2_bytes_per_sm - 1.0
    read = load_sectors * beyond_l1
    return LocalTraffic(
        l2_read_sectors=read,
        l2_write_sectors=store_sectors,
        dram_read_sectors=read * min(max(beyond_l2 / shares().read_ramp, 0.0), 1.0),
        dram_write_sectors=store_sectors * min(1.0, resident_bytes_per_sm / (shares().dirty_share * l2_bytes_per_sm)),
    )


def instruction_sectors(
    profile: CodeProfile, block_executions: NDArray[np.float64], warps: float, blocks: float, cache_bytes: int
) -> float:
    """Sectors of code that a launch fetches from L2.

    Loops larger than the instruction cache stream through it in every iteration, all other code once for each block.

    Args:
        profile: the machine code; nothing is fetched where it is not decoded.
        block_executions: warp executions of its basic blocks over the whole launch.
        warps: warps of the launch.
        blocks: thread blocks of the launch.
        cache_bytes: instruction cache of an SM.
    """
    if profile.flow is None:
        return 0.0
    sizes = profile.flow.sizes_bytes()
    passes = block_executions / max(warps, 1.0)
    large = [loop for loop in profile.loops if loop.parent is None and loop.code_bytes > cache_bytes]
    inside = {block for loop in large for block in loop.blocks}
    rest = [block for block in range(len(sizes)) if block not in inside]
    streamed = sum(_refetched(loop.code_bytes, cache_bytes) * float(passes[loop.header]) for loop in large)
    straight = float((sizes[rest] * np.minimum(passes[rest], 1.0)).sum())
    return blocks * (streamed + _refetched(straight, cache_bytes)) / SECTOR_BYTES


def _refetched(code_bytes: float, cache_bytes: int) -> float:
    beyond = max(0.0, 1.0 - cache_bytes / max(code_bytes, INSTRUCTION_BYTES))
    return code_bytes * (shares().refetched_share * beyond + shares().refill_share)
