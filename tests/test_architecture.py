"""The structure of the code: who may import whom, what starting costs, one kernel in a file."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
HEAVY = {
    "numpy",
    "pandas",
    "scipy",
    "matplotlib",
    "networkx",
    "cupy",
    "torch",
    "onnx",
    "elftools",
    "pebble",
    "diskcache",
}
PACKAGES = ("perfmodel", "validation", "figures", "campaigns", "tables")
LONGEST_FILE = 720
"""Lines; past them a file hides a second one."""


def python_files(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def kernel_sources() -> list[Path]:
    return sorted((ROOT / "kernels").rglob("*.cu"))


def imported(path: Path) -> Iterator[str]:
    """Dotted names of the modules that a file imports, relative ones resolved, names of ``from`` with their module."""
    package = path.relative_to(ROOT).with_suffix("").parts[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield from (f"{module}.{alias.name}" for alias in node.names)


def imports_of(path: Path, *forbidden: str) -> list[str]:
    return [name for name in imported(path) if any(name == f or name.startswith(f"{f}.") for f in forbidden)]


def test_predictions_need_no_gpu_and_nothing_built_upon_them() -> None:
    above = ("validation", "figures", "campaigns", "tables", "perfmodel.validation", "perfmodel.figures")
    for path in python_files("perfmodel"):
        assert imports_of(path, "cupy", "cupyx", "pynvml", *above) == [], path


def test_figures_need_no_gpu_and_do_not_know_validation() -> None:
    for path in python_files("figures"):
        assert imports_of(path, "cupy", "validation", "perfmodel.validation") == [], path
    for path in python_files("validation"):
        assert imports_of(path, "figures", "perfmodel.figures", "matplotlib") == [], path


def test_no_star_imports() -> None:
    for package in PACKAGES:
        for path in python_files(package):
            assert not any(name.endswith(".*") for name in imported(path)), path


@pytest.mark.parametrize("package", PACKAGES)
def test_no_file_hides_a_second_one(package: str) -> None:
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in python_files(package)}
    assert {str(path): length for path, length in lengths.items() if length > LONGEST_FILE} == {}


def loaded_by(statement: str) -> set[str]:
    """Heavy packages that a fresh interpreter holds after a statement."""
    code = f"import sys\n{statement}\nprint(*{{name.split('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    return set(done.stdout.splitlines()[-1].split()) & HEAVY


@pytest.mark.parametrize(
    "statement",
    [
        "import perfmodel",
        "import perfmodel; dir(perfmodel)",
        "from perfmodel.cli.app import run; run(['--help'])",
        "from perfmodel.cli.app import run; run(['rank', '--help'])",
        "from perfmodel.cli.app import run; run(['--version'])",
    ],
)
def test_starting_loads_nothing_heavy(statement: str) -> None:
    assert loaded_by(statement) == set()


def test_a_kernels_file_holds_one_kernel() -> None:
    """Kernels stand in ``.cu`` files, one each; ``.cuh`` files hold what several of them share."""
    assert len(kernel_sources()) > 10
    for path in kernel_sources():
        assert len(re.findall(r"\b__global__\b", path.read_text(encoding="utf-8"))) == 1, path
    for path in sorted((ROOT / "kernels").rglob("*.cuh")):
        assert "__global__" not in path.read_text(encoding="utf-8"), path


def test_every_kernel_says_what_it_does_first() -> None:
    for path in kernel_sources():
        assert path.read_text(encoding="utf-8").startswith(("//", "/*")), path


def test_no_test_imports_a_gpu_package_when_it_is_collected() -> None:
    for path in python_files("tests"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = {alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names}
        names |= {node.module or "" for node in tree.body if isinstance(node, ast.ImportFrom)}
        assert not any(name.split(".")[0] in ("cupy", "pynvml") for name in names), path
