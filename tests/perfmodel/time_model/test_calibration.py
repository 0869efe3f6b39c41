"""Calibration files: strict keys, what backs a prediction, the interval."""

from __future__ import annotations

import tomllib
from dataclasses import asdict
from importlib.resources import files
from math import exp, log
from pathlib import Path

import pytest

from perfmodel.calibration.fitting import prior
from perfmodel.core.numbers import read_numbers
from perfmodel.errors import InputError
from perfmodel.gpus.catalogue import gpu_ids, load_gpu
from perfmodel.profiles.kernel_profile import Fidelity
from perfmodel.time_model.calibration import CalibrationStatus, load_calibration, parse_calibration
from perfmodel.time_model.coefficients import CHOSEN_NAMES, COEFFICIENT_NAMES

COMPILED = Fidelity.COMPILED
GPU = load_gpu("rtx-3090")
PRIOR = prior().coefficients


def text(datasets: str = "", intervals: str = "", **changed: object) -> str:
    """A calibration file with the prior's coefficients, some of them changed, or left out where None."""
    values = asdict(PRIOR) | changed
    chosen = "[chosen]\n" + "".join(f"{name} = {values.pop(name)}\n" for name in CHOSEN_NAMES)
    lines = [f"[coefficients.{name}]\nvalue = {value}\n" for name, value in values.items() if value is not None]
    return "".join(lines) + chosen + datasets + intervals


def test_every_coefficient_is_read() -> None:
    found = parse_calibration(text(contention=0.125), "own.toml", GPU)
    assert found.coefficients.contention == 0.125
    assert asdict(found.coefficients) == asdict(PRIOR) | {"contention": 0.125}


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (text(contention=None), "contention is missing"),
        (text(contentoin=1.0), "'contentoin'"),
        (text(contention=-0.1), "-0.1"),
        (text(contention='"much"'), "'much'"),
        (text(contention="true"), "True"),
        (text(contention="nan"), "nan"),
        (text(contention="inf"), "inf"),
        (text() + "[coeficients]\n", "'coeficients'"),
        (text() + "[coefficients.contention\n", "own.toml"),
        ("coefficients = 3\n", "coefficients = 3 must be a table"),
        ("coefficients = { contention = 3 }\n", "contention"),
        (text(datasets="[datasets]\nmine = 3\n"), "datasets.mine"),
        (text(datasets="[datasets.mine]\ngpu = 3\n"), "datasets.mine"),
        (text() + "[architectures]\nsm_86 = 3\n", "architectures.sm_86"),
        (text() + "[architectures.ampere.contention]\nvalue = 1\n", "architectures: keys 'ampere'"),
        (text() + "[architectures.sm_86.contentoin]\nvalue = 1\n", "'contentoin'"),
        (
            text() + "[architectures.sm_86.contention]\nvalue = -1\n",
            "architectures.sm_86.contention.value = -1 must be a number >= 0",
        ),
        (text(datasets='[datasets.mine]\ngpu = "t4"\nlog_error_90 = -1\n'), "datasets.mine.log_error_90"),
        (text(intervals='[intervals]\ncalibrated = "wide"\n'), "'wide'"),
        (text(intervals="[intervals]\ncalibrated = -0.1\n"), "-0.1"),
        (text(intervals="[intervals]\ncalibratd = 0.1\n"), "'calibratd'"),
    ],
)
def test_a_wrong_file_is_refused_by_name(content: str, named: str) -> None:
    with pytest.raises(InputError, match=r"own\.toml") as refused:
        parse_calibration(content, "own.toml", GPU)
    assert named in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("fitted", "asked", "calibration_status"),
    [
        ("rtx-3090", "rtx-3090", CalibrationStatus.CALIBRATED),
        ("rtx-3090", "rtx-a6000", CalibrationStatus.ARCHITECTURE),  # both 8.6
        ("rtx-3090", "a100-pcie-40gb", CalibrationStatus.DATA_SHEET),  # 8.6 and 8.0
        ("from-a-file-of-its-own", "h200", CalibrationStatus.DATA_SHEET),
    ],
)
def test_evidence_says_how_near_the_fitted_gpu_is(
    fitted: str, asked: str, calibration_status: CalibrationStatus
) -> None:
    datasets = f'[datasets.runs]\ngpu = "{fitted}"\n'
    found = parse_calibration(text(datasets), "own.toml", load_gpu(asked))
    assert found.calibration_status is calibration_status
    assert found.fitted_on == ("runs",)


