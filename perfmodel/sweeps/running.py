"""Run a sweep on Dask: by default on the processors of this machine, else on the cluster of a scheduler."""

from __future__ import annotations

import itertools
import math
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..compiler.disk_cache import report_trouble
from ..compiler.workers import apart_from_caller, main_module_hidden
from ..core.json_values import fields_text
from ..core.kept import note_kept
from ..core.results import Bar, TimedResult
from ..core.units import microseconds, time_text
from ..core.value_types import require_type
from ..errors import InputError, PerfmodelError
from .plan import CONFIGURATION_PREFIX, PROBLEM_PREFIX, SweepPlan, read_sweep_file

if TYPE_CHECKING:
    from distributed import Client

    from .results import ResultFile
    from .rows import TaskResult
    from .tasks import SweepTask

_ANY_LOCAL_PORT = "127.0.0.1:0"
_START_SECONDS = 300
_CONNECT_SECONDS = 10
_CLOSE_SECONDS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepProgress:
    """How far a sweep has come: tasks in all, those kept by an earlier run, those finished in this one, those that failed.

    ``working_s``: how long there have been workers.
    """

    tasks: int
    kept_before: int
    finished: int
    failed: int
    seconds: float
    working_s: float

    @property
    def done(self) -> int:
        """Tasks that need no more work."""
        return self.kept_before + self.finished + self.failed

    @property
    def seconds_left(self) -> float | None:
        """An estimate by the tasks of this run; None before the first has finished."""
        now = self.finished + self.failed
        return self.working_s / now * (self.tasks - self.done) if now else None


Progress = Callable[[SweepProgress], None]
"""Called before the first task and after each one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fastest:
    """The configuration of the least predicted time of one problem on one GPU; fields that have no value are left out."""

    kernel: str
    gpu: str
    problem: tuple[tuple[str, Any], ...]
    configuration: tuple[tuple[str, Any], ...]
    predicted_s: float
    time_limiter: str


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SweepReport(TimedResult):
    """A sweep that ended: its file, and what this run did.

    Attributes:
        path: the Parquet file.
        rows: rows in it.
        tasks: tasks of the sweep.
        kept_before: tasks of which an earlier run had the rows.
        finished: tasks of this run.
        failed: tasks without rows, each with the reason; the same sweep tries them again.
        seconds: how long this run took.
    """

    path: Path
    rows: int
    tasks: int
    kept_before: int
    finished: int
    failed: tuple[str, ...]
    seconds: float

    @property
    def headline(self) -> str:
        """Rows, tasks and time."""
        again = f", {self.kept_before:,} of them kept from before" if self.kept_before else ""
        lost = f", {len(self.failed):,} failed" if self.failed else ""
        return f"{self.rows:,} rows of {self.tasks:,} tasks{again}{lost}, in {time_text(self.seconds)}: {self.path}"

    def to_rows(self) -> list[dict[str, Any]]:
        """Every row of the file; `pandas.read_parquet` is the way for large ones."""
        import pyarrow.parquet as pq

        rows: list[dict[str, Any]] = pq.read_table(self.path).to_pylist()
        return rows

    def fastest(self) -> list[Fastest]:
        """The configuration of the least predicted time of each problem and GPU, in the file's order."""
        import pyarrow.parquet as pq

        least: dict[tuple[Any, ...], dict[str, Any]] = {}
        with pq.ParquetFile(self.path) as file:
            names = file.schema_arrow.names
            keys = ["kernel", "gpu", *(name for name in names if name.startswith(PROBLEM_PREFIX))]
            chosen = [name for name in names if name.startswith(CONFIGURATION_PREFIX)]
            for batch in file.iter_batches(columns=[*keys, *chosen, "predicted_s", "time_limiter"]):
                for row in batch.filter(batch["predicted_s"].is_valid()).to_pylist():
                    key = tuple(row[name] for name in keys)
                    if key not in least or row["predicted_s"] < least[key]["predicted_s"]:
                        least[key] = row
        return [_fastest(row) for row in least.values()]

    def bars(self) -> list[Bar]:
        """The least time of each problem and GPU."""
        return [
            Bar(label=f"{one.kernel} on {one.gpu}: {fields_text(one.problem)}", seconds=one.predicted_s)
            for one in self.fastest()
        ]

    def to_json(self) -> dict[str, Any]:
        """The object of ``perfmodel sweep --json``."""
        return {
            "path": str(self.path),
            "rows": self.rows,
            "tasks": self.tasks,
            "kept_before": self.kept_before,
            "finished": self.finished,
            "failed": list(self.failed),
            "seconds": self.seconds,
            "fastest": [
                {
                    "kernel": one.kernel,
                    "gpu": one.gpu,
                    "problem": dict(one.problem),
                    "config": dict(one.configuration),
                    "predicted_us": microseconds(one.predicted_s),
                    "limiter": one.time_limiter,
                }
                for one in self.fastest()
            ],
        }


