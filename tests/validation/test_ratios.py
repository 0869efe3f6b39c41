"""Kernels beside libraries."""

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from perfmodel.core.json_values import plain
from perfmodel.families.tiled_conv2d import TiledConv2d, TiledConv2dConfiguration
from perfmodel.launch.launch import L2State
from perfmodel.prediction.predicting import predict_all
from perfmodel.prediction.scenario import scenario_of
from perfmodel.profiles.kernel_profile import Fidelity
from perfmodel.records.schema import (
    Correctness,
    Environment,
    Failure,
    FailureKind,
    Record,
    RecordKind,
    Scalar,
    Timing,
    TimingMethod,
)
from perfmodel.validation.baselines.catalogue import BASELINES, find_baseline
from perfmodel.validation.baselines.interface import BaselineUnavailableError
from perfmodel.validation.baselines.interface import library as library_module
from perfmodel.validation.baselines.losses import loss_table, losses
from perfmodel.validation.baselines.ratios import Ratio, ratio_table, ratios, summary_table

ENVIRONMENT = Environment(
    gpu_name="", compute_capability="", driver_version="", cuda_version="", compiler_version="", commit=""
)


def run(
    kind: RecordKind,
    name: str,
    configuration: Mapping[str, Scalar],
    seconds: float,
    method: TimingMethod = TimingMethod.EVENTS,
    *,
    error: float = 0.0,
    failure: Failure | None = None,
) -> Record:
    l2 = L2State.COLD if method is TimingMethod.EVENTS else L2State.WARM
    return Record(
        kind=kind,
        name=name,
        problem={"length": 8},
        configuration=configuration,
        gpu="h200",
        environment=ENVIRONMENT,
        measured_at="",
        timings=(Timing(l2=l2, method=method, samples_s=(seconds,)),),
        correctness=Correctness(max_relative_error=error, tolerance=1e-4),
        failure=failure,
    )


def kernel(lanes: int, seconds: float, method: TimingMethod = TimingMethod.EVENTS) -> Record:
    return run(RecordKind.KERNEL, "conv1d", {"lanes": lanes}, seconds, method)


def library(name: str, seconds: float, method: TimingMethod = TimingMethod.EVENTS, **more: object) -> Record:
    return run(RecordKind.BASELINE, name, {"family": "conv1d"}, seconds, method, **more)  # type: ignore[arg-type]


def test_fastest_kernel_beside_fastest_exact_library() -> None:
    failure = Failure(kind=FailureKind.TIME_OUT, message="")
    records = [
        kernel(1, 40e-6),
        kernel(2, 20e-6),
        library("slow", 90e-6),
        library("fast", 30e-6),
        library("other precision", 5e-6, error=1e-2),
        library("broken", 1e-6, failure=failure),
    ]
    (found,) = ratios(records)
    assert (found.kernel_s, found.baseline_s, found.baseline) == (20e-6, 30e-6, "fast")
    assert found.ratio == pytest.approx(1.5)  # 30 / 20
    assert found.configuration == (("lanes", 2),)


def test_only_times_under_a_common_condition_are_compared() -> None:
    graph = TimingMethod.GRAPH
    (found,) = ratios([kernel(1, 3e-6, graph), library("a", 9e-6), library("a", 6e-6, graph)])
    assert (found.l2, found.kernel_method, found.baseline_method) == (L2State.WARM, graph, graph)
    assert found.ratio == pytest.approx(2.0)
    assert ratios([kernel(1, 3e-6, graph), library("a", 9e-6)]) == ()
    assert ratios([kernel(1, 3e-6)]) == ()


def test_a_long_library_is_compared_with_the_fastest_kernel_however_that_was_timed() -> None:
    warm = TimingMethod.EVENTS, L2State.WARM
    short, long = kernel(1, 3e-6, TimingMethod.GRAPH), timed(kernel(2, 120e-6), *warm)
    (found,) = ratios([short, long, timed(library("a", 90e-6), *warm)])
    assert (found.kernel_s, found.configuration) == (3e-6, (("lanes", 1),))
    assert found.ratio == pytest.approx(30.0)
    assert found.condition == "warm, graph against events"


