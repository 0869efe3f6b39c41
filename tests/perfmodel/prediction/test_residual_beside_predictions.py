"""A learned residual stands beside predictions and rankings: it changes none of them, and is refused where it does not belong."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import perfmodel as pm
from perfmodel.accuracy.learning_curve import chosen_runs
from perfmodel.calibration.fitting import fit
from perfmodel.calibration.measured_runs import MeasuredRuns, measured_runs, taken, taken_runs
from perfmodel.calibration.residual_learning import corrected_s, learn
from perfmodel.cli.app import run
from perfmodel.errors import InputError
from perfmodel.families.profiling import stored_profiles
from perfmodel.families.tiled_conv2d import FAMILY, TiledConv2dConfiguration
from perfmodel.prediction.evaluation import evaluate_batch
from perfmodel.prediction.predicting import predict_all
from perfmodel.prediction.ranking import Order, Ranking, rank_problem
from perfmodel.prediction.residual import LEAST_SIMILARITY, Residual, read_residual, write_residual
from perfmodel.prediction.scenario import scenario_of
from perfmodel.profiles.counts_store import load_store
from perfmodel.profiles.kernel_profile import Fidelity
from perfmodel.records.measurements import read_measurements
from perfmodel.time_model.coefficients import COEFFICIENT_NAMES

from ..accuracy.made_runs import PROBLEM, made_runs

GPU = "rtx-3090"
SLOWER = 0.3
"""What the made machine adds for each doubling of the registers, which the model cannot tell."""
COMMAND = ("--height", "1024", "--width", "1024", "--filter-height", "5", "--filter-width", "5")
UNSPILLED = "tile_size_x * tile_size_y < 24 and local_bytes_per_thread == 0"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A residual learned at analytic fidelity from a machine whose deviation is known."""
    folder = tmp_path_factory.mktemp("made")
    data = made_runs(folder, GPU, noise=0.0, count=200)
    slower = data.runs.seconds * np.exp(SLOWER * np.log2(data.runs.profile.registers / 32))
    data = replace(data, runs=replace(data.runs, seconds=slower))
    path = folder / "mine.json"
    write_residual(learn(data, fit([data.runs], COEFFICIENT_NAMES)), path)
    return path


def ranked(made: Path | None, order: Order = Order.PREDICTED) -> Ranking:
    return rank_problem(PROBLEM, scenario_of(GPU, residual=made), Fidelity.ANALYTIC, top=40, order=order)


def without_residual(told: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in told.items() if name != "residual"}


def test_it_stands_beside_the_models_own_time_and_only_where_asked_for(made: Path) -> None:
    alone, beside = ranked(None), ranked(made)
    assert "order" not in alone.to_json()
    assert beside.to_json()["order"] == "predicted"
    for own, told in zip(alone.to_json()["top"], beside.to_json()["top"], strict=True):
        assert "residual" not in own
        assert without_residual(told) == own
        residual = told["residual"]
        assert residual["corrected_us"] == pytest.approx(residual["factor"] * told["time"]["predicted_us"])
        assert residual["calibration_status"] == "200 runs on rtx-3090"
    assert "corrected_s" not in pm.frame(alone.top)
    corrected = [found.residual.corrected_s for found in beside.top if found.residual is not None]
    assert pm.frame(beside.top)["corrected_s"].tolist() == corrected


def test_the_ranking_follows_the_corrected_time_only_when_asked_to(made: Path) -> None:
    def times(ranking: Ranking) -> tuple[list[float], list[float]]:
        corrected = [found.residual.corrected_s for found in ranking.top if found.residual is not None]
        return [found.time.predicted_s for found in ranking.top], corrected

    predicted, corrected = times(ranked(made))
    assert predicted == sorted(predicted)
    assert corrected != sorted(corrected)  # registers count on this machine
    predicted, corrected = times(ranked(made, Order.CORRECTED))
    assert corrected == sorted(corrected)
    assert predicted != sorted(predicted)


