"""What only a GPU can show; skipped visibly where there is none."""

import json
from pathlib import Path

import numpy as np
import pytest

from campaigns.counting import count_missing
from campaigns.metrics import counts_of_metrics
from campaigns.micro.compute_suite import ComputeSizes, compute_suite
from campaigns.micro.job import MicroJob, run_micro_job
from campaigns.micro.preparing import prepare_benchmarks
from campaigns.random_checks import CHECKED_RANGES, random_check
from campaigns.sanitizing import sanitized
from campaigns.tools import SanitizerTool, find_tool
from perfmodel.accuracy.counter_metrics import count_agreement
from perfmodel.cli.app import run
from perfmodel.families.registry import family as family_of_name
from perfmodel.families.tiled_conv2d import TiledConv2d, TiledConv2dConfiguration
from perfmodel.launch.launch import L2State
from perfmodel.prediction.scenario import scenario_of
from perfmodel.records.columns import record_of_fields
from perfmodel.records.own_records import read_records
from perfmodel.records.schema import FailureKind, TimingMethod
from perfmodel.validation.baselines.catalogue import BASELINES, baselines_of
from perfmodel.validation.baselines.job import BaselineJob, run_baseline_job
from perfmodel.validation.device import require_device
from perfmodel.validation.kernel_job import run_kernel_job
from perfmodel.validation.prepared import PreparedFolder, Purpose
from perfmodel.validation.preparing import Choice, prepare_choices, prepare_flush
from perfmodel.validation.running import kept_in, run_missing
from perfmodel.validation.sampling import SamplingPlan
from perfmodel.validation.session import Session

pytestmark = [pytest.mark.gpu, pytest.mark.compiler]
QUICK = SamplingPlan(max_samples=20, time_limit_s=0.1)
CHECKS_PER_FAMILY = 8


def prepared(folder: Path, choices: list[Choice]) -> Session:
    """A session on this machine's GPU with these configurations and the flush."""
    target, scenario = PreparedFolder(folder), scenario_of(require_device().gpu_id)
    target.write_plan([prepare_flush(scenario.gpu, target), *prepare_choices(choices, scenario, target)])
    return Session.open(folder)


@pytest.mark.parametrize("family", sorted(CHECKED_RANGES))
def test_results_of_random_problems_are_right(family: str, tmp_path: Path) -> None:
    scenario = scenario_of(require_device().gpu_id)
    rng = np.random.default_rng()
    session = prepared(tmp_path, [random_check(family, scenario, rng) for _ in range(CHECKS_PER_FAMILY)])
    path = tmp_path / "records.jsonl"
    summary = run_missing(session.kernel_jobs(Purpose.CHECK, QUICK), run_kernel_job, kept_in(path), time_limit_s=300.0)
    assert summary.done == CHECKS_PER_FAMILY
    failures = [record.failure for record in read_records(path)]
    # What the compiler gives a kernel may not fit: such a draw is prepared as rejected and never launched.
    assert {one.kind for one in failures if one is not None} <= {FailureKind.REJECTED}
    assert None in failures


def tiled_session(folder: Path, side: int) -> Session:
    problem = TiledConv2d(height=side, width=side, filter_height=5, filter_width=5)
    configuration = TiledConv2dConfiguration(block_size_x=32, block_size_y=8, tile_size_x=2, tile_size_y=2)
    purposes = (Purpose.TIME, Purpose.COUNT, Purpose.CHECK)
    choice = Choice(family="tiled_conv2d", problem=problem, configurations=(configuration,), purposes=purposes)
    return prepared(folder, [choice])


@pytest.mark.parametrize("side", [4096, 64])
def test_long_and_short_kernels_are_timed_in_graphs_in_both_states_of_l2(side: int, tmp_path: Path) -> None:
    session = tiled_session(tmp_path, side)
    path = tmp_path / "records.jsonl"
    run_missing(session.kernel_jobs(Purpose.TIME, QUICK), run_kernel_job, kept_in(path), time_limit_s=300.0)
    (record,) = read_records(path)
    assert record.failure is None
    assert [(timing.l2, timing.method) for timing in record.timings] == [
        (L2State.WARM, TimingMethod.GRAPH),
        (L2State.COLD, TimingMethod.GRAPH),
    ]
    assert all(len(timing.samples_s) >= QUICK.min_samples for timing in record.timings)
    assert record.environment.gpu_name


