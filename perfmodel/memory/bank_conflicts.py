"""Wavefronts of shared-memory accesses: the passes that the banks need for the lanes of a warp."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.constants import BANK_BYTES, SHARED_BANKS, WARP_SIZE

Mask = NDArray[np.bool_]
Addresses = NDArray[np.uint64]


def phases_of(width_bytes: int) -> int:
    """Parts of a warp that a shared access serves one after the other: whole, half or quarter warps.

    >>> phases_of(4), phases_of(8), phases_of(16)
    (1, 2, 4)
    """
    return max(1, min(width_bytes, 16) // BANK_BYTES)


Wavefronts = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Of each row of 32 lanes, and how many there would be without bank conflicts."""
Passes = Callable[[Addresses, Mask, int], Wavefronts]
"""Wavefronts by addresses and active lanes, rows of 32, and the bytes of a lane."""


def store_wavefronts(addresses: Addresses, active: Mask, width_bytes: int) -> Wavefronts:
    """Wavefronts of shared stores: each phase needs the largest number of distinct words in one bank.

    In each phase every bank takes one 4-byte word; a phase without an active lane needs none.

    >>> stride_two = np.arange(32, dtype=np.uint64)[None, :] * 8
    >>> [int(n[0]) for n in store_wavefronts(stride_two, np.ones((1, 32), bool), 4)]
    [2, 1]
    """
    return _served(addresses, active, width_bytes, phases_of(width_bytes))


def atomic_wavefronts(addresses: Addresses, active: Mask, width_bytes: int) -> Wavefronts:
    """Wavefronts of atomics on shared memory: lanes on one word follow one another, too.

    Measured on an H200 (micro-benchmark ``atomic_shared``): 32 wavefronts where all lanes add to one word.

    >>> one_word = np.zeros((1, 32), np.uint64)
    >>> [int(n[0]) for n in atomic_wavefronts(one_word, np.ones((1, 32), bool), 4)]
    [32, 1]
    """
    rows, phases = len(addresses), phases_of(width_bytes)
    row, lane = np.nonzero(active)
    phase = row * phases + lane * phases // WARP_SIZE
    places = addresses[row, lane] // np.uint64(max(width_bytes, BANK_BYTES))
    return _busiest_banks(phase, places % np.uint64(SHARED_BANKS // phases), rows, phases)


def comparison_wavefronts(addresses: Addresses, active: Mask, width_bytes: int) -> Wavefronts:
    """Wavefronts of comparisons that may swap (``ATOMS.CAST``): twice those of stores, lanes on one word together.

    At most one of these lanes swaps, so that all can be answered at once. Counted on an H200, additions of ``float`` and
    ``double`` in shared memory: 2 wavefronts where all lanes add to one word, 4 for ``double``.

    >>> one_word = np.zeros((1, 32), np.uint64)
    >>> [int(comparison_wavefronts(one_word, np.ones((1, 32), bool), width)[0][0]) for width in (4, 8)]
    [2, 4]
    """
    total, ideal = store_wavefronts(addresses, active, width_bytes)
    return 2 * total, 2 * ideal


def load_wavefronts(addresses: Addresses, active: Mask, width_bytes: int) -> Wavefronts:
    """Wavefronts of shared loads: those of stores, but a warp of ``paired_lanes`` is served two phases at a time.

    That those two phases contend does not count as a conflict.

    >>> pairs = np.arange(32, dtype=np.uint64)[None, :] // 2 * 8
    >>> [int(n[0]) for n in load_wavefronts(pairs, np.ones((1, 32), bool), 8)]
    [1, 1]
    """
    phases = phases_of(width_bytes)
    total, ideal = _served(addresses, active, width_bytes, phases)
    rows = np.flatnonzero(paired_lanes(addresses, active)) if phases > 1 else ()
    if len(rows):
        together, fewest = _served(addresses[rows], active[rows], width_bytes, phases // 2)
        conflicts = np.minimum(total[rows] - ideal[rows], together - fewest)
        total[rows], ideal[rows] = together, together - conflicts
    return total, ideal


def paired_lanes(addresses: Addresses, active: Mask) -> Mask:
    """Rows in which no active lane reads anything else than its active neighbour (or, in all lanes, the next but one).

    A lane whose partner takes no part is a pair by itself.

    Such 8- and 16-byte loads need half the wavefronts from compute capability 7.0 on, because the two lanes share what the
    data pipe returns (https://forums.developer.nvidia.com/t/unexpected-shared-memory-bank-conflict/77228); counted on an
    H200 for 53 patterns of lanes (micro-benchmark ``shared_patterns``).

    >>> pairs, everyone = np.arange(32, dtype=np.uint64)[None, :] // 2 * 16, np.ones((1, 32), bool)
    >>> paired_lanes(pairs, everyone).tolist(), paired_lanes(pairs + 16 * np.arange(32, dtype=np.uint64), everyone).tolist()
    ([True], [False])
    """
    lanes = np.arange(WARP_SIZE)
    paired = np.zeros(len(addresses), np.bool_)
    for distance in (1, 2):
        other = lanes ^ distance
        with_partner = active & active[:, other]
        paired |= ((addresses == addresses[:, other]) | ~with_partner).all(axis=1)
    return paired


def _served(addresses: Addresses, active: Mask, width_bytes: int, phases: int) -> Wavefronts:
    """Wavefronts of each row when a warp is served in so many phases, and the phases that have an active lane."""
    rows = len(addresses)
    words_per_lane = max(1, width_bytes // BANK_BYTES)
    first = (addresses // np.uint64(BANK_BYTES)).reshape(rows * phases, -1)
    words = (first[:, :, None] + np.arange(words_per_lane, dtype=np.uint64)).reshape(rows * phases, -1)
    present = np.repeat(active.reshape(rows * phases, -1), words_per_lane, axis=1)
    order = np.argsort(np.where(present, words, np.uint64(2**64 - 1)), axis=1, kind="stable")
    words, present = np.take_along_axis(words, order, 1), np.take_along_axis(present, order, 1)
    new = present.copy()
    new[:, 1:] &= (words[:, 1:] != words[:, :-1]) | ~present[:, :-1]
    row, column = np.nonzero(new)
    return _busiest_banks(row, words[row, column] % np.uint64(SHARED_BANKS), rows, phases)


def _busiest_banks(phase: NDArray[np.int64], bank: NDArray[Any], rows: int, phases: int) -> Wavefronts:
    """Of each row, what the busiest bank of each of its phases serves, and the phases that have a word."""
    per_bank = np.bincount(phase * SHARED_BANKS + bank.astype(np.int64), minlength=rows * phases * SHARED_BANKS)
    per_phase = per_bank.reshape(rows, phases, SHARED_BANKS).max(axis=2)
    return per_phase.sum(axis=1), (per_phase > 0).sum(axis=1)
