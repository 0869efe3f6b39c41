"""Closed form, execution and hardware beside one another, count by count, for families and for micro-benchmarks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfmodel.accuracy.count_agreement import CountAgreement, count_agreement
from perfmodel.accuracy.counter_metrics import MeasuredCount, counts_of_metrics, measured_counts
from perfmodel.compiler.compiled import compile_kernel
from perfmodel.core.counts import Counts
from perfmodel.core.progress import Advance, no_progress
from perfmodel.errors import InputError
from perfmodel.families.base import Family
from perfmodel.families.profiling import Depth, gather_profiles
from perfmodel.gpus.gpu import Gpu
from perfmodel.memory.l2 import shared_l2_bytes
from perfmodel.prediction.evaluation import evaluate_batch
from perfmodel.prediction.scenario import Scenario
from perfmodel.profiles.executed_profile import executed_profile
from perfmodel.profiles.kernel_profile import KernelProfile
from perfmodel.records.measurements import Measurements
from perfmodel.records.own_records import read_records
from perfmodel.records.schema import Record, RecordKind

from .micro.suite import find_benchmark

Floats = NDArray[np.float64]


ALL_FAMILIES = "all families"


@dataclass(frozen=True, slots=True, kw_only=True)
class CountComparison:
    """One count of a family or of a micro-benchmark, which has no closed form: each against the hardware."""

    family: str
    closed_form: CountAgreement | None
    executed: CountAgreement


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictedCount:
    """One count of n launches of a family or micro-benchmark: predicted twice, shapes ``(n,)``, and measured."""

    family: str
    closed_form: Floats | None
    executed: Floats
    measured: MeasuredCount


def family_counts(
    family: Family[Any, Any], measurements: Measurements, scenario: Scenario, advance: Advance = no_progress
) -> list[PredictedCount]:
    """Counts of all rows that have counters and that compile, problem by problem; none where no row has."""
    problems = range(len(measurements.problems))
    return [one for index in problems for one in _problem_counts(family, measurements, index, scenario, advance)]


def _problem_counts(
    family: Family[Any, Any], measurements: Measurements, index: int, scenario: Scenario, advance: Advance
) -> list[PredictedCount]:
    rows = np.flatnonzero((measurements.problem_index == index) & _counted(measurements))
    if not len(rows):
        return []
    problem, batch = measurements.problems[index], measurements.batch.take(rows)
    outcomes = gather_profiles(family, problem, batch, scenario.gpu, depth=Depth.WHOLE, advance=advance)
    known = np.array([isinstance(outcome, KernelProfile) for outcome in outcomes])
    rows, batch = rows[known], batch.take(known)
    if not len(rows):
        return []
    profile = [outcome for outcome in outcomes if isinstance(outcome, KernelProfile)]
    closed, executed = (evaluate_batch(family, problem, batch, scenario, known).counts for known in (None, profile))
    return [
        PredictedCount(
            family=family.name, closed_form=one.predicted(closed), executed=one.predicted(executed), measured=one
        )
        for one in measured_counts(measurements.columns.iloc[rows])
    ]


def _counted(measurements: Measurements) -> Any:
    counts = measured_counts(measurements.columns)
    if not counts:
        return np.zeros(len(measurements), np.bool_)
    return np.any([np.isfinite(one.launches) for one in counts], axis=0)


def benchmark_counts(records: Sequence[Record], gpu: Gpu, advance: Advance = no_progress) -> list[PredictedCount]:
    """The same for the micro-benchmarks that were counted; one whose kernel or setting is no more is passed over."""
    counts: list[PredictedCount] = []
    for record in records:
        measured = counts_of_metrics(record.counters)
        if record.kind is RecordKind.MICRO_BENCHMARK and measured:
            executed = _executed(record, gpu)
            if executed is not None:
                counts += [
                    PredictedCount(family=record.name, closed_form=None, executed=one.predicted(executed), measured=one)
                    for one in measured
                ]
            advance()
    return counts


def compared(counts: Sequence[PredictedCount], gpu: Gpu) -> tuple[CountComparison, ...]:
    """Each count of each family over all its launches, and of several families with closed forms over all of theirs."""
    parts: dict[tuple[str, str], list[PredictedCount]] = {}
    for one in counts:
        parts.setdefault((one.family, one.measured.name), []).append(one)
    of_families = [one for one in counts if one.closed_form is not None]
    if len({one.family for one in of_families}) > 1:
        for one in of_families:
            parts.setdefault((ALL_FAMILIES, one.measured.name), []).append(one)
    comparisons = [_comparison(family, pooled, gpu) for (family, _), pooled in parts.items()]
    return tuple(one for one in comparisons if one is not None)


def _comparison(family: str, parts: Sequence[PredictedCount], gpu: Gpu) -> CountComparison | None:
    first = parts[0].measured
    measured = replace(first, launches=np.concatenate([one.measured.launches for one in parts]), also=())

    def agreement(values: Sequence[Floats]) -> CountAgreement | None:
        predicted = Counts(**{first.count: np.concatenate(values)})
        return next(iter(count_agreement(predicted, [measured], shared_l2_bytes(gpu))), None)

    executed = agreement([one.executed for one in parts])
    closed = [one.closed_form for one in parts if one.closed_form is not None]
    if executed is None:
        return None
    return CountComparison(family=family, closed_form=agreement(closed) if closed else None, executed=executed)


def _executed(record: Record, gpu: Gpu) -> Counts | None:
    """Counts of a micro-benchmark's launch, with inputs as drawn as the hardware's were."""
    try:
        benchmark = find_benchmark(gpu, record.name, record.configuration)
    except InputError:
        return None
    compiled = compile_kernel(benchmark.compile_request(), gpu.architecture.name)
    call = benchmark.make_call(np.random.default_rng(0)).call
    return executed_profile(compiled, benchmark.launch, call, gpu).counts


def count_table(found: Sequence[CountComparison]) -> str:
    """The comparisons as a Markdown table; the errors are relative to what the hardware counted."""
    lines = [
        "| family | count | launches "
        "| closed form: exact | median error | largest error | executed: exact | median error | largest error |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {one.family} | {one.executed.count} | {one.executed.n} | {_cells(one.closed_form)} | {_cells(one.executed)} |"
        for one in found
    ]
    return "\n".join(lines) + "\n"


def _cells(one: CountAgreement | None) -> str:
    if one is None:
        return "– | – | –"
    where_none = f", {one.max_where_none:,.0f} for 0" if one.max_where_none else ""
    return f"{one.exact_fraction:.1%} | {one.median_relative_error:.2%} | {one.max_relative_error:.2%}{where_none}"


def families_in(path: Path) -> list[str]:
    """Families with kernels in a file of records."""
    return sorted({record.name for record in read_records(path) if record.kind is RecordKind.KERNEL})
