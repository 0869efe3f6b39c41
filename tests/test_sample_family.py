"""A family that another package brings: installed beside perfmodel, found by its entry point, ranked like the own ones."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SAMPLE = Path(__file__).parent / "sample_family"
PROBLEM = ("--length", "10000", "--radius", "2")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sample package, as pip installs it."""
    folder = tmp_path_factory.mktemp("sample")
    source, target = folder / "source", folder / "site"
    shutil.copytree(SAMPLE, source, ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info"))
    options = ["--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "install", *options, "--target", str(target), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return target


def run(installed: Path, *arguments: str, status: int = 0) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(installed)}
    command = [sys.executable, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment, check=False)
    assert done.returncode == status, done.stderr
    return done


def ranked(installed: Path, *options: str) -> dict[str, Any]:
    arguments = ("-m", "perfmodel", "rank", "stencil1d", "--gpu", "h200", *PROBLEM, "--json", *options)
    ranking: dict[str, Any] = json.loads(run(installed, *arguments).stdout)
    return ranking


def test_it_is_listed_with_its_options(installed: Path) -> None:
    families = json.loads(run(installed, "-m", "perfmodel", "families", "--json").stdout)["families"]
    (entry,) = [entry for entry in families if entry["family"] == "stencil1d"]
    assert entry["problem"] == {"length": 1_000_000, "radius": 3}
    assert entry["configuration"] == ["block_x", "per_thread"]
    assert len(families) == 6


def test_it_is_ranked_without_a_compiler(installed: Path) -> None:
    """7 block sizes and 4 numbers of outputs; blocks of 2,048 threads do not fit."""
    ranking = ranked(installed, "--fidelity", "analytic", "--top", "3")
    assert ranking["kernel"] == "stencil1d"
    assert ranking["problem"] == {"length": 10000, "radius": 2}
    assert ranking["candidates"] == 7 * 4
    assert ranking["rejected"] == {"threads per block": 4}
    assert len(ranking["top"]) == 3


@pytest.mark.compiler
def test_its_closed_forms_are_what_is_executed(installed: Path) -> None:
    """10,000 outputs are 312.5 warps: 313 requests for each of 5 taps and for the store."""
    ranking = ranked(installed, "--top", "4")
    analytic = ranked(installed, "--fidelity", "analytic", "--top", "24")["top"]
    closed = {json.dumps(entry["config"]): entry["counts"] for entry in analytic}
    assert len(ranking["top"]) == 4
    for entry in ranking["top"]:
        assert entry["fidelity"] == "compiled"
        assert entry["counts"]["global_load_requests"] == 313 * 5
        assert entry["counts"]["global_store_sectors"] == 10000 / 8
        same = ("global_load_sectors", "global_load_lines", "global_store_requests", "dram_read_bytes")
        for name in same:
            assert entry["counts"][name] == closed[json.dumps(entry["config"])][name], name


@pytest.mark.compiler
def test_its_kernel_computes_its_reference(installed: Path) -> None:
    script = """
import numpy as np
from stencil1d import FAMILY, Stencil1d, Stencil1dConfiguration
import perfmodel as pm
from perfmodel.compiler.compiled import compile_kernel
from perfmodel.families.base import Batch
from perfmodel.ptx.parse import parse_module
from perfmodel.simulator.simulation import Mode, simulate

problem, chosen, gpu = Stencil1d(length=1000), Stencil1dConfiguration(block_x=64, per_thread=2), pm.load_gpu("h200")
assert pm.rank(problem, gpu=gpu, fidelity="analytic").kernel == "stencil1d"
kernel = compile_kernel(FAMILY.compile_request(problem, chosen, gpu), gpu.architecture.name)
inputs = FAMILY.inputs(problem, np.random.default_rng(1))
launch = FAMILY.launch(problem, Batch.of([chosen]), gpu).at(0)
call = FAMILY.call(problem, chosen, gpu, inputs)
run = simulate(parse_module(kernel.ptx).kernel(kernel.kernel_name), launch, call, mode=Mode.EXECUTE)
expected = FAMILY.reference(problem, inputs)["output"]
assert np.abs(run.outputs["output"] - expected).max() <= FAMILY.tolerance(problem) * np.abs(expected).max()
print("equal")
"""
    assert run(installed, "-c", script).stdout == "equal\n"


def test_its_wrong_values_are_refused_like_those_of_the_own_families(installed: Path) -> None:
    arguments = ("-m", "perfmodel", "rank", "stencil1d", "--gpu", "h200", "--fidelity", "analytic", "--radius", "-1")
    error = run(installed, *arguments, status=2).stderr
    assert "radius=-1" in error
    assert "Traceback" not in error


def test_what_is_no_family_is_named(tmp_path: Path) -> None:
    """An entry point that leads to something else."""
    info = tmp_path / "other-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[perfmodel.families]\nother = math:pi\n")
    arguments = ("-m", "perfmodel", "rank", "other", "--gpu", "h200", "--fidelity", "analytic")
    assert (
        "entry point 'other' of perfmodel.families is not a perfmodel family"
        in run(tmp_path, *arguments, status=2).stderr
    )
