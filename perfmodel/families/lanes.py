"""Which threads stand in which warp of a 2-D block, and what an access of such a warp costs; shared by closed forms.

A block of ``block_x × rows`` threads falls into few kinds of warps: the warp that starts at thread 32·w sees the same columns as
every other warp whose start has the same remainder modulo ``block_x``. Everything below works on these kinds, with their weights.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..definitions import SHARED_BANKS, WARP_SIZE

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class WarpKinds:
    """Lanes of the kinds of warps of n blocks: ``x``, ``y``, ``present`` of shape ``(n, kinds, 32)``, weights ``(n, kinds)``.

    ``y`` counts from the first row that the warp touches.
    """

    x: Integers
    y: Integers
    present: NDArray[np.bool_]
    weight: Integers


def warp_kinds(block_x: Integers, rows: Integers) -> WarpKinds:
    """Kinds of warps of blocks of ``block_x × rows`` threads (arrays of shape ``(n,)``; ``rows`` may be 0).

    >>> warp_kinds(np.array([48]), np.array([2])).weight
    array([[1, 1, 1, 0]])
    """
    threads = block_x * rows
    full, tail = threads // WARP_SIZE, threads % WARP_SIZE
    period = block_x // np.gcd(block_x, WARP_SIZE)
    kind = np.arange(int(period.max()) + 1)
    weight = np.where(kind < period[:, None], -(-(full[:, None] - kind) // period[:, None]), 0)
    weight = np.maximum(weight, 0)
    last = len(kind) - 1
    weight[:, last] = tail > 0
    start = np.where(kind == last, full[:, None], kind) * WARP_SIZE % block_x[:, None]
    thread = start[:, :, None] + np.arange(WARP_SIZE)
    lanes = np.where(kind == last, tail[:, None], WARP_SIZE)
    return WarpKinds(
        x=thread % block_x[:, None, None],
        y=thread // block_x[:, None, None],
        present=np.arange(WARP_SIZE) < lanes[:, :, None],
        weight=weight,
    )


def requests(kinds: WarpKinds, active: NDArray[np.bool_]) -> Integers:
    """Warp-level requests of one access by every warp of the block: warps with at least one active lane."""
    total: Integers = (kinds.weight * active.any(axis=2)).sum(axis=1)
    return total


def wavefronts(kinds: WarpKinds, word: Integers, active: NDArray[np.bool_]) -> Integers:
    """Shared-memory wavefronts of one 4-byte access: the largest number of lanes on one bank.

    Lanes must address distinct words, as all accesses of the tiled kernel do.
    """
    n, count = word.shape[0], word.shape[1]
    row = np.arange(n * count).reshape(n, count, 1) * SHARED_BANKS
    slot = (row + word % SHARED_BANKS)[active]
    per_bank = np.bincount(slot, minlength=n * count * SHARED_BANKS).reshape(n, count, SHARED_BANKS)
    total: Integers = (kinds.weight * per_bank.max(axis=2)).sum(axis=1)
    return total


def segments_touched(
    kinds: WarpKinds, word: Integers, active: NDArray[np.bool_], words_per_segment: int, alignment: Integers
) -> Floats:
    """Sectors (8 words) or lines (32 words) of one access, averaged over the alignments that the base takes.

    ``alignment`` (shape ``(n,)``) is the step of the base address in words, modulo a segment; bases are taken to be
    uniform over its multiples, which holds where consecutive rows of the array have all of these remainders.
    """
    n, count, lanes = word.shape
    flat, on = word.reshape(-1, lanes), active.reshape(-1, lanes)
    joined = on[:, 1:] & on[:, :-1] & (flat[:, 1:] == flat[:, :-1] + 1)
    first, final = on.copy(), on.copy()
    first[:, 1:] &= ~joined
    final[:, :-1] &= ~joined
    begin, end = np.flatnonzero(first), np.flatnonzero(final)
    warp = begin // lanes
    step = np.gcd(alignment, words_per_segment)[warp // count]
    reach = flat.reshape(-1)[begin] % step + end - begin + 1
    touched = (-(-reach // step) * step + words_per_segment - step) / words_per_segment
    per_warp = np.bincount(warp, weights=touched, minlength=n * count).reshape(n, count)
    total: Floats = (kinds.weight * per_warp).sum(axis=1)
    return total


def over_unique(function: Callable[..., tuple[Any, ...]], *columns: Integers) -> tuple[Any, ...]:
    """``function(*columns)`` evaluated once for each distinct row of the columns; results have one element per row.

    >>> over_unique(lambda a, b: (a + b,), np.array([1, 1, 2]), np.array([5, 5, 5]))
    (array([6, 6, 7]),)
    """
    key = np.zeros(columns[0].shape, np.int64)
    for column in columns:
        key = key * (int(column.max(initial=0)) + 1) + column
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    return tuple(result[inverse] for result in function(*(column[first] for column in columns)))
