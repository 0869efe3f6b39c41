"""Seconds in Python (``_s``), microseconds in JSON (``_us``), the unit that fits in texts: the one converter."""

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


def time_text(seconds: float) -> str:
    """A duration in the unit that people would say it in.

    >>> time_text(2.5e-6), time_text(0.0123), time_text(999.6e-6)
    ('2.50 µs', '12.3 ms', '1.00 ms')
    """
    for factor, unit in ((1e-6, "µs"), (1e-3, "ms")):
        if seconds < 999.5 * factor:
            return f"{seconds / factor:.3g} {unit}" if seconds >= 10 * factor else f"{seconds / factor:.2f} {unit}"
    return f"{seconds:.3g} s"
