"""Hardware counters of prepared kernels: several launches in one run of Nsight Compute, singly where that fails."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from perfmodel.accuracy.counter_metrics import ACTIVITY_METRICS, COLLECTED_METRICS, OPCODES_METRIC
from perfmodel.errors import InputError
from perfmodel.records.own_records import append_record
from perfmodel.records.schema import Failure, FailureKind, Record, RunKey
from perfmodel.validation.kernel_job import now
from perfmodel.validation.running import RunSummary
from perfmodel.validation.session import Session

from .nsight_csv import ProfiledLaunch, parse_nsight_csv
from .tools import ToolRun, nsight_command, run_tool, target_command

LAUNCHES_AT_ONCE = 10
START_LIMIT_S = 60.0
LAUNCH_LIMIT_S = 20.0


def _record(session: Session, index: int, counters: Mapping[str, float], failure: Failure | None) -> Record:
    """The record of one counted launch."""
    kernel = session.kernels[index]
    return Record(
        kind=kernel.kind,
        name=kernel.name,
        problem=kernel.problem,
        configuration=kernel.configuration,
        gpu=session.gpu,
        environment=session.environment,
        measured_at=now(),
        resources=kernel.resources,
        counters=counters,
        failure=failure,
    )


def count_missing(
    session: Session,
    indices: Sequence[int],
    ncu: str,
    records: Path,
    *,
    done: frozenset[RunKey],
    time_limit_s: float,
    report: Callable[[Record], None] = lambda _: None,
) -> RunSummary:
    """Count the kernels with these indices that are not done, append a record for each, stop when the time is over."""
    missing = [index for index in indices if session.kernels[index].key not in done]
    end = time.monotonic() + time_limit_s
    finished = failed = 0
    for start in range(0, len(missing), LAUNCHES_AT_ONCE):
        if time.monotonic() >= end:
            break
        for record in counted(session, missing[start : start + LAUNCHES_AT_ONCE], ncu):
            append_record(records, record)
            finished += 1
            failed += record.failure is not None
            report(record)
    return RunSummary(
        done=finished, failed=failed, already_recorded=len(indices) - len(missing), left=len(missing) - finished
    )


def counted(session: Session, indices: Sequence[int], ncu: str) -> Iterator[Record]:
    """Records of some launches: all in one run of the profiler, or, where that run fails, each in a run of its own."""
    names = [session.kernels[index].kernel_name for index in indices]
    command = nsight_command(ncu, target_command(session.folder, indices, session.seed), names)
    run = run_tool(command, START_LIMIT_S + LAUNCH_LIMIT_S * len(indices))
    launches = profiled_launches(run, len(indices))
    if not isinstance(launches, Failure):
        for index, launch in zip(indices, launches, strict=True):
            yield _record(session, index, kept_metrics(launch), None)
    elif len(indices) == 1:
        yield _record(session, indices[0], {}, launches)
    else:
        for index in indices:
            yield from counted(session, [index], ncu)


def kept_metrics(launch: ProfiledLaunch, more: Sequence[str] = ()) -> dict[str, float]:
    """The metrics that were asked for, of all that the profiler prints about device and launch besides."""
    wanted = (*COLLECTED_METRICS, *ACTIVITY_METRICS, *more)
    found = {name: launch.metrics[name] for name in wanted if name in launch.metrics}
    return found | {name: value for name, value in launch.metrics.items() if name.startswith(f"{OPCODES_METRIC}.")}


def profiled_launches(run: ToolRun, expected: int) -> tuple[ProfiledLaunch, ...] | Failure:
    """The launches that a run of the profiler counted, in order, or why they cannot be used.

    >>> profiled_launches(ToolRun(status=None, output="stopped after 80 s"), 1).kind
    <FailureKind.TIME_OUT: 'time-out'>
    """
    if run.status is None:
        return Failure(kind=FailureKind.TIME_OUT, message=run.output)
    if run.status != 0:
        return Failure(kind=FailureKind.UNAVAILABLE, message=f"exit status {run.status}: {run.last_line}")
    try:
        launches = parse_nsight_csv(Path("ncu"), run.output)
    except InputError as error:
        return Failure(kind=FailureKind.UNAVAILABLE, message=f"{error} ({run.last_line})")
    if len(launches) != expected:
        message = f"{len(launches)} launches were counted where {expected} were made"
        return Failure(kind=FailureKind.UNAVAILABLE, message=message)
    return launches
