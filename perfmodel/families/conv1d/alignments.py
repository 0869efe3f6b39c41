"""How many accesses of a launch start at each word of a line: all that sectors and lines depend on beside the pattern."""

from __future__ import annotations

from math import gcd

import numpy as np
from numpy.typing import NDArray

from ...core.constants import WARP_SIZE, ceil_div
from .accesses import WORDS_PER_LINE, WORDS_PER_SECTOR, Integers, Traffic

Starts = NDArray[np.int64]
"""Number of accesses that start at each of the 32 words of a line."""


def no_starts() -> Starts:
    """None anywhere."""
    return np.zeros(WORDS_PER_LINE, np.int64)


def progression(first_word: int, stride_words: int, count: int) -> Starts:
    """Starts of ``count`` accesses, each ``stride_words`` after the one before.

    >>> progression(3, 16, 5).nonzero()[0].tolist(), progression(3, 16, 5)[[3, 19]].tolist()
    ([3, 19], [3, 2])
    """
    found = no_starts()
    period = min(count, WORDS_PER_LINE // gcd(stride_words, WORDS_PER_LINE))
    for i in range(period):
        found[(first_word + i * stride_words) % WORDS_PER_LINE] += ceil_div(count - i, period)
    return found


def combined(first: Starts, second: Starts) -> Starts:
    """Starts of all sums of an offset of the one and an offset of the other.

    >>> int(combined(progression(0, 1, 3), progression(31, 0, 2))[0])  # 1 + 31, twice
    2
    """
    words = np.arange(WORDS_PER_LINE)
    places = (words[:, None] + words[None, :]) % WORDS_PER_LINE
    return np.bincount(places.ravel(), np.outer(first, second).ravel(), WORDS_PER_LINE).astype(np.int64)


def traffic_from(words: Integers, active: NDArray[np.bool_], starts: Starts) -> Traffic:
    """Traffic of requests of one word a lane, arrays of shape (requests, 32), repeated from all the given starts.

    The words of the active lanes rise; idle lanes may stand anywhere.

    >>> lanes = np.arange(32).reshape(1, 32)
    >>> traffic_from(lanes, lanes % 2 == 0, progression(4, 0, 10))  # even lanes of 32 words from the fourth on
    Traffic(requests=10, sectors=50, lines=20)
    """
    issued = active.any(axis=1)
    words, active = words[issued], active[issued]
    used = np.flatnonzero(starts)
    number = int(starts.sum())
    return Traffic(
        requests=len(words) * number,
        sectors=_weighed(words, active, starts, used, WORDS_PER_SECTOR),
        lines=_weighed(words, active, starts, used, WORDS_PER_LINE),
    )


def _weighed(words: Integers, active: NDArray[np.bool_], starts: Starts, used: Starts, unit_words: int) -> int:
    """Distinct units of the active lanes, summed over requests and starts."""
    units = np.where(active, (words + used[:, None, None]) // unit_words, -1)
    before = np.maximum.accumulate(units, axis=2)[:, :, :-1]
    distinct = (units[:, :, 1:] > before).sum(axis=(1, 2)) + (units[:, :, 0] >= 0).sum(axis=1)
    return int((distinct * starts[used]).sum())


def row_traffic(channels: int, places: Integers, row_words: int, starts: Starts, threads: int) -> Traffic:
    """Loads of the words at ``places`` of each of ``channels`` rows, from row to row without a gap.

    Every pass of the threads is a whole one: those behind the last word load that word. After 32 rows the lanes meet the same
    places at the same words of a line.
    """
    used = channels * len(places)
    idle_warps = ceil_div(used, threads) * (threads // WARP_SIZE) - ceil_div(used, WARP_SIZE)
    idle = int(idle_warps) * int(starts.sum())
    total = Traffic(requests=idle, sectors=idle, lines=idle)
    repeats, rest = divmod(channels, WARP_SIZE)
    for rows, number in ((WARP_SIZE, repeats), (rest, 1)):
        if rows and number:
            words = (np.arange(rows)[:, None] * row_words + places).ravel()
            lanes = np.arange(ceil_div(len(words), WARP_SIZE) * WARP_SIZE).reshape(-1, WARP_SIZE)
            total += traffic_from(words[np.minimum(lanes, len(words) - 1)], lanes >= 0, starts * number)
    return total
