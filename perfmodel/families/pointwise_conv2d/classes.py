"""Accesses of a launch counted class by class: what one kind touches, and classes of blocks and slabs that look alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ...core.constants import WARP_SIZE
from ...memory.async_copy import LINE_WORDS, SECTOR_WORDS, copy_passes, copy_sectors, uncached_copy_sectors

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

_NOWHERE = np.iinfo(np.int64).min


@dataclass(frozen=True, slots=True, kw_only=True)
class Touched:
    """Warp-level requests, 32-byte sectors and 128-byte lines of one kind of access in the whole launch.

    ``wavefronts``: passes through the data pipe of L1, which reads one word of each bank at a time; of asynchronous copies
    alone, whose source L1 holds where they are narrower than 16 bytes. ``uncached``: sectors that copies of 16 bytes, which
    pass L1 by, ask of L2.
    """

    requests: int
    sectors: float
    lines: float
    wavefronts: float = 0.0
    uncached: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Classes:
    """Distinct rows of integer columns ``(m, columns)`` and how often each occurs ``(m,)``."""

    rows: Integers
    weight: Floats

    @classmethod
    def of(cls, *columns: Integers) -> Classes:
        """The distinct rows of columns of equal length."""
        rows, counts = np.unique(np.stack(np.broadcast_arrays(*columns), axis=1), axis=0, return_counts=True)
        return cls(rows=rows.astype(np.int64), weight=counts.astype(np.float64))


def segments(word: Integers, active: NDArray[np.bool_], base: Integers, words: int) -> Integers:
    """Distinct segments of ``words`` words over the lanes of each request, summed, for each base; shape of ``base``."""
    segment = np.where(active, (word + base[:, None, None]) // words, _NOWHERE)
    segment.sort(axis=2)
    fresh = (segment[:, :, 1:] != segment[:, :, :-1]).sum(axis=(1, 2)) + (segment[:, :, 0] > _NOWHERE).sum(axis=1)
    total: Integers = fresh
    return total


def touched(
    word: Integers,
    active: NDArray[np.bool_],
    base: Integers,
    weight: Floats,
    copied: int = 0,
    target: Integers | None = None,
) -> Touched:
    """Access of shape ``(requests, 32)`` repeated at the given bases; ``copied``: words that a lane copies asynchronously.

    ``target``: the words that copies past L1 write, from a whole sector of shared memory.
    """
    used = active.any(axis=1)
    word, active = word[used], active[used]
    found = Touched(
        requests=round(float(weight.sum())) * len(word),
        sectors=0.0,
        lines=float(segments(word, active, base, LINE_WORDS) @ weight),
    )
    if target is None:
        passes = float(copy_passes(word, active, copied).sum() * weight.sum()) if copied else 0.0
        return replace(found, sectors=float(segments(word, active, base, SECTOR_WORDS) @ weight), wavefronts=passes)
    shape = (len(base), *word.shape)
    places = (word + base[:, None, None]).reshape(-1, WARP_SIZE)
    targets = np.broadcast_to(target[used], shape).reshape(-1, WARP_SIZE)
    lanes = np.broadcast_to(active, shape).reshape(-1, WARP_SIZE)
    counted = (copy_sectors(places, targets, lanes, copied), uncached_copy_sectors(places, targets, lanes))
    sectors, uncached = (float(each.reshape(shape[:2]).sum(axis=1) @ weight) for each in counted)
    return replace(found, sectors=sectors, uncached=uncached)


def _total(parts: list[Touched]) -> Touched:
    return Touched(
        requests=sum(part.requests for part in parts),
        sectors=sum(part.sectors for part in parts),
        lines=sum(part.lines for part in parts),
        wavefronts=sum(part.wavefronts for part in parts),
        uncached=sum(part.uncached for part in parts),
    )


def combined(first: Classes, second: Classes, keys: Callable[[Integers, Integers], Integers]) -> Classes:
    """Classes of all pairs, keyed anew; ``keys`` maps rows ``(m, 1, c)`` and ``(1, n, d)`` to ``(m, n, columns)``."""
    paired = keys(first.rows[:, None, :], second.rows[None, :, :])
    weight = np.broadcast_to(first.weight[:, None] * second.weight[None, :], paired.shape[:2]).reshape(-1)
    rows, inverse = np.unique(paired.reshape(-1, paired.shape[2]), axis=0, return_inverse=True)
    return Classes(rows=rows, weight=np.bincount(inverse.reshape(-1), weights=weight).astype(np.float64))


def by_shape(classes: Classes, count: Callable[[Integers, Integers, Floats], Touched]) -> Touched:
    """Sum of ``count(shape, bases, weights)`` over the classes, whose last column is the base and the others the shape."""
    shapes, inverse = np.unique(classes.rows[:, :-1], axis=0, return_inverse=True)
    inverse = inverse.reshape(-1)
    parts = []
    for index, shape in enumerate(shapes):
        chosen = inverse == index
        parts.append(count(shape, classes.rows[chosen, -1], classes.weight[chosen]))
    return _total(parts)


def joined(tile: Integers, slab: Integers) -> Integers:
    """Shape columns of both, then the sum of their bases modulo a line."""
    shape = np.broadcast_shapes(tile.shape[:2], slab.shape[:2])
    columns = [*np.moveaxis(tile[..., :-1], -1, 0), *np.moveaxis(slab[..., :-1], -1, 0)]
    columns.append((tile[..., -1] + slab[..., -1]) % LINE_WORDS)
    return np.stack([np.broadcast_to(column, shape) for column in columns], axis=-1)
