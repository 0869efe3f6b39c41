"""Sectors of local memory: arrays that PTX already keeps there, and what the assembler spills or promotes on top of it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ...core.constants import SECTOR_BYTES, WARP_SIZE, ceil_div
from ...machine_code.decode import Instructions


def local_sectors(
    decoded: Instructions,
    times: NDArray[np.float64],
    name: str,
    requests: Mapping[tuple[str, int], float],
    ptx_sectors: float,
    threads_per_block: int,
) -> float:
    """Sectors that the executed local loads or stores of a launch touch.

    A spilled register lies at the same offset in every lane, so that its accesses are as dense as they can be; arrays indexed
    at run time may be less dense, and their sectors are those of the executed PTX. Where the machine code makes fewer accesses
    than the PTX, the assembler has put an array into registers, and what is left counts as spills.

    Args:
        decoded: the machine code.
        times: executions of every instruction.
        name: ``"local_load"`` or ``"local_store"``.
        requests: executed requests of the PTX by class and width.
        ptx_sectors: sectors of those of this class.
        threads_per_block: threads of a block.
    """
    chosen = decoded.is_class(name)
    by_width = np.bincount(decoded.width_bytes[chosen], weights=times[chosen], minlength=1)
    issued = {width: float(number) for width, number in enumerate(by_width) if number}
    known = {width: number for (kind, width), number in requests.items() if kind == name}
    dense = _dense(issued, threads_per_block)
    if sum(issued.values()) + 0.5 < sum(known.values()):
        return dense
    return dense - _dense(known, threads_per_block) + ptx_sectors


def _dense(requests: Mapping[int, float], threads_per_block: int) -> float:
    return sum(number * dense_sectors(width, threads_per_block) for width, number in requests.items())


def dense_sectors(width_bytes: int, threads_per_block: int) -> float:
    """Sectors of one access of a warp at one offset, averaged over a block's warps; the words of a warp's lanes lie side by side.

    >>> dense_sectors(4, 64), dense_sectors(16, 64), dense_sectors(4, 2)
    (4.0, 16.0, 1.0)
    """
    warps = ceil_div(threads_per_block, WARP_SIZE)
    last = threads_per_block - (warps - 1) * WARP_SIZE
    words = max(width_bytes // 4, 1)
    lanes_per_sector = SECTOR_BYTES // 4
    sectors = (warps - 1) * (WARP_SIZE // lanes_per_sector) + ceil_div(last, lanes_per_sector)
    return float(words * sectors / warps)
