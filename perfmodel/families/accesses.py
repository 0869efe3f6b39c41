"""Accesses of a launch, counted by enumeration over residues: few patterns of lanes, and how often each begins where.

Sectors and lines of a request depend on its pattern of lanes and on the word of a 128-byte line at which the pattern begins.
A launch repeats few patterns at many places, so that each pattern is enumerated lane by lane at 32 places at most. Buffers
begin at a line. Words are of 4 bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from math import gcd
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ..core.constants import FLOAT_BYTES, LINE_BYTES, SECTOR_BYTES, WARP_SIZE, ceil_div
from .lanes import distinct_rows, wavefronts

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]
Starts = NDArray[np.int64]
"""How many accesses begin at each of the 32 words of a line, shape ``(32,)``."""
Classes = Mapping[tuple[int, ...], Starts]
"""Starts of the accesses of each shape; what the numbers of a shape mean is the caller's."""

WORDS_PER_SECTOR = SECTOR_BYTES // FLOAT_BYTES
WORDS_PER_LINE = LINE_BYTES // FLOAT_BYTES
_DIFFERENCES = (np.arange(WORDS_PER_LINE)[:, None] - np.arange(WORDS_PER_LINE)) % WORDS_PER_LINE
_NOWHERE = np.iinfo(np.int64).min


class _Additive:
    """Records of numbers that add up, and multiply, field by field."""

    __slots__ = ()

    def __add__(self, other: Self) -> Self:
        return type(self)(**{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)})  # type: ignore[arg-type]

    def __mul__(self, times: int) -> Self:
        return type(self)(**{f.name: getattr(self, f.name) * times for f in fields(self)})  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalAccesses(_Additive):
    """Warp-level requests of a launch, the 32-byte sectors and the 128-byte lines that they touch.

    Of asynchronous copies alone: ``read_wavefronts``, passes through the data pipe of L1 by copies that go through it;
    ``uncached_sectors``, what copies that pass it by ask of L2.
    """

    requests: int = 0
    sectors: int = 0
    lines: int = 0
    read_wavefronts: int = field(default=0, repr=False)
    uncached_sectors: int = field(default=0, repr=False)

    @classmethod
    def of_one_word(cls, requests: int) -> Self:
        """Requests whose lanes all access the same word."""
        return cls(requests=requests, sectors=requests, lines=requests)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedAccesses(_Additive):
    """Warp-level requests to shared memory, their wavefronts, and how many there would be without bank conflicts."""

    requests: int = 0
    wavefronts: int = 0
    ideal: int = 0

    @classmethod
    def without_conflicts(cls, requests: int) -> Self:
        """Requests of one wavefront each."""
        return cls(requests=requests, wavefronts=requests, ideal=requests)


def sectors_of(words: int) -> int:
    """Sectors of so many words from the start of one.

    >>> sectors_of(9)
    2
    """
    return int(ceil_div(words, WORDS_PER_SECTOR))


def warps_of(threads: int) -> tuple[Integers, Flags]:
    """Numbers of so many threads as rows of warps, shape ``(warps, 32)``, and which of them exist."""
    lanes = np.arange(ceil_div(threads, WARP_SIZE) * WARP_SIZE, dtype=np.int64).reshape(-1, WARP_SIZE)
    return lanes, lanes < threads


def no_starts() -> Starts:
    """None anywhere."""
    return np.zeros(WORDS_PER_LINE, np.int64)


