"""L2: what it holds of data that all SMs use and of written data, what is read again, and local memory's part."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..core.constants import SECTOR_BYTES
from ..core.counts import Counts
from ..gpus.gpu import Gpu
from .fitted_shares import shares
from .footprint import Union


def shared_l2_bytes(gpu: Gpu) -> float:
    """Bytes of L2 for data that SMs of all its partitions use: each partition holds its own copy.

    >>> from perfmodel.gpus.catalogue import load_gpu
    >>> gpu = load_gpu("h200")
    >>> shared_l2_bytes(gpu) == gpu.l2_bytes / 2
    True
    """
    return gpu.l2_bytes / gpu.architecture.l2_partitions


def kept_bytes(read: Any, written: Any, gpu: Gpu) -> Any:
    """Written bytes that L2 still holds when a launch ends: their part of what passed L2, at most all of them.

    Args:
        read: bytes read from DRAM, of one launch or shape ``(n,)``.
        written: bytes written.
        gpu: the L2.

    >>> from perfmodel.gpus.catalogue import load_gpu
    >>> gpu = load_gpu("rtx-2080-ti")
    >>> float(kept_bytes(64e6, 64e6, gpu)) == gpu.l2_bytes / 2, float(kept_bytes(1e6, 2e6, gpu))
    (True, 2000000.0)
    """
    part = np.divide(written, np.maximum(read + written, 1.0))
    return np.minimum(shared_l2_bytes(gpu) * part, written)


def written_by_the_end(counts: Counts, gpu: Gpu) -> Counts:
    """The counts with the bytes that have reached DRAM when the launch ends, as a counter of that launch sees them."""
    written = np.asarray(counts.dram_write_bytes, np.float64)
    return replace(counts, dram_write_bytes=written - kept_bytes(counts.dram_read_bytes, written, gpu))


def refilled_sectors(read: Union, written: Union, shape: tuple[int, ...], gpu: Gpu, together: int) -> float:
    """Sectors read from DRAM: each once, and again what a row or plane of blocks pushes out before the next one wants it.

    Rows of which blocks run ``together`` on the GPU read at a time. What SMs of both halves of an L2 want stands in both.
    """
    factor = 1.0
    l2_bytes = shared_l2_bytes(gpu)
    for axis in range(1, len(shape)):
        inner, outer = read.sectors[axis - 1], read.sectors[axis]
        passed = (inner + written.sectors[axis - 1]) * SECTOR_BYTES
        lost = min(max(passed / l2_bytes - 1.0, 0.0), 1.0)
        at_a_time = max(together // math.prod(shape[:axis]), 1)
        passes = math.ceil(shape[axis] / at_a_time)
        factor *= 1.0 + lost * max(passes * inner / outer - 1.0, 0.0) if outer else 1.0
    return factor * read.sectors[-1]


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

    L1 keeps stacks in a part of itself, beside what is global, and writes through. L2 keeps written sectors in a part of itself;
    reads pass it when the stacks of all SMs exceed it, but for those that L1 as a whole could hold.

    >>> local_traffic(100.0, 50.0, 4096.0, 2048.0, 8192.0).l2_read_sectors
    75.0
    """
    beyond_l2 = resident_bytes_per_sm / l2_bytes_per_sm - 1.0
    past_l2 = min(max(beyond_l2 / shares().read_ramp, 0.0), 1.0)
    return LocalTraffic(
        l2_read_sectors=load_sectors * _beyond(resident_bytes_per_sm, shares().stack_share * l1_bytes),
        l2_write_sectors=store_sectors,
        dram_read_sectors=load_sectors * _beyond(resident_bytes_per_sm, l1_bytes) * past_l2,
        dram_write_sectors=store_sectors * min(1.0, resident_bytes_per_sm / (shares().dirty_share * l2_bytes_per_sm)),
    )


def _beyond(used_bytes: float, kept_bytes: float) -> float:
    return max(0.0, 1.0 - kept_bytes / used_bytes) if used_bytes else 0.0
