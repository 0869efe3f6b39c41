"""Jobs in worker processes: results in order, errors as values, whatever a job does to its process."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from perfmodel.compiler.disk_cache import cache_directory
from perfmodel.compiler.pool import run_many, warm_up
from perfmodel.compiler.workers import in_worker, interrupt_deferred
from perfmodel.errors import CompileError, InputError
from perfmodel.families.registry import family


def described(*job: Any) -> str:
    return f"job {job}"


def test_results_keep_the_order_of_the_jobs() -> None:
    ended: list[None] = []
    found = run_many(
        math.factorial, [(n,) for n in range(9)], describe=described, workers=2, advance=lambda: ended.append(None)
    )
    assert found == [math.factorial(n) for n in range(9)]
    assert len(ended) == 9


def test_a_single_job_needs_no_process_and_none_gives_nothing() -> None:
    assert run_many(os.getpid, [()], describe=described) == [os.getpid()]
    assert run_many(os.getpid, [], describe=described) == []
    assert os.getpid() not in run_many(os.getpid, [(), ()], describe=described, workers=1)


def test_the_processes_are_kept_and_start_none_themselves() -> None:
    """A process that a worker has started outlives it when the pool ends, and Python then warns of leaked semaphores."""
    assert not in_worker()
    assert run_many(in_worker, [(), ()], describe=described, workers=1) == [True, True]
    first, second = (run_many(os.getpid, [(), ()], describe=described, workers=1) for _ in range(2))
    assert first == second


def test_workers_may_start_before_there_is_work() -> None:
    """They import what is named; the process is the one that later jobs run in."""
    has_imported = "'colorsys' in __import__('sys').modules"
    assert run_many(eval, [(has_imported,)] * 2, describe=described, workers=1) == [False, False]
    warm_up("colorsys", 1)
    assert run_many(eval, [(has_imported,)] * 2, describe=described, workers=1) == [True, True]


def test_a_worker_works_where_the_caller_is_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in (tmp_path / "a", tmp_path / "b"):
        folder.mkdir()
        monkeypatch.chdir(folder)
        monkeypatch.setenv("PERFMODEL_CACHE", str(folder))
        assert run_many(os.getcwd, [(), ()], describe=described, workers=1) == [str(folder)] * 2
        assert run_many(cache_directory, [(), ()], describe=described, workers=1) == [folder] * 2


def test_an_error_made_on_purpose_is_a_value() -> None:
    """``family`` raises InputError for names that it does not know."""
    for names in ([("none",)], [("none",), ("tiled_conv2d",)]):
        first, *rest = run_many(family, names, describe=described, workers=1)
        assert isinstance(first, InputError)
        assert "'none'" in str(first)
        assert [found.name for found in rest if not isinstance(found, Exception)] == ["tiled_conv2d"] * len(rest)


def test_a_job_that_takes_too_long_is_a_value() -> None:
    """By its processor time: one that waits for a turn is given fifty times as long."""
    busy = "while True: pass"
    for function, job, time_limit_s, told in (
        (exec, busy, 0.5, f"job ({busy!r},): not finished within 0.5 s of processor time"),
        (time.sleep, 600, 0.05, "job (600,): not finished within 2.5 s"),
    ):
        slow, *_ = run_many(function, [(job,), (job,)], describe=described, workers=2, time_limit_s=time_limit_s)
        assert isinstance(slow, CompileError)
        assert str(slow) == told


def test_a_job_that_kills_its_process_is_a_value() -> None:
    """As a crash of the compiler or a lack of memory would."""
    for outcome in run_many(os._exit, [(3,), (3,)], describe=described, workers=2):
        assert isinstance(outcome, CompileError)
        assert str(outcome) == "job (3,): its process ended with status 3"


def test_workers_end_when_the_process_that_started_them_is_killed() -> None:
    """They hold its output: it ends when the last of them has."""
    job = "import time; print('started', flush=True); time.sleep(600)"
    script = f"from perfmodel.compiler.pool import run_many; run_many(exec, [({job!r},)] * 2, describe=str, workers=1)"
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"started\n"
        process.kill()
        assert process.communicate(timeout=60) == (b"", None)


def test_an_interrupt_waits_until_the_workers_have_started() -> None:
    started = []

    def start_two() -> None:
        with interrupt_deferred():
            with interrupt_deferred():
                signal.raise_signal(signal.SIGINT)
                started.append("the first")
            started.append("the second")

    with pytest.raises(KeyboardInterrupt):
        start_two()
    assert started == ["the first", "the second"]
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
