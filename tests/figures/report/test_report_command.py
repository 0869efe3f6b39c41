"""``perfmodel report``: the file that it writes, what it prints, and its one line where something is wrong."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from perfmodel.calibration import measured_runs
from perfmodel.cli.app import run
from perfmodel.figures.report import html
from perfmodel.prediction.evaluation import evaluate_batch

SMALL = ("--height", "256", "--width", "256", "--fidelity", "analytic")
RANKING = ("report", "tiled_conv2d", "--gpu", "rtx-3090", *SMALL)

OWN_SOURCE = """
__global__ void scale(float *x, int n)
{
    for (int i = blockIdx.x * BLOCK + threadIdx.x; i < n; i += gridDim.x * BLOCK) x[i] *= 2.0f;
}
"""
OWN_SPACE = """
kernel = "scale"
grid = "GRID"
block = "BLOCK"
arguments = ["f32[4096]", "i32=4096"]
tune = { BLOCK = [64, 128], GRID = [16, 32] }
"""


def test_a_ranking_is_written_where_it_is_wanted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "new" / "folder" / "ranking.html"
    assert run([*RANKING, "--output", str(page)]) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith(f"tiled_conv2d on NVIDIA GeForce RTX 3090: written to {page}\nRun block_size_x=")
    text = page.read_text(encoding="utf-8")
    assert text.startswith("<!DOCTYPE html>")
    assert text.count("<tr>") > 24
    assert [path.name for path in page.parent.iterdir()] == ["ranking.html"]


def test_the_same_input_gives_the_same_bytes_over_an_older_page(tmp_path: Path) -> None:
    page = tmp_path / "ranking.html"
    page.write_text("older")
    assert run([*RANKING, "--output", str(page)]) == 0
    first = page.read_bytes()
    assert run([*RANKING, "--output", str(page)]) == 0
    assert page.read_bytes() == first
    assert b"older" not in first


def test_a_page_names_the_command_that_writes_it_again(tmp_path: Path) -> None:
    given = ["--gpu=rtx-3090", "--fidelity", "analytic", "--top", "3", "--width=256"]
    assert run(["report", "tiled_conv2d", *given, "--output", str(tmp_path / "p.html"), "--json"]) == 0
    command = "perfmodel report tiled_conv2d --gpu rtx-3090 --top 3 --fidelity analytic --width=256"
    assert f"<code>{command}</code>" in (tmp_path / "p.html").read_text(encoding="utf-8")


def test_a_validation_is_written_with_measurements(
    made_up: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "validation.html"
    options = ["--measurements", str(made_up), "--fidelity", "analytic", "--where", "tile_size_x < 2", "--json"]
    assert run(["report", "tiled_conv2d", "--gpu", "rtx-3090", *options, "--output", str(page)]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "page": str(page),
        "shows": "validation",
        "figures": ["figure-measured", "figure-regret", "figure-limiter"],
    }
    assert "12 compared, 0 cannot be predicted" in page.read_text(encoding="utf-8")  # half of the file's 24 rows


def test_every_row_is_predicted_once(made_up: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    predicted: list[int] = []

    def counted(family: Any, problem: Any, batch: Any, *others: Any) -> Any:
        predicted.append(len(batch))
        return evaluate_batch(family, problem, batch, *others)

    monkeypatch.setattr(measured_runs, "evaluate_batch", counted)
    options = ["--measurements", str(made_up), "--fidelity", "analytic", "--output", str(tmp_path / "page.html")]
    assert run(["report", "tiled_conv2d", "--gpu", "rtx-3090", *options]) == 0
    assert predicted == [24]


def validation_text(rows: list[str], folder: Path) -> str:
    """The page of a file of measurements."""
    columns = "gpu,width,height,filter_width,filter_height,block_size_x,block_size_y,tile_size_x,tile_size_y,"
    runs, page = folder / "runs.csv", folder / "p.html"
    runs.write_text(columns + "\n".join(rows) + "\n", encoding="utf-8")
    options = ["--measurements", str(runs), "--fidelity", "analytic", "--output", str(page)]
    assert run(["report", "tiled_conv2d", "--gpu", "rtx-3090", *options]) == 0
    return page.read_text(encoding="utf-8")


def test_counters_are_set_against_counts(tmp_path: Path) -> None:
    rows = [
        "use_padding,read_only,time_ms,smsp__inst_executed_op_shared_st.sum",
        "rtx-3090,256,256,3,3,32,4,1,1,0,0,0.01,7",
        "rtx-3090,256,256,3,3,32,8,1,1,0,0,0.01,7",
    ]
    text = validation_text(rows, tmp_path)
    assert "<td>shared_store_requests</td>" in text
    assert "no hardware counters" not in text


def test_the_sizes_that_differ_are_columns(tmp_path: Path) -> None:
    rows = [
        "use_padding,read_only,time_ms",
        "rtx-3090,256,256,3,3,32,4,1,1,0,0,0.01",
        "rtx-3090,512,256,3,3,32,4,1,1,0,0,",
        "rtx-3090,1024,256,3,3,32,4,1,1,0,0,0.01",
    ]
    text = validation_text(rows, tmp_path)
    assert "<dd>2 problems</dd>" in text  # the row that failed has no time
    assert text.count(">width</th>") == 2  # of all rows and of the worst
    assert ">height</th>" not in text


@pytest.mark.parametrize("options", [("--top", "1"), ("--l2", "warm"), ("--sm-clock-mhz", "1000")])
def test_a_ranking_under_other_conditions(options: tuple[str, str], tmp_path: Path) -> None:
    assert run([*RANKING, *options, "--output", str(tmp_path / "p.html")]) == 0
    text = (tmp_path / "p.html").read_text(encoding="utf-8")
    assert text.count("<svg") == 3
    told = {
        "--top": "nothing to compare it with.",
        "--l2": "<dd>warm</dd>",
        "--sm-clock-mhz": "<dd>1,000 MHz</dd>",
    }
    assert told[options[0]] in text


@pytest.mark.compiler
def test_a_users_own_file_is_ranked(tmp_path: Path) -> None:
    source, space, page = tmp_path / "own.cu", tmp_path / "own.toml", tmp_path / "own.html"
    source.write_text(OWN_SOURCE)
    space.write_text(OWN_SPACE)
    assert run(["report", str(source), "--space", str(space), "--gpu", "h200", "--output", str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    assert "<h1>own on NVIDIA H200" in text
    assert "One field changed, the others as in the winner, both executed" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("tiled_conv2d", "--gpu", "h20"), "'h20'"),
        (("tiled_conv", "--gpu", "h200"), "'tiled_conv'"),
        (("tiled_conv2d", "--gpu", "h200", "--colour", "red"), "unexpected argument '--colour'"),
        (("tiled_conv2d", "--gpu", "h200", "--width", "0"), "width=0"),
        (("tiled_conv2d", "--gpu", "h200", "--fidelity", "guessed"), "'guessed'"),
        (("tiled_conv2d", "--gpu", "h200", "--where", "x < 1"), "--filter x < 1 needs --measurements FILE"),
        (("tiled_conv2d", "--gpu", "h200", "--sample", "9"), "--sample 9 needs --measurements FILE"),
        (("tiled_conv2d", "--gpu", "h200", "--measurements", "absent.csv"), "absent.csv"),
        (("tiled_conv2d", "--gpu", "h200", "--measurements", "a.csv", "--top", "3"), "--top 3 belongs to a ranking"),
        (
            ("tiled_conv2d", "--gpu", "h200", "--measurements", "a.csv", "--width", "9"),
            "unexpected argument '--width': the problems are those of a.csv",
        ),
        (("own.cu", "--gpu", "h200"), "own.cu needs --space SPACE.toml"),
        (("own.cu", "--gpu", "h200", "--space", "s.toml", "--height", "9"), "unexpected argument '--height'"),
    ],
)
def test_what_is_wrong_is_named_in_one_line(
    arguments: tuple[str, ...], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["report", *arguments, "--output", str(tmp_path / "page.html")]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
    assert captured.err.startswith("perfmodel: error: ")
    assert captured.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_output_is_needed_and_must_be_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*RANKING]) == 2
    assert "--output" in capsys.readouterr().err
    assert run([*RANKING, "--output", str(tmp_path)]) == 2
    assert f"--output {tmp_path}: is a folder" in capsys.readouterr().err
    assert run([*RANKING, "--output", f"{__file__}/page.html"]) == 2
    assert f"--output {__file__}/page.html: " in capsys.readouterr().err


@pytest.mark.parametrize("missing", html.NEEDED)
def test_without_a_library_the_extra_is_named(
    missing: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(html, "find_spec", lambda name: None if name == missing else object())
    assert run([*RANKING, "--output", str(tmp_path / "page.html")]) == 2
    error = capsys.readouterr().err
    assert error == f"perfmodel: error: a report needs {missing}: pip install 'perfmodel[report]'\n"
    assert list(tmp_path.iterdir()) == []


def test_what_a_page_is_made_of_is_installed() -> None:
    root = Path(__file__).parents[3]
    declared = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    (pattern,) = declared["package-data"]["perfmodel.figures.report"]
    folder = root / "figures" / "report"
    others = {path for path in folder.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")}
    assert others == set(folder.glob(pattern))


def test_the_command_is_there_and_loads_nothing_heavy() -> None:
    program = (
        "import sys\nfrom perfmodel.cli.app import run\nrun(['report', '--help'])\n"
        "sys.exit(bool({'matplotlib', 'jinja2', 'pandas', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "--measurements" in done.stdout
