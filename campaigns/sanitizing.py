"""Prepared kernels under compute-sanitizer: out-of-bounds and misaligned accesses, races, uninitialised reads, barriers."""

from __future__ import annotations

from collections.abc import Sequence

from perfmodel.records.schema import Failure, FailureKind, Record, RecordKind, RunKey, Scalar, run_key
from perfmodel.validation.kernel_job import now
from perfmodel.validation.session import Session

from .tools import SANITIZER_ERROR_STATUS, SanitizerTool, ToolRun, run_tool, sanitizer_command, target_command

START_LIMIT_S = 60.0
LAUNCH_LIMIT_S = 5.0


def sanitizer_key(tool: SanitizerTool, family: str) -> RunKey:
    """What makes two runs of a tool over a family's kernels the same."""
    return run_key(RecordKind.SANITIZER, tool.value, {}, _configuration(family))


def _configuration(family: str) -> dict[str, Scalar]:
    return {"family": family}


def sanitized(session: Session, family: str, indices: Sequence[int], tool: SanitizerTool, sanitizer: str) -> Record:
    """The record of one tool over the kernels with these indices, all of one family; a finding is a failure."""
    command = sanitizer_command(sanitizer, tool, target_command(session.folder, indices, session.seed))
    run = run_tool(command, START_LIMIT_S + LAUNCH_LIMIT_S * len(indices))
    return Record(
        kind=RecordKind.SANITIZER,
        name=tool.value,
        problem={},
        configuration=_configuration(family),
        gpu=session.gpu,
        environment=session.environment,
        measured_at=now(),
        counters={"kernels": float(len(indices))},
        failure=sanitizer_failure(run),
    )


def sanitizer_failure(run: ToolRun) -> Failure | None:
    """What a run of the tool found, None where it ran to its end and found nothing.

    >>> sanitizer_failure(ToolRun(status=0, output="========= ERROR SUMMARY: 0 errors"))
    """
    if run.status is None:
        return Failure(kind=FailureKind.TIME_OUT, message=run.output)
    if run.status == SANITIZER_ERROR_STATUS:
        found = [line.strip("= ") for line in run.output.splitlines() if line.startswith("=========")]
        message = next((line for line in found if line and not line.startswith("COMPUTE-SANITIZER")), run.last_line)
        return Failure(kind=FailureKind.WRONG_RESULT, message=message)
    if run.status != 0:
        return Failure(kind=FailureKind.UNAVAILABLE, message=f"exit status {run.status}: {run.last_line}")
    return None
