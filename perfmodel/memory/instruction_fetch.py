"""Instructions that L2 is asked for: code beyond the cache of instructions that the SMs of a GPC share.

Told as an RTX 2080 Ti fetches; where a GPC is known to ask once for all its SMs, ``hierarchy_fetch_merged`` tells it. Blocks walk
through the same code at different times, and a line that is fetched takes the place of one drawn at random. Code that fits is
fetched when the launch begins; of longer code a walk misses what others have pushed out since the last one passed. Blocks in step
with others find what these have fetched; how many walk apart depends on how SMs drift and on what the cache can serve.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..core.constants import INSTRUCTION_BYTES, LINE_BYTES, SECTOR_BYTES, ceil_div
from ..core.counts import Counts
from ..gpus.gpu import Gpu
from ..launch.launch import Launch
from ..machine_code.code_profile import CodeProfile
from .fitted_shares import shares
from .instruction_fetch_merged import merged_sectors

_BEND = 4.0
"""Power of the smooth minimum of walks that drift apart and walks that can be served."""


def instruction_sectors(
    profile: CodeProfile, block_executions: NDArray[np.float64], counts: Counts, launch: Launch, resident: int, gpu: Gpu
) -> float:
    """Sectors of code that a launch fetches from L2.

    Args:
        profile: the machine code; nothing is fetched where it is not decoded.
        block_executions: warp executions of its basic blocks over the whole launch.
        counts: instructions and shared wavefronts of the whole launch.
        launch: the launch.
        resident: blocks that an SM has room for.
        gpu: instruction cache, sub-partitions and warp slots of an SM.
    """
    if profile.flow is None:
        return 0.0
    sizes = profile.flow.sizes_bytes().astype(np.float64)
    passes = block_executions / max(float(launch.blocks * launch.warps_per_block), 1.0)
    if gpu.instruction_prefetch_bytes:
        return merged_sectors(sizes, passes, int(launch.blocks), gpu)
    cold = shares().cold_fetches * min(gpu.sm_count, int(launch.blocks)) * float(sizes[passes > 0.0].sum())
    walks = independent_streams(
        min(resident, ceil_div(int(launch.blocks), gpu.sm_count)),
        int(launch.warps_per_block),
        _line_cycles(counts, launch, gpu),
        gpu,
    )
    missed = missed_bytes(sizes, passes, float(gpu.instruction_cache_l1_bytes))
    return (cold + float(launch.blocks) * walks * missed) / SECTOR_BYTES


def missed_bytes(sizes_bytes: NDArray[np.float64], passes: NDArray[np.float64], cache_bytes: float) -> float:
    """Bytes of code that a walk misses when many walk at different times and a line drawn at random makes room for another.

    A line that a walk passes a times and that is pushed out u times meanwhile is held for a / (a + u) of the time; u is such that
    what is held fills the cache (the independent reference model of random replacement; Gelenbe, "A Unified Approach to the
    Evaluation of a Class of Replacement Algorithms", 1973).

    >>> round(missed_bytes(np.array([300.0]), np.array([1.0]), 100.0))  # code passed once misses what lies beyond the cache
    200
    >>> missed_bytes(np.array([50.0, 50.0]), np.array([1.0, 9.0]), 100.0)
    0.0
    """
    sizes, times = sizes_bytes[passes > 0.0], passes[passes > 0.0]
    if float(sizes.sum()) <= cache_bytes:
        return 0.0
    from scipy.optimize import brentq  # here, because it takes longer to import than most kernels to analyse

    def held(pushed_out: float) -> NDArray[np.float64]:
        return np.asarray(sizes * times / (times + pushed_out), np.float64)

    most = float((sizes * times).sum()) / cache_bytes
    pushed_out = float(brentq(lambda often: float(held(often).sum()) - cache_bytes, 0.0, most))
    return pushed_out * float(held(pushed_out).sum())


def independent_streams(resident: int, warps_per_block: int, line_cycles: float, gpu: Gpu) -> float:
    """Walks through the code for each block that meet nobody in step, and so miss for themselves.

    SMs whose warp slots are taken work at one pace whatever single blocks wait for; with free slots they drift. Where some
    sub-partitions hold more of a block's warps than others, these fall behind and walk once more. Walks apart need the shared
    cache; when it can serve no more, blocks wait for it together and are in step again.

    Args:
        resident: blocks that run together on an SM.
        warps_per_block: warps of each.
        line_cycles: cycles that a block alone keeps its SM busy for a line of code.
        gpu: sub-partitions and warp slots of an SM.

    >>> from perfmodel.gpus.catalogue import load_gpu
    >>> [round(independent_streams(8, 2, cycles, load_gpu("rtx-2080-ti")), 2) for cycles in (10.0, 20.0)]  # as much as is served
    [0.44, 0.86]
    """
    found = shares()
    uneven = warps_per_block > gpu.sub_partitions_per_sm and warps_per_block % gpu.sub_partitions_per_sm > 0
    taken = resident * warps_per_block / gpu.max_warps_per_sm
    drifting = found.drift * resident * (found.uneven_walks if uneven else 1.0) / (1.0 + found.crowding * taken**2)
    served = line_cycles * found.fetch_bytes_per_cycle_per_sm / LINE_BYTES
    return float(drifting * served / (drifting**_BEND + served**_BEND) ** (1.0 / _BEND))


def _line_cycles(counts: Counts, launch: Launch, gpu: Gpu) -> float:
    """Cycles for a line of code by what issues instructions or by the shared-memory pipe, whichever is slower, of one block."""
    issued = float(counts.warp_instructions) / gpu.sub_partitions_per_sm
    wavefronts = float(counts.shared_load_wavefronts) + float(counts.shared_store_wavefronts)
    cycles = max(issued, wavefronts * gpu.shared_cycles_per_wavefront) / float(launch.blocks)
    bytes_per_warp = float(counts.warp_instructions) * INSTRUCTION_BYTES / float(launch.blocks * launch.warps_per_block)
    return cycles / max(bytes_per_warp / LINE_BYTES, 1.0)
