"""Commands of the pages are executed, and what they print is what the page shows (``--update-golden`` writes it anew).

A block of the language ``console`` holds lines that begin with ``$ `` and, below each, its standard output. ``| head -N`` cuts
it and ``> FILE`` keeps it in a file. Blocks of the language ``pycon`` are doctests. Notes are records of a day.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from perfmodel.cli.app import run

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "reference").glob("*.md")])
BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
NOT_HERE = ("python -m", "perfmodel measure", "make", "source", "pip", "git")
"""Commands that need a GPU, or that set up what the tests run in."""
LAST_DIGITS = 0.01
"""Relative difference of two printed numbers of three digits that mean the same: the last digit may round the other way."""

pytestmark = pytest.mark.compiler


def shown(page: Path) -> Iterator[tuple[str, str]]:
    """Each command of a page with the output below it."""
    for block in BLOCK.findall(page.read_text(encoding="utf-8")):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.replace("\\\n", " ").partition("\n")
            yield " ".join(command.split()), output


def printed(command: str, folder: Path) -> str:
    """Standard output of a command line, run in a folder with the examples."""
    command, _, target = command.partition(" > ")
    command, _, lines = command.partition(" | head -")
    out = io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()) as errors:
        status = run(shlex.split(os.path.expandvars(command))[1:])
    assert status == 0, errors.getvalue()
    text = "\n".join(line.rstrip() for line in out.getvalue().splitlines())
    if target:
        (folder / target).write_text(text, encoding="utf-8")
        return ""
    kept = text.split("\n")[: int(lines)] if lines else text.split("\n")
    return "\n".join(kept).strip("\n") + "\n"


def same(one: str, other: str) -> bool:
    """Equal texts, their numbers up to the last of three digits."""
    number = r"\d[\d,]*\.?\d*"
    if re.sub(number, "#", one) != re.sub(number, "#", other):
        return False
    pairs = zip(re.findall(number, one), re.findall(number, other), strict=True)
    values = ((float(a.replace(",", "").rstrip(".")), float(b.replace(",", "").rstrip("."))) for a, b in pairs)
    return all(abs(a - b) <= max(LAST_DIGITS * abs(b), 1.0 if b == int(b) and b < 101 else 0.0) for a, b in values)


def executable(page: Path) -> list[tuple[str, str]]:
    return [(command, output) for command, output in shown(page) if not command.startswith(NOT_HERE)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    (tmp_path / "validation").symlink_to(ROOT / "validation")
    return tmp_path


@pytest.mark.parametrize("page", [page for page in PAGES if executable(page)], ids=lambda page: page.name)
def test_commands_print_what_the_page_shows(page: Path, folder: Path, request: pytest.FixtureRequest) -> None:
    text = page.read_text(encoding="utf-8")
    for command, output in executable(page):
        if "PERFMODEL_DATA" in command and "PERFMODEL_DATA" not in os.environ:
            continue
        now = printed(command, folder)
        if request.config.getoption("--update-golden"):
            line = next(
                line for line in text.splitlines() if line.startswith("$ ") and " ".join(line[2:].split()) == command
            )
            text = text.replace(f"{line}\n{output}", f"{line}\n{now}", 1)
        else:
            assert same(now, output), f"{page.name}: {command}\n{now}"
    page.write_text(text, encoding="utf-8") if request.config.getoption("--update-golden") else None


@pytest.mark.parametrize("page", [page for page in PAGES if "```pycon" in page.read_text()], ids=lambda page: page.name)
def test_python_prints_what_the_page_shows(page: Path, folder: Path) -> None:
    with contextlib.chdir(folder):
        assert doctest.testfile(str(page), module_relative=False).failed == 0


def test_the_tutorials_show_commands() -> None:
    assert {page.name for page in PAGES if executable(page)} >= {
        "README.md",
        "tutorial-own-kernel.md",
        "tutorial-tune.md",
    }