def timed(record: Record, method: TimingMethod, l2: L2State) -> Record:
    return replace(record, timings=tuple(replace(timing, method=method, l2=l2) for timing in record.timings))


def test_table_begins_with_the_worst() -> None:
    other = run(RecordKind.KERNEL, "ssim", {"version": "v4"}, 10e-6)
    against = run(RecordKind.BASELINE, "torch", {"family": "ssim"}, 5e-6)
    lines = ratio_table(ratios([kernel(1, 20e-6), library("a", 30e-6), other, against])).splitlines()
    assert [line.split("|")[6].strip() for line in lines[2:]] == ["0.50", "1.50"]


def ratio(kernel_s: float, baseline_s: float, l2: L2State = L2State.COLD, family: str = "tiled_conv2d") -> Ratio:
    problem = TiledConv2d(height=64, width=64, filter_height=3, filter_width=3)
    configuration = TiledConv2dConfiguration(block_size_x=32, block_size_y=4)
    return Ratio(
        gpu="h200",
        family=family,
        problem=tuple(plain(problem).items()),
        l2=l2,
        kernel_method=TimingMethod.EVENTS,
        baseline_method=TimingMethod.EVENTS,
        kernel_s=kernel_s,
        configuration=tuple(plain(configuration).items()),
        baseline_s=baseline_s,
        baseline="library",
    )


def test_summary_counts_wins_and_losses_and_takes_the_geometric_mean() -> None:
    found = [ratio(1e-6, 4e-6), ratio(2e-6, 1e-6), ratio(2.1e-6, 2e-6), ratio(1e-6, 3e-6, L2State.WARM)]
    lines = summary_table(found).splitlines()[2:]
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    # (4 · 1/2 · 2/2.1)^(1/3) = 1.24; 2.1 / 2 is a loss by 5 %
    assert cells == [
        ["tiled_conv2d", "cold", "3", "1", "2", "1", "1.24", "0.50", "4.00"],
        ["tiled_conv2d", "warm", "1", "1", "0", "0", "3.00", "3.00", "3.00"],
    ]


def test_what_is_lost_by_over_a_tenth_is_explained_by_the_prediction_under_its_condition() -> None:
    found = [ratio(2e-6, 1e-6, L2State.WARM), ratio(3e-6, 1e-6), ratio(1.05e-6, 1e-6), ratio(1e-6, 2e-6)]
    first, second = losses(found, Fidelity.ANALYTIC)
    assert (first.ratio, second.ratio) == (found[1], found[0])  # the worst first
    problem = TiledConv2d(height=64, width=64, filter_height=3, filter_width=3)
    configuration = TiledConv2dConfiguration(block_size_x=32, block_size_y=4)
    (cold,) = predict_all(problem, [configuration], scenario_of("h200", l2=L2State.COLD), Fidelity.ANALYTIC)
    (warm,) = predict_all(problem, [configuration], scenario_of("h200", l2=L2State.WARM), Fidelity.ANALYTIC)
    assert (first.prediction.time, second.prediction.time) == (cold.time, warm.time)
    assert cold.time.predicted_s != warm.time.predicted_s
    largest = first.largest_terms(3)
    assert largest[0] == (cold.time.limiter, getattr(cold.time.terms, cold.time.limiter))
    assert [seconds for _, seconds in largest] == sorted((seconds for _, seconds in largest), reverse=True)
    line = loss_table([first]).splitlines()[2]
    assert f"| {cold.time.predicted_s * 1e6:.2f} | {cold.time.limiter} | {cold.time.limiter} " in line


def test_every_family_has_baselines_with_names_of_their_own() -> None:
    for family, baselines in BASELINES.items():
        names = [baseline.name for baseline in baselines]
        assert len(set(names)) == len(names)
        assert any(baseline.exact for baseline in baselines)
        for name in names:
            assert find_baseline(family, name).name == name


def test_a_library_that_is_not_installed_is_named() -> None:
    with pytest.raises(BaselineUnavailableError, match="no_such_library is not installed"):
        library_module("no_such_library")