def _fastest(row: Mapping[str, Any]) -> Fastest:
    def beginning(prefix: str) -> tuple[tuple[str, Any], ...]:
        return tuple(
            (name.removeprefix(prefix), value)
            for name, value in row.items()
            if name.startswith(prefix) and value is not None
        )

    return Fastest(
        kernel=row["kernel"],
        gpu=row["gpu"],
        problem=beginning(PROBLEM_PREFIX),
        configuration=beginning(CONFIGURATION_PREFIX),
        predicted_s=row["predicted_s"],
        time_limiter=row["time_limiter"],
    )


def sweep(
    plan: SweepPlan | str | Path,
    *,
    output: str | Path,
    scheduler: str | Client | None = None,
    workers: int | None = None,
    replace: bool = False,
    progress: Progress = lambda _: None,
) -> SweepReport:
    """Predict every problem of a plan on every GPU, on many processors, into one Parquet file.

    Each finished task is kept at once in the folder ``OUTPUT.parts``; the same call goes on where an earlier one was ended,
    and computes nothing that the file has already. Rows and their order depend on the plan alone.

    Args:
        plan: a `SweepPlan`, or the path of a TOML file.
        output: the Parquet file.
        scheduler: address of a Dask scheduler, or a ``distributed.Client``; processes on this machine where None.
        workers: how many processes then; one for each processor where None.
        replace: whether finished tasks that the plan does not have may go.
        progress: called before the first task and after each one.

    Raises:
        InputError: an argument or the plan is wrong.
        PerfmodelError: the scheduler ended, or a file cannot be written.

    >>> import perfmodel as pm
    >>> from distributed import Client
    >>> from tempfile import TemporaryDirectory
    >>> plan = pm.SweepPlan(problems=[pm.TiledConv2d(height=256, width=256)], gpus=["h200", "t4"], fidelity="analytic", best=3)
    >>> with TemporaryDirectory() as folder, Client(processes=False, n_workers=1, dashboard_address=":0") as client:
    ...     report = pm.sweep(plan, output=f"{folder}/found.parquet", scheduler=client)
    ...     report.rows, report.to_rows()[3]["gpu"]  # the three best of each GPU
    (6, 't4')
    """
    client_type = _client_type()
    require_type((str, client_type, type(None)), "the address of a scheduler or a Client", scheduler=scheduler)
    require_type((int, type(None)), "an integer", workers=workers)
    if workers is not None and (workers < 1 or scheduler is not None):
        what = "must be at least 1" if workers < 1 else "goes without scheduler, whose workers are its own"
        raise InputError(f"workers={workers} {what}")
    from .results import ResultFile
    from .tasks import tasks_of

    if Path(output).suffix not in ("", ".parquet"):
        raise InputError(
            f"output {output}: the results are a Parquet file; name it {Path(output).with_suffix('.parquet')}"
        )
    chosen = plan if isinstance(plan, SweepPlan) else read_sweep_file(Path(plan))
    begin, file, tasks = time.monotonic(), ResultFile(path=Path(output)), tasks_of(chosen)
    with file.locked():
        _require_own(file, {task.key for task in tasks}, replace)
        joined = file.joined_rows()
        known = joined.keys() | file.part_keys()
        missing = [task for task in tasks if task.key not in known]
        if known:
            note_kept()
        failed: dict[str, str] = {}
        finished, started = 0, math.inf

        def report() -> None:
            progress(
                SweepProgress(
                    tasks=len(tasks),
                    kept_before=len(tasks) - len(missing),
                    finished=finished,
                    failed=len(failed),
                    seconds=time.monotonic() - begin,
                    working_s=max(time.monotonic() - started, 0.0),
                )
            )

        report()
        if missing:
            with _connected(scheduler, min(workers or os.cpu_count() or 1, len(missing))) as client:
                started = time.monotonic()
                for key, outcome in _outcomes(client, missing):
                    if isinstance(outcome, str):
                        failed[key] = outcome
                    else:
                        report_trouble(outcome.trouble)
                        file.keep(key, outcome.table)
                        finished += 1
                    report()
        having_rows = [task for task in tasks if task.key not in failed]
        if list(joined) == [task.key for task in having_rows]:
            rows = sum(joined.values())
            file.clear()  # of what an earlier run was ended amid removing
        else:
            rows = file.join(having_rows, chosen.best)
    return SweepReport(
        path=file.path,
        rows=rows,
        tasks=len(tasks),
        kept_before=len(tasks) - len(missing),
        finished=finished,
        failed=tuple(failed.values()),
        seconds=time.monotonic() - begin,
    )


