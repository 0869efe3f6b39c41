"""Wrong input: one line on standard error that names the value, exit status 2, nothing on standard output, no traceback."""

from __future__ import annotations

import gzip
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from perfmodel.cli.app import build_app, run

HEADER = (
    "gpu,width,height,filter_width,filter_height,block_size_x,block_size_y,tile_size_x,tile_size_y,"
    "use_padding,read_only,time_ms\n"
)
ROW = "rtx-3090,4096,4096,15,15,32,4,1,1,0,0,1.9\n"


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line that a wrong command line gives."""
    assert run(list(arguments)) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = [line for line in captured.err.splitlines() if line.strip()]
    assert len(lines) == 1, captured.err
    assert lines[0].startswith("perfmodel: error: ")
    return lines[0]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("rank", "tiled_conv2d", "--gpu", "h20"), "'h20'"),
        (("rank", "tiled_conv2d", "--gpu", "h200", "--gpu", "t4"), "--gpu is given 2 times; it takes one value"),
        (("rank", "conv1d", "--gpu", "h200", "--length", "9", "--length=8"), "--length is given several times"),
        (("predict", "conv1d", "--gpu", "t4", "--set", "x=1", "--set", "x=2"), "--set x is given several times"),
        (("run", "a.cu", "--gpu", "h200", "--gpu", "t4", "--", "--gpu"), "--gpu is given 2 times"),
        (("analyze", "missing.cu", "--gpu", "h200", "--gpu", "h20"), "'h20'"),
        (("rank", "tiled_conv", "--gpu", "h200"), "'tiled_conv'"),
        (("rank", "tiled_conv2d"), "--gpu"),
        (("rank", "tiled_conv2d", "--gpu", "h200", "--width", "many"), "'many'"),
        (("rank", "tiled_conv2d", "--gpu", "h200", "--width", "0"), "width=0"),
        (("rank", "tiled_conv2d", "--gpu", "h200", "--width=-4"), "width=-4"),
        (("rank", "tiled_conv2d", "--gpu", "h200", "--width", "9999999999"), "width=9999999999"),
        (("rank", "tiled_conv2d", "--gpu", "h200", "--width", "60000", "--height", "60000"), "60014"),
        (("rank", "tiled_conv2d", "--gpu", "h200", "--filter-width", "4"), "filter_width=4"),
        (
            ("rank", "tiled_conv2d", "--gpu", "h200", "--colour", "red"),
            "'--colour' for TiledConv2d",
        ),
        (("rank", "conv1d", "--gpu", "h200", "--lenght", "9"), "'--lenght' for Conv1d; nearest: --length"),
        (("rank", "tiled_conv2d", "--gpu", "h200", "--width"), "--width"),
        (("rank", "tiled_conv2d", "--gpu", "h200", "--fidelity", "guessed"), "'guessed'"),
        (("rank", "tiled_conv2d", "--gpu", "h200", "--l2", "hot"), "'hot'"),
        (("rank", "tiled_conv2d", "--gpu", "h200", "--top", "none"), "'none'"),
        (("rank", "direct_conv2d", "--gpu", "h200", "--height", "3", "--filter-height", "9"), "filter_height"),
        (("predict", "tiled_conv2d", "--gpu", "h200", "--set", "block_size=8"), "'block_size'"),
        (("predict", "tiled_conv2d", "--gpu", "h200", "--set", "block_size_x"), "'block_size_x'"),
        (("predict", "tiled_conv2d", "--gpu", "h200", "--set", "read_only=7"), "read_only"),
        (("predict", "direct_conv2d", "--gpu", "h200", "--set", "reuse=some"), "'some'"),
        (("rank", "conv1d", "--gpu", "h200", "--space", "s.toml"), "--space s.toml is that of a FILE.cu"),
        (
            ("validate", "conv1d", "--gpu", "h200", "--measurements", "m.csv", "--space", "s.toml"),
            "--space s.toml is that of a FILE.cu",
        ),
        (("rank", "conv1d", "--gpu", "h200", "--calibration", "none.toml"), "none.toml: cannot be read: No such file"),
        (("rank", "conv1d", "--gpu", "h200", "--sm-clock-mhz", "inf"), "--sm-clock-mhz"),
        (("analyze", "k.cu", "--gpu", "h200", "--include", "headers"), "--include"),
        (("analyze", "k.cu", "--gpu", "h200", "--fail-on", "time=1%"), "give that by --baseline FILE.json"),
        (("gpus", "h300"), "'h300'"),
        (("gpus", "NVIDIA GeForce RTX 4099"), "unknown GPU 'NVIDIA GeForce RTX 4099'; nearest: rtx-4090"),
        (("no-such-command",), "no-such-command"),
    ],
)
def test_one_line_names_the_value(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], named: str) -> None:
    assert named in refused(capsys, *arguments)


def test_a_configuration_that_does_not_fit_names_the_limit(capsys: pytest.CaptureFixture[str]) -> None:
    fields = ["block_size_x=128", "block_size_y=32", "tile_size_x=1", "tile_size_y=1", "use_shmem=1", "use_padding=0"]
    options = [word for field in fields for word in ("--set", field)]
    line = refused(capsys, "predict", "tiled_conv2d", "--gpu", "h200", "--fidelity", "analytic", *options)
    assert "4096 threads" in line
    assert "1024 threads per block" in line


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("", "empty"),
        ("not,a,table\n1,2\n", ""),
        (HEADER.replace("tile_size_x", "tile") + ROW, "tile_size_x"),
        (HEADER + ROW + "rtx-3090,4096,4096,15,15,32,4,1,1,0,0,fast\n", "fast"),
        (HEADER + ROW + "rtx-3090,4096,4096,15,15,32,wide,1,1,0,0,1.0\n", "wide"),
        (HEADER + ROW + "rtx-3090,4096,40", ""),
        (HEADER + ROW.replace("1.9", "-1.9"), "-1.9"),
    ],
)
def test_a_bad_csv_names_the_file(capsys: pytest.CaptureFixture[str], tmp_path: Path, content: str, named: str) -> None:
    path = tmp_path / "runs.csv"
    path.write_text(content, encoding="utf-8")
    line = refused(capsys, "validate", "tiled_conv2d", "--gpu", "rtx-3090", "--measurements", str(path))
    assert "runs.csv" in line
    assert named in line


@pytest.mark.parametrize("damage", ["truncated gzip", "not json", "absent"])
def test_a_damaged_cache_names_the_file(capsys: pytest.CaptureFixture[str], tmp_path: Path, damage: str) -> None:
    path = tmp_path / "cache.json.gz"
    if damage == "truncated gzip":
        path.write_bytes(gzip.compress(b'{"device_name": "x"}' * 99)[:60])
    elif damage == "not json":
        path.write_bytes(gzip.compress(b'{"device_name": "NVIDIA GeForce RTX 3090", "cache": {"1,2": {"time": }}}'))
    line = refused(capsys, "validate", "tiled_conv2d", "--gpu", "rtx-3090", "--measurements", str(path))
    assert "cache.json.gz" in line


def test_a_where_that_is_no_expression_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text(HEADER + ROW, encoding="utf-8")
    options = ["--gpu", "rtx-3090", "--measurements", str(path), "--where", "tile_size_x <"]
    assert "tile_size_x <" in refused(capsys, "validate", "tiled_conv2d", *options)


def test_without_the_compiler_the_message_names_the_extra() -> None:
    code = (
        "import sys\n"
        "class Refuse:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] == 'cuda': raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Refuse())\n"
        "from perfmodel.cli.app import run\n"
        "options = ['rank', 'tiled_conv2d', '--gpu', 'h200', '--width', '64', '--height', '64']\n"
        "assert run([*options, '--fidelity', 'analytic']) == 0\n"
        "sys.exit(run(options))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "perfmodel[compile]" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.compiler
def test_an_unusable_cache_folder_is_said_and_does_no_harm(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder", encoding="utf-8")
    code = (
        "from perfmodel.compiler.compiled import compile_kernel\n"
        "from perfmodel.compiler.request import CompileRequest\n"
        "source = 'extern \"C\" __global__ void k(float *x) { x[0] = 1.0f; }'\n"
        "print(compile_kernel(CompileRequest(source=source, kernel='k', file_name='k.cu'), 'sm_80').kernel_name)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PERFMODEL_CACHE": str(blocked / "cache"), "PATH": ""},
    )
    assert done.stdout.strip() == "k"
    assert str(blocked) in done.stderr


def test_where_nothing_can_be_written_is_said_before_the_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The measurements do not exist: a command that looked at them first would name them instead."""
    rows = ("tiled_conv2d", "--gpu", "rtx-3090", "--measurements", str(tmp_path / "missing.csv"))
    for place, reason in ((tmp_path, "is a folder"), (Path(__file__) / "under" / "a-file", "")):
        line = refused(capsys, "fit", *rows, "--output", str(place))
        assert f"--output {place}: {reason}" in line
    assert list(tmp_path.iterdir()) == []


