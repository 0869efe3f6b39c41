"""Few launches that tell of many: far from one another, whatever their order, chosen before anything is measured."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmodel.calibration.spreading import farthest_first, spread
from perfmodel.families.base import Batch
from perfmodel.families.tiled_conv2d import FAMILY, TiledConv2d
from perfmodel.prediction.evaluation import evaluate_batch
from perfmodel.prediction.launch_features import features, scales
from perfmodel.prediction.predicting import launches_of
from perfmodel.prediction.scenario import scenario_of
from perfmodel.validation.selection import drawn, spread_out

UNDER = scenario_of("rtx-3090")
PROBLEM = TiledConv2d(height=512, width=512, filter_height=5, filter_width=5)


def farthest(points: np.ndarray, chosen: np.ndarray) -> float:
    """How far the point worst off is from the nearest chosen one."""
    between = np.linalg.norm(points[:, None, :] - points[chosen][None, :, :], axis=2)
    return float(between.min(axis=1).max())


@given(st.integers(1, 40), st.integers(1, 12), st.integers(0, 1000))
def test_every_point_is_nearer_to_a_chosen_one_than_these_are_to_each_other(n: int, number: int, seed: int) -> None:
    points = np.random.default_rng(seed).normal(size=(n, 3))
    chosen = farthest_first(points, number, np.random.default_rng(seed))
    assert len(chosen) == len(set(chosen.tolist())) == min(n, number)
    if len(chosen) > 1:
        between = np.linalg.norm(points[chosen][:, None, :] - points[chosen][None, :, :], axis=2)
        assert farthest(points, chosen) <= between[~np.eye(len(chosen), dtype=bool)].min() + 1e-12


def test_points_that_do_not_differ_are_taken_once() -> None:
    assert len(farthest_first(np.zeros((5, 2)), 3, np.random.default_rng(0))) == 1
    assert len(farthest_first(np.zeros((0, 2)), 3, np.random.default_rng(0))) == 0


@pytest.fixture(scope="module")
def configurations() -> list[object]:
    return drawn(FAMILY, PROBLEM, UNDER, 400, np.random.default_rng(3))


def test_spread_launches_leave_none_as_far_away_as_drawn_ones_do(configurations: list[object]) -> None:
    launches = launches_of(evaluate_batch(FAMILY, PROBLEM, Batch.of(configurations), UNDER), UNDER.gpu)
    coefficients = UNDER.calibration.coefficients
    chosen = spread(launches, coefficients, 40, np.random.default_rng(0))
    found = features(launches, coefficients)
    centre, unit = scales(found)
    points = (found - centre) / unit
    drawn_ones = [np.random.default_rng(seed).permutation(400)[:40] for seed in range(10)]
    assert farthest(points, chosen) < 0.7 * min(farthest(points, others) for others in drawn_ones)


def test_what_is_measured_spread_out_fits_is_distinct_and_depends_on_the_seed_alone() -> None:
    first = spread_out(FAMILY, PROBLEM, UNDER, 25, np.random.default_rng(1))
    assert len(set(first)) == 25
    assert np.isfinite(evaluate_batch(FAMILY, PROBLEM, Batch.of(first), UNDER).seconds).all()
    assert first == spread_out(FAMILY, PROBLEM, UNDER, 25, np.random.default_rng(1))
    assert first != spread_out(FAMILY, PROBLEM, UNDER, 25, np.random.default_rng(2))
