"""Differences of predictions: which the model can tell apart, and which terms a difference comes from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from ..core.numbers import numbers
from ..core.units import time_text
from ..time_model.combine import LIMITER_NAMES
from .limiter_names import limiter_text
from .prediction import Prediction

_NAMED_TERMS = 3
_LEAST_PART = 0.1
"""Part of the largest change of a term from which on another change is named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """From which difference of two predicted times on one is called faster, as a fraction of the slower."""

    least_difference: float


@cache
def noise() -> Noise:
    """The number that the package ships.

    >>> 0 < noise().least_difference < 0.2
    True
    """
    return numbers("differences", Noise)


def slower_by(faster_s: float, slower_s: float) -> float | None:
    """By which fraction one time is longer; None where the model cannot tell the two apart.

    >>> slower_by(10.0, 15.0), slower_by(10.0, 10.1)
    (0.5, None)
    """
    return slower_s / faster_s - 1.0 if 1.0 - faster_s / slower_s > noise().least_difference else None


def alike(seconds: Sequence[float]) -> int:
    """How many times, from the first on, the model cannot tell from the shortest, of times in order.

    >>> alike([10.0, 10.2, 10.4, 13.0, 13.1])
    3
    """
    return next((place for place, one in enumerate(seconds) if slower_by(seconds[0], one) is not None), len(seconds))


def spread_text(seconds: Sequence[float]) -> str:
    """What is said of times, in order, that the model cannot tell apart.

    >>> spread_text([10.0, 10.2])
    'within 2.0%, which the model cannot tell apart'
    """
    return f"within {seconds[-1] / seconds[0] - 1:.1%}, which the model cannot tell apart"


@dataclass(frozen=True, slots=True, kw_only=True)
class TermChange:
    """How much longer a term is in the slower one of two predictions; negative where it is shorter."""

    name: str
    seconds: float

    @property
    def text(self) -> str:
        """The change in words."""
        sign = "+" if self.seconds > 0 else "-"
        return f"{sign}{time_text(abs(self.seconds))} {limiter_text(self.name)}"


def term_changes(faster: Prediction, slower: Prediction) -> tuple[TermChange, ...]:
    """The terms that differ, the largest difference first."""
    changes = (
        TermChange(name=name, seconds=float(getattr(slower.time.terms, name)) - float(getattr(faster.time.terms, name)))
        for name in LIMITER_NAMES
    )
    return tuple(sorted((one for one in changes if one.seconds), key=lambda one: -abs(one.seconds)))


def difference_text(faster: Prediction, slower: Prediction) -> str:
    """What the slower one of two predictions takes longer for: the difference of the times, and the terms that it comes from.

    Terms overlap and do not add up. Those that shrink are named beside those that grow; where they shrink by more than they
    grow, no term explains the difference, and none is named.
    """
    changes = term_changes(faster, slower)
    net = sum(one.seconds for one in changes)
    difference = f"{time_text(slower.time.predicted_s - faster.time.predicted_s)} more"
    if net <= 0:
        return f"{difference}, which no term explains"
    largest = abs(changes[0].seconds)
    named = [one.text for one in changes[:_NAMED_TERMS] if abs(one.seconds) >= _LEAST_PART * largest]
    return f"{difference}: {', '.join(named)}"