def test_the_interval_is_a_factor_both_ways() -> None:
    """|log(measured / predicted)| ≤ log 1.25 for 90 %: from 80 % to 125 % of what was predicted."""
    datasets = '[datasets.runs]\ngpu = "rtx-3090"\n'
    intervals = f"[intervals]\ncalibrated = {log(1.25)}\narchitecture = {log(2.0)}\n"
    content = text(datasets, intervals)
    found = parse_calibration(content, "own.toml", GPU).backing(None, COMPILED).interval_s(1.0)
    assert found == pytest.approx((0.8, 1.25))
    assert exp(
        parse_calibration(content, "own.toml", load_gpu("rtx-a6000")).log_error_90(None, COMPILED) or 0
    ) == pytest.approx(2)
    assert parse_calibration(content, "own.toml", load_gpu("h200")).backing(None, COMPILED).interval_s(1.0) is None


def test_a_gpu_takes_the_coefficients_of_its_architecture() -> None:
    content = text(contention=0.5) + "[architectures.sm_86.contention]\nvalue = 0.25\n"
    found = {name: parse_calibration(content, "own.toml", load_gpu(name)) for name in ("rtx-3090", "rtx-a6000", "h200")}
    assert {name: one.coefficients.contention for name, one in found.items()} == {
        "rtx-3090": 0.25,
        "rtx-a6000": 0.25,  # 8.6 as well
        "h200": 0.5,
    }
    assert found["rtx-3090"].coefficients.demand_norm == PRIOR.demand_norm


def test_a_measured_gpu_takes_the_widest_interval_of_its_own_data() -> None:
    entries = [("first", "rtx-3090", 0.05), ("second", "rtx-3090", 0.07), ("third", "a100-pcie-40gb", 0.15)]
    datasets = "".join(f'[datasets.{name}]\ngpu = "{gpu}"\nlog_error_90 = {width}\n' for name, gpu, width in entries)
    content = text(datasets, "[intervals]\ncalibrated = 0.1\narchitecture = 0.2\n")
    assert parse_calibration(content, "own.toml", GPU).log_error_90(None, COMPILED) == 0.07
    assert parse_calibration(content, "own.toml", load_gpu("a100-pcie-40gb")).log_error_90(None, COMPILED) == 0.15
    assert parse_calibration(content, "own.toml", load_gpu("rtx-a6000")).log_error_90(None, COMPILED) == 0.2


