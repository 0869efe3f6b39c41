"""What the manual and the examples show is what happens: they are executed."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from perfmodel.cli.app import build_app
from perfmodel.families.registry import family
from perfmodel.gpus.catalogue import load_gpu

ROOT = Path(__file__).parent.parent
ELSEWHERE = {"demo.py", "tune_blur.py"}
"""``make demo`` runs the first in continuous integration; the second is a script for Kernel Tuner, which the docs rank."""
MANUALS = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])


def examples() -> list[Path]:
    return sorted(path for path in (ROOT / "examples").glob("*.py") if path.name not in ELSEWHERE)


def blocks(path: Path, *languages: str) -> list[str]:
    """Fenced blocks of a manual in the given languages."""
    found = re.findall(r"^```(\w*)\n(.*?)^```", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [text for language, text in found if language in languages]


def commands() -> list[tuple[str, ...]]:
    """Every ``perfmodel …`` line of the manuals as words: lines joined, pipes, files and comments cut."""
    found = []
    for path in MANUALS:
        for block in blocks(path, "", "sh", "console"):
            for line in block.replace("\\\n", " ").splitlines():
                command = line.removeprefix("$ ")
                if command.startswith("perfmodel "):
                    found.append(tuple(shlex.split(re.split(r" [|>] ", command)[0], comments=True)[1:]))
    return sorted(set(found))


@pytest.mark.parametrize("path", examples(), ids=lambda path: path.name)
def test_an_example_runs(path: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(path)],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert "Traceback" not in done.stdout + done.stderr


def test_there_are_examples_to_run() -> None:
    assert {"predict.py", "rank.py"} <= {path.name for path in examples()}


@pytest.mark.parametrize("number", range(len(blocks(ROOT / "README.md", "python"))))
def test_the_readmes_python_runs(number: int) -> None:
    names: dict[str, object] = {}
    exec(compile(blocks(ROOT / "README.md", "python")[number], "README.md", "exec"), names)
    assert len(names) > 1


def test_the_readme_shows_python_and_commands() -> None:
    assert len(blocks(ROOT / "README.md", "python")) >= 1
    assert {words[0] for words in commands()} >= {"rank", "predict", "analyze", "validate"}


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_a_command_of_the_manual_is_one_that_the_program_takes(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command parses, its GPU exists, and the problem's options are those of the family that it names."""
    import typer.main

    group = typer.main.get_command(build_app())
    if words[0].startswith("-"):
        return
    command = group.get_command(None, words[0])  # type: ignore[attr-defined]
    assert command is not None, words[0]
    if "--help" in words:
        return
    if "-I" in words:  # a folder of headers is looked for
        (tmp_path / words[words.index("-I") + 1]).mkdir()
        monkeypatch.chdir(tmp_path)
    context = command.make_context(words[0], list(words[1:]))
    given = context.params
    for name in [given["gpu"]] if isinstance(given.get("gpu"), str) else given.get("gpu") or []:
        assert name == "auto" or name.endswith(".toml") or load_gpu(name)
    chosen = given.get("family_name")
    if chosen and not chosen.endswith((".cu", ".py")) and chosen.islower():
        problems = [family(name).problem_type for name in chosen.split(",")]
        fields = {"--" + name.replace("_", "-") for kind in problems for name in kind.__dataclass_fields__}
        assert {word.partition("=")[0] for word in context.args if word.startswith("--")} <= fields
