"""``perfmodel sweep``: problems, their spaces and GPUs, on a Dask cluster, into one Parquet file."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..core.units import time_text
from .options import JsonOption
from .output import note, print_json, print_table, require_writable

if TYPE_CHECKING:
    from ..sweeps.running import SweepProgress, SweepReport

FAILED_STATUS = 1
_SHOWN_ROWS = 20
_SECONDS_BETWEEN_LINES = 10.0


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("sweep")(sweep)


def sweep(
    file: Annotated[
        Path,
        typer.Argument(metavar="SWEEP.toml", help="Kernels, GPUs, fidelity; docs/sweep.md describes it."),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE.parquet", help="The table of all results.")],
    scheduler: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS", help="A Dask scheduler, as tcp://host:8786; by default processes on this machine."
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes on this machine; by default one for each processor.")
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Drop finished tasks in FILE.parquet that SWEEP.toml does not have.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Predict the tuning spaces of many problems on many GPUs, in parallel, into one Parquet file.

    Finished work is kept at once: the same command goes on where an earlier one was ended. Exit status 1 if the worker
    processes of a task crashed repeatedly.
    """
    from ..sweeps.plan import read_sweep_file
    from ..sweeps.running import sweep as run_sweep

    require_writable("--output", output, [file])
    plan = read_sweep_file(file)
    with _progress() as advance:
        report = run_sweep(plan, output=output, scheduler=scheduler, workers=workers, replace=replace, progress=advance)
    for reason in report.failed:
        note(f"failed: {reason}")
    if as_json:
        print_json(report.to_json())
    else:
        _print(report)
    if report.failed:
        raise typer.Exit(FAILED_STATUS)


def _print(report: SweepReport) -> None:
    from ..core.json_values import fields_text

    fastest = report.fastest()
    rows = [
        (
            one.kernel,
            one.gpu,
            fields_text(one.problem),
            fields_text(one.configuration),
            time_text(one.predicted_s),
            one.time_limiter,
        )
        for one in fastest[:_SHOWN_ROWS]
    ]
    if rows:
        columns = ("kernel", "gpu", "problem", "fastest configuration", "predicted", "limiter")
        print_table("", columns, rows, left=4)
    if len(fastest) > _SHOWN_ROWS:
        typer.echo(f"… and {len(fastest) - _SHOWN_ROWS:,} more problems and GPUs")
    typer.echo(report.headline)


@contextmanager
def _progress() -> Iterator[Callable[[SweepProgress], None]]:
    """A bar on a terminal; elsewhere a line at the start and every ten seconds, so that a log shows how far it has come."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    if not console.is_terminal:
        yield _lines()
        return
    columns = (TextColumn("tasks"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        shown = bar.add_task("tasks", total=None)
        yield lambda now: bar.update(shown, total=now.tasks, completed=now.done)


def _lines() -> Callable[[SweepProgress], None]:
    last = [0.0]

    def line(now: SweepProgress) -> None:
        left, is_last = now.seconds_left, now.done == now.tasks
        is_first = now.finished + now.failed == 0
        if not (is_first or is_last) and time.monotonic() < last[0] + _SECONDS_BETWEEN_LINES:
            return
        last[0] = time.monotonic()
        more = "starting the workers" if left is None else f"about {time_text(left)} left"
        more = f"{now.failed:,} failed, {more}" if now.failed else more
        note(f"{now.done:,} of {now.tasks:,} tasks done in {time_text(now.seconds)}" + ("" if is_last else f", {more}"))

    return line
