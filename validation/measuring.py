"""Predict, then measure: configurations of each problem chosen, compiled, run, checked and timed, and libraries beside them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from perfmodel.core.progress import Advance, no_progress
from perfmodel.families.problem_list import ListedProblem
from perfmodel.families.registry import family, family_of
from perfmodel.prediction.ranking import rank_problem
from perfmodel.prediction.scenario import Scenario
from perfmodel.records.columns import record_of_fields
from perfmodel.records.schema import FailureKind, Predicted, Record, RecordKind, Scalar

from .baselines.catalogue import baselines_of
from .baselines.job import BaselineJob, run_baseline_job
from .kernel_job import KernelJob, run_kernel_job
from .prepared import PreparedFolder, PreparedKernel, Purpose
from .preparing import Choice, prepare_choices, prepare_flush
from .running import RunSummary, kept_in, recorded_keys, run_missing
from .sampling import SamplingPlan
from .selection import all_fitting, drawn
from .session import Session, answers
from .worker import Reply

SAMPLING = SamplingPlan(max_samples=60, time_limit_s=0.06)
"""The same for kernels and libraries."""

MeasureJob = KernelJob | BaselineJob


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which configurations of a problem are measured: the predicted best, and some that are chosen otherwise."""

    top: int = 0
    """So many of those that ``rank`` predicts to be fastest."""
    random: int = 0
    """So many drawn evenly from all that fit."""
    every: bool = False
    """All that fit."""
    counted: int = 0
    """Of so many, the last of all, hardware counters are to be read, too."""
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """A configuration to be measured, and what was predicted of it where it was ranked."""

    configuration: Any
    predicted: Predicted | None = None


def chosen_configurations(problem: Any, scenario: Scenario, selection: Selection) -> tuple[Chosen, ...]:
    """The predicted best first, fastest first, then the others; none twice.

    Raises:
        InfeasibleError: No configuration fits the GPU.
    """
    chosen = family_of(problem)
    best = _predicted_best(problem, scenario, selection.top) if selection.top else []
    rng = np.random.default_rng(selection.seed)
    others: list[Any] = []
    if selection.random:
        others += drawn(chosen, problem, scenario, selection.random + len(best), rng)
    if selection.every:
        others += all_fitting(chosen, problem, scenario)
    seen = {one.configuration for one in best}
    others = [one for one in dict.fromkeys(others) if one not in seen]
    if selection.random:
        others = others[: selection.random]
    return (*best, *(Chosen(configuration=one) for one in others))


def _predicted_best(problem: Any, scenario: Scenario, count: int) -> list[Chosen]:
    return [
        Chosen(
            configuration=one.configuration,
            predicted=Predicted(fidelity=one.fidelity, time_s=one.time.predicted_s, place=place),
        )
        for place, one in enumerate(rank_problem(problem, scenario, top=count).top, 1)
    ]


def prepare_problems(
    problems: Sequence[ListedProblem],
    scenario: Scenario,
    selection: Selection,
    folder: PreparedFolder,
    *,
    beside: Sequence[PreparedKernel] = (),
    prepared: Advance = no_progress,
) -> list[PreparedKernel]:
    """Choose and compile the configurations of one problem after the other; ``prepared`` is called after each.

    The plan is written after each problem, so that a folder that was stopped holds those that were done. ``beside`` are kernels
    of the plan that are compiled already.
    """
    gpu = scenario.gpu
    plan = [*beside, prepare_flush(gpu, folder)]
    kernels: list[PreparedKernel] = []
    for one in problems:
        kernels += prepare_choices(_choices(one, scenario, selection), scenario, folder)
        folder.write_plan([*plan, *kernels])
        prepared()
    return kernels


def _choices(one: ListedProblem, scenario: Scenario, selection: Selection) -> list[Choice]:
    """The configurations of a problem: those that are timed, and those that are counted, too."""
    found = chosen_configurations(one.problem, scenario, selection)
    only_timed = max(len(found) - selection.counted, 0)
    parts = ((found[:only_timed], (Purpose.TIME,)), (found[only_timed:], (Purpose.TIME, Purpose.COUNT)))
    return [
        Choice(
            family=one.family,
            problem=one.problem,
            problem_name=one.name,
            configurations=tuple(chosen.configuration for chosen in part),
            predicted=tuple(chosen.predicted for chosen in part),
            purposes=purposes,
        )
        for part, purposes in parts
        if part
    ]


def run_measure_job(job: MeasureJob) -> Reply[Record]:
    """Run a kernel or a library."""
    return run_kernel_job(job) if isinstance(job, KernelJob) else run_baseline_job(job)


def measure_prepared(
    session: Session,
    records: Path,
    *,
    libraries: bool,
    time_limit_s: float,
    advance: Advance = no_progress,
    run: Callable[[MeasureJob], Reply[Record]] = run_measure_job,
) -> RunSummary:
    """Run what is prepared and not recorded yet, each problem's libraries beside it; ``advance`` is called after each run."""
    return run_missing(
        measure_jobs(session, libraries=libraries),
        run,
        kept_in(records, advance),
        done=recorded_keys(records, answered),
        time_limit_s=time_limit_s,
    )


def answered(record: Record) -> bool:
    """Whether a record makes running the same again needless."""
    if record.kind is RecordKind.BASELINE:
        return record.failure is None or record.failure.kind is not FailureKind.UNAVAILABLE
    return answers(record, timed=True)


def measure_jobs(session: Session, *, libraries: bool) -> list[MeasureJob]:
    """Problem after problem in random order; of each the kernels and the libraries, mixed, so that both meet the same GPU."""
    rng = np.random.default_rng(session.seed)
    by_problem: dict[tuple[str, tuple[tuple[str, Scalar], ...]], list[MeasureJob]] = {}
    for job in session.kernel_jobs(Purpose.TIME, SAMPLING):
        by_problem.setdefault((job.kernel.name, tuple(job.kernel.problem.items())), []).append(job)
    if libraries:
        for (family, _), jobs in by_problem.items():
            jobs += _library_jobs(session, family, jobs[0])
    groups = list(by_problem.values())
    return [groups[g][j] for g in rng.permutation(len(groups)) for j in rng.permutation(len(groups[g]))]


def _library_jobs(session: Session, family_name: str, beside: MeasureJob) -> list[BaselineJob]:
    if not isinstance(beside, KernelJob):
        return []
    kernel = beside.kernel
    problem = record_of_fields(family(family_name).problem_type, kernel.problem)
    return [
        BaselineJob(
            family=family_name,
            problem=dict(kernel.problem),
            problem_name=kernel.problem_name,
            baseline=baseline.name,
            folder=session.folder,
            environment=session.environment,
            gpu=session.gpu,
            seed=session.seed,
            sampling=SAMPLING,
        )
        for baseline in baselines_of(family_name, problem)
    ]
