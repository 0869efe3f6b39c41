"""Seconds in Python (``_s``), microseconds in JSON (``_us``): the one converter."""

from __future__ import annotations

from typing import Any

MICROSECONDS = 1e6
"""Microseconds of a second."""


def microseconds(seconds: Any) -> float:
    """Seconds as microseconds.

    >>> microseconds(2.5e-6)
    2.5
    """
    return float(seconds) * MICROSECONDS


def interval_us(bounds_s: tuple[float, float] | None) -> list[float] | None:
    """Both ends of an interval in microseconds, None where there is none."""
    return None if bounds_s is None else [microseconds(bound) for bound in bounds_s]