def test_an_output_never_replaces_what_is_read_or_read_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever runs the program: a privileged user may write what is marked read-only."""
    rows, kept = tmp_path / "rows.csv", tmp_path / "kept.toml"
    rows.write_text(HEADER + ROW)
    kept.write_text("kept")
    kept.chmod(0o444)
    fit = ("fit", "tiled_conv2d", "--gpu", "rtx-3090", "--measurements", str(rows))
    same = str(tmp_path / "." / "rows.csv")
    assert "--output" in refused(capsys, *fit, "--output", same)
    assert "read-only" in refused(capsys, *fit, "--output", str(kept))
    assert rows.read_text() == HEADER + ROW
    assert kept.read_text() == "kept"


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ('tile_size_x.values.tofile("written")', "has a Call"),
        ("tile_size_x.iloc[99]", "has a Subscript"),
        ("(((", "is no expression"),
        ("tile_size_x in [1,2", "is no expression"),
        ("-" * 3000 + "tile_size_x > 1", "is no expression"),
        ("1 if tile_size_x else 2", "has a IfExp"),
        ("colour > 1", "'colour' is not defined; columns: "),
    ],
)
def test_rows_are_chosen_by_columns_alone(
    query: str, named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text(HEADER + ROW)
    monkeypatch.chdir(tmp_path)
    command = ("validate", "tiled_conv2d", "--gpu", "rtx-3090", "--measurements", str(rows), "--where", query)
    assert named in refused(capsys, *command)
    assert list(tmp_path.iterdir()) == [rows]


@pytest.mark.parametrize("text", ["x = " + "[" * 5000, "x = " + "9" * 5000])
def test_toml_that_no_reader_takes_is_refused(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "file.toml"
    path.write_text(text)
    source = tmp_path / "own.cu"
    source.write_text("__global__ void k(float *x) { x[0] = 1.0f; }")
    for command in (
        ("gpus", str(path)),
        ("rank", "tiled_conv2d", "--gpu", "h200", "--calibration", str(path)),
        ("rank", str(source), "--gpu", "h200", "--space", str(path)),
        ("network", str(path), "--gpu", "h200"),
    ):
        assert str(path) in refused(capsys, *command)


def test_an_output_must_be_a_regular_file_with_a_possible_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fit = ("fit", "tiled_conv2d", "--gpu", "rtx-3090", "--measurements", "none.csv", "--output")
    assert "is no regular file" in refused(capsys, *fit, "/dev/null")
    assert "too long" in refused(capsys, *fit, str(tmp_path / ("x" * 300)))
    for command in (fit[:-1], ("plot", "occupancy_cliffs")):
        assert "--output -1: begins like an option" in refused(capsys, *command, "--output=-1")


def test_a_full_standard_output_is_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        found = subprocess.run(
            [sys.executable, "-m", "perfmodel", "families", "--json"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert found.returncode == 2
    assert found.stderr == "perfmodel: error: standard output: No space left on device\n"


def test_a_terminal_without_a_character_shows_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    found = subprocess.run([sys.executable, "-m", "perfmodel", "gpus", "h200"], capture_output=True, check=False)
    assert found.returncode == 0
    assert found.stderr == b""


def wrong_numbers() -> Iterator[tuple[str, str, str]]:
    """For every option of every command that takes a number: no number, and one below the least, or none at all."""
    program: Any = typer.main.get_command(build_app())
    for name, command in program.commands.items():
        for option in command.params:
            kind = getattr(getattr(option, "type_descriptor", None), "annotation", None)
            if kind in (int, float):
                yield name, option.opts[0], "many"
                yield name, option.opts[0], "nan" if option.min is None else str(option.min - 1)


@pytest.mark.parametrize(("command", "option", "value"), list(wrong_numbers()))
def test_a_wrong_number_names_its_option(
    capsys: pytest.CaptureFixture[str], command: str, option: str, value: str
) -> None:
    line = refused(capsys, command, f"{option}={value}")
    assert option in line
    assert value in line
