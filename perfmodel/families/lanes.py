"""Which threads each warp of a 2-D block has, and what an access of such a warp costs; shared by closed forms.

A block of ``block_x × rows`` threads falls into few kinds of warps: the warp that starts at thread 32·w sees the same columns as
every other warp whose start has the same remainder modulo ``block_x``. Costs are worked out once for each distinct warp of all
candidates together, and weighted by how often a block has it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.constants import SHARED_BANKS, WARP_SIZE

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

_WARPS_AT_ONCE = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class Warps:
    """Lanes of n warps: thread columns ``x``, rows ``y`` from the warp's first one, and which lanes exist; ``(n, 32)``."""

    x: Integers
    y: Integers
    present: Flags


@dataclass(frozen=True, slots=True, kw_only=True)
class WarpKinds:
    """Kinds of warps of n blocks, arrays of shape ``(n, kinds)``: column of the first lane, lanes, warps of this kind."""

    start: Integers
    lanes: Integers
    weight: Integers


def warp_kinds(block_x: Integers, rows: Integers) -> WarpKinds:
    """Kinds of warps of blocks of ``block_x × rows`` threads (arrays of shape ``(n,)``; ``rows`` may be 0).

    >>> kinds = warp_kinds(np.array([48]), np.array([3]))
    >>> kinds.start.tolist(), kinds.lanes.tolist(), kinds.weight.tolist()
    ([[0, 32, 16, 32]], [[32, 32, 32, 16]], [[2, 1, 1, 1]])
    """
    threads = block_x * rows
    full, tail = threads // WARP_SIZE, threads % WARP_SIZE
    period = block_x // np.gcd(block_x, WARP_SIZE)
    kind = np.arange(int(period.max()) + 1)
    last = len(kind) - 1
    weight = np.where(kind < period[:, None], np.maximum(-(-(full[:, None] - kind) // period[:, None]), 0), 0)
    weight[:, last] = tail > 0
    start = np.where(kind == last, full[:, None], kind) * WARP_SIZE % block_x[:, None]
    lanes = np.where(kind == last, tail[:, None], WARP_SIZE)
    return WarpKinds(start=start, lanes=lanes, weight=weight)


def lanes_of(block_x: Integers, start: Integers, lanes: Integers) -> Warps:
    """The lanes of n warps whose first thread has column ``start``; arrays of shape ``(n,)`` in."""
    thread = start[:, None] + np.arange(WARP_SIZE)
    return Warps(
        x=thread % block_x[:, None],
        y=thread // block_x[:, None],
        present=np.arange(WARP_SIZE) < lanes[:, None],
    )


def over_unique(function: Callable[..., tuple[Any, ...]], *columns: Integers) -> tuple[Any, ...]:
    """``function(*columns)`` evaluated once for each distinct row of the columns; results have one element per row.

    >>> over_unique(lambda a, b: (a + b,), np.array([1, 1, 2]), np.array([5, 5, 5]))
    (array([6, 6, 7]),)
    """
    first, inverse = distinct_rows(*columns)
    return tuple(result[inverse] for result in function(*(column[first] for column in columns)))


def over_unique_of_all(
    function: Callable[..., tuple[Any, ...]], cases: Sequence[tuple[Integers, ...]]
) -> list[tuple[Any, ...]]:
    """`over_unique` of several sets of columns, whose distinct rows the function gets together, because many are alike.

    >>> over_unique_of_all(lambda a: (a * 10,), [(np.array([1, 1, 2]),), (np.array([2, 2]),)])
    [(array([10, 10, 20]),), (array([20, 20]),)]
    """
    rows = [distinct_rows(*columns) for columns in cases]
    joined = (
        np.concatenate([column[first] for column, (first, _) in zip(same, rows, strict=True)])
        for same in zip(*cases, strict=True)
    )
    results = over_unique(function, *joined)
    ends = np.cumsum([len(first) for first, _ in rows]).tolist()
    return [
        tuple(result[end - len(first) : end][inverse] for result in results)
        for end, (first, inverse) in zip(ends, rows, strict=True)
    ]


def distinct_rows(*columns: Integers) -> tuple[Integers, Integers]:
    """Positions of the distinct rows of non-negative columns, and for every row which of them it equals."""
    key = np.zeros(columns[0].shape, np.int64)
    for column in columns:
        key = key * (int(column.max(initial=0)) + 1) + column
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    return first, inverse


def over_warps(
    function: Callable[..., tuple[Floats, ...]], block_x: Integers, rows: Integers, *columns: Integers
) -> tuple[Floats, ...]:
    """Sums over the warps of each block of what ``function(warps, block_x, *columns)`` gives for single warps.

    ``function`` sees every distinct warp of all blocks once and gives arrays of shape ``(warps,)``.
    """
    owner, weight, values = _per_warp(function, block_x, rows, *columns)
    count = len(block_x)
    return tuple(np.asarray(np.bincount(owner, value * weight, count), np.float64) for value in values)


def slowest_warp(
    function: Callable[..., tuple[Floats, ...]], block_x: Integers, rows: Integers, *columns: Integers
) -> tuple[Floats, ...]:
    """Like ``over_warps``, but the largest value over the warps of each block."""
    owner, _, values = _per_warp(function, block_x, rows, *columns)
    results = []
    for value in values:
        largest = np.zeros(len(block_x))
        np.maximum.at(largest, owner, value)
        results.append(largest)
    return tuple(results)


def _per_warp(
    function: Callable[..., tuple[Floats, ...]], block_x: Integers, rows: Integers, *columns: Integers
) -> tuple[Integers, Integers, tuple[Floats, ...]]:
    """Owner block, weight and values of every kind of warp that some block has."""
    kinds = warp_kinds(block_x, rows)
    owner, kind = np.nonzero(kinds.weight)

    def evaluate(wide: Integers, start: Integers, lanes: Integers, *own: Integers) -> tuple[Floats, ...]:
        parts = []
        for at in range(0, max(len(wide), 1), _WARPS_AT_ONCE):
            piece = slice(at, at + _WARPS_AT_ONCE)
            warps = lanes_of(wide[piece], start[piece], lanes[piece])
            parts.append(function(warps, wide[piece], *(column[piece] for column in own)))
        return tuple(np.concatenate(values) for values in zip(*parts, strict=True))

    values = over_unique(
        evaluate,
        block_x[owner],
        kinds.start[owner, kind],
        kinds.lanes[owner, kind],
        *(column[owner] for column in columns),
    )
    return owner, kinds.weight[owner, kind], values


def requests(active: Flags) -> Floats:
    """Requests of one access by each warp: 1 where at least one lane is active."""
    return np.asarray(active.any(axis=1), np.float64)


def wavefronts(word: Integers, active: Flags, width: int = 1) -> Floats:
    """Shared-memory wavefronts of one access by each warp, ``width`` (1, 2 or 4) words from ``word`` on a lane.

    Lanes must address distinct words. An access of 8 bytes takes two phases of 16 lanes, one of 16 bytes four of 8; a phase
    needs as many wavefronts as its busiest bank has words (CUDA C++ Programming Guide, "Shared Memory" of each compute
    capability).

    >>> lanes = np.arange(32).reshape(1, 32)
    >>> [wavefronts(lanes * stride, lanes >= 0, width).item() for stride, width in ((1, 1), (2, 1), (4, 4))]
    [1.0, 2.0, 4.0]
    """
    phases = (word[:, :, None] + np.arange(width)).reshape(-1, WARP_SIZE)
    used = np.repeat(active, width, axis=1).reshape(phases.shape)
    slot = (np.arange(len(phases))[:, None] * SHARED_BANKS + phases % SHARED_BANKS)[used]
    per_bank = np.bincount(slot, minlength=phases.size).reshape(phases.shape)
    return np.asarray(per_bank.max(axis=1).reshape(-1, width).sum(axis=1), np.float64)


def segments_touched(word: Integers, active: Flags, words_per_segment: int, alignment: Integers) -> Floats:
    """Sectors (8 words) or lines (32 words) of one access by each warp, averaged over the alignments of its base.

    ``alignment`` (shape ``(n,)``) is the step of the base address in words, modulo a segment; bases are taken to be
    uniform over its multiples, which holds where consecutive rows of the array have all of these remainders.
    """
    joined = active[:, 1:] & active[:, :-1] & (word[:, 1:] == word[:, :-1] + 1)
    first, final = active.copy(), active.copy()
    first[:, 1:] &= ~joined
    final[:, :-1] &= ~joined
    begin, end = np.flatnonzero(first), np.flatnonzero(final)
    warp = begin // WARP_SIZE
    step = np.gcd(alignment, words_per_segment)[warp]
    reach = word.reshape(-1)[begin] % step + end - begin + 1
    touched = (-(-reach // step) * step + words_per_segment - step) / words_per_segment
    return np.asarray(np.bincount(warp, touched, len(word)), np.float64)
