"""Memory accesses of warps, counted: sectors and lines of global requests, wavefronts of shared ones.

Blocks that start at different words of a buffer touch different numbers of sectors; only the start modulo the line matters,
so at most 32 starts are looked at, each weighted by the blocks that have it. Buffers start on a line.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

import numpy as np
from numpy.typing import NDArray

from ...core.constants import BANK_BYTES, FLOAT_BYTES, LINE_BYTES, SECTOR_BYTES, SHARED_BANKS, WARP_SIZE, ceil_div

Integers = NDArray[np.int64]

WORDS_PER_SECTOR = SECTOR_BYTES // FLOAT_BYTES
WORDS_PER_LINE = LINE_BYTES // FLOAT_BYTES
_BANK_PHASE_WORDS = SHARED_BANKS * BANK_BYTES // FLOAT_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Requests, sectors and lines of one access pattern over the whole launch."""

    requests: int = 0
    sectors: int = 0
    lines: int = 0

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(
            requests=self.requests + other.requests,
            sectors=self.sectors + other.sectors,
            lines=self.lines + other.lines,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedTraffic:
    """Requests and wavefronts of one block; ``ideal`` is the number of wavefronts without bank conflicts."""

    requests: int = 0
    wavefronts: int = 0
    ideal: int = 0

    def __add__(self, other: SharedTraffic) -> SharedTraffic:
        return SharedTraffic(
            requests=self.requests + other.requests,
            wavefronts=self.wavefronts + other.wavefronts,
            ideal=self.ideal + other.ideal,
        )

    def times(self, factor: int) -> SharedTraffic:
        """The same accesses ``factor`` times."""
        return SharedTraffic(
            requests=self.requests * factor, wavefronts=self.wavefronts * factor, ideal=self.ideal * factor
        )


def sectors_of(words: int) -> int:
    """Sectors of so many words from the start of one.

    >>> sectors_of(9)
    2
    """
    return int(ceil_div(words, WORDS_PER_SECTOR))


def lane_matrix(lanes: int) -> tuple[Integers, NDArray[np.bool_]]:
    """Thread numbers of ``lanes`` threads as rows of warps, and which of them exist."""
    threads = np.arange(ceil_div(lanes, WARP_SIZE) * WARP_SIZE, dtype=np.int64).reshape(-1, WARP_SIZE)
    return threads, threads < lanes


def _starts(stride_words: int, units: int) -> list[tuple[int, int]]:
    """Starting words modulo the line of ``units`` rows of ``stride_words``, each with the number of rows that have it."""
    period = min(units, WORDS_PER_LINE // gcd(stride_words, WORDS_PER_LINE))
    return [((j * stride_words) % WORDS_PER_LINE, ceil_div(units - j, period)) for j in range(period)]


def _distinct(words: Integers, active: NDArray[np.bool_], unit_words: int) -> int:
    """Distinct units touched, summed over warps; words rise along the lanes and idle lanes come last."""
    units = words // unit_words
    changes = (units[:, 1:] != units[:, :-1]) & active[:, 1:]
    return int(changes.sum() + active.any(axis=1).sum())


def global_traffic(
    first_words: Integers, active: NDArray[np.bool_], stride_words: int, units: int, repeats: int
) -> Traffic:
    """Traffic of requests whose lanes access memory from ``first_words`` on, both arrays of shape (requests, 32).

    The pattern is repeated at ``units`` starts ``stride_words`` apart, and each of those ``repeats`` times. All words of a
    lane lie in one sector, because accesses are aligned to their width.

    >>> lanes, active = lane_matrix(32)
    >>> global_traffic(lanes, active, 4, 2, 1)  # starts at words 0 and 4: 4 and 5 sectors, 1 and 2 lines
    Traffic(requests=2, sectors=9, lines=3)
    """
    issued = active.any(axis=1)
    first_words, active = first_words[issued], active[issued]
    total = Traffic()
    for start, count in _starts(stride_words, units):
        total += Traffic(
            requests=len(first_words) * count * repeats,
            sectors=_distinct(first_words + start, active, WORDS_PER_SECTOR) * count * repeats,
            lines=_distinct(first_words + start, active, WORDS_PER_LINE) * count * repeats,
        )
    return total


def shared_traffic(first_words: Integers, active: NDArray[np.bool_], width: int = 1) -> SharedTraffic:
    """Shared accesses of ``width`` consecutive words per lane, lanes' words all distinct; arrays of shape (requests, 32).

    An access of 8 bytes takes two phases of 16 lanes, one of 16 bytes four phases of 8 lanes; a phase needs as many
    wavefronts as its busiest bank has words (CUDA C++ Programming Guide, "Shared Memory" of each compute capability).

    >>> lanes, active = lane_matrix(32)
    >>> shared_traffic(lanes * 2, active)  # stride 2: two words in each used bank
    SharedTraffic(requests=1, wavefronts=2, ideal=1)
    """
    issued = active.any(axis=1)
    first_words, active = first_words[issued], active[issued]
    if not len(first_words):
        return SharedTraffic()
    lanes_per_phase = WARP_SIZE // width
    words = (first_words[:, :, None] + np.arange(width)).reshape(-1, lanes_per_phase * width)
    used = np.repeat(active, width, axis=1).reshape(words.shape)
    phase = np.broadcast_to(np.arange(len(words))[:, None], words.shape)
    slots = (phase * _BANK_PHASE_WORDS + words % _BANK_PHASE_WORDS)[used]
    per_bank = np.bincount(slots, minlength=len(words) * _BANK_PHASE_WORDS).reshape(len(words), -1)
    return SharedTraffic(
        requests=len(first_words), wavefronts=int(per_bank.max(axis=1).sum()), ideal=int(used.any(axis=1).sum())
    )


def row_accesses(first: int, last: int, alignment: int) -> list[tuple[int, int]]:
    """Accesses (first word, width) by which a thread reads words first … last − 1 of a row aligned to ``alignment``.

    >>> row_accesses(0, 7, 4)
    [(0, 4), (4, 2), (6, 1)]
    """
    found, word = [], first
    while word < last:
        width = alignment
        while word % width or word + width > last:
            width //= 2
        found.append((word, width))
        word += width
    return found
