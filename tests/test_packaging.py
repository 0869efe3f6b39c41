"""What is installed is whole: wheel and source archive built from a copy, the wheel used from an empty folder."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
LEFT_OUT = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "dist", "out", "*.part")


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the source archive and the wheel that was built from it."""
    folder = tmp_path_factory.mktemp("packaging")
    source, built = folder / "source", folder / "built"
    shutil.copytree(ROOT, source, ignore=LEFT_OUT)
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(built), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return built


@pytest.fixture(scope="module")
def wheel(archives: Path) -> Path:
    (found,) = archives.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site")
    options = ["--quiet", "--no-deps", "--no-index", "--no-compile", "--disable-pip-version-check"]
    options += ["--target", str(target)]
    command = [sys.executable, "-m", "pip", "install", *options, str(wheel)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return target


def run(installed: Path, folder: Path, *arguments: str) -> str:
    """Standard output of a command of the installed package, started in an empty folder."""
    environment = os.environ | {"PYTHONPATH": str(installed), "PERFMODEL_CACHE": str(folder / "cache")}
    empty = folder / "empty"
    empty.mkdir(exist_ok=True)
    done = subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        env=environment,
        cwd=empty,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert list(empty.iterdir()) == []
    return done.stdout


def shipped(*patterns: str) -> set[str]:
    """Files of the repository as a wheel names them: kernels, runtime, validation and figures are parts of perfmodel there."""
    found = {str(path.relative_to(ROOT)) for pattern in patterns for path in ROOT.glob(pattern) if path.is_file()}
    inside = ("kernels/", "runtime/", "validation/", "figures/")
    return {f"perfmodel/{name}" if name.startswith(inside) else name for name in found if "__pycache__" not in name}


MICRO_BENCHMARKS = shipped("kernels/micro/*") - {"perfmodel/kernels/micro/global_read.cu"}
"""Kernels of our own campaigns, which nobody runs who installs the package; one of them empties L2 for `measure` and `tune`."""


def test_the_wheel_holds_every_module_kernel_and_data_file(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    modules = shipped("perfmodel/**/*.py", "validation/**/*.py", "figures/**/*.py", "kernels/**/*.py", "runtime/*.py")
    kernels = shipped("kernels/**/*.cu", "kernels/**/*.cuh", "runtime/*.cpp", "runtime/*.hpp") - MICRO_BENCHMARKS
    data = shipped("perfmodel/data/**/*")
    assert len(kernels) > 20
    assert {name for name in data if name.endswith(".toml") and "/gpus/" in name}
    assert {name for name in data if name.endswith(".npz")}
    missing = {name for name in modules | kernels | data | {"perfmodel/py.typed"} if not name.endswith(".part")} - names
    assert missing == set()
    assert MICRO_BENCHMARKS
    assert not MICRO_BENCHMARKS & names


def test_the_wheel_brings_nothing_but_perfmodel(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0].split("-")[0] for name in names} == {"perfmodel"}
    assert not any(name.startswith("perfmodel/tests/") or "__pycache__" in name for name in names)
    assert any(name.endswith("LICENSE") for name in names)


def test_the_source_archive_holds_what_the_wheel_is_built_from(archives: Path) -> None:
    (path,) = archives.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    sources = shipped("kernels/**/*.cu*", "runtime/*.?pp") - MICRO_BENCHMARKS
    assert {"pyproject.toml", "README.md", "LICENSE"} | sources <= names


def test_entry_points_lead_to_what_is_installed(installed: Path, tmp_path: Path) -> None:
    (file,) = installed.glob("perfmodel-*.dist-info/entry_points.txt")
    written = ConfigParser()
    written.read(file, encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for group, points in project["entry-points"].items():
        assert dict(written[group]) == points
    script = """
from importlib.metadata import entry_points
import perfmodel
for group in ("perfmodel.families", "perfmodel.commands", "console_scripts"):
    for point in entry_points(group=group):
        if point.value.startswith("perfmodel."):
            print(group, point.name, callable(point.load()) or point.load().name == point.name)
print("from", perfmodel.__file__)
"""
    lines = run(installed, tmp_path, "-c", script).splitlines()
    assert lines.pop() == f"from {installed / 'perfmodel' / '__init__.py'}"
    assert all(line.endswith(" True") for line in lines)
    expected = {
        *project["entry-points"]["perfmodel.families"],
        *project["entry-points"]["perfmodel.commands"],
        "perfmodel",
    }
    assert {line.split()[1] for line in lines} == expected


def test_it_ranks_from_an_empty_folder(installed: Path, tmp_path: Path) -> None:
    problem = ("--width", "512", "--height", "512")
    command = ("rank", "tiled_conv2d", "--gpu", "h200", "--fidelity", "analytic", *problem, "--json")
    found: dict[str, Any] = json.loads(run(installed, tmp_path, "-m", "perfmodel", *command))
    assert len(found["top"]) == 10
    gpus = json.loads(run(installed, tmp_path, "-m", "perfmodel", "gpus", "--json"))["gpus"]
    assert len(gpus) == len(list((ROOT / "perfmodel/data/gpus").glob("*.toml")))


def test_every_command_is_there(installed: Path, tmp_path: Path) -> None:
    text = run(installed, tmp_path, "-m", "perfmodel", "--help")
    for command in ("gpus", "families", "rank", "predict", "analyze", "network", "validate", "fit", "measure", "plot"):
        assert f" {command} " in text, command


@pytest.mark.compiler
def test_kernels_and_store_are_found_where_they_are_installed(installed: Path, tmp_path: Path) -> None:
    script = """
import perfmodel as pm
from perfmodel.profiles.counts_store import load_store
assert len(load_store("tiled_conv2d")) > 0
problem = pm.TiledConv2d(height=64, width=64, filter_height=3, filter_width=3)
print(pm.predict(problem, pm.TiledConv2dConfiguration(), gpu="h200").fidelity.value)
"""
    assert run(installed, tmp_path, "-c", script) == "compiled\n"


@pytest.mark.compiler
def test_an_installed_measure_prepares_kernels_and_the_flush_of_l2(installed: Path, tmp_path: Path) -> None:
    problem = ("--height", "64", "--width", "64", "--filter-height", "3", "--filter-width", "3", "--top", "1")
    command = ("measure", "tiled_conv2d", *problem, "--gpu", "h200", "--prepare", str(tmp_path / "prepared"))
    run(installed, tmp_path, "-m", "perfmodel", *command)
    plan = (tmp_path / "prepared" / "plan.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["purposes"] for line in plan] == [["flush"], ["time"]]