def test_counters_agree_with_closed_forms(tmp_path: Path) -> None:
    ncu = find_tool("ncu")
    if ncu is None:
        pytest.skip("Nsight Compute is not installed")
    from perfmodel.families.base import Batch
    from perfmodel.families.tiled_conv2d import FAMILY

    session = tiled_session(tmp_path, 512)
    path = tmp_path / "records.jsonl"
    count_missing(session, session.indices(Purpose.COUNT), ncu, kept_in(path), done=frozenset(), time_limit_s=300.0)
    (record,) = read_records(path)
    assert record.failure is None
    problem = TiledConv2d(height=512, width=512, filter_height=5, filter_width=5)
    configuration = TiledConv2dConfiguration(block_size_x=32, block_size_y=8, tile_size_x=2, tile_size_y=2)
    work = FAMILY.profile(problem, Batch.of([configuration]), scenario_of(require_device().gpu_id).gpu)
    exact = {"global_load_requests", "global_load_sectors", "global_store_requests", "shared_load_requests"}
    agreement = {entry.count: entry for entry in count_agreement(work.counts, counts_of_metrics(record.counters))}
    assert {name: agreement[name].max_relative_error for name in exact} == dict.fromkeys(exact, 0.0)
    assert agreement["shared_load_wavefronts"].max_relative_error <= 0.01


@pytest.mark.parametrize("tool", list(SanitizerTool))
def test_sanitizer_finds_nothing(tool: SanitizerTool, tmp_path: Path) -> None:
    sanitizer = find_tool("compute-sanitizer")
    if sanitizer is None:
        pytest.skip("compute-sanitizer is not installed")
    session = tiled_session(tmp_path, 100)
    indices = session.indices(Purpose.CHECK)
    assert sanitized(session, "tiled_conv2d", indices, tool, sanitizer).failure is None


def test_compute_micro_benchmarks_run_and_prove_themselves(tmp_path: Path) -> None:
    device = require_device()
    gpu, target = scenario_of(device.gpu_id).gpu, PreparedFolder(tmp_path)
    suite = [benchmark for benchmark in compute_suite(gpu, ComputeSizes()) if benchmark.kernel != "code_walk"]
    kernels = prepare_benchmarks(suite, gpu, target)
    target.write_plan([*kernels, prepare_flush(gpu, target)])
    session = Session.open(tmp_path)
    jobs = [
        MicroJob(
            kernel=kernel,
            folder=tmp_path,
            environment=session.environment,
            gpu=session.gpu,
            seed=0,
            sampling=QUICK,
        )
        for kernel in session.having(Purpose.MICRO)
    ]
    path = tmp_path / "records.jsonl"
    run_missing(jobs, run_micro_job, kept_in(path), time_limit_s=300.0)
    assert [record.failure for record in read_records(path)] == [None] * len(jobs)


@pytest.mark.parametrize("family", sorted(BASELINES))
def test_libraries_are_checked_and_timed(family: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    scenario = scenario_of(require_device().gpu_id)
    session = prepared(tmp_path, [random_check(family, scenario, np.random.default_rng(1))])
    kernel = next(kernel for kernel in session.kernels if kernel.name == family)
    problem = record_of_fields(family_of_name(family).problem_type, kernel.problem)
    jobs = [
        BaselineJob(
            family=family,
            problem=dict(kernel.problem),
            problem_name="",
            baseline=baseline.name,
            folder=tmp_path,
            environment=session.environment,
            gpu=session.gpu,
            seed=0,
            sampling=QUICK,
        )
        for baseline in baselines_of(family, problem)
    ]
    path = tmp_path / "records.jsonl"  # in processes of their own, as ever: libraries warn, and load another NVRTC
    assert run_missing(jobs, run_baseline_job, kept_in(path), time_limit_s=300.0).done == len(jobs)
    for record in read_records(path):
        unavailable = record.failure is not None and record.failure.kind is FailureKind.UNAVAILABLE
        assert unavailable or (record.failure is None and len(record.timings) == 2), record


def test_measure_predicts_then_measures_and_resumes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "records.jsonl"
    arguments = ["measure", "tiled_conv2d", "--records", str(path), "--width", "256", "--height", "256"]
    arguments += ["--filter-width", "3", "--filter-height", "3", "--top", "2", "--json"]
    assert run(arguments) == 0
    assert len(json.loads(capsys.readouterr().out)["records"]) == 2
    assert run(arguments) == 0
    assert "2 recorded before" in capsys.readouterr().err
    assert len(read_records(path)) == 2
