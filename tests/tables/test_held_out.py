"""Held-out runs: who saw what, what the intervals cover, what leaving a GPU out costs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from perfmodel.calibration.measured_runs import MeasuredRuns, taken
from perfmodel.errors import InputError
from tables.held_out import architectures_out, shapes_out

from .made_runs import made_runs

NOISE, SCALE = 0.03, 1.4


@pytest.fixture(scope="module")
def turing(tmp_path_factory: pytest.TempPathFactory) -> MeasuredRuns:
    return made_runs(tmp_path_factory.mktemp("turing"), "rtx-2080-ti", scale=SCALE, noise=NOISE, count=160)


@pytest.fixture(scope="module")
def ampere(tmp_path_factory: pytest.TempPathFactory) -> MeasuredRuns:
    return made_runs(tmp_path_factory.mktemp("ampere"), "rtx-3090", noise=NOISE, count=160)


def test_the_intervals_of_made_runs_cover_what_they_say(turing: MeasuredRuns, ampere: MeasuredRuns) -> None:
    """Normal noise of 3 %: 90 % of it within 1.645 · 3 % = 4.9 %, and the fit adds little; 160 runs show 90 % to ± 5 %."""
    for one in shapes_out([turing, ampere]):
        assert one.coverage is not None
        assert one.coverage.n == 160
        assert 0.82 <= one.coverage.fraction <= 0.97
        assert 1 + 1.3 * NOISE < one.coverage.median_factor < 1 + 3 * NOISE
        assert one.accuracy.mape < 1.5 * NOISE
        assert one.accuracy.scale == pytest.approx(1, abs=NOISE)  # the scale came from the other runs


def test_a_held_out_run_has_no_part_in_its_own_prediction(turing: MeasuredRuns) -> None:
    """One run spoilt ten times over: its prediction stays what it was, although all others' may move."""
    place = 11
    seconds = turing.runs.seconds.copy()
    seconds[place] *= 10.0
    spoilt = replace(turing, runs=replace(turing.runs, seconds=seconds))
    before, after = shapes_out([turing])[0], shapes_out([spoilt])[0]
    assert after.predicted_s[place] == pytest.approx(before.predicted_s[place], rel=1e-9)
    covered = [one.coverage.covered for one in (before, after) if one.coverage is not None]
    assert covered[1] <= covered[0] + 8  # at most the other folds' intervals grew


def test_an_architecture_left_out_is_predicted_without_a_scale(turing: MeasuredRuns, ampere: MeasuredRuns) -> None:
    """Nothing of what it measured is used: three times slower is predicted the same, and three times as far off."""
    slower = replace(turing, runs=replace(turing.runs, seconds=3.0 * turing.runs.seconds))
    first, second = (architectures_out([of, ampere])[0] for of in (turing, slower))
    assert second.predicted_s == pytest.approx(first.predicted_s, rel=1e-9)
    assert second.accuracy.scale == pytest.approx(3.0 * first.accuracy.scale)
    assert second.accuracy.mape_scaled == pytest.approx(first.accuracy.mape_scaled)
    assert first.coverage is None


def test_leaving_out_an_architecture_leaves_out_all_its_gpus(
    turing: MeasuredRuns, ampere: MeasuredRuns, tmp_path: Path
) -> None:
    """A6000 and 3090 are both 8.6: what the A6000 measured must not matter to what is said of the 3090."""
    sibling = made_runs(tmp_path, "rtx-a6000", noise=NOISE, count=40)
    slow = replace(sibling, runs=replace(sibling.runs, seconds=sibling.runs.seconds**1.2))

    def predicted_3090(other: MeasuredRuns) -> np.ndarray:
        return np.asarray(architectures_out([turing, ampere, other])[1].predicted_s)

    assert predicted_3090(sibling) == pytest.approx(predicted_3090(slow), rel=1e-9)


def test_there_must_be_something_left(turing: MeasuredRuns) -> None:
    with pytest.raises(InputError, match=r"all runs are of one architecture \(sm_75\)"):
        architectures_out([turing])
    twins = taken(turing, np.flatnonzero(turing.groups == turing.groups[0])[[0, 0, 0]])
    with pytest.raises(InputError, match="too few launch shapes to hold out; 1 are there"):
        shapes_out([twins])
