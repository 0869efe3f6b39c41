"""``perfmodel check`` from a perf.toml to exit status and reports, and the same file as tests of pytest."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main

from perfmodel.cli.app import build_app, run

pytestmark = pytest.mark.compiler

SOURCE = """
__global__ void scale(float *x) { x[(blockIdx.x * 64 + threadIdx.x) * STRIDE] *= 2; }
"""
PERF = """
gpus = ["h200"]
[[launch]]
file = "own.cu"
kernel = "scale"
grid = 512
block = 64
arguments = ["f32[512 * 64 * 32]"]
defines = { STRIDE = 1 }
"""


@pytest.fixture
def perf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.cu").write_text(SOURCE)
    path = tmp_path / "perf.toml"
    path.write_text(PERF)
    return path


def test_a_repository_is_checked_against_its_baseline(perf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check"]) == 2
    assert "`perfmodel check perf.toml --update-baseline` makes it" in capsys.readouterr().err
    assert run(["check", "--update-baseline"]) == 0
    assert list(json.loads(Path("perf.baseline.json").read_text())["launches"]["scale"]) == ["h200"]
    capsys.readouterr()
    assert run(["check", "--format", "markdown"]) == 0
    assert "1 unchanged" in capsys.readouterr().out

    slower = PERF.replace("STRIDE = 1", "STRIDE = 32")
    perf.write_text(slower)
    assert run(["check", "--write", "junit=out.xml", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert {outcome["verdict"] for outcome in found["outcomes"]} == {"regressed"}
    assert found["outcomes"][0]["altered"] == ["source", "machine code"]
    sectors = {change["name"]: change["now"] / change["before"] for change in found["outcomes"][0]["information"]}
    assert sectors["global_load_sectors"] == 8  # 32 sectors of a request and not 4
    assert 'failures="1"' in Path("out.xml").read_text()
    assert run(["check", "--fail-on", "spill=0"]) == 0  # time is information there

    environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    plugin = ["-p", "perfmodel.checks.pytest_plugin", "-p", "no:cacheprovider", "-q", "-m", "perfmodel"]
    tests = subprocess.run(
        [sys.executable, "-m", "pytest", *plugin, "perf.toml"],
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
        check=False,
    )
    assert tests.returncode == 1, tests.stderr
    assert "1 failed" in tests.stdout
    assert "the limit is time=5%" in tests.stdout

    assert run(["check", "--update-baseline"]) == 0
    perf.write_text(PERF)
    capsys.readouterr()
    assert run(["check"]) == 0
    assert "1 improved" in capsys.readouterr().out


def test_one_launch_that_does_not_compile_hides_no_other(perf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = (
        PERF.partition("[[launch]]")[2]
        .replace("STRIDE = 1", "STRIDE = 'y'")
        .replace('"scale"', '"scale"\nname = "broken"')
    )
    perf.write_text(PERF + "[[launch]]" + broken)
    assert run(["check", "--update-baseline"]) == 2
    shown = capsys.readouterr()
    assert "1 failed, 1 new" in shown.out
    assert 'own.cu:2: identifier "y" is undefined' in shown.out
    assert "the baseline stays as it was" in shown.err
    assert not Path("perf.baseline.json").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--format", "html"], "--format 'html' must be one of text, markdown, junit, github"),
        (["--write", "junit"], "--write 'junit' must have the form FORMAT=FILE"),
        (["--write", "xml=a.xml"], "--write 'xml=a.xml': unknown format 'xml'"),
        (["--write", "junit=none.toml/a.xml"], "none.toml"),
        (["--fail-on", "speed=1"], "unknown quantity 'speed'"),
        (["none.toml"], "none.toml: cannot be read"),
        (["--baseline", "b.json"], "`perfmodel check perf.toml --baseline b.json --update-baseline` makes it"),
    ],
)
def test_wrong_input_is_one_line(
    perf: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("none.toml").write_text("") if "a.xml" in arguments[-1] else None
    assert run(["check", *arguments]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("\n") == 1
    assert message in shown.err


def test_the_workflow_calls_the_program_as_it_is() -> None:
    yaml = pytest.importorskip("yaml")
    workflow = yaml.safe_load((Path(__file__).parents[3] / "examples" / "perfmodel-check.yml").read_text())
    steps = [step["run"].split() for step in workflow["jobs"]["check"]["steps"] if "run" in step]
    calls = [words for words in steps if words[0] == "perfmodel"]
    assert len(calls) == 1
    command = typer.main.get_command(build_app()).get_command(None, calls[0][1])  # type: ignore[attr-defined]
    given = command.make_context("check", calls[0][2:]).params
    assert (given["shown_as"], given["write"]) == ("github", ["junit=perfmodel.xml", "markdown=perfmodel.md"])
