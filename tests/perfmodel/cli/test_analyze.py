"""``perfmodel analyze`` and ``perfmodel rank FILE.cu``: the JSON contract, the tables, exit status and one-line errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from perfmodel.cli.app import run
from perfmodel.core.counts import COUNT_NAMES

pytestmark = pytest.mark.compiler

SOURCE = """
#include <vector>
template <int STRIDE> __global__ void gather(const float *in, float *out, float by)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = in[i * STRIDE] * by + BIAS;
}
__global__ void race(float *x)
{
    __shared__ float s[64];
    s[threadIdx.x] = x[threadIdx.x];
    x[threadIdx.x] = s[63 - threadIdx.x];
}
int main() { std::vector<float> data(64); gather<1><<<1, 64>>>(data.data(), nullptr, 1.0f); }
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "own.cu"
    path.write_text(SOURCE)
    return path


def gather(source: Path, stride: int, *more: str) -> list[str]:
    launch = ["--gpu", "h200", "--grid", "16", "--block", "64,1", "--define", "BIAS=2"]
    arguments = ["--arg", f"f32[{1024 * stride}]", "--arg", "f32[1024]=0", "--arg", "f32=0.5"]
    return ["analyze", str(source), "--kernel", f"gather<{stride}>", *launch, *arguments, *more]


