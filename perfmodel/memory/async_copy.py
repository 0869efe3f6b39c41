"""What asynchronous copies (``cp.async``) are counted with, for execution and for closed forms.

A copy of less than 16 bytes a lane reads through L1. One of 16 bytes does not (PTX ISA, ``cp.async.cg``): what arrives from
L2 is put into shared memory as it comes, a sector of shared memory at a time, so that its sectors depend on where it writes
as well.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..core.constants import BANK_BYTES, LINE_BYTES, SECTOR_BYTES, SHARED_BANKS, WARP_SIZE

Words = NDArray[np.integer]
Mask = NDArray[np.bool_]

WIDEST_COPY_WORDS = 4
"""4-byte words a lane of the copies that pass L1 by."""
LINE_WORDS = LINE_BYTES // BANK_BYTES
SECTOR_WORDS = SECTOR_BYTES // BANK_BYTES


def copy_sectors(source: Words, target: Words, active: Mask, vector: int) -> NDArray[np.int64]:
    """Sectors of warp-level copies of ``vector`` 4-byte words a lane, shapes ``(n, 32)``: shape ``(n,)``.

    A narrow copy reads each 32-byte sector of its source once. One of 16 bytes has a sector for each 32-byte sector of
    shared memory and each 128-byte line that this sector is filled from. Words count from any place at which a line of global
    and a sector of shared memory begin. Equal to ``l1tex__t_sectors_pipe_lsu_mem_global_op_ld`` of an H200 in all patterns
    of micro-benchmark ``copy_patterns`` and in 79 launches of ``pointwise_conv2d``.

    >>> lane, everyone = np.arange(32)[None], np.ones((1, 32), bool)
    >>> [int(copy_sectors(4 * lane + by, 4 * lane, everyone, 4)[0]) for by in (0, 4, 8)]
    [16, 20, 16]
    >>> int(copy_sectors(4 * lane, 4 * lane + 4, everyone, 4)[0]), int(copy_sectors(lane + 4, lane, everyone, 1)[0])
    (20, 5)
    """
    if vector < WIDEST_COPY_WORDS:
        return _distinct(active, (source, SECTOR_WORDS))
    return _distinct(active, (source, LINE_WORDS), (target, SECTOR_WORDS))


def uncached_copy_sectors(source: Words, target: Words, active: Mask) -> NDArray[np.int64]:
    """Sectors that L2 sends for copies of 16 bytes a lane, shapes ``(n, 32)``: shape ``(n,)``.

    A sector of the source is sent once for each sector of shared memory that it goes to, and twice where one goes there
    both with its halves in place and with a half moved to the other one's place. Equal to
    ``l1tex__m_xbar2l1tex_read_sectors`` of an H200 less what narrow copies missed.

    >>> lane, everyone = np.arange(32)[None], np.ones((1, 32), bool)
    >>> [int(uncached_copy_sectors(4 * lane + by, 4 * lane, everyone)[0]) for by in (0, 4, 8)]
    [16, 32, 16]
    >>> int(uncached_copy_sectors(0 * lane, 4 * lane, everyone)[0])
    32
    """
    moved = np.asarray(source) // WIDEST_COPY_WORDS % 2 != np.asarray(target) // WIDEST_COPY_WORDS % 2
    return _distinct(active, (source, SECTOR_WORDS), (target, SECTOR_WORDS), (moved, 1))


def copy_passes(word: Words, active: Mask, vector: int) -> NDArray[np.int64]:
    """Passes of warp-level copies through L1 of ``vector`` 4-byte words a lane, shapes ``(n, 32)``: shape ``(n,)``.

    L1 gives one word of each of its 32 banks in a pass, and lanes that copy the same word do so one after the other, too.
    Which lanes share a bank does not depend on where the access begins. Counted on an H200 (micro-benchmark
    ``copy_patterns``); what L1 does not hold takes at least a pass for every four lines besides. Copies of 16 bytes that
    pass L1 by (PTX ISA, ``cp.async.cg``) have none of these.

    >>> lane = np.arange(32)
    >>> rows = [lane, 4 * lane, lane // 8 * 256 + lane % 8, lane // 2]
    >>> copy_passes(np.stack(rows), np.ones((4, 32), bool), 1)
    array([1, 4, 4, 2])
    >>> copy_passes(4 * lane[None], np.ones((1, 32), bool), 4)
    array([4])
    """
    banks = SHARED_BANKS // vector
    parts = np.asarray(word, np.int64).reshape(-1, WARP_SIZE // vector) // vector % banks
    request, lane = np.nonzero(np.asarray(active).reshape(parts.shape))
    held = np.bincount(request * banks + parts[request, lane], minlength=len(parts) * banks)
    longest = held.reshape(len(parts), banks).max(axis=1, initial=0)
    return np.asarray(longest.reshape(len(word), vector).sum(axis=1), np.int64)


def _distinct(active: Mask, *parts: tuple[Words | Mask, int]) -> NDArray[np.int64]:
    """Distinct tuples of the parts, each in its unit, over the active lanes of each row."""
    key = np.zeros(np.shape(active), np.int64)
    for words, unit in parts:
        place = np.asarray(words, np.int64) // unit
        place -= place.min(initial=np.iinfo(np.int64).max)
        key = key * (place.max(initial=0) + 1) + place
    key = np.where(active, key, -1)
    key.sort(axis=1)
    fresh = (key[:, 1:] != key[:, :-1]).sum(axis=1) + (key[:, 0] >= 0)
    return np.asarray(fresh, np.int64)