def test_python_functions_take_it(made: Path) -> None:
    found = pm.rank(PROBLEM, gpu=GPU, fidelity="analytic", top=3, residual=made, order="corrected")
    assert found.order is Order.CORRECTED
    best = pm.predict(PROBLEM, found.best.configuration, gpu=GPU, fidelity="analytic", residual=str(made))
    assert best.residual is not None
    assert found.best.residual is not None
    assert best.residual.corrected_s == pytest.approx(found.best.residual.corrected_s)
    with pytest.raises(InputError, match="order 'corrected' needs a residual"):
        pm.rank(PROBLEM, gpu=GPU, fidelity="analytic", order="corrected")


def test_a_launch_unlike_all_that_was_learned_from_has_no_interval(made: Path) -> None:
    near = ranked(made).best.residual
    assert near is not None
    assert near.similarity > LEAST_SIMILARITY
    assert near.interval_s is not None
    assert near.interval_s[0] < near.corrected_s < near.interval_s[1]
    forgetful = replace(read_residual(made), length=1e-3)
    scenario = replace(scenario_of(GPU), residual=forgetful)
    strange = TiledConv2dConfiguration(block_size_x=32, block_size_y=1, tile_size_x=1, tile_size_y=1)
    (told,) = predict_all(PROBLEM, [strange], scenario, Fidelity.ANALYTIC)
    assert told.residual is not None
    assert told.residual.similarity < LEAST_SIMILARITY
    assert told.residual.interval_s is None
    own = replace(scenario, calibration=replace(scenario.calibration, coefficients=forgetful.coefficients))
    (alone,) = predict_all(PROBLEM, [strange], own, Fidelity.ANALYTIC)
    assert told.residual.corrected_s == pytest.approx(alone.time.predicted_s * np.exp(forgetful.mean))