def json_of(capsys: pytest.CaptureFixture[str], arguments: list[str], status: int = 0) -> dict[str, Any]:
    assert run([*arguments, "--json"]) == status
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def error_of(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> str:
    assert run(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert captured.err.startswith("perfmodel: error: ")
    return captured.err


def test_the_object_is_that_of_the_contract(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = json_of(capsys, gather(source, 2))
    assert {"kernel", "gpu", "fidelity", "exact", "config", "resources", "occupancy", "counts", "time"} <= set(found)
    assert "problem" not in found
    assert "instructions" not in found
    assert (found["kernel"], found["gpu"], found["fidelity"], found["exact"]) == (
        "gather<2>",
        "h200",
        "simulated",
        True,
    )
    assert found["config"] == {
        "grid": [16, 1, 1],
        "block": [64, 1, 1],
        "shared": 0,
        "cluster": "none",
        "defines": {"BIAS": 2},
    }
    assert set(found["counts"]) == set(COUNT_NAMES)
    assert found["counts"]["global_load_requests"] == 32
    assert found["counts"]["global_load_sectors"] == 32 * 8  # 32 lanes of every second word
    assert found["time"]["predicted_us"] > 0


def test_source_lists_the_wasteful_lines_first(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = json_of(capsys, gather(source, 8, "--source"))["instructions"]
    assert (rows[0]["file"], rows[0]["line"]) == ("own.cu", 6)
    assert rows[0]["sectors_per_request"] == 32
    assert rows[0]["efficiency"] == 4 / 32
    assert rows[0]["excess_bytes"] == 32 * 32 * (32 - 4)
    assert run(gather(source, 8, "--source")) == 0
    table = capsys.readouterr().out
    assert "own.cu:6" in table
    assert "predicted" in table


def test_a_baseline_fails_what_got_slower(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = tmp_path / "before.json"
    earlier = json_of(capsys, gather(source, 2))
    before.write_text(
        json.dumps(earlier | {"time": earlier["time"] | {"predicted_us": earlier["time"]["predicted_us"] / 2}})
    )
    assert run(gather(source, 2, "--baseline", str(before))) == 1
    assert "(+100.0%)" in capsys.readouterr().err
    assert run(gather(source, 2, "--baseline", str(before), "--fail-on", "time=101%")) == 0
    fewer = earlier["counts"] | {"global_load_sectors": 1}
    before.write_text(json.dumps(earlier | {"counts": fewer}))
    assert run(gather(source, 2, "--baseline", str(before))) == 0  # counts are information
    assert run(gather(source, 2, "--baseline", str(before), "--fail-on", "global_load_sectors=0")) == 1
    assert run(gather(source, 4, "--baseline", str(before))) == 2  # of another kernel


def test_a_fault_is_reported_with_status_1(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    launch = ["--kernel", "race", "--gpu", "h200", "--grid", "1", "--block", "64", "--define", "BIAS=0"]
    found = json_of(capsys, ["analyze", str(source), *launch, "--arg", "f32[64]"], status=1)
    assert len(found["faults"]) == 1
    assert "race in shared memory by thread (0, 0, 0)" in found["faults"][0]
    assert "own.cu:12" in found["faults"][0]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("gather<2>", "scatter", "no kernel 'scatter'; its kernels: "),
        ("gather<2>", "gather<x>", '(identifier "x" is undefined'),
        ("f32=0.5", "i32=5", "argument 3 (float by) takes a floating-point number"),
        ("f32=0.5", "f33=5", "'f33=5'"),
        ("f32[1024]=0", "f32[1000]=0", "past the end of 'out'; give larger buffers"),
        ("16", "16,x", "--grid '16,x'"),
        ("64,1", "64,17", "1088 threads"),
        ("64,1", "0", "block 0,1,1"),
        ("BIAS=2", "2", "--define '2=1'"),
        ("BIAS=2", "BIAS=y", 'own.cu:6: identifier "y" is undefined'),
        ("h200", "h2000", "h2000"),
    ],
)
def test_wrong_input_is_one_line_that_names_it(
    old: str, new: str, message: str, source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = gather(source, 2)
    assert old in arguments
    assert message in error_of(capsys, [new if word == old else word for word in arguments])


def test_a_missing_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "none.cu" in error_of(capsys, gather(tmp_path / "none.cu", 1))


def test_a_file_is_ranked_over_its_space(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    space = tmp_path / "space.toml"
    space.write_text(
        'kernel = "gather<{STRIDE}>"\ngrid = "1024 // THREADS"\nblock = "THREADS"\n'
        'arguments = ["f32[1024 * STRIDE]", "f32[1024]", "f32=1"]\n'
        "sizes = { BIAS = 1 }\ntune = { STRIDE = [1, 8], THREADS = [64] }\n"
    )
    arguments = ["rank", str(source), "--space", str(space), "--gpu", "h200"]
    found = json_of(capsys, arguments)
    assert found["problem"] == {"file": str(source), "space": str(space)}
    assert [place["config"]["STRIDE"] for place in found["top"]] == [1, 8]
    assert run(arguments) == 0
    assert "ranks 1–2 lie within" in capsys.readouterr().out


def test_a_file_without_a_space_is_refused(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "needs --space" in error_of(capsys, ["rank", str(source), "--gpu", "h200"])


def test_a_family_takes_no_space(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    space = tmp_path / "space.toml"
    space.write_text("")
    assert "error" in error_of(capsys, ["rank", "tiled_conv2d", "--space", str(space), "--gpu", "h200"])


def test_several_gpus_are_compared(source: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    several = gather(source, 2, "--gpu", "rtx-4090", "--gpu", "v100-pcie-32gb")
    assert run(several) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["gather<2>,", "grid", "16x1x1,", "block", "64x1x1"]
    assert [line.split()[0] for line in lines[2:5]] == ["h200", "rtx-4090", "v100-pcie-32gb"]
    assert run([*several, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["gpu"] for one in found] == ["h200", "rtx-4090", "v100-pcie-32gb"]
    assert found[0] == json_of(capsys, gather(source, 2))
    earlier = tmp_path / "earlier.json"
    earlier.write_text(json.dumps(found[0]))
    assert "3 were asked for (several --gpu)" in error_of(capsys, [*several, "--baseline", str(earlier)])


def test_several_files_and_launches_are_compared(
    source: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second file has the first one's kernel under another name, with lanes 64 bytes apart instead of 4."""
    monkeypatch.chdir(source.parent)
    Path("strided.cu").write_text(
        SOURCE.replace("gather(", "strided(").replace("gather<", "strided<").replace("i * STRIDE", "i * 16")
    )
    launches = ["--gpu", "h200", "--define", "BIAS=2", "--block", "64", "--grid", "4096", "--grid", "2048"]
    arguments = ["--arg", f"f32[{4096 * 64 * 16}]", "--arg", f"f32[{4096 * 64}]=0", "--arg", "f32=0.5"]
    both = [
        "analyze",
        "own.cu",
        "strided.cu",
        "--kernel",
        "gather<1>",
        "--kernel",
        "strided<1>",
        *launches,
        *arguments,
    ]
    assert run(both) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["on", "h200,", "block", "64x1x1"]
    assert [line.split()[1:3] for line in lines[2:6]] == [
        ["gather<1>", "4096"],
        ["gather<1>", "2048"],
        ["strided<1>", "4096"],
        ["strided<1>", "2048"],
    ]
    assert lines[6] == "fastest: own.cu gather<1> grid 2048"
    assert {line.partition(" takes ")[0] for line in lines[7:10]} == {
        "own.cu gather<1> grid 4096",
        "strided.cu strided<1> grid 2048",
        "strided.cu strided<1> grid 4096",
    }
    assert run([*both, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(one["file"], one["config"]["grid"][0]) for one in found] == [
        ("own.cu", 4096),
        ("own.cu", 2048),
        ("strided.cu", 4096),
        ("strided.cu", 2048),
    ]
    wrong = [*both, "--grid", "64", "--block", "32"]
    assert "2 times --block for 3 times --grid" in error_of(capsys, wrong)


def test_what_the_model_cannot_tell_apart_is_called_so(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*gather(source, 2), "--grid", "16", "--block", "64"]) == 0
    assert "fastest: block 64,1, block 64, within 0.0%, which" in capsys.readouterr().out


def test_flags_of_the_project_are_used(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = gather(source, 2)
    place = arguments.index("--define")
    del arguments[place : place + 2]
    assert 'identifier "BIAS" is undefined' in error_of(capsys, arguments)
    entry = {"directory": str(source.parent), "file": "own.cu", "command": "nvcc -DBIAS=3 -c own.cu"}
    elsewhere = source.parent / "build" / "of_mine" / "commands.json"
    elsewhere.parent.mkdir(parents=True)
    elsewhere.write_text(json.dumps([entry]))
    json_of(capsys, [*arguments, "--compile-commands", str(elsewhere)])
    (source.parent / "compile_commands.json").write_text(json.dumps([entry]))
    json_of(capsys, arguments)
