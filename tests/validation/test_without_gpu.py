"""Without a GPU every command says so in one line."""

import subprocess
import sys
from pathlib import Path

import pytest

from campaigns.__main__ import app
from perfmodel.cli.app import run
from perfmodel.validation.device import GpuMissingError, commit_id, known_gpu_id, require_device


@pytest.fixture(autouse=True)
def _only_without_gpu() -> None:
    try:
        require_device()
    except GpuMissingError:
        return
    pytest.skip("this machine has a GPU")


PROBLEMS = Path(__file__).parents[2] / "examples" / "problems.toml"


@pytest.mark.parametrize("what", [["tiled_conv2d", "--width", "64"], ["--problems", str(PROBLEMS), "--libraries"]])
def test_measure_says_that_no_gpu_was_found(
    what: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "records.jsonl"
    assert run(["measure", *what, "--records", str(path)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("perfmodel: error: no GPU was found: ")
    assert captured.err.count("\n") == 1
    assert not path.exists()


@pytest.mark.parametrize("step", ["micro", "check", "count", "sanitize"])
def test_every_step_of_the_campaign_says_so(tmp_path: Path, step: str) -> None:
    with pytest.raises(GpuMissingError, match="no GPU was found"):
        app([step, "--folder", str(tmp_path), "--records", str(tmp_path / "r.jsonl")], standalone_mode=False)


def test_the_campaign_as_a_program_ends_with_status_2(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "campaigns", "check", "--folder", str(tmp_path)]
    ended = subprocess.run([*command, "--records", "r.jsonl"], capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert ended.stderr.startswith("perfmodel: error: no GPU was found: ")
    assert ended.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no_such_family"], "unknown family"),
        (["tiled_conv2d", "--filter-width", "4"], "filter_width=4 must be odd"),
        (["tiled_conv2d", "--width", "wide"], "width"),
        (["--problems", "no_such.toml"], "no_such.toml: cannot be read"),
        (["--problems", str(PROBLEMS), "--width=64"], "'--width=64': options of problems need FAMILY"),
        (["tiled_conv2d", "--problems", str(PROBLEMS)], "give one of FAMILY, --problems, --prepared"),
        (["--problems", str(PROBLEMS), "--kernel-tuner-cache", "c.json"], "--kernel-tuner-cache holds one problem"),
        (["--prepared", "folder", "--prepare", "folder"], "--prepare and --prepared exclude each other"),
        (["tiled_conv2d", "--gpu", "h200", "--prepare", __file__], "is a file; a folder's name is needed"),
    ],
)
def test_bad_input_is_named_before_the_gpu_is_looked_for(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["measure", *arguments, "--records", "r.jsonl"]) == 2
    assert message in capsys.readouterr().err


def test_what_is_measured_needs_a_file_for_its_records(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["measure", "tiled_conv2d"]) == 2
    assert "measuring needs --records FILE.jsonl" in capsys.readouterr().err


def test_what_is_known_without_a_gpu() -> None:
    assert known_gpu_id("NVIDIA GeForce RTX 3090") == "rtx-3090"
    assert known_gpu_id("Voodoo 2") == "Voodoo 2"
    assert commit_id()
