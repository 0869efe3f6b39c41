"""Accuracy and regret against numbers worked out by hand."""

from __future__ import annotations

import json
from math import sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfmodel.accuracy.metrics import accuracy, regret, within_problems

PREDICTED = np.array([1.0, 2.0, 3.0, 4.0])
MEASURED = np.array([2.0, 2.0, 6.0, 4.0])


def test_errors_are_fractions_of_the_measured_time() -> None:
    found = accuracy(PREDICTED, MEASURED)
    assert found.n == 4
    assert found.mape == pytest.approx((1 / 2 + 0 + 3 / 6 + 0) / 4)
    assert found.median_ape == pytest.approx((0 + 1 / 2) / 2)
    assert found.p90_ape == pytest.approx(1 / 2)


def test_the_scale_is_the_median_ratio_and_is_taken_out_once() -> None:
    """Ratios measured / predicted 2, 1, 2, 1 have the median 1.5; then 1.5, 3, 4.5, 6 stand against 2, 2, 6, 4."""
    found = accuracy(PREDICTED, MEASURED)
    assert found.scale == pytest.approx(1.5)
    assert found.mape_scaled == pytest.approx((0.5 / 2 + 1 / 2 + 1.5 / 6 + 2 / 4) / 4)


def test_kendalls_tau_is_tau_b() -> None:
    """Of 6 pairs 4 agree, 1 disagrees (3, 4) and 1 is tied in what was measured (1, 2)."""
    assert accuracy(PREDICTED, MEASURED).kendall_tau == pytest.approx((4 - 1) / sqrt(6 * 5))


def test_ties_on_both_sides_count_for_neither() -> None:
    """Predicted 1, 1, 2 and measured 1, 2, 2: one pair agrees, one is tied in each; tau-b = 1 / √(2·2)."""
    found = accuracy(np.array([1.0, 1.0, 2.0]), np.array([1.0, 2.0, 2.0]))
    assert found.kendall_tau == pytest.approx(1 / 2)


def test_spearman_is_the_correlation_of_mid_ranks() -> None:
    """Ranks 1, 2, 3, 4 and 1.5, 1.5, 4, 3: covariance 3.5, sums of squares 5 and 4.5."""
    assert accuracy(PREDICTED, MEASURED).spearman == pytest.approx(3.5 / sqrt(5 * 4.5))


def test_regret_looks_only_at_what_was_predicted_fastest() -> None:
    predicted = np.arange(1.0, 13.0)
    measured = np.array([8.0, 7, 6, 5, 4.5, 9, 9, 9, 9, 4, 3, 2])
    assert regret(predicted, measured, 1) == 8 / 2
    assert regret(predicted, measured, 5) == 4.5 / 2
    assert regret(predicted, measured, 10) == 4 / 2
    assert regret(predicted, measured, 99) == 1


def test_of_equal_predictions_any_may_come_first() -> None:
    """One of the three is taken: the mean. Two: two of three pairs hold the fastest, one only the second."""
    predicted, measured = np.array([5.0, 5.0 + 1e-14, 5.0 - 1e-14, 7.0]), np.array([8.0, 2.0, 5.0, 1.0])
    assert regret(predicted, measured, 1) == pytest.approx((8 + 2 + 5) / 3)
    assert regret(predicted, measured, 2) == pytest.approx((2 + 2 + 5) / 3)
    assert regret(predicted, measured, 3) == pytest.approx(2)
    assert regret(predicted, measured, 4) == 1
    assert regret(np.array([1.0, 5.0, 5.0]), np.array([4.0, 2.0, 8.0]), 2) == pytest.approx((2 + 4) / 2 / 2)


def test_the_json_is_readable_even_where_no_order_is_defined() -> None:
    """All predictions alike: there is no order to correlate, and JSON has no word for that but null."""
    found = accuracy(np.ones(3), np.array([1.0, 2.0, 3.0])).to_json()
    assert found["kendall_tau"] is None
    assert found["spearman"] is None
    json.dumps(found, allow_nan=False)


def test_a_pooled_ranking_hides_what_goes_wrong_inside_problems() -> None:
    """Two problems of ten runs, the second a hundred times as large and predicted in reverse order.

    Of the 190 pairs 100 are of both problems and right, 45 inside the first and right, 45 inside the second and wrong.
    """
    times = np.arange(1.0, 11.0)
    predicted, measured = np.r_[times, 100 * times], np.r_[times, 100 * times[::-1]]
    found = accuracy(predicted, measured, np.repeat([0, 1], 10))
    assert found.kendall_tau == pytest.approx((100 + 45 - 45) / 190)
    assert found.regret_top1 == 1
    inside = found.within_problems
    assert inside is not None
    assert (inside.problems, inside.kendall_tau_mean, inside.kendall_tau_worst) == (2, 0.0, -1.0)
    assert (inside.regret_problems, inside.regret_top1_worst, inside.regret_top5_worst) == (2, 10.0, 6.0)
    assert inside.regret_top1_mean == pytest.approx(sqrt(1 * 10))


def test_small_problems_have_an_order_and_no_choice() -> None:
    """Nine runs: tau counts from five on, the regret of a choice from ten; four runs say nothing."""
    times = np.arange(1.0, 10.0)
    inside = within_problems(times, times, np.zeros(9, np.int64))
    assert (inside.problems, inside.kendall_tau_worst, inside.regret_problems) == (1, 1.0, 0)
    assert inside.to_json()["regret_top1_mean"] is None
    assert within_problems(times[:4], times[:4], np.zeros(4, np.int64)).problems == 0


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), min_size=3, max_size=12), st.floats(0.1, 10))
def test_a_common_factor_changes_only_the_scale(rows: list[tuple[int, int]], factor: float) -> None:
    predicted = np.array([first for first, _ in rows], np.float64)
    measured = np.array([second for _, second in rows], np.float64)
    if len(set(predicted)) == 1 or len(set(measured)) == 1:
        return
    one, other = accuracy(predicted, measured), accuracy(predicted * factor, measured)
    assert other.scale == pytest.approx(one.scale / factor)
    assert other.mape_scaled == pytest.approx(one.mape_scaled)
    assert other.kendall_tau == pytest.approx(one.kendall_tau)
    assert one.regret_top1 >= one.regret_top5 >= one.regret_top10 >= 1
