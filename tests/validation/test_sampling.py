"""Statistics of the timing plan."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmodel.validation.sampling import SamplingPlan, collect, interval_rank, is_settled, median_interval


@pytest.mark.parametrize("count", range(1, 13))
def test_rank_is_the_largest_whose_coverage_by_enumeration_is_enough(count: int) -> None:
    """Every sample lies below the median or not, with equal chance: 2^n equally likely patterns."""
    below = [sum(pattern) for pattern in itertools.product((0, 1), repeat=count)]

    def coverage(rank: int) -> float:
        return sum(rank <= b <= count - rank for b in below) / 2**count

    rank = interval_rank(count)
    assert rank == 0 or coverage(rank) >= 0.95
    assert rank + 1 > count - rank or coverage(rank + 1) < 0.95


def test_interval_covers_the_true_median_as_often_as_it_says() -> None:
    rng = np.random.default_rng(1)
    covered = 0
    for _ in range(1000):
        interval = median_interval(rng.lognormal(size=25).tolist())
        assert interval is not None
        covered += interval.low <= 1.0 <= interval.high  # the median of exp(normal) is 1
    # 25 samples: k = 8 covers 1 - 2 P(B < 8) = 0.957; three standard deviations of 1000 draws are 0.019
    assert 0.938 <= covered / 1000 <= 0.976


@given(st.lists(st.floats(1e-6, 1.0), min_size=6, max_size=40))
def test_interval_holds_the_median_of_the_samples(samples: list[float]) -> None:
    interval = median_interval(samples)
    assert interval is not None
    assert interval.low <= np.median(samples) <= interval.high


def test_too_few_samples_have_no_interval() -> None:
    assert median_interval([1.0] * 5) is None
    assert not is_settled([1.0] * 5, SamplingPlan())


def test_quiet_samples_stop_at_the_minimum_and_noisy_ones_at_the_maximum() -> None:
    plan = SamplingPlan(relative_width=0.01, min_samples=10, max_samples=95, time_limit_s=math.inf, samples_at_once=10)
    assert len(collect(lambda n: [1.0] * n, plan)) == 10
    rng = np.random.default_rng(2)
    assert len(collect(lambda n: rng.uniform(1, 2, n).tolist(), plan)) == 95


def test_time_limit_stops_noisy_samples() -> None:
    plan = SamplingPlan(min_samples=10, max_samples=10_000, time_limit_s=2.5, samples_at_once=10)
    ticks = itertools.count()  # one second passes with each look at the clock
    rng = np.random.default_rng(3)
    samples = collect(lambda n: rng.uniform(1, 2, n).tolist(), plan, clock=lambda: float(next(ticks)))
    assert len(samples) == 30  # looked at second 0, then at 1 and 2 (go on), then at 3 (stop)
