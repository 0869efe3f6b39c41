"""The fit recovers what made its data: known coefficients, known clock scale, within the uncertainty that it states."""

from dataclasses import asdict, replace

import numpy as np
import pytest

from perfmodel.calibration.fitting import FitSet, fit, prior
from perfmodel.families.tiled_conv2d import FAMILY, TiledConv2d
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.prediction.evaluation import evaluate_batch
from perfmodel.prediction.scenario import scenario_of
from perfmodel.time_model.coefficients import Coefficients
from perfmodel.time_model.combine import launch_seconds
from perfmodel.validation.selection import drawn

PRIOR = prior().coefficients

TRUE = replace(PRIOR, round_trip_latencies=1.3, fma_issue_intervals=1.8, contention=0.4, latency_norm=0.8)
FREE = ("round_trip_latencies", "fma_issue_intervals", "contention", "latency_norm")
FACTORS = {"rtx-2080-ti": 0.8, "rtx-3090": 1.25}
"""What the coefficient of each GPU's architecture is of the prior in made measurements."""
NOISE, CLOCK_SCALE = 0.005, 1.12
"""Spread of the made measurements, and what all of them are slower by."""


def made_runs(truth: Coefficients, count: int, scale: float, seed: int, gpu: str = "rtx-3090") -> FitSet:
    """Times that the model itself gives with known coefficients, scaled, with noise."""
    scenario, rng = scenario_of(gpu), np.random.default_rng(seed)
    problem = TiledConv2d(height=2048, width=2048, filter_height=7, filter_width=7)
    from perfmodel.families.base import Batch

    batch = Batch.of(drawn(FAMILY, problem, scenario, count, rng))
    found = evaluate_batch(FAMILY, problem, batch, scenario)
    seconds, _ = launch_seconds(found.profile, found.occupancy.blocks_per_sm, scenario.gpu, truth)
    measured = scale * seconds * np.exp(rng.normal(0.0, NOISE, len(batch)))
    return FitSet(
        name="made",
        gpu=scenario.gpu,
        profile=found.profile,
        blocks_per_sm=found.occupancy.blocks_per_sm,
        seconds=measured,
    )


def test_known_coefficients_are_recovered_within_the_stated_uncertainty() -> None:
    found = fit([made_runs(TRUE, 200, CLOCK_SCALE, seed=3)], FREE)
    for name in FREE:
        error = abs(np.log(getattr(found.coefficients, name) / getattr(TRUE, name)))
        assert error <= 2 * found.log_standard_errors[name], name
        assert found.log_standard_errors[name] < 0.7, name  # the data said more than the prior
    assert found.scales["made"] == pytest.approx(CLOCK_SCALE, rel=0.03)
    assert np.median(np.abs(found.log_residuals["made"])) < 2 * NOISE


def test_outliers_hardly_matter() -> None:
    runs = made_runs(TRUE, 200, 1.0, seed=4)
    spoilt = runs.seconds.copy()
    spoilt[::20] *= 3.0
    clean, dirty = fit([runs], FREE), fit([replace(runs, seconds=spoilt)], FREE)
    predicted = [
        launch_seconds(runs.profile, runs.blocks_per_sm, runs.gpu, one.coefficients)[0] for one in (clean, dirty)
    ]
    moved = np.abs(np.log(predicted[1] * dirty.scales["made"] / (predicted[0] * clean.scales["made"])))
    assert np.quantile(moved, 0.9) < 0.05  # a twentieth of the runs is three times too slow


def test_what_is_not_free_stays_and_the_fit_is_deterministic() -> None:
    runs = made_runs(TRUE, 60, 1.0, seed=5)
    first, second = fit([runs], FREE[:1]), fit([runs], FREE[:1])
    assert first.coefficients == second.coefficients
    fixed = {name: value for name, value in asdict(first.coefficients).items() if name not in FREE[:1]}
    assert fixed == {name: value for name, value in asdict(PRIOR).items() if name not in FREE[:1]}


def test_a_known_clock_leaves_no_scale() -> None:
    runs = replace(made_runs(TRUE, 60, 1.0, seed=6), free_scale=False)
    assert fit([runs], FREE).scales == {}


def test_each_architecture_gets_its_own_and_a_third_one_what_they_share() -> None:
    """Made 0.8 and 1.25 of the prior: both are found, the shared value stays between them, other GPUs take it."""
    name = "latency_norm"
    truths = {gpu: replace(PRIOR, **{name: factor * PRIOR.latency_norm}) for gpu, factor in FACTORS.items()}
    sets = [replace(made_runs(truth, 200, 1.0, 8, gpu), name=gpu) for gpu, truth in truths.items()]
    found = fit(sets, FREE, architectural={name: ("sm_75", "sm_86")})
    for one in sets:
        own = found.coefficients_for(one.gpu)
        assert own.latency_norm == pytest.approx(truths[one.name].latency_norm, rel=0.05)
        assert own.latency_norm == found.architectures[one.gpu.architecture.name][name]
        assert own.round_trip_latencies == found.coefficients.round_trip_latencies
        error = abs(np.log(own.latency_norm / truths[one.name].latency_norm))
        assert error <= 3 * found.architecture_log_standard_errors[one.gpu.architecture.name][name]
    shared = found.coefficients_for(load_gpu("h200")).latency_norm
    assert FACTORS["rtx-2080-ti"] < shared / PRIOR.latency_norm < FACTORS["rtx-3090"]


def test_without_own_coefficients_all_architectures_share_one() -> None:
    sets = [replace(made_runs(TRUE, 60, 1.0, 9, gpu), name=gpu) for gpu in FACTORS]
    found = fit(sets, FREE, architectural={})
    assert found.architectures == {}
    assert found.coefficients_for(sets[0].gpu) == found.coefficients_for(sets[1].gpu) == found.coefficients
