"""What is learned of the errors of the physical model: only from its own GPU's runs, kept as numbers."""

from __future__ import annotations

import builtins
import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from perfmodel.calibration.fit import log_ratios
from perfmodel.calibration.fitting import Fit, fit
from perfmodel.calibration.measured_runs import MeasuredRuns, taken
from perfmodel.calibration.residual_learning import corrected_s, launches_of, learn
from perfmodel.errors import InputError
from perfmodel.prediction.launch_features import CHOICES, FEATURE_NAMES, features
from perfmodel.prediction.residual import read_residual, write_residual
from perfmodel.time_model.coefficients import COEFFICIENT_NAMES

from ..accuracy.made_runs import made_runs

HIDDEN = 0.15
"""What the made machine adds for each doubling of the registers, which no coefficient of the model can tell."""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> MeasuredRuns:
    plain = made_runs(tmp_path_factory.mktemp("made"), "rtx-3090", scale=1.3, noise=0.0, count=200)
    slower = plain.runs.seconds * np.exp(HIDDEN * np.log2(plain.runs.profile.registers / 32))
    return replace(plain, runs=replace(plain.runs, seconds=slower))


@pytest.fixture(scope="module")
def trained(data: MeasuredRuns) -> Fit:
    return fit([taken(data, TRAIN).runs], COEFFICIENT_NAMES)


TRAIN, TEST = np.arange(0, 200, 2), np.arange(1, 200, 2)


def test_structure_that_the_model_has_no_term_for_is_learned(data: MeasuredRuns, trained: Fit) -> None:
    told = corrected_s(taken(data, TEST), learn(taken(data, TRAIN), trained))
    with_residual = np.abs(np.log(told / data.runs.seconds[TEST])).mean()
    without = np.abs(log_ratios(data.runs, trained))[TEST].mean()
    assert with_residual < 0.7 * without
    assert float(np.median(told / data.runs.seconds[TEST])) == pytest.approx(
        1, abs=0.02
    )  # the scale is learned with it


def test_features_know_nothing_of_the_measured_time(data: MeasuredRuns, trained: Fit) -> None:
    own = trained.coefficients_for(data.runs.gpu)
    found = features(launches_of(data), own)
    assert found.shape == (200, len(FEATURE_NAMES))
    assert np.isfinite(found).all()
    elsewhere = replace(data, runs=replace(data.runs, seconds=data.runs.seconds * 7))
    assert (features(launches_of(elsewhere), own) == found).all()


def test_twins_that_differ_in_read_only_loads_alone_are_told_apart(data: MeasuredRuns, trained: Fit) -> None:
    """The flag is learned from as it stands, 0 or 1, not in units of how often it was drawn."""
    place = FEATURE_NAMES.index(CHOICES[0])
    flags = np.arange(200) % 2.0
    slower = np.where(flags == 0, 1.1, 1.0)
    runs = replace(
        data.runs, profile=replace(data.runs.profile, read_only_share=flags), seconds=data.runs.seconds * slower
    )
    flagged = replace(data, runs=runs)
    found = learn(taken(flagged, np.arange(0, 200, 3)), trained)
    assert (found.centre[place], found.spread[place]) == (pytest.approx(0.5, abs=0.02), 1.0)
    plain, read_only = (
        found.log_correction(
            features(
                replace(launches_of(flagged), profile=replace(runs.profile, read_only_share=flag)), found.coefficients
            )
        )
        for flag in (np.zeros(200), np.ones(200))
    )
    assert (plain > read_only).mean() > 0.9


def test_the_file_brings_back_what_was_learned_without_the_learner(
    data: MeasuredRuns, trained: Fit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, path = learn(taken(data, TRAIN), trained), tmp_path / "mine.json"
    write_residual(found, path)
    for name in [name for name in sys.modules if name.split(".")[0] == "sklearn"]:
        monkeypatch.delitem(sys.modules, name)
    again = corrected_s(taken(data, TEST), read_residual(path))
    assert again == pytest.approx(corrected_s(taken(data, TEST), found), rel=1e-12)
    assert not any(name.split(".")[0] == "sklearn" for name in sys.modules)
    assert json.loads(path.read_text(encoding="utf-8"))["origin"]["gpu"] == "rtx-3090"


def test_learning_is_deterministic(data: MeasuredRuns, trained: Fit) -> None:
    first, second = (learn(taken(data, TRAIN), trained) for _ in range(2))
    assert (first.weights == second.weights).all()
    assert first.length == second.length


def test_far_from_all_that_was_seen_only_the_scale_is_left(data: MeasuredRuns, trained: Fit) -> None:
    found = learn(taken(data, TRAIN), trained)
    far = found.centre[None, :] + 1e6 * found.spread[None, :]
    assert found.log_correction(far)[0] == pytest.approx(found.mean)


def test_without_the_extra_one_line_says_so(data: MeasuredRuns, trained: Fit, monkeypatch: pytest.MonkeyPatch) -> None:
    ordinary = builtins.__import__

    def absent(name: str, *others: object, **named: object) -> object:
        if name.split(".")[0] == "sklearn":
            raise ImportError(name)
        return ordinary(name, *others, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(InputError, match=r"needs the extra `learn`: pip install perfmodel\[learn\]"):
        learn(taken(data, TRAIN), trained)


def test_too_few_runs_and_other_gpus_are_refused(data: MeasuredRuns, trained: Fit, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="19 runs; a residual is learned from at least 20"):
        learn(taken(data, np.arange(19)), trained)
    found = learn(taken(data, TRAIN), trained)
    with pytest.raises(InputError, match="learned on rtx-3090, not on rtx-2080-ti"):
        corrected_s(made_runs(tmp_path, "rtx-2080-ti", count=20), found)


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("{", "not a residual"),
        ("[]", "schema"),
        ('{"schema": "another"}', "schema"),
        ('{"schema": "perfmodel residual 1"}', "learn it again"),
        ('{"schema": "perfmodel residual 2"}', "features"),
        ('{"schema": "perfmodel residual 2", "features": ["colour"]}', "learn it again"),
    ],
)
def test_a_wrong_file_is_refused_by_name(content: str, named: str, tmp_path: Path) -> None:
    path = tmp_path / "wrong.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=r"wrong\.json") as refused:
        read_residual(path)
    assert named in str(refused.value)
    with pytest.raises(InputError, match=r"absent\.json"):
        read_residual(tmp_path / "absent.json")
