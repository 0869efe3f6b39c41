"""One long-lived process that runs jobs; a job that hangs or kills it costs that job alone.

A CUDA context does not survive an illegal address, and a hung kernel cannot be cancelled: the only remedy for both is to
end the process. So jobs run in a process of their own, and the one that drives the campaign never touches the GPU.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Generic, TypeVar

from perfmodel.records.schema import Failure, FailureKind

JobT = TypeVar("JobT")
ResultT = TypeVar("ResultT")

START_LIMIT_S = 180.0
LEAVE_LIMIT_S = 20.0
MESSAGE_CHARACTERS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply(Generic[ResultT]):
    """What a job gave. ``healthy`` is False when the process must not be used again (a CUDA context that is broken)."""

    result: ResultT
    healthy: bool = True


class Worker(Generic[JobT, ResultT]):
    """Runs ``function`` on one job after the other in a child process, started when needed and after every loss.

    ``function`` and ``prepare`` must be importable by name, jobs and results picklable. ``prepare`` runs once in each new
    process, before its first job and outside the job's time limit. Use as a context manager.
    """

    def __init__(
        self,
        function: Callable[[JobT], Reply[ResultT]],
        prepare: Callable[[], None] | None = None,
        start_limit_s: float = START_LIMIT_S,
    ) -> None:
        self._function = function
        self._prepare = prepare
        self._start_limit_s = start_limit_s
        self._process: multiprocessing.context.SpawnProcess | None = None
        self._connection: Connection | None = None
        descriptor, name = tempfile.mkstemp(prefix="perfmodel-worker-", suffix=".log")
        os.close(descriptor)
        self._errors = Path(name)
        self.starts = 0
        """How many processes were started so far."""

    def run(self, job: JobT, time_limit_s: float) -> ResultT | Failure:
        """The job's result, or why there is none: time-out, or the process died; either way the next job gets a process."""
        connection = self._connection or self._start()
        if isinstance(connection, Failure):
            return connection
        try:
            connection.send(job)
            if not connection.poll(time_limit_s):
                self._end()
                return Failure(kind=FailureKind.TIME_OUT, message=f"no answer within {time_limit_s:g} s")
            reply: Reply[ResultT] = connection.recv()
        except (EOFError, OSError):
            return self._died()
        if not reply.healthy:
            self._end()
        return reply.result

    def _start(self) -> Connection | Failure:
        context = multiprocessing.get_context("spawn")
        connection, child_end = context.Pipe()
        self._errors.write_text("")
        process = context.Process(
            target=_serve, args=(child_end, self._function, self._prepare, str(self._errors)), daemon=True
        )
        process.start()
        child_end.close()
        self.starts += 1
        self._process, self._connection = process, connection
        try:
            if not connection.poll(self._start_limit_s):
                self._end()
                return Failure(kind=FailureKind.TIME_OUT, message=f"did not start within {self._start_limit_s:g} s")
            connection.recv()
        except (EOFError, OSError):
            return self._died()
        return connection

    def _died(self) -> Failure:
        process = self._process
        if process is not None:
            process.join(timeout=10.0)
        code = process.exitcode if process is not None else None
        cause = f"signal {signal.Signals(-code).name}" if code is not None and code < 0 else f"exit status {code}"
        message = f"{cause}: {_last_line(self._errors)}".rstrip(": ")
        self._end()
        return Failure(kind=FailureKind.WORKER_DIED, message=message)

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process.close()
        if self._connection is not None:
            self._connection.close()
        self._process = self._connection = None

    def _leave(self) -> None:
        """Let the process end by itself, so that it gives back what it holds; one that does not is ended."""
        if self._process is not None and self._connection is not None:
            self._connection.close()
            self._process.join(timeout=LEAVE_LIMIT_S)

    def __enter__(self) -> Worker[JobT, ResultT]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._leave()
        self._end()
        self._errors.unlink(missing_ok=True)


def _last_line(path: Path) -> str:
    lines = path.read_text(errors="replace").strip().splitlines()
    return lines[-1][:MESSAGE_CHARACTERS] if lines else ""


def _serve(
    connection: Connection,
    function: Callable[[JobT], Reply[ResultT]],
    prepare: Callable[[], None] | None,
    errors_path: str,
) -> None:
    """The child's life: what it prints on standard error goes to a file, whose last line explains its death."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    errors = os.open(errors_path, os.O_WRONLY | os.O_APPEND)
    os.dup2(errors, 2)
    os.close(errors)
    if prepare is not None:
        prepare()
    connection.send(None)
    while True:
        try:
            job = connection.recv()
        except EOFError:
            return
        connection.send(function(job))