def _require_own(file: ResultFile, wanted: set[str], replace: bool) -> None:
    """That nothing finished is lost that the sweep does not have; with ``replace`` it goes.

    Raises:
        InputError: file or folder hold other tasks.
    """
    parts = file.part_keys()
    others = (file.joined_rows().keys() | parts) - wanted
    if others and not replace:
        raise InputError(
            f"output {file.path}: {len(others):,} finished tasks in it are of another sweep, or of another version of "
            "perfmodel; name another file, or drop them with --replace (replace=True)"
        )
    for key in parts - wanted:
        file.drop(key)


def _client_type() -> type[Client]:
    try:
        import pyarrow  # noqa: F401 - results need it
        from distributed import Client
    except ImportError as error:
        raise InputError("sweeps need the extra `sweep`: pip install 'perfmodel[sweep]'") from error
    return Client  # type: ignore[no-any-return]


@contextmanager
def _connected(scheduler: str | Client | None, workers: int) -> Iterator[Client]:
    """A client of the scheduler, or of processes of this machine that end with the block."""
    import logging

    from distributed import Client, LocalCluster

    if isinstance(scheduler, Client):
        yield scheduler
        return
    if scheduler is not None:
        logging.getLogger("distributed.client").setLevel(
            logging.CRITICAL
        )  # a scheduler that ends is one line, said below
        try:
            client = Client(scheduler, timeout=_CONNECT_SECONDS)
        except (OSError, ValueError) as error:
            raise InputError(f"scheduler {scheduler!r}: no Dask scheduler answers there: {error}") from error
        try:
            yield client
        finally:
            with suppress(Exception):  # a connection that is lost cannot always be closed
                client.close(_CLOSE_SECONDS)
        return
    cluster = client = None
    with main_module_hidden():  # a worker that ends is started again at any time
        try:
            with apart_from_caller():  # no process of its thread takes Ctrl-C as its own
                cluster = LocalCluster(
                    n_workers=0,
                    threads_per_worker=1,
                    dashboard_address=_ANY_LOCAL_PORT,
                    silence_logs=logging.CRITICAL,
                )
            cluster.scale(workers)
            client = Client(cluster)
            try:
                client.wait_for_workers(workers, timeout=_START_SECONDS)
            except TimeoutError as error:
                raise PerfmodelError(f"workers: fewer than {workers} started within {_START_SECONDS} s") from error
            yield client
        except BaseException:  # nobody waits for what is under way: a worker amid a task would answer late
            for worker in cluster.workers.values() if cluster is not None else ():
                worker.auto_restart = False
                if worker.pid is not None:
                    os.kill(worker.pid, signal.SIGKILL)
            raise
        finally:
            for one in (client, cluster):
                if one is not None:
                    one.close(_CLOSE_SECONDS)


def _outcomes(client: Client, tasks: Sequence[SweepTask]) -> Iterator[tuple[str, TaskResult | str]]:
    """The key of each task as it ends, with what it found, or the reason where its worker was lost again and again.

    Raises:
        PerfmodelError: what a task raised, or the scheduler ended.
    """
    from concurrent.futures import CancelledError

    from distributed import KilledWorker, as_completed

    from .rows import run_task

    names = {f"perfmodel-sweep-{task.key}": task for task in tasks}
    waiting = iter(names.items())
    running: Any = as_completed(with_results=True, raise_errors=False)

    def hand_out(under_way: int) -> None:
        """One task for each thread: Dask blames all tasks that a worker has for how one of them ends it."""
        try:
            threads = sum(client.nthreads().values())
        except OSError as error:  # the connection is closed
            raise CancelledError from error
        for key, task in itertools.islice(waiting, max(max(threads, 1) - under_way, 0)):
            running.add(client.submit(run_task, task, key=key, pure=False))

    try:
        hand_out(0)
        for future, found in running:
            hand_out(running.count())
            task = names[future.key]
            if future.status == "finished":
                yield task.key, found
            elif future.status == "error":
                _, error, trace = found
                if not isinstance(error, KilledWorker):
                    raise error.with_traceback(trace)
                times = error.allowed_failures + 1
                yield task.key, f"{task.problem} on {task.scenario.gpu.id}: its worker process ended {times} times"
            else:
                raise CancelledError
            future.release()
    except CancelledError as error:
        raise PerfmodelError("the Dask scheduler ended; finished tasks are kept, and the same sweep goes on") from error
