"""From files of measurements to a calibration file that predictions take."""

import csv
import hashlib
import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from perfmodel.calibration.fit import (
    Calibrated,
    Errors,
    HeldOutErrors,
    calibrate,
    calibration_file,
    calibration_text,
    conformal_quantile,
    fold_of_runs,
)
from perfmodel.calibration.fitting import Fit
from perfmodel.calibration.measured_runs import measured_runs, taken
from perfmodel.cli.app import run
from perfmodel.core.batched import joined
from perfmodel.core.json_values import plain
from perfmodel.errors import InputError
from perfmodel.families.tiled_conv2d import FAMILY, TiledConv2d
from perfmodel.prediction.predicting import predict_all
from perfmodel.prediction.scenario import scenario_of
from perfmodel.profiles.kernel_profile import Fidelity
from perfmodel.records.measurements import read_measurements
from perfmodel.time_model.calibration import CalibrationStatus, load_calibration, parse_calibration
from perfmodel.time_model.combine import launch_seconds
from perfmodel.validation.selection import drawn
from tables.held_out import shapes_out

UNDER = scenario_of("t4")
SCALE, NOISE = 1.25, 0.02


@pytest.fixture(scope="module")
def made_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two problems measured on a T4 that is slower than predicted by SCALE, with noise; 60 runs of each."""
    rng = np.random.default_rng(7)
    path = tmp_path_factory.mktemp("measured") / "made.csv"
    with path.open("w", newline="") as stream:
        writer: csv.DictWriter[str] | None = None
        for side in (512, 1024):
            problem = TiledConv2d(height=side, width=side, filter_height=5, filter_width=5)
            for prediction in predict_all(problem, drawn(FAMILY, problem, UNDER, 60, rng), UNDER, Fidelity.ANALYTIC):
                time_ms = 1e3 * SCALE * prediction.time.predicted_s * float(np.exp(rng.normal(0, NOISE)))
                row = {"gpu": "t4", **plain(problem), **plain(prediction.configuration), "time_ms": time_ms}
                if writer is None:
                    writer = csv.DictWriter(stream, list(row))
                    writer.writeheader()
                writer.writerow(row)
    return path


def test_scale_error_and_evidence_of_a_made_machine(made_file: Path) -> None:
    data = measured_runs("made", FAMILY, read_measurements(made_file, FAMILY), UNDER, Fidelity.ANALYTIC)
    assert len(data.runs.seconds) == 120
    assert data.sha256 == hashlib.sha256(made_file.read_bytes()).hexdigest()
    found = calibrate([data])
    assert found.fit.scales["made"] == pytest.approx(SCALE, rel=0.05)
    assert 0.5 * NOISE < found.log_error_90 < 6 * NOISE  # 90 % of normal noise lies within 1.64 sigma
    calibration = parse_calibration(calibration_text(found), "made.toml", UNDER.gpu)
    assert calibration.calibration_status is CalibrationStatus.CALIBRATED
    assert calibration.log_error_90(FAMILY.name, Fidelity.ANALYTIC) == pytest.approx(found.log_error_90, rel=5e-3)
    own = found.fit.coefficients_for(UNDER.gpu)
    assert asdict(calibration.coefficients) == pytest.approx(asdict(own), rel=5e-3)
    assert own == found.fit.coefficients  # none is of one architecture


def test_groups_keep_launches_of_one_geometry_together(made_file: Path) -> None:
    measurements = read_measurements(made_file, FAMILY)
    data = measured_runs("made", FAMILY, measurements, UNDER, Fidelity.ANALYTIC)
    launch = data.runs.profile.launch
    geometry = list(zip(launch.grid_x, launch.grid_y, launch.block_x, launch.block_y, strict=True))
    by_group: dict[int, set[object]] = {}
    for group, shape in zip(data.groups.tolist(), geometry, strict=True):
        by_group.setdefault(group, set()).add(shape)
    assert all(len(shapes) == 1 for shapes in by_group.values())


def test_a_fold_holds_whole_launches_of_all_data_sets(made_file: Path) -> None:
    measurements = read_measurements(made_file, FAMILY)
    data = measured_runs("made", FAMILY, measurements, UNDER, Fidelity.ANALYTIC)
    half = taken(data, np.arange(0, len(data), 2))
    of_all, of_half = fold_of_runs([data, half], 4, seed=1)
    assert of_all[::2].tolist() == of_half.tolist()
    assert set(of_all.tolist()) == {0, 1, 2, 3}
    for group in np.unique(data.groups):
        assert len(set(of_all[data.groups == group].tolist())) == 1


def test_a_run_held_out_does_not_decide_what_is_said_of_it(made_file: Path) -> None:
    """One run three times as slow as it was: its prediction stays, because the fit that gives it did not see it."""
    data = measured_runs("made", FAMILY, read_measurements(made_file, FAMILY), UNDER, Fidelity.ANALYTIC)
    spoilt = data.runs.seconds.copy()
    spoilt[5] *= 3.0
    changed = replace(data, runs=replace(data.runs, seconds=spoilt))
    (before,), (after,) = shapes_out([data]), shapes_out([changed])
    assert after.predicted_s[5] == pytest.approx(before.predicted_s[5], rel=1e-9)
    assert not np.allclose(after.predicted_s, before.predicted_s, rtol=1e-9, atol=0.0)


def test_joined_work_holds_both(made_file: Path) -> None:
    measurements = read_measurements(made_file, FAMILY)
    work = measured_runs("made", FAMILY, measurements, UNDER, Fidelity.ANALYTIC).runs.profile
    twice = joined(work, work)
    assert twice.counts.fp32_fma.tolist() == 2 * work.counts.fp32_fma.tolist()
    assert twice.launch.grid_x.tolist() == 2 * work.launch.grid_x.tolist()


def test_interval_is_the_conformal_quantile() -> None:
    held_out = np.arange(1.0, 20.0)  # 19 errors: rank ceil(0.9 * 20) = 18, the 18th smallest of 1 … 19
    empty = Fit(coefficients=UNDER.calibration.coefficients, log_standard_errors={}, scales={}, log_residuals={})
    errors = HeldOutErrors(held_out={"made": Errors(logs=held_out, weights=np.ones(19))})
    assert Calibrated(fit=empty, data=(), errors=errors).log_error_90 == 18.0


def test_every_problem_counts_the_same_however_many_runs_it_has() -> None:
    """90 runs of one problem that are 0.1 off, one run each of nine others that is 1 off: nine of ten problems are."""
    logs = np.r_[np.full(90, 0.1), np.ones(9)]
    weights = np.r_[np.full(90, 1 / 90), np.ones(9)] / 10
    assert conformal_quantile(logs) == 0.1
    assert conformal_quantile(logs, weights) == 1.0


def test_runs_are_held_out_as_compiled_and_as_closed_forms_see_them(made_file: Path) -> None:
    """Made by closed forms: these are nearly right, and what the compiler says differs."""
    rows = read_measurements(made_file, FAMILY)
    data = measured_runs("made", FAMILY, rows.take(np.arange(0, 120, 6)), UNDER, Fidelity.ANALYTIC)
    assert data.closed is None
    profile = replace(data.runs.profile, global_round_trips=9.0 * data.runs.profile.global_round_trips)
    found = calibrate([replace(data, runs=replace(data.runs, profile=profile), closed=data.runs)])
    assert found.closed is not None
    assert set(found.closed.held_out) == set(found.errors.held_out) == {"made"}
    content = calibration_file(found)
    assert content.datasets["made"].analytic_log_error_90 != content.datasets["made"].log_error_90


def test_too_few_runs_are_refused(made_file: Path) -> None:
    measurements = read_measurements(made_file, FAMILY).take(np.arange(6))
    with pytest.raises(InputError, match=r"made\.csv: 6 runs can be fitted to; at least 10"):
        measured_runs("made", FAMILY, measurements, UNDER, Fidelity.ANALYTIC)


def test_command_writes_a_calibration_that_predictions_take(
    made_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "mine.toml"
    arguments = ["fit", "tiled_conv2d", "--gpu", "t4", "--measurements", str(made_file), "--fidelity", "analytic"]
    assert run([*arguments, "--output", str(output), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["datasets"]["t4-1"]["runs"] == 120
    assert document["coefficients"]["round_trip_latencies"]["value"] > 0
    assert load_calibration(UNDER.gpu, str(output)).calibration_status is CalibrationStatus.CALIBRATED
    assert run([*arguments, "--gpu", "t4", "--output", str(output)]) == 2
    assert "2 times --gpu and 1 times --measurements" in capsys.readouterr().err


def test_a_gpu_held_out_sets_the_interval_of_its_relatives_and_no_coefficient(made_file: Path) -> None:
    """The T4's runs are fitted to; the same times, taken for those of another sm_75 GPU, say how far relatives are off."""
    rows = read_measurements(made_file, FAMILY)
    known = measured_runs("made", FAMILY, rows, UNDER, Fidelity.ANALYTIC)
    relative = scenario_of("rtx-2080-ti")
    told = measured_runs("told", FAMILY, rows, relative, Fidelity.ANALYTIC)
    alone, found = calibrate([known]), calibrate([known, told], held_out=["rtx-2080-ti"])
    assert found.fit.coefficients == alone.fit.coefficients
    seconds, _ = launch_seconds(
        told.runs.profile, told.runs.blocks_per_sm, relative.gpu, found.fit.coefficients_for(relative.gpu)
    )
    errors = np.abs(np.log(told.runs.seconds / seconds))
    calibration = parse_calibration(calibration_text(found), "made.toml", relative.gpu)
    assert calibration.calibration_status is CalibrationStatus.ARCHITECTURE
    assert calibration.fitted_on == ("made",)
    width = calibration.log_error_90(FAMILY.name, Fidelity.ANALYTIC)
    assert width == pytest.approx(Errors.of(told, errors).interval, rel=1e-3)
    own = parse_calibration(calibration_text(found), "made.toml", UNDER.gpu)
    assert own == parse_calibration(calibration_text(alone), "made.toml", UNDER.gpu)


@pytest.mark.parametrize(
    ("gpu_id", "complaint"),
    [
        ("a100-pcie-40gb", "--held-out a100-pcie-40gb: nothing was measured on it (measured: t4)"),
        ("t4", "--held-out t4: no GPU is left to fit to"),
    ],
)
def test_a_gpu_that_cannot_be_held_out_is_named(
    made_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], gpu_id: str, complaint: str
) -> None:
    output = tmp_path / "mine.toml"
    arguments = ["fit", "tiled_conv2d", "--gpu", "t4", "--measurements", str(made_file), "--fidelity", "analytic"]
    assert run([*arguments, "--held-out", gpu_id, "--output", str(output)]) == 2
    assert complaint in capsys.readouterr().err
    assert not output.exists()