def progression(first_word: int, stride_words: int, count: int) -> Starts:
    """Starts of ``count`` accesses, each ``stride_words`` after the one before.

    >>> progression(3, 16, 5).nonzero()[0].tolist(), progression(3, 16, 5)[[3, 19]].tolist()
    ([3, 19], [3, 2])
    """
    period = min(count, WORDS_PER_LINE // gcd(stride_words, WORDS_PER_LINE))
    step = np.arange(period)
    starts = no_starts()
    starts[(first_word + step * (stride_words % WORDS_PER_LINE)) % WORDS_PER_LINE] = ceil_div(count - step, period)
    return starts


def combined(first: Starts, second: Starts) -> Starts:
    """Starts of all sums of an offset of the one and an offset of the other.

    >>> int(combined(progression(0, 1, 3), progression(31, 0, 2))[0])  # 1 + 31, twice
    2
    """
    starts: Starts = first[_DIFFERENCES] @ second
    return starts


def classes_of(base: Integers, *shape: Integers) -> Classes:
    """Starts by shape of accesses whose base lies ``base`` words from a line's start.

    >>> classes = classes_of(np.array([0, 32, 5]), np.array([7, 7, 8]))
    >>> {shape: starts.nonzero()[0].tolist() for shape, starts in classes.items()}
    {(7,): [0], (8,): [5]}
    """
    first, inverse = distinct_rows(*shape)
    places = inverse * WORDS_PER_LINE + base % WORDS_PER_LINE
    starts = np.bincount(places, minlength=len(first) * WORDS_PER_LINE).reshape(-1, WORDS_PER_LINE)
    return dict(zip(zip(*(column[first].tolist() for column in shape), strict=True), starts, strict=True))


def paired(first: Classes, second: Classes) -> Classes:
    """Every access of the one at every place of the other; shapes are joined."""
    return {(*a, *b): combined(starts, others) for a, starts in first.items() for b, others in second.items()}


def global_accesses(words: Integers, active: Flags, starts: Starts) -> GlobalAccesses:
    """Requests whose lanes access the given words, arrays of shape ``(requests, 32)``, from each of the starts.

    All words of a lane lie in one sector, because accesses are aligned to their width; only the first one is given.

    >>> lanes, active = warps_of(32)
    >>> global_accesses(lanes, active & (lanes % 2 == 0), progression(4, 0, 10))  # even lanes from the fourth word on
    GlobalAccesses(requests=10, sectors=50, lines=20)
    """
    issued = active.any(axis=1)
    words, active = words[issued], active[issued]
    used = np.flatnonzero(starts)
    placed = words + used[:, None, None]
    sectors, lines = (_distinct(placed // unit, active) @ starts[used] for unit in (WORDS_PER_SECTOR, WORDS_PER_LINE))
    return GlobalAccesses(requests=len(words) * int(starts.sum()), sectors=int(sectors), lines=int(lines))


def _distinct(units: Integers, active: Flags) -> Integers:
    """Distinct units of the active lanes summed over the requests, for each start: ``(starts, requests, 32)`` in."""
    units = np.where(active, units, _NOWHERE)
    units.sort(axis=2)
    distinct: Integers = (units[:, :, 1:] != units[:, :, :-1]).sum(axis=(1, 2)) + (units[:, :, 0] > _NOWHERE).sum(
        axis=1
    )
    return distinct


def run_of_words(words: int, width: int, starts: Starts) -> GlobalAccesses:
    """Consecutive words, ``width`` of them by each lane, of which there are as many as that takes.

    >>> run_of_words(40, 1, progression(0, 0, 1))
    GlobalAccesses(requests=2, sectors=5, lines=2)
    """
    whole, rest = divmod(words // width, WARP_SIZE)
    lanes = np.arange(WARP_SIZE, dtype=np.int64).reshape(1, WARP_SIZE)
    return global_accesses(lanes * width, lanes >= 0, starts * whole) + global_accesses(
        lanes * width, lanes < rest, starts
    )


def shared_accesses(words: Integers, active: Flags, width: int = 1) -> SharedAccesses:
    """Shared accesses of ``width`` consecutive words per lane, lanes' words all distinct; arrays of shape (requests, 32).

    >>> lanes, active = warps_of(32)
    >>> shared_accesses(lanes * 2, active)  # stride 2: two words in each used bank
    SharedAccesses(requests=1, wavefronts=2, ideal=1)
    """
    phases = active.reshape(-1, WARP_SIZE // width).any(axis=1)
    return SharedAccesses(
        requests=int(active.any(axis=1).sum()),
        wavefronts=int(wavefronts(words, active, width).sum()),
        ideal=int(phases.sum()),
    )
