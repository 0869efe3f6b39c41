"""How well predicted counts agree with what the hardware counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core.counts import Counts
from .counter_metrics import WRITTEN_BACK, MeasuredCount


@dataclass(frozen=True, slots=True, kw_only=True)
class CountAgreement:
    """One count over ``n`` launches, under the name of `perfmodel.accuracy.counter_metrics.MetricSum`.

    Relative errors are |predicted − measured| / measured, as fractions, over the launches of which the hardware counted
    something; ``max_where_none`` is the largest number predicted for a launch of which it counted nothing.
    """

    count: str
    n: int
    exact_fraction: float
    median_relative_error: float
    max_relative_error: float
    max_where_none: float = 0.0


def count_agreement(
    predicted: Counts, measured: Sequence[MeasuredCount], l2_bytes: float = 0.0
) -> tuple[CountAgreement, ...]:
    """Agreement of every measured count; launches that were not counted are left out, counts without any too.

    Bytes written to DRAM are compared only where they are more than ``l2_bytes``: what a launch writes stays in L2 until
    it is evicted, and of smaller launches that is most (`perfmodel.memory.l2.written_by_the_end`).

    >>> measured = MeasuredCount(name="barriers", count="barriers", metrics=(), launches=np.array([4.0, 8.0, np.nan]))
    >>> count_agreement(Counts(barriers=np.array([4.0, 6.0, 1.0])), [measured])[0].max_relative_error
    0.25
    """
    found = []
    for entry in measured:
        values = entry.predicted(predicted)
        counted = np.isfinite(entry.launches)
        if entry.count == WRITTEN_BACK:
            counted &= values > l2_bytes
        if counted.any():
            found.append(_agreement(entry.name, values[counted], entry.launches[counted]))
    return tuple(found)


def _agreement(name: str, predicted: NDArray[np.float64], measured: NDArray[np.float64]) -> CountAgreement:
    some = measured != 0.0
    errors = np.abs(predicted[some] - measured[some]) / measured[some]
    return CountAgreement(
        count=name,
        n=len(measured),
        exact_fraction=float(np.mean(predicted == measured)),
        median_relative_error=float(np.median(errors)) if len(errors) else 0.0,
        max_relative_error=float(np.max(errors, initial=0.0)),
        max_where_none=float(np.max(np.abs(predicted[~some]), initial=0.0)),
    )
