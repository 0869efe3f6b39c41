"""The campaign on one GPU, cut into steps that can each be stopped and resumed; ``docs/measuring.md`` says how to run it.

``python -m campaigns prepare …`` on any machine with the compiler, then the other steps, one command
each, on the machine with the GPU.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from perfmodel.cli.output import note, progress_bar
from perfmodel.errors import PerfmodelError
from perfmodel.families.problem_list import read_problems
from perfmodel.prediction.scenario import scenario_of
from perfmodel.records.own_records import append_record
from perfmodel.records.schema import RecordKind
from perfmodel.validation.kernel_job import run_kernel_job
from perfmodel.validation.measuring import Selection, prepare_problems
from perfmodel.validation.prepared import PreparedFolder, Purpose
from perfmodel.validation.preparing import prepare_choices
from perfmodel.validation.running import kept_in, recorded_keys, run_missing
from perfmodel.validation.sampling import SamplingPlan
from perfmodel.validation.session import Session, answers

from . import reports
from .counting import count_missing
from .micro.job import MicroJob, run_micro_job
from .micro.preparing import prepare_benchmarks
from .micro.suite import micro_suite
from .random_checks import CHECKED_RANGES, random_checks
from .sanitizing import sanitized, sanitizer_key
from .tools import SanitizerTool, require_tool

STEP_LIMIT_S = 450.0
SANITIZED_PER_FAMILY = 40
MICRO_JOB_LIMIT_S = 120.0
COUNTER_SIGN = "__"
"""What the names of Nsight Compute's metrics have and no other counter has."""

app = typer.Typer(help=__doc__, add_completion=False, pretty_exceptions_enable=False)

RecordsOption = Annotated[Path, typer.Option("--records", help="JSON-lines file that records are appended to.")]
LimitOption = Annotated[float, typer.Option("--time-limit", min=1.0, help="Seconds after which the step stops.")]

GpuOption = Annotated[str, typer.Option("--gpu", help="Id of the GPU that the campaign will run on.")]
FolderOption = Annotated[Path, typer.Option("--folder", help="Folder of prepared kernels.")]


@app.command()
def prepare(
    gpu: GpuOption,
    folder: FolderOption,
    problems: Annotated[Path, typer.Option("--problems", metavar="FILE.toml", help="What is timed and counted.")],
    top: Annotated[int, typer.Option(min=1, help="Of each problem so many of the predicted best.")] = 12,
    random: Annotated[int, typer.Option(min=0, help="And so many drawn at random.")] = 60,
    counted: Annotated[int, typer.Option(min=0, help="Of so many of these counters are read, too.")] = 3,
    checks: Annotated[int, typer.Option(min=0, help="Random small problems of each family to check.")] = 200,
    seed: Annotated[int, typer.Option(min=0)] = 0,
) -> None:
    """Compile everything that the campaign runs; needs the compiler and no GPU."""
    scenario, target, listed = scenario_of(gpu), PreparedFolder(folder), read_problems(problems)
    selection = Selection(top=top, random=random, counted=counted, seed=seed)
    suite = micro_suite(scenario.gpu)
    with progress_bar("prepared", len(suite) + len(CHECKED_RANGES) * checks + len(listed)) as advance:
        micro = prepare_benchmarks(suite, scenario.gpu, target, advance)
        checked = prepare_choices(list(random_checks(scenario, checks, seed)), scenario, target, advance=advance)
        timed = prepare_problems(listed, scenario, selection, target, beside=[*micro, *checked], prepared=advance)
    kernels = [*checked, *timed]
    broken = sum(kernel.failure is not None for kernel in kernels)
    note(f"{len(micro)} micro-benchmarks and {len(kernels)} kernels in {folder}, {broken} of them did not compile")


@app.command()
def micro(folder: FolderOption, records: RecordsOption, time_limit: LimitOption = STEP_LIMIT_S) -> None:
    """Run the micro-benchmarks."""
    session = Session.open(folder)
    sampling = SamplingPlan(max_samples=50)
    jobs = [
        MicroJob(
            kernel=kernel,
            folder=folder,
            environment=session.environment,
            gpu=session.gpu,
            seed=session.seed,
            sampling=sampling,
        )
        for kernel in session.having(Purpose.MICRO)
    ]
    done = recorded_keys(
        records, lambda record: record.kind is RecordKind.MICRO_BENCHMARK and "amount" in record.counters
    )
    with progress_bar("micro-benchmarks", len(jobs)) as advance:
        summary = run_missing(
            jobs,
            run_micro_job,
            kept_in(records, advance),
            done=done,
            time_limit_s=time_limit,
            job_limit_s=MICRO_JOB_LIMIT_S,
        )
    note(str(summary))


@app.command()
def check(folder: FolderOption, records: RecordsOption, time_limit: LimitOption = STEP_LIMIT_S) -> None:
    """Compare every family's results with the reference on random small problems."""
    jobs = Session.open(folder).kernel_jobs(Purpose.CHECK, SamplingPlan())
    done = recorded_keys(records, lambda record: answers(record, timed=False))
    with progress_bar("checked", len(jobs)) as advance:
        summary = run_missing(jobs, run_kernel_job, kept_in(records, advance), done=done, time_limit_s=time_limit)
    note(str(summary))


@app.command()
def count(folder: FolderOption, records: RecordsOption, time_limit: LimitOption = STEP_LIMIT_S) -> None:
    """Read hardware counters with Nsight Compute."""
    session = Session.open(folder)
    ncu = require_tool("ncu", "Nsight Compute (ncu)")
    wanted = session.indices(Purpose.COUNT)
    done = recorded_keys(records, lambda record: any(COUNTER_SIGN in name for name in record.counters))
    with progress_bar("counted", len(wanted)) as advance:
        summary = count_missing(session, wanted, ncu, kept_in(records, advance), done=done, time_limit_s=time_limit)
    note(str(summary))


@app.command()
def sanitize(folder: FolderOption, records: RecordsOption, time_limit: LimitOption = STEP_LIMIT_S) -> None:
    """Run small problems of every family under the four tools of compute-sanitizer."""
    session = Session.open(folder)
    sanitizer = require_tool("compute-sanitizer", "compute-sanitizer")
    done = recorded_keys(records, lambda record: record.kind is RecordKind.SANITIZER)
    end = time.monotonic() + time_limit
    runs = [(tool, family) for family in session.families(Purpose.CHECK) for tool in SanitizerTool]
    finished, found = 0, []
    for tool, family in runs:
        if sanitizer_key(tool, family) in done or time.monotonic() >= end:
            continue
        indices = session.indices(Purpose.CHECK, family)[:SANITIZED_PER_FAMILY]
        record = sanitized(session, family, indices, tool, sanitizer)
        append_record(records, record)
        finished += 1
        found += [f"{tool.value}, {family}: {record.failure.message}"] if record.failure else []
    note(f"{finished} of {len(runs)} runs of compute-sanitizer, {len(found)} with findings")
    for text in found:
        note(text)


reports.register(app)


def main() -> int:
    """Run one step; exit status 2 and one line where it cannot."""
    try:
        app()
    except PerfmodelError as error:
        typer.echo(f"perfmodel: error: {error}", err=True)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
