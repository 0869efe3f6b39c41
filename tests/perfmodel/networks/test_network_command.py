"""``perfmodel network`` as it is typed: a table, one JSON object, and one line for whatever is wrong."""

import json
import sys
from pathlib import Path

import pytest

from perfmodel.cli.app import run

MODULE = "import torch.nn as nn\nnet = nn.Sequential(nn.Conv2d(3, 8, 1), nn.Conv2d(8, 8, 3, dilation=2), nn.ReLU())\n"


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line that a wrong command line gives."""
    assert run(["network", *arguments, "--gpu", "h200"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = [line for line in captured.err.splitlines() if line.strip()]
    assert line.startswith("perfmodel: error: ")
    return line


def test_json_is_one_object_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["network", "ssim_4k_video", "--gpu", "a100-sxm-80gb", "--batch", "2", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["network"], document["gpu"], document["batch"], document["covered"]) == (
        "ssim_4k_video",
        "a100-sxm-80gb",
        2,
        1,
    )
    assert document["total_us"] == document["critical_path_us"] > document["layers"][0]["dram_floor_us"] > 0


def test_a_trace_is_written_beside_the_table(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    assert run(["network", "ssim_4k_video", "--gpu", "h200", "--trace", str(path)]) == 0
    shown = capsys.readouterr()
    assert "this package's FP32 kernels, not cuDNN's" in shown.out
    assert "of all operations 100.0% by this package's kernels" in shown.out
    assert json.loads(path.read_text())["traceEvents"][-1]["name"] == "ssim"
    assert f"--trace {tmp_path}: is a folder" in refused(capsys, "ssim_4k_video", "--trace", str(tmp_path))


def test_a_module_with_layers_that_no_family_covers(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pytest.importorskip("torch")
    path = tmp_path / "small.py"
    path.write_text(MODULE)
    assert run(["network", f"{path}:net", "--gpu", "h200", "--input-shape", "2,3,16,16"]) == 0
    shown = capsys.readouterr().out
    assert "batch 2, on h200" in shown
    assert "not covered: 1 × dilation 2x2: families cover 1" in shown
    assert "bandwidth floor" in shown
    line = refused(capsys, f"{path}:net", "--input-shape", "2,3,16,16", "--batch", "4")
    assert "--batch 4, but --input-shape '2,3,16,16' begins with a batch of 2" in line


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("mobilenet_v9",), "'mobilenet_v9'; nearest: mobilenet_v"),
        (("mobilenet_v1", "--batch", "0"), "'0'"),
        (("mobilenet_v1", "--batch", "100000000"), "100000000 x 3 x 226 x 226"),
        (("mobilenet_v1", "--input-shape", "1,3,224,224"), "'1,3,224,224' goes with a PyTorch module"),
        (("no.toml",), "no.toml: cannot be read"),
        (("no.py:net",), "needs --input-shape"),
        (("no.py:net", "--input-shape", "1,3,x"), "'1,3,x' must be positive integers"),
        (("no.py:net", "--input-shape", "1,3"), "'no.py:net' must be FILE.py:NAME with a file that exists"),
    ],
)
def test_one_line_names_the_value(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], named: str) -> None:
    assert named in refused(capsys, *arguments)


def test_missing_extras_are_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    assert "needs the extra `onnx`: pip install perfmodel[onnx]" in refused(capsys, "any.onnx")
    monkeypatch.setitem(sys.modules, "torch", None)
    path = tmp_path / "plain.py"
    path.write_text("net = 3\n")
    shown = refused(capsys, f"{path}:net", "--input-shape", "1,3")
    assert "needs the extra `torch`: pip install perfmodel[torch]" in shown
    path.write_text(MODULE)  # a file that needs torch itself says the same
    assert "needs the extra `torch`" in refused(capsys, f"{path}:net", "--input-shape", "1,3,8,8")
