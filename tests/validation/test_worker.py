"""The worker loses a process without losing the campaign; jobs are really executed in a child."""

import os
from pathlib import Path

import pytest

from perfmodel.records.schema import Failure, FailureKind
from perfmodel.validation.worker import Worker

from .worker_jobs import fail_to_start, hang_at_start, obey

LIMIT_S = 20.0


def answered(result: str | Failure) -> int:
    assert isinstance(result, str), result
    return int(result.rsplit(" ", 1)[1])


def test_jobs_share_one_process_that_is_not_this_one() -> None:
    with Worker(obey) as worker:
        first, second = answered(worker.run("a", LIMIT_S)), answered(worker.run("b", LIMIT_S))
    assert first == second != os.getpid()
    assert worker.starts == 1


@pytest.mark.parametrize(
    ("job", "limit_s", "kind", "message"),
    [
        ("hang", 0.3, FailureKind.TIME_OUT, "no answer within 0.3 s"),
        ("segfault", LIMIT_S, FailureKind.WORKER_DIED, "signal SIGSEGV"),
        ("raise", LIMIT_S, FailureKind.WORKER_DIED, "exit status 1: RuntimeError: the ninth plate is missing"),
        ("exit", LIMIT_S, FailureKind.WORKER_DIED, "exit status 3"),
    ],
)
def test_a_lost_process_is_a_failure_and_the_next_job_gets_a_new_one(
    job: str, limit_s: float, kind: FailureKind, message: str
) -> None:
    with Worker(obey) as worker:
        before = answered(worker.run("a", LIMIT_S))
        assert worker.run(job, limit_s) == Failure(kind=kind, message=message)
        after = answered(worker.run("a", LIMIT_S))
    assert before != after
    assert worker.starts == 2


def test_a_process_that_calls_itself_unhealthy_is_replaced() -> None:
    with Worker(obey) as worker:
        poisoned = answered(worker.run("poison", LIMIT_S))
        assert answered(worker.run("a", LIMIT_S)) != poisoned


def test_a_process_that_is_not_needed_any_more_ends_by_itself(tmp_path: Path) -> None:
    """Killed, it would leave what it holds: semaphores of libraries, of which Python then warns."""
    left = tmp_path / "left"
    with Worker(obey) as worker:
        answered(worker.run(f"at the end touch {left}", LIMIT_S))
        assert not left.exists()
    assert left.exists()


def test_a_process_that_cannot_start_is_a_failure() -> None:
    with Worker(obey, prepare=fail_to_start) as worker:
        failure = worker.run("a", LIMIT_S)
    assert failure == Failure(
        kind=FailureKind.WORKER_DIED, message="exit status 1: RuntimeError: nothing to start with"
    )
    with Worker(obey, prepare=hang_at_start, start_limit_s=0.5) as worker:
        failure = worker.run("a", LIMIT_S)
    assert failure == Failure(kind=FailureKind.TIME_OUT, message="did not start within 0.5 s")


def test_no_process_outlives_the_worker() -> None:
    with Worker(obey) as worker:
        child = answered(worker.run("a", LIMIT_S))
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
