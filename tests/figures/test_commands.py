"""``perfmodel plot``: what it prints, and its one line where something is missing."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from perfmodel.cli.app import run
from perfmodel.figures import style
from perfmodel.figures.commands import FIGURES


def test_list_names_every_figure(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plot", "--list"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in FIGURES)
    assert run(["plot", "--list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["figures"]
    assert {row["name"]: row["shows"] for row in listed} == FIGURES


def test_one_figure_is_drawn_where_it_is_wanted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "new" / "folder"
    assert run(["plot", "occupancy_cliffs", "--output", str(folder), "--json"]) == 0
    (drawn,) = json.loads(capsys.readouterr().out)["figures"]
    assert Path(drawn["svg"]) == folder / "occupancy_cliffs.svg"
    assert Path(drawn["png"]).is_file()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["rooflines"], "unknown figure 'rooflines'; nearest: roofline"),
        (["roofline", "--output", __file__], f"--output {__file__}: "),
    ],
)
def test_what_is_wrong_is_named_in_one_line(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = arguments if "--output" in arguments else [*arguments, "--output", str(tmp_path)]
    assert run(["plot", *given]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
    assert captured.err.count("\n") == 1


def test_without_matplotlib_the_extra_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(style, "find_spec", lambda name: None)
    assert run(["plot", "roofline", "--output", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert error == "perfmodel: error: figures need matplotlib: pip install 'perfmodel[figures]'\n"


def test_the_command_is_registered_without_matplotlib() -> None:
    program = "import sys, perfmodel.figures.commands; sys.exit('matplotlib' in sys.modules or 'pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
