"""What works where the compiler's wheels are not installed, as the manual promises, and what says that it needs them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

WITHOUT = """
import sys
for name in ("cuda", "cuda.bindings", "cuda.bindings.nvrtc", "nvidia"):
    sys.modules[name] = None
from perfmodel.cli.app import main
main()
"""
PROBLEM = ("--width", "64", "--height", "64", "--filter-width", "3", "--filter-height", "3")
FIELDS = ("block_size_x=48", "block_size_y=4", "tile_size_x=1", "tile_size_y=1", "use_padding=0", "read_only=0")


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PERFMODEL_CACHE": str(folder)}
    command = [sys.executable, "-c", WITHOUT, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, check=False)


@pytest.mark.parametrize(
    "arguments",
    [
        ("gpus",),
        ("families",),
        ("rank", "tiled_conv2d", "--gpu", "h200", "--fidelity", "analytic", *PROBLEM),
        ("predict", "tiled_conv2d", "--gpu", "h200", "--fidelity", "analytic", *PROBLEM),
        ("network", "mobilenet_v1", "--gpu", "h200", "--fidelity", "analytic"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_it_works_without(arguments: tuple[str, ...], tmp_path: Path) -> None:
    done = run(tmp_path, *arguments, "--json")
    assert done.returncode == 0, done.stderr
    json.loads(done.stdout)


@pytest.mark.parametrize("command", ["rank", "predict"])
def test_one_line_names_the_extra_and_the_way_out(command: str, tmp_path: Path) -> None:
    done = run(tmp_path, command, "tiled_conv2d", "--gpu", "h200", *PROBLEM)
    assert (done.returncode, done.stdout) == (2, "")
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    assert len(lines) == 1
    assert "pip install 'perfmodel[compile]'" in lines[0]
    assert "--fidelity analytic" in lines[0]
