"""Studies and the residual learner from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from perfmodel.accuracy.studies import HELD_OUT, Study
from perfmodel.cli.app import run
from perfmodel.cli.study import BOUNDED, STUDIES

from ..accuracy.made_runs import made_file


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("made")
    options: list[str] = []
    for gpu in ("rtx-2080-ti", "rtx-3090"):
        options += ["--gpu", gpu, "--measurements", str(made_file(folder, gpu, count=60))]
    return options


def validated(*options: str) -> int:
    return run(["validate", "tiled_conv2d", "--fidelity", "analytic", *options])


def test_the_help_names_every_study() -> None:
    assert tuple(study.value for study in Study) == STUDIES
    assert tuple(study.value for study in HELD_OUT) == BOUNDED


def test_held_out_studies_as_json_and_markdown(
    pairs: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "report.md"
    studies = ["--study", "logo", "--study", "leave-gpu-out", "--study", "leave-architecture-out"]
    where = "tile_size_x < 9"
    assert validated(*pairs, *studies, "--where", where, "--report", str(report), "--json", "--max-mape", "0.9") == 0
    content = json.loads(capsys.readouterr().out)
    assert (content["kernel"], content["fidelity"], content["where"]) == ("tiled_conv2d", "analytic", where)
    assert [one["gpu"] for one in content["datasets"]] == ["rtx-2080-ti", "rtx-3090"]
    assert set(content["studies"]) == {"logo", "leave-gpu-out", "leave-architecture-out"}
    for results in content["studies"].values():
        assert [one["n"] for one in results] == [one["n"] for one in content["datasets"]]
        signs = [one["sensitivity"] for one in results]
        assert all(0 <= one["rate"] <= 1 if one["pairs"] else one["rate"] is None for one in signs)
        assert all(one["what_if"] == one["sensitivity"] for one in results)  # the former name, for one release
    assert all(0 < one["coverage_90"]["fraction"] <= 1 for one in content["studies"]["logo"])
    text = report.read_text(encoding="utf-8")
    assert "## Launch shapes held out" in text
    assert f"`{where}`" in text
    tau = content["studies"]["logo"][0]["kendall_tau"]
    assert f"{tau:.3f}" in text


def test_the_report_is_what_people_read(
    pairs: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perfmodel.accuracy.learning_curve.DRAWS", 2)
    assert validated(*pairs[:4], "--study", "learning-curve", "--residual-runs", "20") == 0
    text = capsys.readouterr().out
    assert "Learning curve" in text
    assert "physics + residual" in text
    assert "20 drawn" in text
    assert "20 spread" in text


def test_repeats_need_no_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Compiled fidelity is the default, and nothing is compiled: files are set against each other."""
    path = str(made_file(tmp_path, "t4", count=20))
    twice = ["--gpu", "t4", "--measurements", path] * 2
    assert run(["validate", "tiled_conv2d", *twice, "--study", "repeats", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["studies"]["repeats"]
    assert (found["n"], found["mape"], found["kendall_tau"]) == (20, 0.0, 1.0)


def test_bounds_hold_for_every_data_set_that_was_held_out(pairs: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert validated(*pairs, "--study", "leave-gpu-out", "--min-tau", "1.0", "--json") == 1
    captured = capsys.readouterr()
    json.loads(captured.out)
    assert "check failed: leave-gpu-out rtx-2080-ti-1 kendall_tau" in captured.err


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--study", "everything"), "'everything'"),
        (("--study", "logo", "--calibration", "mine.toml"), "--calibration"),
        (("--study", "logo", "--sm-clock-mhz", "1500"), "--sm-clock-mhz"),
        (("--study", "logo", "--recount"), "--verify"),
        (("--study", "logo", "--gpu", "t4"), "3 times --gpu and 2 times --measurements"),
        (("--study", "learning-curve", "--min-tau", "0.9"), "--min-tau"),
        (("--study", "repeats"), "repeats need two --measurements of one --gpu"),
        (("--report", "report.md"), "--report: needs --study"),
        ((), "without --study one each"),
        (("--residual-runs", "59"), "59 of 60 runs"),
    ],
)
def test_what_makes_no_sense_is_said_in_one_line(
    options: tuple[str, ...], named: str, pairs: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert validated(*pairs, *options) == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert error.startswith("perfmodel: error: ")
    assert named in error


def test_a_residual_is_learned_kept_and_shown_apart(
    pairs: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calibration, residual = tmp_path / "mine.toml", tmp_path / "mine.json"
    one = pairs[4:]
    fitted = ["fit", "tiled_conv2d", "--fidelity", "analytic", *one, "--output", str(calibration)]
    assert run([*fitted, "--residual", str(residual), "--json"]) == 0
    capsys.readouterr()
    assert validated(*one, "--calibration", str(calibration), "--residual", str(residual), "--json") == 0
    content = json.loads(capsys.readouterr().out)
    assert content["residual"]["n"] == content["n"] == 60
    assert content["residual"]["mape_scaled"] <= content["mape_scaled"]  # these are the runs that it learned from
    assert validated(*one, "--calibration", str(calibration)) == 0
    assert "residual" not in capsys.readouterr().out
    assert run([*fitted, *pairs[:4], "--residual", str(residual)]) == 2
    assert "--residual is learned on one GPU" in capsys.readouterr().err
    assert validated(*pairs[:4], "--residual", str(residual)) == 2
    assert "learned on rtx-3090, not on rtx-2080-ti" in capsys.readouterr().err
