"""The campaign on one GPU, cut into steps that can each be stopped and resumed; ``docs/measuring.md`` says how to run it.

``python -m perfmodel.validation.campaign prepare …`` on any machine with the compiler, then the other steps, one command
each, on the machine with the GPU.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from perfmodel.cli.output import note, progress_bar
from perfmodel.errors import InputError, PerfmodelError
from perfmodel.prediction.scenario import Scenario, scenario_of
from perfmodel.records.own_records import append_record
from perfmodel.records.schema import RecordKind

from . import campaign_reports
from .campaign_plan import TIMED_PROBLEMS, CampaignSizes, checked_choices, timed_choices
from .campaign_run import RunSummary, recorded_keys, run_missing
from .counting import count_missing
from .kernel_job import run_kernel_job
from .micro.job import MicroJob, run_micro_job
from .micro.suite import micro_suite
from .prepared import PreparedFolder, PreparedKernel, Purpose
from .preparing import Choice, flush_benchmark, prepare_benchmarks, prepare_choices
from .sampling import SamplingPlan
from .sanitizing import sanitized, sanitizer_key
from .session import Session, answers
from .tools import SanitizerTool, find_tool

STEP_LIMIT_S = 450.0
SANITIZED_PER_FAMILY = 40
MICRO_JOB_LIMIT_S = 120.0
COUNTER_SIGN = "__"
"""What the names of Nsight Compute's metrics have and no other counter has."""

app = typer.Typer(help=__doc__, add_completion=False, pretty_exceptions_enable=False)

RecordsOption = Annotated[Path, typer.Option("--records", help="JSON-lines file that records are appended to.")]
LimitOption = Annotated[float, typer.Option("--time-limit", min=1.0, help="Seconds after which the step stops.")]

SIZES = CampaignSizes()
ALL_FAMILIES = ",".join(TIMED_PROBLEMS)

GpuOption = Annotated[str, typer.Option("--gpu", help="Id of the GPU that the campaign will run on.")]
FolderOption = Annotated[Path, typer.Option("--folder", help="Folder of prepared kernels.")]
FamiliesOption = Annotated[str, typer.Option("--families", help="Families, separated by commas.")]


@app.command()
def prepare(
    gpu: GpuOption,
    folder: FolderOption,
    families: FamiliesOption = ALL_FAMILIES,
    best: Annotated[int, typer.Option(min=1)] = SIZES.best_per_problem,
    drawn: Annotated[int, typer.Option(min=0)] = SIZES.drawn_per_problem,
    checks: Annotated[int, typer.Option(min=0)] = SIZES.checks_per_family,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    workers: Annotated[int | None, typer.Option(min=1)] = None,
) -> None:
    """Compile everything that the campaign runs; needs the compiler and no GPU."""
    scenario = scenario_of(gpu)
    sizes = CampaignSizes(best_per_problem=best, drawn_per_problem=drawn, checks_per_family=checks)
    target = PreparedFolder(folder)
    names = families.split(",")
    choices: list[Choice] = [
        *timed_choices(scenario, sizes, seed, names),
        *checked_choices(scenario, sizes, seed, names),
    ]
    micro = [
        *prepare_benchmarks(micro_suite(scenario.gpu), Purpose.MICRO, scenario.gpu, target),
        *prepare_benchmarks([flush_benchmark(scenario.gpu)], Purpose.FLUSH, scenario.gpu, target),
    ]
    kernels = _compiled(choices, scenario, target, workers)
    target.write_plan([*micro, *kernels])
    broken = sum(kernel.failure is not None for kernel in kernels)
    note(f"{len(micro)} micro-benchmarks and {len(kernels)} kernels in {folder}, {broken} of them did not compile")


