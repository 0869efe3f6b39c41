"""Reads of a sector by several SMs that reach L2 as one: the request coalescer between the SMs of a GPC and L2.

While L2 has not answered the first request for a sector, further ones by SMs of the same GPC join it, up to
``Gpu.l2_requests_merged`` together; SMs of different GPCs send their own (Nsight Compute manual, unit ``lrc``; micro-benchmarks
``common_read`` and ``lagged`` on an H200). Here is which SMs are of one GPC, and what joins of blocks that keep in step; how far
they drift apart is simulated (`gpc_simulation`).
"""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

from ..core.constants import ceil_div
from ..gpus.gpu import Gpu
from .fitted_shares import shares

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


def sms_of_gpcs(gpu: Gpu) -> Integers:
    """SMs of each GPC, the TPCs spread as evenly as they go.

    >>> from perfmodel.gpus.catalogue import load_gpu
    >>> sms_of_gpcs(load_gpu("h200"))
    array([16, 16, 16, 16, 16, 16, 18, 18])
    """
    tpcs = ceil_div(gpu.sm_count, gpu.sms_per_tpc)
    gpcs = np.arange(gpu.gpc_count, dtype=np.int64)
    return np.sort((tpcs + gpcs) // gpu.gpc_count) * gpu.sms_per_tpc


@functools.lru_cache(maxsize=1 << 10)
def blocks_of_gpcs(blocks: int, gpu: Gpu) -> tuple[int, ...]:
    """How many blocks each GPC of an idle GPU gets, of so many that each SM has one at most; consecutive ones go to one GPC.

    The first ones go to one GPC (`Shares.blocks_of_one_gpc`). The others are dealt out to the GPCs in turn, one for each TPC, and
    when all TPCs have one, a second one (micro-benchmark ``where_blocks`` on an H200, 12 grids).

    >>> from perfmodel.gpus.catalogue import load_gpu
    >>> [blocks_of_gpcs(blocks, load_gpu("h200")) for blocks in (16, 64)]
    [(9, 1, 1, 1, 1, 1, 1, 1), (12, 8, 8, 8, 7, 7, 7, 7)]
    """
    sizes = sms_of_gpcs(gpu).tolist()
    first = min(blocks, shares().blocks_of_one_gpc, sizes[0])
    tpcs = np.array([size // gpu.sms_per_tpc for size in sizes])
    tpcs[0] -= ceil_div(first, gpu.sms_per_tpc)
    dealt = np.zeros(len(sizes), np.int64)
    dealt[0] = first
    left = blocks - first
    for _ in range(gpu.sms_per_tpc):
        for turn in range(int(tpcs.max())):
            taking = np.flatnonzero(tpcs > turn)[:left]
            dealt[taking] += 1
            left -= len(taking)
    return tuple(dealt.tolist())


def gpcs_of_blocks(blocks: int, gpu: Gpu) -> Integers:
    """GPC of each of the first blocks of a grid, shape ``(blocks,)``; once every SM has one, it is dealt out anew.

    >>> from perfmodel.gpus.catalogue import load_gpu
    >>> np.bincount(gpcs_of_blocks(132 + 16, load_gpu("h200"))).tolist()
    [25, 17, 17, 17, 17, 17, 19, 19]
    """
    whole, rest = divmod(blocks, gpu.sm_count)
    dealt = [*[tuple(sms_of_gpcs(gpu).tolist())] * whole, blocks_of_gpcs(rest, gpu)]
    layers = [np.repeat(np.arange(len(of_gpc)), of_gpc)[: gpu.sm_count] for of_gpc in dealt]
    return np.concatenate(layers).astype(np.int64)


def requests_in_step(sms: int, gpu: Gpu, sectors: int = 1) -> int:
    """Requests that L2 sees for so many sectors when blocks on so many SMs each miss one of them in turn at the same time.

    >>> from perfmodel.gpus.catalogue import load_gpu
    >>> h200 = load_gpu("h200")
    >>> requests_in_step(132, h200), requests_in_step(5, h200)  # 6 · 16 / 4 + 2 · ⌈18 / 4⌉; 4 and 1
    (34, 2)
    >>> requests_in_step(16, h200), requests_in_step(33, h200)  # 9 of 16 on one GPC; 12 of 33, and 3 on each of the others
    (10, 10)
    >>> [requests_in_step(132, h200, sectors) for sectors in (2, 4, 8, 16)]  # common_read counts 36.3, 36, 64, 128
    [36, 36, 64, 128]
    >>> requests_in_step(68, load_gpu("rtx-2080-ti"))
    68
    """
    if gpu.l2_requests_merged == 1 or sectors >= sms_of_gpcs(gpu).max():
        return sms
    of_gpc = np.array(blocks_of_gpcs(sms, gpu), np.int64)
    asking = (of_gpc[:, None] + np.arange(sectors)) // sectors
    return int(ceil_div(asking, gpu.l2_requests_merged).sum())


@functools.lru_cache(maxsize=1 << 16)
def requests_in_turns(across: int, down: int, resident: int, gpu: Gpu) -> tuple[float, float]:
    """Requests for each read of what a row of the grid's blocks reads in common, and of what a column does.

    Only the first wave's blocks are in step with others. Those that share an SM, up to ``resident``, take turns, so that each
    is in step with blocks of other SMs for its share of the time.

    >>> from perfmodel.gpus.catalogue import load_gpu
    >>> h200 = load_gpu("h200")
    >>> requests_in_turns(132, 1, 1, h200) == (34 / 132, 1.0)
    True
    >>> [round(share, 3) for share in requests_in_turns(1320, 1, 2, h200)]  # 2 of 10 blocks of an SM; half of 3/4 is saved
    [0.925, 1.0]
    """
    if gpu.l2_requests_merged == 1:
        return 1.0, 1.0
    first = np.arange(min(across * down, max(resident, 1) * gpu.sm_count), dtype=np.int64)
    gpc = gpcs_of_blocks(len(first), gpu)
    turns = max(len(first) / gpu.sm_count, 1.0) * across * down

    def share(read: Integers) -> float:
        readers = np.bincount(gpc * (int(read.max()) + 1) + read)
        return 1.0 - float(len(first) - ceil_div(readers, gpu.l2_requests_merged).sum()) / turns

    return share(first // across), share(first % across)


def shares_in_turns(across: Integers, down: Integers, resident: Integers, gpu: Gpu) -> tuple[Floats, Floats]:
    """`requests_in_turns` of n launches, each of shape ``(n,)``."""
    columns = np.broadcast_arrays(across, down, resident)
    number = np.ravel_multi_index(columns, [int(column.max(initial=0)) + 1 for column in columns])
    _, first, inverse = np.unique(number, return_index=True, return_inverse=True)
    launches = zip(*(column[first].tolist() for column in columns), strict=True)
    found = np.array([requests_in_turns(*launch, gpu) for launch in launches]).reshape(-1, 2)
    of_rows, of_columns = found[inverse].T
    return of_rows, of_columns