def test_an_own_file_stands_for_the_shipped_one(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(text(contention=0.5), encoding="utf-8")
    assert load_calibration(GPU, str(path)).coefficients.contention == 0.5
    path.write_text(text(contention=0.7), encoding="utf-8")
    assert load_calibration(GPU, str(path)).coefficients.contention == 0.7, "a file fitted anew is read anew"
    with pytest.raises(InputError, match=r"absent\.toml"):
        load_calibration(GPU, str(tmp_path / "absent.toml"))


def test_the_shipped_calibration_serves_every_gpu() -> None:
    for gpu_id in gpu_ids():
        found = load_calibration(load_gpu(gpu_id))
        assert all(getattr(found.coefficients, name) >= 0 for name in COEFFICIENT_NAMES)


def test_a_kernel_that_was_not_measured_on_a_gpu_is_told_less_surely() -> None:
    datasets = "".join(
        f'[datasets.{name}]\ngpu = "{GPU.id}"\nkernel = "{kernel}"\nlog_error_90 = {width}\n'
        for name, kernel, width in (("a", "ssim", 0.1), ("b", "conv1d", 0.2))
    )
    found = parse_calibration(text(datasets=datasets) + "[intervals]\nother_kernel = 0.5\n", "own.toml", GPU)
    assert [found.log_error_90(name, COMPILED) for name in ("ssim", "conv1d", "direct_conv2d", None)] == [
        0.1,
        0.2,
        0.5,
        0.5,
    ]
    silent = parse_calibration(text(datasets=datasets), "own.toml", GPU)
    assert silent.log_error_90(None, COMPILED) == 0.2  # none smaller than any of this GPU
    assert found.label("ssim", COMPILED) == "calibrated GPU"
    assert found.label(None, COMPILED) == "calibrated GPU, but on ssim, conv1d: yours is of another kind"


def test_closed_forms_have_intervals_of_their_own() -> None:
    datasets = (
        f'[datasets.a]\ngpu = "{GPU.id}"\nkernel = "ssim"\nlog_error_90 = 0.1\nanalytic_log_error_90 = 0.4\n'
        f'[datasets.b]\ngpu = "{GPU.id}"\nkernel = "conv1d"\nlog_error_90 = 0.2\nanalytic_log_error_90 = 0.3\n'
    )
    intervals = "[intervals]\nother_kernel = 0.5\n[analytic_intervals]\narchitecture = 0.7\nother_kernel = 0.6\n"
    found = parse_calibration(text(datasets, intervals), "own.toml", GPU)
    asked = [("ssim", 0.4), ("conv1d", 0.3), ("direct_conv2d", 0.6)]
    assert [found.log_error_90(name, Fidelity.ANALYTIC) for name, _ in asked] == [width for _, width in asked]
    assert found.log_error_90("ssim", COMPILED) == found.log_error_90("ssim", Fidelity.SIMULATED) == 0.1
    assert found.label("ssim", Fidelity.ANALYTIC) == "calibrated GPU; closed forms"
    relative = parse_calibration(text(datasets, intervals), "own.toml", load_gpu("rtx-a6000"))
    assert relative.log_error_90("ssim", Fidelity.ANALYTIC) == 0.7
    silent = parse_calibration(text(datasets.replace("analytic_log_error_90", "#")), "own.toml", GPU)
    assert silent.log_error_90("ssim", Fidelity.ANALYTIC) == 0.1  # a file that does not say


@pytest.mark.parametrize("kernel", ["tiled_conv2d", "direct_conv2d", "pointwise_conv2d", "conv1d", "ssim"])
def test_the_shipped_intervals_of_closed_forms_alone_are_hardly_narrower(kernel: str) -> None:
    shipped = load_calibration(load_gpu("h200"))
    compiled, analytic = (shipped.log_error_90(kernel, depth) for depth in (COMPILED, Fidelity.ANALYTIC))
    assert compiled is not None
    assert analytic is not None
    assert 0.1 < compiled < 1.1 * analytic


def test_at_most_twelve_numbers_are_fitted_and_each_is_identified() -> None:
    """Seven of the closed form, none of them of one architecture, and five of the model of one SM: within a fifth each."""
    content = tomllib.loads((files("perfmodel.data") / "calibrations" / "universal.toml").read_text(encoding="utf-8"))
    errors = [entry["log_standard_error"] for entry in content["coefficients"].values()]
    model = tomllib.loads((files("perfmodel.data") / "calibrations" / "sm_model.toml").read_text(encoding="utf-8"))
    fitted = [entry["log_standard_error"] for entry in model.values() if "log_standard_error" in entry]
    assert "architectures" not in content
    assert len(errors) + len(fitted) <= 12
    assert max(*errors, *fitted) < 0.2


def test_closed_forms_have_the_intervals_of_new_problems_where_such_were_measured() -> None:
    measured, other = (load_calibration(load_gpu(name)) for name in ("h200", "rtx-3090"))
    known = {name: float(one.value) for name, one in read_numbers("closed_forms").items()}
    assert {name: measured.log_error_90(name, Fidelity.ANALYTIC) for name in known} == known
    assert measured.log_error_90("ssim", Fidelity.COMPILED) != known["ssim"]
    assert other.log_error_90("tiled_conv2d", Fidelity.ANALYTIC) != known["tiled_conv2d"]
