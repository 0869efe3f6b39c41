"""Seconds in Python (``_s``), microseconds in JSON (``_us``), the unit that fits in texts: the one converter."""

from __future__ import annotations

from typing import Any

MICROSECONDS = 1e6
"""Microseconds of a second."""
MILLISECONDS = 1e3
"""Milliseconds of a second."""
SECONDS_PER_MS = 1e-3


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


def saving_text(part: float) -> str:
    """The part of a time that goes, with as many digits as tell it from all of it.

    >>> saving_text(0.456), saving_text(0.9982), saving_text(0.999996)
    ('-46%', '-99.8%', '-99.9996%')
    """
    digits = next((digits for digits in range(9) if round(part, digits + 2) < 1.0), 9)
    return f"-{part:.{digits}%}"


def interval_text(bounds: tuple[float, float] | None) -> str:
    """Both ends of an interval of durations; a dash where there is none.

    >>> interval_text((2.5e-6, 3e-6)), interval_text(None)
    ('2.50 µs … 3.00 µs', '–')
    """
    return "–" if bounds is None else f"{time_text(bounds[0])} … {time_text(bounds[1])}"


def count_text(value: float) -> str:
    """A large number as people read it.

    >>> count_text(1234567.0), count_text(12.0)
    ('1.23 M', '12')
    """
    for factor, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= 10 * factor or (abs(value) >= factor and unit != "k"):
            return f"{value / factor:.3g} {unit}"
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.2f}"
