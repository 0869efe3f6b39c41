"""How often an asynchronous copy passes through L1's data pipe to read its source: the one home of the rule."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..core.constants import SHARED_BANKS, WARP_SIZE


def copy_passes(word: NDArray[np.integer], active: NDArray[np.bool_], vector: int) -> NDArray[np.int64]:
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
