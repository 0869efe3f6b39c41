"""Which configurations are measured."""

import numpy as np
import pytest

from campaigns.random_checks import CHECKED_RANGES, random_check
from perfmodel.families.conv1d import FAMILY as CONV1D
from perfmodel.families.conv1d import Conv1d
from perfmodel.families.tiled_conv2d import FAMILY, TiledConv2d
from perfmodel.prediction.predicting import predict_all
from perfmodel.prediction.scenario import scenario_of
from perfmodel.profiles.kernel_profile import Fidelity
from perfmodel.validation.selection import all_fitting, drawn

UNDER = scenario_of("h200")
PROBLEM = TiledConv2d(height=256, width=256, filter_height=3, filter_width=3)


def seconds(configurations: list[object]) -> list[float]:
    return [p.time.predicted_s for p in predict_all(PROBLEM, configurations, UNDER, Fidelity.ANALYTIC)]


def test_drawn_configurations_fit_are_distinct_and_depend_on_the_seed_alone() -> None:
    first = drawn(FAMILY, PROBLEM, UNDER, 30, np.random.default_rng(1))
    assert len(set(first)) == 30
    assert all(np.isfinite(seconds(first)))
    assert first == drawn(FAMILY, PROBLEM, UNDER, 30, np.random.default_rng(1))
    assert first != drawn(FAMILY, PROBLEM, UNDER, 30, np.random.default_rng(2))


def test_a_small_space_gives_what_it_has() -> None:
    problem = Conv1d(in_channels=32, out_channels=4, length=4)
    everything = all_fitting(CONV1D, problem, UNDER)
    assert set(drawn(CONV1D, problem, UNDER, 1000, np.random.default_rng(0))) == set(everything)


@pytest.mark.parametrize("name", sorted(CHECKED_RANGES))
def test_random_checks_are_problems_with_a_configuration_that_fits(name: str) -> None:
    rng = np.random.default_rng(5)
    choices = [random_check(name, UNDER, rng) for _ in range(3)]
    assert len({choice.problem for choice in choices}) == 3
    for choice in choices:
        predictions = predict_all(choice.problem, list(choice.configurations), UNDER, Fidelity.ANALYTIC)
        assert np.isfinite(predictions[0].time.predicted_s)
