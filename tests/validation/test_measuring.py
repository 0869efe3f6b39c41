"""A campaign over a list of problems: what is chosen and compiled, and how it goes on after it was stopped."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from perfmodel.cli.app import run
from perfmodel.families.conv1d import Conv1d
from perfmodel.families.problem_list import ListedProblem
from perfmodel.prediction.ranking import rank_problem
from perfmodel.prediction.scenario import scenario_of
from perfmodel.profiles.kernel_profile import Fidelity
from perfmodel.records.own_records import append_record, read_records
from perfmodel.records.schema import Environment, Failure, FailureKind, Predicted, RecordKind
from perfmodel.validation.baselines.catalogue import BASELINES
from perfmodel.validation.baselines.job import BaselineJob
from perfmodel.validation.kernel_job import KernelJob
from perfmodel.validation.measuring import (
    Selection,
    chosen_configurations,
    measure_jobs,
    measure_prepared,
    prepare_problems,
)
from perfmodel.validation.prepared import PreparedFolder, Purpose
from perfmodel.validation.running import RunSummary
from perfmodel.validation.session import Session

from .measured_jobs import answer

PROBLEMS = tuple(
    ListedProblem(
        name=f"length {length}", family="conv1d", problem=Conv1d(in_channels=64, out_channels=4, length=length)
    )
    for length in (4, 8)
)
SCENARIO = scenario_of("h200")
LIBRARIES = len(BASELINES["conv1d"])


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    folder = tmp_path_factory.mktemp("prepared")
    kernels = prepare_problems(PROBLEMS, SCENARIO, Selection(random=2), PreparedFolder(folder))
    environment = Environment(
        gpu_name="", compute_capability="", driver_version="", cuda_version="", compiler_version="", commit=""
    )
    return Session(folder=folder, kernels=tuple(kernels), environment=environment, gpu="h200", seed=7)


def test_the_predicted_best_come_first_with_their_places_and_none_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, analytic = PROBLEMS[0].problem, functools.partial(rank_problem, fidelity=Fidelity.ANALYTIC)
    monkeypatch.setattr("perfmodel.validation.measuring.rank_problem", analytic)  # what is compiled takes seconds
    ranked = analytic(problem, SCENARIO, top=3).top
    chosen = chosen_configurations(problem, SCENARIO, Selection(top=3, random=2, seed=1))
    assert [one.configuration for one in chosen[:3]] == [one.configuration for one in ranked]
    assert [one.predicted for one in chosen[:3]] == [
        Predicted(fidelity=Fidelity.ANALYTIC, time_s=one.time.predicted_s, place=place)
        for place, one in enumerate(ranked, 1)
    ]
    assert [one.predicted for one in chosen[3:]] == [None] * 2
    assert len({one.configuration for one in chosen}) == 5
    assert chosen == chosen_configurations(problem, SCENARIO, Selection(top=3, random=2, seed=1))


@pytest.mark.compiler
def test_counters_are_read_of_the_last_ones_chosen(tmp_path: Path) -> None:
    kernels = prepare_problems(PROBLEMS[:1], SCENARIO, Selection(random=3, counted=1), PreparedFolder(tmp_path))
    assert [Purpose.COUNT in kernel.purposes for kernel in kernels] == [False, False, True]
    assert {Purpose.TIME in kernel.purposes for kernel in kernels} == {True}


@pytest.mark.compiler
def test_jobs_of_a_problem_stand_together_with_its_libraries(session: Session) -> None:
    jobs = measure_jobs(session, libraries=True)
    assert len(jobs) == 2 * (2 + LIBRARIES)
    names = [job.kernel.problem_name if isinstance(job, KernelJob) else job.problem_name for job in jobs]
    assert len(set(names[: 2 + LIBRARIES])) == len(set(names[2 + LIBRARIES :])) == 1
    kernels = [job.kernel for job in jobs if isinstance(job, KernelJob)]
    assert all(kernel.purposes == (Purpose.TIME,) for kernel in kernels)
    assert all(kernel.predicted is not None and kernel.predicted.place is None for kernel in kernels)
    assert {job.sampling for job in jobs} == {jobs[0].sampling}  # kernels and libraries by the same plan
    assert [job for job in measure_jobs(session, libraries=False) if isinstance(job, BaselineJob)] == []


@pytest.mark.compiler
def test_a_stopped_campaign_goes_on_where_it_stopped_and_asks_again_for_what_was_not_installed(
    session: Session, tmp_path: Path
) -> None:
    path = tmp_path / "records.jsonl"
    total = 2 * (2 + LIBRARIES)
    before = measure_jobs(session, libraries=True)[:5]
    for job in before[:4]:
        append_record(path, answer(job).result)
    missing = Failure(kind=FailureKind.UNAVAILABLE, message="not installed")
    library = next(job for job in measure_jobs(session, libraries=True)[5:] if isinstance(job, BaselineJob))
    append_record(path, library.failed(missing))
    with path.open("a") as stream:
        stream.write('{"kind": "kernel", "na')  # what a kill leaves behind
    summary = measure_prepared(session, path, libraries=True, time_limit_s=60.0, run=answer)
    assert summary == RunSummary(done=total - 4, failed=0, already_recorded=4, left=0)
    records = read_records(path)
    assert len(records) == total + 1
    assert len({record.key for record in records}) == total
    again = measure_prepared(session, path, libraries=True, time_limit_s=60.0, run=answer)
    assert again == RunSummary(done=0, failed=0, already_recorded=total, left=0)


@pytest.mark.compiler
def test_prepare_writes_a_plan_that_names_the_problems(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    listed = tmp_path / "list.toml"
    listed.write_text(
        '[[problem]]\nname = "small"\nfamily = "conv1d"\nin_channels = 64\nout_channels = 4\nlength = 8\n'
    )
    folder = tmp_path / "prepared"
    arguments = ["measure", "--problems", str(listed), "--gpu", "h200", "--prepare", str(folder), "--random", "2"]
    assert run(arguments) == 0
    assert "2 kernels of 1 problems" in capsys.readouterr().err
    timed = [kernel for kernel in PreparedFolder(folder).kernels() if Purpose.TIME in kernel.purposes]
    assert [kernel.problem_name for kernel in timed] == ["small", "small"]
    assert [kernel.kind for kernel in PreparedFolder(folder).kernels() if Purpose.FLUSH in kernel.purposes] == [
        RecordKind.MICRO_BENCHMARK
    ]
