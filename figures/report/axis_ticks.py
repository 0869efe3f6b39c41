"""Ticks of logarithmic axes, however narrow: an axis without a number says nothing."""

from __future__ import annotations

import math

import numpy as np

from ..style import round_numbers

FEWEST = 2


def log_ticks(low: float, high: float, *, decades: bool = False) -> list[float]:
    """Round numbers within the axis, with ``decades`` powers of ten alone where there are enough; else three in between.

    >>> log_ticks(0.3, 6.0), log_ticks(0.3, 60.0, decades=True)
    ([0.5, 1.0, 2.0, 5.0], [1.0, 10.0])
    >>> log_ticks(1.1, 1.9)
    [1.2, 1.45, 1.73]
    """
    numbers = round_numbers(low, high)
    tens = [value for value in numbers if math.log10(value).is_integer()]
    if decades and len(tens) >= FEWEST:
        return tens
    if len(numbers) >= FEWEST:
        return numbers
    inside = np.geomspace(low, high, 13)[[2, 6, 10]]
    return [float(f"{value:.3g}") for value in inside.tolist()]
