"""How many samples are enough: the confidence interval of a median, and a plan that stops when it is narrow."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """Low and high end of a confidence interval, in the unit of the samples."""

    low: float
    high: float

    def relative_width(self) -> float:
        """Width over the middle of the interval.

        >>> Interval(low=0.9, high=1.1).relative_width()
        0.20000000000000007
        """
        return (self.high - self.low) / (0.5 * (self.high + self.low))


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingPlan:
    """When to stop sampling: the interval is narrow, or samples or time run out."""

    relative_width: float = 0.01
    min_samples: int = 10
    max_samples: int = 200
    time_limit_s: float = 0.25
    samples_at_once: int = 10


def median_interval(samples: Sequence[float], confidence: float = CONFIDENCE) -> Interval | None:
    """Confidence interval of the median from order statistics, without any assumption on the distribution.

    With n samples in order, the interval from the k-th smallest to the k-th largest covers the median with probability
    1 − 2·P(B < k), B binomial with n trials of probability 1/2 (Conover, Practical Nonparametric Statistics, 3.2). The
    largest such k is taken; None where even the whole range covers too little (fewer than 6 samples at 95 %).

    >>> median_interval([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    Interval(low=1.0, high=6.0)
    """
    ordered = np.sort(np.asarray(samples, dtype=np.float64))
    rank = interval_rank(len(ordered), confidence)
    if rank == 0:
        return None
    return Interval(low=float(ordered[rank - 1]), high=float(ordered[-rank]))


def interval_rank(count: int, confidence: float = CONFIDENCE) -> int:
    """The largest k for which the k-th smallest to the k-th largest of ``count`` samples cover the median; 0 for none.

    >>> [interval_rank(n) for n in (5, 6, 10, 100)]
    [0, 1, 2, 40]
    """
    rank, below = 0, 0.0
    while rank < count:
        below += math.comb(count, rank) / 2**count
        if 1.0 - 2.0 * below < confidence:
            break
        rank += 1
    return rank


def collect(
    take: Callable[[int], Sequence[float]], plan: SamplingPlan, clock: Callable[[], float] = time.monotonic
) -> tuple[float, ...]:
    """Samples from ``take(n)`` until the plan is satisfied; all of them, in the order taken."""
    samples: list[float] = []
    end = clock() + plan.time_limit_s
    while len(samples) < plan.max_samples:
        samples.extend(take(min(plan.samples_at_once, plan.max_samples - len(samples))))
        if len(samples) >= plan.min_samples and (is_settled(samples, plan) or clock() >= end):
            break
    return tuple(samples)


def is_settled(samples: Sequence[float], plan: SamplingPlan) -> bool:
    """Whether the interval of the median is as narrow as the plan asks for."""
    interval = median_interval(samples)
    return interval is not None and interval.relative_width() <= plan.relative_width
