"""Hardware counters of prepared kernels: several launches in one run of Nsight Compute, singly where that fails."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from perfmodel.errors import InputError
from perfmodel.records.schema import Failure, FailureKind, Record, RunKey
from perfmodel.validation.kernel_job import now
from perfmodel.validation.running import RunSummary
from perfmodel.validation.session import Session

from .metrics import ACTIVITY_METRICS, COLLECTED_METRICS, OPCODES_METRIC
from .nsight_csv import ProfiledLaunch, parse_nsight_csv
from .tools import ToolRun, nsight_command, run_tool, target_command

LAUNCHES_AT_ONCE = 10
START_LIMIT_S = 60.0
LAUNCH_LIMIT_S = 20.0
LEAST_LIMIT_S = 5.0
"""Of a run of the profiler, however little time is left."""

LaunchT = TypeVar("LaunchT")
Counters = Mapping[str, float]


def _record(session: Session, index: int, found: Counters | Failure) -> Record:
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
        counters={} if isinstance(found, Failure) else found,
        failure=found if isinstance(found, Failure) else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Counting(Generic[LaunchT]):
    """How launches are counted by Nsight Compute.

    Attributes:
        ncu: The tool.
        target: The program that makes these launches, each once, in order.
        kernel_name: Of a launch.
        more: Metrics beside those that every count is compared with.
    """

    ncu: str
    target: Callable[[Sequence[LaunchT]], list[str]]
    kernel_name: Callable[[LaunchT], str]
    more: Sequence[str] = ()

    def counted(self, launches: Sequence[LaunchT], end: float) -> Iterator[tuple[LaunchT, Counters | Failure]]:
        """Counters of some launches: all in one run of the profiler, or, where that run fails, each in a run of its own.

        What fails because the time is over at ``end`` is left out.
        """
        command = nsight_command(self.ncu, self.target(launches), map(self.kernel_name, launches), self.more)
        left_s = max(end - time.monotonic(), LEAST_LIMIT_S)
        run = run_tool(command, min(START_LIMIT_S + LAUNCH_LIMIT_S * len(launches), left_s))
        found = profiled_launches(run, len(launches))
        if not isinstance(found, Failure):
            yield from zip(launches, (kept_metrics(one, self.more) for one in found), strict=True)
        elif time.monotonic() < end:
            if len(launches) == 1:
                yield launches[0], found
            else:
                for launch in launches:
                    yield from self.counted([launch], end)

    def count(
        self, launches: Sequence[LaunchT], keep: Callable[[LaunchT, Counters | Failure], None], time_limit_s: float
    ) -> tuple[int, int]:
        """Count launches until the time is over, and keep what is found of each; how many were kept, how many failed."""
        end = time.monotonic() + time_limit_s
        finished = failed = 0
        for start in range(0, len(launches), LAUNCHES_AT_ONCE):
            if time.monotonic() >= end:
                break
            for launch, found in self.counted(launches[start : start + LAUNCHES_AT_ONCE], end):
                keep(launch, found)
                finished += 1
                failed += isinstance(found, Failure)
        return finished, failed


def count_missing(
    session: Session,
    indices: Sequence[int],
    ncu: str,
    keep: Callable[[Record], None],
    *,
    done: frozenset[RunKey],
    time_limit_s: float,
) -> RunSummary:
    """Count the kernels with these indices that are not done, keep a record of each, stop when the time is over."""
    missing = [index for index in indices if session.kernels[index].key not in done]
    counting: Counting[int] = Counting(
        ncu=ncu,
        target=lambda some: target_command(session.folder, some, session.seed),
        kernel_name=lambda index: session.kernels[index].kernel_name,
    )
    finished, failed = counting.count(missing, lambda index, found: keep(_record(session, index, found)), time_limit_s)
    return RunSummary(
        done=finished, failed=failed, already_recorded=len(indices) - len(missing), left=len(missing) - finished
    )


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
