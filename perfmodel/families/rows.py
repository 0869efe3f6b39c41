"""Sectors and lines that the warps of a launch touch along the rows of planes, summed without walking through the warps.

Along a row, warps load runs of elements whose first and last element grow by a fixed step, clipped at the row's ends. Which
sectors a run touches depends on where the row starts, modulo a line; so rows are counted by this remainder once, runs are
summed for each of the 32 remainders, and the two are multiplied. Everything is exact for buffers that start on a line.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .accesses import WORDS_PER_LINE

Integers = NDArray[np.int64]

_REMAINDERS = np.arange(WORDS_PER_LINE)


def _floor_sum(first: Any, step: int, count: Any, divisor: int) -> Integers:
    """Σ ⌊(first + s · step) / divisor⌋ over s < count, by the period of the remainders."""
    period = divisor // int(np.gcd(divisor, step))
    phase = np.arange(period)
    first, count = np.asarray(first, np.int64)[..., None], np.asarray(count, np.int64)[..., None]
    times = np.maximum((count - phase + period - 1) // period, 0)
    rise = step * period // divisor
    total: Integers = (times * ((first + phase * step) // divisor) + rise * (times * (times - 1) // 2)).sum(axis=-1)
    return total


def clipped_floor_sum(
    first: Any, step: int, count: Any, bounds: tuple[Any, Any], offset: Any, divisor: int
) -> Integers:  # fmt: skip
    """Σ ⌊(clip(first + s · step, low, high) + offset) / divisor⌋ over s < count, element by element on arrays.

    >>> clipped_floor_sum(-8, 8, 4, (0, 12), 0, 8)  # -8, 0, 8, 16 become 0, 0, 8, 12
    array(2)
    """
    low, high = bounds
    below = np.clip(-((first - low) // step), 0, count)
    up_to_high = np.clip((high - first) // step + 1, below, count)
    inner = _floor_sum(first + offset, step, up_to_high, divisor) - _floor_sum(first + offset, step, below, divisor)
    return np.asarray(below * ((low + offset) // divisor) + inner + (count - up_to_high) * ((high + offset) // divisor))


def row_loads(first: int, step: int, rows: int, count: int, height: int) -> Integers:
    """How often rows of a plane are loaded, by row index modulo 32, shape ``(32,)``.

    ``count`` strips load ``rows`` rows each, strip s from row ``first + s * step`` on, where these lie in ``[0, height)``.

    >>> row_loads(-1, 1, 3, 4, 4)[:4]  # 3 x 3, padding 1: inner rows three times, outer ones twice
    array([2, 3, 3, 2])
    """
    fill, bounds = WORDS_PER_LINE - 1 - _REMAINDERS, (0, height)
    ends = clipped_floor_sum(first + rows, step, count, bounds, fill, WORDS_PER_LINE)
    return ends - clipped_floor_sum(first, step, count, bounds, fill, WORDS_PER_LINE)


def row_starts(loads: Integers, width: int, height: int, planes: int) -> Integers:
    """Loads of rows by the element that the row starts with modulo 32, shape ``(32,)``, over ``planes`` equal planes."""
    of_planes = (planes - _REMAINDERS + WORDS_PER_LINE - 1) // WORDS_PER_LINE
    start = (_REMAINDERS[:, None] * height + _REMAINDERS) * width % WORDS_PER_LINE
    starts = np.zeros(WORDS_PER_LINE, np.int64)
    np.add.at(starts, start, np.maximum(of_planes, 0)[:, None] * loads)
    return starts


def runs_touched(
    first: Integers, spacing: int, lanes: int, warps: int, width: int, segment_elements: int
) -> tuple[Integers, Integers]:
    """Requests and segments of the loads of one row by ``warps`` neighbouring warps.

    Lane t of warp c loads element ``first + (32 c + t) * spacing`` where that lies in ``[0, width)``, t < ``lanes``.

    Args:
        first: element of the first lane of the first warp, shape ``(loads,)``.
        spacing: distance of neighbouring lanes, at most a segment.
        lanes: lanes of each warp that load.
        warps: neighbouring warps.
        width: elements of the row.
        segment_elements: elements of a sector (8) or a line (32).

    Returns:
        Requests of each load, ``(loads,)``, and segments by remainder of the row's start and load, ``(32, loads)``.
    """
    step, reach = WORDS_PER_LINE * spacing, (lanes - 1) * spacing
    low = first % spacing
    high = width - 1 - (width - 1 - first) % spacing
    start = np.maximum(-((first + reach - low) // step), 0)
    requests = np.where(high >= low, np.maximum(np.minimum((high - first) // step, warps - 1) - start + 1, 0), 0)
    begin, bounds, offset = first + start * step, (low, high), _REMAINDERS[:, None]
    last = clipped_floor_sum(begin + reach, step, requests, bounds, offset, segment_elements)
    return requests, last - clipped_floor_sum(begin, step, requests, bounds, offset, segment_elements) + requests
