"""Kernels beside libraries."""

from collections.abc import Mapping

import pytest

from perfmodel.records.schema import (
    Correctness,
    Environment,
    Failure,
    FailureKind,
    L2State,
    Record,
    RecordKind,
    Scalar,
    Timing,
    TimingMethod,
)
from perfmodel.validation.baselines.catalogue import BASELINES, find_baseline
from perfmodel.validation.baselines.interface import BaselineUnavailableError
from perfmodel.validation.baselines.interface import library as library_module
from perfmodel.validation.baselines.ratios import ratio_table, ratios

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
    assert (found.l2, found.method) == (L2State.WARM, graph)
    assert found.ratio == pytest.approx(2.0)
    assert ratios([kernel(1, 3e-6, graph), library("a", 9e-6)]) == ()
    assert ratios([kernel(1, 3e-6)]) == ()


def test_table_begins_with_the_worst() -> None:
    other = run(RecordKind.KERNEL, "ssim", {"version": "v4"}, 10e-6)
    against = run(RecordKind.BASELINE, "torch", {"family": "ssim"}, 5e-6)
    lines = ratio_table(ratios([kernel(1, 20e-6), library("a", 30e-6), other, against])).splitlines()
    assert [line.split("|")[6].strip() for line in lines[2:]] == ["0.50", "1.50"]


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
