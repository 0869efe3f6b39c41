"""Tables as comma-separated values, help that knows the family, completion of the shell."""

from __future__ import annotations

import csv
import io
import os
import subprocess
import sys

import pytest

from perfmodel.cli.app import run

PROBLEM = ("--width", "256", "--height", "256", "--fidelity", "analytic")


def rows_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, str]]:
    assert run([*arguments, "--csv"]) == 0
    return list(csv.DictReader(io.StringIO(capsys.readouterr().out)))


def test_a_ranking_is_a_row_for_each_place(capsys: pytest.CaptureFixture[str]) -> None:
    rows = rows_of(capsys, "rank", "tiled_conv2d", "--gpu", "h200", "--top", "3", *PROBLEM)
    assert [row["place"] for row in rows] == ["1", "2", "3"]
    times = [float(row["predicted_s"]) for row in rows]
    assert times == sorted(times)
    assert all(float(row["interval_low_s"]) < time for row, time in zip(rows, times, strict=True))


@pytest.mark.parametrize(
    ("arguments", "count", "column"),
    [
        (("predict", "tiled_conv2d", "--gpu", "h200", *PROBLEM), 1, "dram_s"),
        (("gpus",), 32, "sm_count"),
        (("network", "ssim_4k_video", "--gpu", "h200"), 1, "layer"),
    ],
)
def test_commands_print_rows(
    arguments: tuple[str, ...], count: int, column: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = rows_of(capsys, *arguments)
    assert len(rows) == count
    assert all(row[column] for row in rows)


def test_one_format_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["gpus", "--json", "--csv"]) == 2
    assert "--json and --csv exclude each other" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["rank", "predict"])
def test_help_behind_a_family_lists_its_options(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([command, "tiled_conv2d", "--help"]) == 0
    shown = capsys.readouterr().out
    assert [line.split() for line in shown.splitlines() if line.startswith("--height")] == [
        ["--height", "integer", "4096", "also", "--image-height"]
    ]
    assert "block_size_x" in shown
    assert run([command, "--help"]) == 0
    assert "also --image-height" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("perfmodel rank conv1d --gpu rtx-5", ["rtx-5080", "rtx-5090"]),
        ("perfmodel rank di", ["direct_conv2d"]),
        ("perfmodel predict conv1d --l2 w", ["warm"]),
        ("perfmodel ch", ["check"]),
    ],
)
def test_the_shell_is_offered_what_fits(words: str, offered: list[str]) -> None:
    asked = {"_PERFMODEL_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    done = subprocess.run(
        [sys.executable, "-c", "from perfmodel.__main__ import main; main()"],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | asked,
        check=False,
    )
    assert done.stdout.split() == offered
