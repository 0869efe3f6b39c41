"""``perfmodel run``: a whole CUDA program on the CPU, with the predicted time of each of its launches."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..compiler.kernel_names import shortened
from ..core.choices import one_of
from ..core.units import time_text
from .analyze import defines_from
from .options import (
    CalibrationOption,
    ClockOption,
    CsvOption,
    GpuOption,
    IncludeOption,
    JsonOption,
    L2Option,
    OnceCommand,
    SeedOption,
    require_one_format,
)
from .output import note, print_csv, print_json, print_table

if TYPE_CHECKING:
    from ..programs.program_run import ProgramRun

FAILED_STATUS = 1
_STANDARD_ERROR = 2
_PROGRAM_ARGUMENTS = "arguments of the program"


class _RunCommand(OnceCommand):
    """What stands behind ``--`` belongs to the program that is run."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        end = args.index("--") if "--" in args else len(args)
        ctx.meta[_PROGRAM_ARGUMENTS] = args[end + 1 :]
        return super().parse_args(ctx, args[:end])


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("run", cls=_RunCommand)(run)


def run(
    context: typer.Context,
    gpu: GpuOption,
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE.cu [MORE] [-- ARGUMENTS]", help="The program's sources; after -- its arguments."),
    ] = None,
    exe: Annotated[
        Path | None,
        typer.Option("--exe", metavar="PROGRAM", help="A built program, linked with `nvcc -cudart shared`."),
    ] = None,
    execute: Annotated[
        str,
        typer.Option(
            "--execute",
            metavar="all|first|none",
            help="Launches that are executed: all, the first of equal ones, none. Only `all` gives right results.",
        ),
    ] = "all",
    defines: Annotated[list[str] | None, typer.Option("--define", "-D", metavar="N=V", help="A macro.")] = None,
    include: IncludeOption = None,
    options: Annotated[
        list[str] | None, typer.Option("--compiler-option", metavar="OPTION", help="An option for nvcc.")
    ] = None,
    seed: SeedOption = 0,
    sm_clock_mhz: ClockOption = None,
    l2: L2Option = "cold",
    calibration: CalibrationOption = None,
    time_limit: Annotated[
        float | None,
        typer.Option("--time-limit", min=0.0, metavar="SECONDS", help="Maximum elapsed time of the program."),
    ] = None,
    max_seconds: Annotated[
        float, typer.Option(min=0.0, help="Maximum processor time to execute one launch, in seconds.")
    ] = 300.0,
    max_memory_mib: Annotated[int, typer.Option(min=1, help="Maximum memory of a simulation, in MiB.")] = 2048,
    max_instructions: Annotated[int, typer.Option(min=1, help="Maximum warp instructions of a simulation.")] = 10**11,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
) -> None:
    """Run a whole CUDA program without a GPU: its host code as it is, its launches executed on the CPU and predicted for --gpu.

    The program is compiled by nvcc and linked with a stand-in CUDA runtime. What it prints goes to standard output, with --json
    to standard error. Exit status 1 where a launch failed or the program itself ends with another status than 0.
    """
    from ..launch.launch import L2State
    from ..profiles.executed_profile import Effort
    from ..programs.launches import Execute
    from ..programs.program_run import run_program
    from ..simulator.simulation import Budget

    require_one_format(as_json, as_csv)
    budget = Budget(seconds=max_seconds, memory_bytes=max_memory_mib * 2**20, warp_instructions=max_instructions)
    sys.stdout.flush()
    early: list[ProgramRun] = []
    try:
        with _progress() as started:
            found = run_program(
                files or [],
                gpu=gpu,
                exe=exe,
                arguments=context.meta[_PROGRAM_ARGUMENTS],
                defines=defines_from(defines or []),
                include=include or [],
                options=options or [],
                execute=one_of(Execute, "--execute", execute),
                sm_clock_mhz=sm_clock_mhz,
                l2=one_of(L2State, "--l2", l2),
                calibration=None if calibration is None else str(calibration),
                effort=Effort(seed=seed, budget=budget),
                time_limit_s=time_limit,
                stdout=_STANDARD_ERROR if as_json or as_csv else None,
                report=note,
                started=started,
                ended_early=early.append,
            )
    finally:
        if early and not (as_json or as_csv):
            _print_early(early[0])
    if as_json:
        print_json(found.to_json())
    elif as_csv:
        print_csv(found.to_rows())
    else:
        _print(found)
    for text in found.overruns:
        note(text)
    if found.exit_status:
        ended = f"by signal {-found.exit_status}" if found.exit_status < 0 else f"with status {found.exit_status}"
        note(f"{found.program} ended {ended}")
    if found.exit_status or found.failures:
        raise typer.Exit(FAILED_STATUS)


@contextmanager
def _progress() -> Iterator[Callable[[str, int], None]]:
    """Show on standard error which launch is executed, where that is a terminal."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda kernel, number: None
        return
    with console.status("building the program") as status:
        yield lambda kernel, number: status.update(f"launch {number}: {kernel}")


def _print_early(found: ProgramRun) -> None:
    """What is known of a program that was ended: what follows the launches that were done is not in the table."""
    if found.launches:
        note(f"{found.program} was ended; the table has the launches until then")
        _print(found)


def _print(found: ProgramRun) -> None:
    if not found.launches:
        typer.echo(f"{found.program} on {found.gpu}: no launch of a kernel")
        return
    rows = [
        (
            shortened(launch.kernel),
            "x".join(map(str, launch.shape.grid)),
            "x".join(map(str, launch.shape.block)),
            f"{launch.shape.shared_bytes:,}" if launch.shape.shared_bytes else "–",
            launch.prediction.time.limiter,
            f"{launch.calls:,}",
            time_text(launch.total_s / launch.calls),
            time_text(launch.total_s),
            f"{launch.share:.1%}",
        )
        for launch in found.launches
    ]
    calls = sum(launch.calls for launch in found.launches)
    columns = ("kernel", "grid", "block", "dynamic shared", "limiter", "calls", "time per call", "total", "share")
    title = f"{found.program} on {found.gpu}: {calls:,} launches, predicted {time_text(found.device_s)} in all"
    print_table(title, columns, rows, 5)
    for text in dict.fromkeys(
        f"{shortened(launch.kernel)}: {text}" for launch in found.launches for text in launch.prediction.notes
    ):
        typer.echo(f"note: {text}")
