"""Ctrl-C where Python itself would lose it, change it, or end the process by a signal."""

from __future__ import annotations

import signal
import subprocess
import sys
import weakref
from collections.abc import Callable
from pathlib import Path

import pytest

from perfmodel.cli import app
from perfmodel.cli.interruption import interrupts_noted
from perfmodel.compiler import disk_cache


def struck(*_: object) -> None:
    signal.raise_signal(signal.SIGINT)


def changed(*_: object) -> None:
    try:
        struck()
    except KeyboardInterrupt as error:
        raise ImportError("initialization failed") from error


class Referred:
    pass


def test_an_interrupt_of_a_callback_is_raised_again(capsys: pytest.CaptureFixture[str]) -> None:
    referred = Referred()
    reference = weakref.ref(referred, struck)
    with pytest.raises(KeyboardInterrupt), interrupts_noted() as noted:  # noqa: PT012 - it strikes at any of these lines
        del referred
        assert reference() is None
        while len(noted) < 2:
            pass
        pytest.fail("the interrupt was lost")
    assert noted == [signal.SIGINT, signal.SIGINT]
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("strike", [struck, changed])
def test_whatever_an_interrupt_becomes_it_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], strike: Callable[[], None]
) -> None:
    monkeypatch.setattr(app, "build_app", lambda: lambda **_: strike())
    assert app.run([]) == app.INTERRUPTED_STATUS
    assert capsys.readouterr().err == "perfmodel: interrupted\n"


def test_an_interrupt_says_that_something_is_kept_where_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def keeps_and_is_struck(**_: object) -> None:
        disk_cache.keep("key", b"code")
        struck()

    monkeypatch.setenv("PERFMODEL_CACHE", str(tmp_path))
    for called, said in ((keeps_and_is_struck, "; what was finished is kept"), (struck, "")):
        monkeypatch.setattr(app, "build_app", lambda called=called: lambda **_: called())
        assert app.run([]) == app.INTERRUPTED_STATUS
        assert capsys.readouterr().err == f"perfmodel: interrupted{said}\n"


def test_an_error_without_an_interrupt_stays_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(**_: object) -> None:
        raise ImportError("a fault of the program")

    monkeypatch.setattr(app, "build_app", lambda: fails)
    with pytest.raises(ImportError, match="a fault of the program"):
        app.run([])


def test_an_interrupt_within_executed_text_does_not_end_the_process_by_its_signal(tmp_path: Path) -> None:
    (tmp_path / "interrupted.py").write_text("""
import sys
from perfmodel.cli.interruption import interrupts_noted
with interrupts_noted():
    try:
        exec("import signal; signal.raise_signal(signal.SIGINT)")
    except KeyboardInterrupt:
        pass
sys.exit(7)
""")
    ended = subprocess.run([sys.executable, "-m", "interrupted"], cwd=tmp_path, timeout=60, check=False)
    assert ended.returncode == 7  # without the context, by the signal


@pytest.mark.parametrize(
    ("module", "said"),
    [("perfmodel.errors", ""), ("perfmodel.cli.app", "perfmodel: interrupted\n")],
)
def test_an_interrupt_before_the_program_is_loaded_is_no_traceback(module: str, said: str) -> None:
    """It strikes where the script imports the first of its modules, and the command line, which takes most of the start."""
    code = f"""
import signal, sys

class Strikes:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Strikes())
from perfmodel.__main__ import main
main()
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (130, said)
