"""Traffic that is no global access of the kernel's own: local memory, and instructions that no longer fit their cache."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..compiler.sass import CodeProfile
from ..counts import Counts
from ..definitions import INSTRUCTION_BYTES, LINE_BYTES, SECTOR_BYTES, ceil_div
from ..gpu import Gpu
from ..launch import Launch
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
    profile: CodeProfile, block_executions: NDArray[np.float64], counts: Counts, launch: Launch, resident: int, gpu: Gpu
) -> float:
    """Sectors of code that a launch fetches from L2.

    Loops larger than the instruction cache stream through it in every iteration, all other code once for each block.

    Args:
        profile: the machine code; nothing is fetched where it is not decoded.
        block_executions: warp executions of its basic blocks over the whole launch.
        counts: instructions and shared wavefronts of the whole launch.
        launch: the launch.
        resident: blocks that an SM has room for.
        gpu: instruction cache and sub-partitions of an SM.
    """
    if profile.flow is None:
        return 0.0
    cache_bytes = gpu.instruction_cache_l1_bytes
    share = fetched_share(
        min(resident, ceil_div(int(launch.blocks), gpu.sm_count)),
        int(launch.warps_per_block),
        gpu.sub_partitions_per_sm,
        _cycles_per_line(counts, launch, gpu),
    )
    sizes = profile.flow.sizes_bytes()
    passes = block_executions / max(float(launch.blocks * launch.warps_per_block), 1.0)
    large = [loop for loop in profile.loops if loop.parent is None and loop.code_bytes > cache_bytes]
    inside = {block for loop in large for block in loop.blocks}
    rest = [block for block in range(len(sizes)) if block not in inside]
    streamed = sum(_refetched(loop.code_bytes, cache_bytes, share) * float(passes[loop.header]) for loop in large)
    straight = float((sizes[rest] * np.minimum(passes[rest], 1.0)).sum())
    return float(launch.blocks) * (streamed + _refetched(straight, cache_bytes, share)) / SECTOR_BYTES


def fetched_share(resident: int, warps_per_block: int, sub_partitions: int, line_cycles: float) -> float:
    """How often a block fetches the code beyond the instruction cache for itself.

    SMs share what they fetch as far as they walk through the code in step. Blocks that are fast all wait for the same fetches,
    those that need long for a line are never many lines apart; between these they drift, the more so the more blocks an SM holds.
    Where some sub-partitions hold more of a block's warps than others, these fall behind and walk through the code once more.

    Args:
        resident: blocks that run together on an SM.
        warps_per_block: warps of each.
        sub_partitions: of an SM.
        line_cycles: cycles that a block alone would need for a line of code.

    >>> cycles = shares().drifting_line_cycles
    >>> fetched_share(1, 8, 4, cycles), fetched_share(3, 8, 4, cycles), fetched_share(3, 6, 4, cycles)
    (0.5, 0.75, 1.5)
    >>> fetched_share(1, 8, 4, cycles / 4) == fetched_share(1, 8, 4, cycles * 4) < 0.5
    True
    """
    uneven = warps_per_block > sub_partitions and warps_per_block % sub_partitions > 0
    apart = math.log(max(line_cycles, 1.0) / shares().drifting_line_cycles) / 2.0
    return resident / (resident + 1) * math.exp(-(apart**2)) * (2.0 if uneven else 1.0)


def _cycles_per_line(counts: Counts, launch: Launch, gpu: Gpu) -> float:
    """Cycles for a line of code by what issues instructions or by the shared-memory pipe, whichever is slower, of one block."""
    issued = float(counts.warp_instructions) / gpu.sub_partitions_per_sm
    wavefronts = float(counts.shared_load_wavefronts) + float(counts.shared_store_wavefronts)
    cycles = max(issued, wavefronts * gpu.shared_cycles_per_wavefront) / float(launch.blocks)
    bytes_per_warp = float(counts.warp_instructions) * INSTRUCTION_BYTES / float(launch.blocks * launch.warps_per_block)
    return cycles / max(bytes_per_warp / LINE_BYTES, 1.0)


def _refetched(code_bytes: float, cache_bytes: int, share: float) -> float:
    beyond = max(0.0, 1.0 - cache_bytes / max(code_bytes, INSTRUCTION_BYTES))
    return code_bytes * (share * beyond + shares().refill_share)