def test_errors_of_groups_held_out_are_those_of_a_process_that_did_not_see_them() -> None:
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import Matern, WhiteKernel

    from perfmodel.calibration.residual_learning import _held_out_errors

    rng = np.random.default_rng(3)
    known, values, groups = rng.normal(size=(24, 3)), rng.normal(size=24), np.arange(24) // 4

    def process() -> Any:
        return GaussianProcessRegressor(Matern(2.0, nu=0.5) + WhiteKernel(0.1), optimizer=None)

    found = _held_out_errors(process().fit(known, values), groups)
    for group in range(6):
        out = groups == group
        told = process().fit(known[~out], values[~out]).predict(known[out])
        assert found[out] == pytest.approx(values[out] - told)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (("tiled_conv2d", "--gpu", "rtx-2080-ti", *COMMAND), "learned on rtx-3090, not on rtx-2080-ti"),
        (("ssim", "--gpu", GPU), "learned for tiled_conv2d, not for ssim"),
        (("tiled_conv2d", "--gpu", GPU, "--sm-clock-mhz", "1500"), "1,695 MHz, not at an SM clock of 1,500 MHz"),
        (("tiled_conv2d", "--gpu", GPU, "--l2", "warm"), "learned for an L2 that is cold, not for an L2 that is warm"),
    ],
)
@pytest.mark.parametrize("command", ["rank", "predict"])
def test_what_it_was_not_learned_for_is_refused_in_one_line(
    command: str, changed: tuple[str, ...], message: str, made: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([command, *changed, "--fidelity", "analytic", "--residual", str(made)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
    assert captured.err.strip().count("\n") == 0


def test_another_fidelity_is_refused_before_anything_is_compiled(
    made: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in ("rank", "predict"):
        assert run([command, "tiled_conv2d", "--gpu", GPU, "--residual", str(made)]) == 2
        assert "learned at fidelity analytic, not at fidelity compiled" in capsys.readouterr().err


Change = Callable[[dict[str, Any]], object]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda content: content.pop("weights"), "weights"),
        (lambda content: content["weights"].pop(), "known"),
        (lambda content: content["centre"].append(0.0), "centre"),
        (lambda content: content.update(mean="much"), "mean"),
        (lambda content: content.update(length=0), "length"),
        (lambda content: content["spread"].__setitem__(0, float("nan")), "spread"),
        (lambda content: content["coefficients"].pop("contention"), "contention"),
        (lambda content: content["origin"].pop("kernel"), "kernel"),
        (lambda content: content["origin"].update(fidelity="felt"), "felt"),
        (lambda content: content["origin"].update(model="of last year"), "another version of the time model"),
        (lambda content: content.update(origin=3), "damaged"),
    ],
)
def test_a_damaged_file_or_that_of_another_version_is_one_line(
    change: Change, named: str, made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = json.loads(made.read_text(encoding="utf-8"))
    change(content)
    path = tmp_path / "changed.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    assert run(["rank", "tiled_conv2d", "--gpu", GPU, "--fidelity", "analytic", "--residual", str(path)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert named in captured.err
    assert captured.err.strip().count("\n") == 0


def test_the_tables_show_both_times(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = ["tiled_conv2d", "--gpu", GPU, *COMMAND, "--fidelity", "analytic"]
    assert run(["rank", *line]) == 0
    assert "corrected" not in capsys.readouterr().out
    assert run(["rank", *line, "--residual", str(made)]) == 0
    shown = capsys.readouterr().out
    assert "best by predicted time" in shown
    assert "corrected by 200 runs on rtx-3090" in shown
    assert "which the model cannot tell apart" in shown
    assert run(["rank", *line, "--residual", str(made), "--order", "corrected"]) == 0
    shown = capsys.readouterr().out
    assert "best by corrected time" in shown
    assert "of these by the model's own time" in shown
    assert run(["predict", *line, "--residual", str(made)]) == 0
    assert "(residual of 200 runs on rtx-3090; similarity" in capsys.readouterr().out
    assert run(["predict", *line, "--residual", str(made), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    names = {"factor", "corrected_us", "interval_us", "similarity", "calibration_status", "evidence"}
    assert set(told["residual"]) == names  # "evidence" is a former name


def learned_from_160(published_data: Path, gpu: str, name: str) -> tuple[MeasuredRuns, Residual]:
    """Published runs of launch shapes that a residual of 160 runs did not see."""
    rows = read_measurements(published_data / "tiled_conv2d" / name, FAMILY).drawn(UNSPILLED, None, 0)
    data = measured_runs(gpu, FAMILY, rows, scenario_of(gpu), Fidelity.COMPILED)
    train, test = chosen_runs(data, 160, seed=1)
    return taken(data, test), learn(taken(data, train), fit([taken_runs(data.runs, train)], COEFFICIENT_NAMES))


@pytest.mark.data
@pytest.mark.parametrize(("gpu", "name"), [("rtx-2080-ti", "rtx-2080-ti.counters.csv"), (GPU, "rtx-3090.csv")])
def test_published_runs_are_told_better_than_by_the_model_alone(
    gpu: str, name: str, published_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both ways to the same numbers, where both look at what the same compiler gives."""
    monkeypatch.setattr(
        "perfmodel.calibration.evaluated_rows.stores_for", lambda chosen, rows, gpu: (load_store(chosen.name),)
    )
    unseen, residual = learned_from_160(published_data, gpu, name)
    path = tmp_path / "mine.json"
    write_residual(residual, path)
    drawn = np.random.default_rng(0).permutation(len(unseen))[:300]
    some, (problem,) = taken(unseen, drawn), unseen.problems
    scenario, store = scenario_of(gpu), load_store(FAMILY.name)
    configurations = [some.batch.configuration(index) for index in range(len(some))]
    fits = np.isfinite(evaluate_batch(FAMILY, problem, some.batch, scenario).seconds)
    stored = stored_profiles(FAMILY, problem, configurations, scenario.gpu, store)  # the others would be compiled
    some = taken(some, fits & np.array([profile is not None for profile in stored]))
    assert len(some) >= 80
    configurations = [some.batch.configuration(index) for index in range(len(some))]
    predictions = pm.predict_many(problem, configurations, gpu=gpu, residual=path)
    told = [one.residual for one in predictions if one.residual is not None]
    corrected = np.array([one.corrected_s for one in told])
    assert corrected == pytest.approx(corrected_s(some, residual), rel=1e-9)  # as `validate --residual` tells them
    own, measured = np.array([one.time.predicted_s for one in predictions]), some.runs.seconds
    own = own * np.median(measured / own)  # its clock is not recorded
    assert np.abs(corrected / measured - 1).mean() < 0.9 * np.abs(own / measured - 1).mean()
    within = [
        one.interval_s[0] <= seconds <= one.interval_s[1]
        for one, seconds in zip(told, measured.tolist(), strict=True)
        if one.interval_s is not None
    ]
    assert len(within) >= 25
    assert np.mean(within) >= 0.85  # of 90 % promised, on some dozens of runs
