"""Predict, then measure: the chosen configurations of one problem compiled, run, checked and timed."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from perfmodel.families.registry import family_of
from perfmodel.prediction.ranking import rank_problem
from perfmodel.prediction.scenario import Scenario
from perfmodel.records.own_records import append_record

from .campaign_run import RunSummary, recorded_keys, run_missing
from .device import Device, environment
from .kernel_job import KernelJob, run_kernel_job
from .prepared import PreparedFolder, PreparedKernel, Purpose
from .preparing import Choice, flush_benchmark, prepare_benchmarks, prepare_choices
from .sampling import SamplingPlan
from .selection import all_fitting, drawn, spread_out
from .session import answers

SAMPLING = SamplingPlan()


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureRequest:
    """One problem, the configurations to run, and where the records go."""

    problem: Any
    configurations: tuple[Any, ...]
    scenario: Scenario
    device: Device
    records: Path
    time_limit_s: float
    seed: int


def best_of(problem: Any, scenario: Scenario, count: int) -> list[Any]:
    """The configurations predicted fastest at compiled fidelity, fastest first."""
    return [prediction.configuration for prediction in rank_problem(problem, scenario, top=count).top]


def sample_of(problem: Any, scenario: Scenario, count: int, seed: int) -> list[Any]:
    """Configurations drawn evenly from all that fit."""
    return drawn(family_of(problem), problem, scenario, count, np.random.default_rng(seed))


def spread_of(problem: Any, scenario: Scenario, count: int, seed: int) -> list[Any]:
    """Configurations that are unlike one another, out of all that fit."""
    return spread_out(family_of(problem), problem, scenario, count, np.random.default_rng(seed))


def all_of(problem: Any, scenario: Scenario) -> list[Any]:
    """Every configuration that fits."""
    return all_fitting(family_of(problem), problem, scenario)


def measure_choice(request: MeasureRequest, advance: Callable[[], None]) -> RunSummary:
    """Compile what is not recorded yet, run it in random order, append the records; ``advance`` is called for each."""
    with tempfile.TemporaryDirectory(prefix="perfmodel-measure-") as name:
        folder = PreparedFolder(Path(name))
        kernels = _prepared(request, folder)
        done = recorded_keys(request.records, lambda record: answers(record, timed=True))
        jobs = [_job(request, folder, kernel) for kernel in kernels]
        for job in jobs:
            if job.kernel.failure is not None and job.key not in done:
                append_record(request.records, job.failed(job.kernel.failure))
        compiled = [job for job in jobs if job.kernel.failure is None]
        order = np.random.default_rng(request.seed).permutation(len(compiled))
        return run_missing(
            [compiled[index] for index in order],
            run_kernel_job,
            request.records,
            done=done,
            time_limit_s=request.time_limit_s,
            report=lambda _: advance(),
        )


def _prepared(request: MeasureRequest, folder: PreparedFolder) -> list[PreparedKernel]:
    choice = Choice(
        family=family_of(request.problem).name,
        problem=request.problem,
        configurations=request.configurations,
        purposes=(Purpose.TIME,),
    )
    kernels = prepare_choices([choice], request.scenario, folder)
    gpu = request.scenario.gpu
    flush = prepare_benchmarks([flush_benchmark(gpu)], Purpose.FLUSH, gpu, folder)
    folder.write_plan([*flush, *kernels])
    return kernels


def _job(request: MeasureRequest, folder: PreparedFolder, kernel: PreparedKernel) -> KernelJob:
    return KernelJob(
        kernel=kernel,
        folder=folder.path,
        environment=environment(request.device, kernel.compiler_version, kernel.commit),
        gpu=request.scenario.gpu.id,
        seed=request.seed,
        timed=True,
        sampling=SAMPLING,
    )
