"""Runs jobs one after the other in a worker and writes a record for each; what a file already holds is not run again."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from perfmodel.core.progress import Advance, no_progress
from perfmodel.records.own_records import append_record, read_records
from perfmodel.records.schema import Failure, Record, RunKey

from .worker import Reply, Worker

JOB_LIMIT_S = 60.0


class Outcome(Protocol):
    """What a job leaves behind."""

    @property
    def failure(self) -> Failure | None:
        """Why there is nothing else."""


OutcomeT = TypeVar("OutcomeT", bound=Outcome)
OutcomeT_co = TypeVar("OutcomeT_co", bound=Outcome, covariant=True)


class Job(Protocol[OutcomeT_co]):
    """What can be run: it knows what it is, and what to write down when it fails."""

    @property
    def key(self) -> Hashable:
        """What makes two runs the same."""

    def failed(self, failure: Failure) -> OutcomeT_co:
        """The record of this job when there is nothing but a failure."""


JobT = TypeVar("JobT", bound=Job[Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """How a run of jobs ended."""

    done: int
    failed: int
    already_recorded: int
    left: int
    """Jobs that the time did not suffice for."""

    def __str__(self) -> str:
        return f"{self.done} run ({self.failed} failed), {self.already_recorded} recorded before, {self.left} left"


def recorded_keys(path: Path, wanted: Callable[[Record], bool] = lambda _: True) -> frozenset[RunKey]:
    """Keys of the records of a file for which ``wanted`` holds; none where there is no file yet."""
    if not path.exists():
        return frozenset()
    return frozenset(record.key for record in read_records(path) if wanted(record))


def kept_in(records: Path, advance: Advance = no_progress) -> Callable[[Record], None]:
    """What appends a record to the file and then calls ``advance``."""

    def keep(record: Record) -> None:
        append_record(records, record)
        advance()

    return keep


def run_missing(
    jobs: Sequence[JobT],
    function: Callable[[JobT], Reply[OutcomeT]],
    keep: Callable[[OutcomeT], None],
    *,
    done: Iterable[Hashable] = (),
    time_limit_s: float,
    job_limit_s: float = JOB_LIMIT_S,
    clock: Callable[[], float] = time.monotonic,
) -> RunSummary:
    """Run each job whose key is not in ``done``, keep its record, and stop when the time is over.

    No job is started that could outlast the time limit by more than its own limit.
    """
    recorded = frozenset(done)
    missing = [job for job in jobs if job.key not in recorded]
    end = clock() + time_limit_s
    finished = failed = 0
    with Worker(function) as worker:
        for job in missing:
            if clock() >= end:
                break
            outcome = worker.run(job, job_limit_s)
            record = job.failed(outcome) if isinstance(outcome, Failure) else outcome
            keep(record)
            finished += 1
            failed += record.failure is not None
    return RunSummary(
        done=finished, failed=failed, already_recorded=len(jobs) - len(missing), left=len(missing) - finished
    )