def _compiled(
    choices: Sequence[Choice], scenario: Scenario, target: PreparedFolder, workers: int | None
) -> list[PreparedKernel]:
    """The kernels of all choices in the folder, with progress."""
    with progress_bar("compiled", sum(len(choice.configurations) for choice in choices)) as advance:
        return prepare_choices(choices, scenario, target, workers=workers, advance=advance)


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
            records,
            done=done,
            time_limit_s=time_limit,
            job_limit_s=MICRO_JOB_LIMIT_S,
            report=lambda _: advance(),
        )
    _report(summary)


@app.command()
def check(folder: FolderOption, records: RecordsOption, time_limit: LimitOption = STEP_LIMIT_S) -> None:
    """Compare every family's results with the reference on random small problems."""
    _run_kernels(Session.open(folder), Purpose.CHECK, records, time_limit, SamplingPlan())


@app.command("time")
def time_kernels(folder: FolderOption, records: RecordsOption, time_limit: LimitOption = STEP_LIMIT_S) -> None:
    """Check and time the configurations of the plan."""
    sampling = SamplingPlan(min_samples=10, max_samples=60, time_limit_s=0.06)
    _run_kernels(Session.open(folder), Purpose.TIME, records, time_limit, sampling)


def _run_kernels(session: Session, purpose: Purpose, records: Path, time_limit: float, sampling: SamplingPlan) -> None:
    jobs = session.kernel_jobs(purpose, sampling)
    timed = purpose is Purpose.TIME
    done = recorded_keys(records, lambda record: answers(record, timed))
    compiled = [job for job in jobs if job.kernel.failure is None]
    for job in jobs:
        if job.kernel.failure is not None and job.key not in done:
            append_record(records, job.failed(job.kernel.failure))
    with progress_bar(purpose.value, len(compiled)) as advance:
        summary = run_missing(
            compiled, run_kernel_job, records, done=done, time_limit_s=time_limit, report=lambda _: advance()
        )
    _report(summary)


@app.command()
def count(folder: FolderOption, records: RecordsOption, time_limit: LimitOption = STEP_LIMIT_S) -> None:
    """Read hardware counters with Nsight Compute."""
    session = Session.open(folder)
    ncu = find_tool("ncu")
    if ncu is None:
        raise InputError("Nsight Compute (ncu) was found neither on the search path nor in CUDA_HOME/bin")
    wanted = session.indices(Purpose.COUNT)
    done = recorded_keys(records, lambda record: any(COUNTER_SIGN in name for name in record.counters))
    with progress_bar("counted", len(wanted)) as advance:
        summary = count_missing(
            session.counted_plan(),
            wanted,
            ncu,
            records,
            done=done,
            time_limit_s=time_limit,
            report=lambda _: advance(),
        )
    _report(summary)


@app.command()
def sanitize(folder: FolderOption, records: RecordsOption, time_limit: LimitOption = STEP_LIMIT_S) -> None:
    """Run small problems of every family under the four tools of compute-sanitizer."""
    session = Session.open(folder)
    sanitizer = find_tool("compute-sanitizer")
    if sanitizer is None:
        raise InputError("compute-sanitizer was found neither on the search path nor in CUDA_HOME/bin")
    done = recorded_keys(records, lambda record: record.kind is RecordKind.SANITIZER)
    end = time.monotonic() + time_limit
    runs = [(tool, family) for family in session.families(Purpose.CHECK) for tool in SanitizerTool]
    finished, found = 0, []
    for tool, family in runs:
        if sanitizer_key(tool, family) in done or time.monotonic() >= end:
            continue
        indices = session.indices(Purpose.CHECK, family)[:SANITIZED_PER_FAMILY]
        record = sanitized(session.counted_plan(), family, indices, tool, sanitizer)
        append_record(records, record)
        finished += 1
        found += [f"{tool.value}, {family}: {record.failure.message}"] if record.failure else []
    note(f"{finished} of {len(runs)} runs of compute-sanitizer, {len(found)} with findings")
    for text in found:
        note(text)


def _report(summary: RunSummary) -> None:
    note(
        f"{summary.done} run ({summary.failed} failed), {summary.already_recorded} recorded before, {summary.left} left"
    )


campaign_reports.register(app)


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
