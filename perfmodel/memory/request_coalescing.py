"""Reads of a sector by several SMs that reach L2 as one: the request coalescer between the SMs of a GPC and L2.

NVIDIA's manual of Nsight Compute says of the unit ``lrc`` that it tries to coalesce read requests before it forwards them to
L2. The micro-benchmark ``common_read`` on an H200 tells how: SMs of one GPC that miss a sector at the same time send one request
for every four of them, whichever four, and SMs of different GPCs send their own.
"""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

from ..core.constants import ceil_div
from ..gpus.gpu import Gpu

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

_SMS_PER_TPC = 2


def sms_of_gpcs(gpu: Gpu) -> Integers:
    """SMs of each GPC, the TPCs (two SMs each) spread as evenly as they go.

    >>> from perfmodel.gpus.catalogue import load_gpu
    >>> sms_of_gpcs(load_gpu("h200"))
    array([16, 16, 16, 16, 16, 16, 18, 18])
    """
    tpcs = ceil_div(gpu.sm_count, _SMS_PER_TPC)
    gpcs = np.arange(gpu.gpc_count, dtype=np.int64)
    return np.sort((tpcs + gpcs) // gpu.gpc_count) * _SMS_PER_TPC


def requests_in_step(sms: int, gpu: Gpu, sectors: int = 1) -> int:
    """Requests that L2 sees for so many sectors when SMs, taken GPC by GPC, each miss one of them in turn at the same time.

    >>> from perfmodel.gpus.catalogue import load_gpu
    >>> h200 = load_gpu("h200")
    >>> requests_in_step(132, h200), requests_in_step(5, h200)  # 6 · 16 / 4 + 2 · ⌈18 / 4⌉; 4 and 1
    (34, 2)
    >>> [requests_in_step(132, h200, sectors) for sectors in (2, 4, 8, 16)]  # common_read counts 36.3, 36, 64, 128
    [36, 36, 64, 128]
    >>> requests_in_step(68, load_gpu("rtx-2080-ti"))
    68
    """
    if gpu.l2_requests_merged == 1 or sectors >= sms_of_gpcs(gpu).max():
        return sms
    of_gpc = np.diff(np.minimum(np.cumsum(sms_of_gpcs(gpu)), sms), prepend=0)
    asking = (of_gpc[:, None] + np.arange(sectors)) // sectors
    return int(ceil_div(asking, gpu.l2_requests_merged).sum())


@functools.lru_cache(maxsize=1 << 16)
def requests_in_turns(across: int, down: int, resident: int, gpu: Gpu) -> tuple[float, float]:
    """Requests for each read of what a row of the grid's blocks reads in common, and of what a column does.

    Only the first wave's blocks are in step with others. Those that share an SM, up to ``resident``, take turns, so that each
    meets blocks of other SMs for its share of the time.

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
    gpc = np.searchsorted(np.cumsum(sms_of_gpcs(gpu)), first % gpu.sm_count, side="right")
    turns = max(len(first) / gpu.sm_count, 1.0) * across * down

    def share(read: Integers) -> float:
        readers = np.bincount(gpc * (int(read.max()) + 1) + read)
        return 1.0 - float(len(first) - ceil_div(readers, gpu.l2_requests_merged).sum()) / turns

    return share(first // across), share(first % across)


def shares_in_turns(across: Integers, down: Integers, resident: Integers, gpu: Gpu) -> tuple[Floats, Floats]:
    """`requests_in_turns` of n launches, each of shape ``(n,)``."""
    launches = zip(*(column.tolist() for column in np.broadcast_arrays(across, down, resident)), strict=True)
    of_rows, of_columns = np.array([requests_in_turns(*launch, gpu) for launch in launches]).reshape(-1, 2).T
    return of_rows, of_columns
