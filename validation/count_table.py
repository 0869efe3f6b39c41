"""Closed form, execution and hardware beside one another, count by count, for families and for micro-benchmarks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from perfmodel.compiler import compile_kernel
from perfmodel.conditions import Conditions
from perfmodel.counts import Counts
from perfmodel.errors import InputError
from perfmodel.facts import Advance, Facts, no_progress
from perfmodel.families.base import Family
from perfmodel.gather import gather_facts
from perfmodel.gpu import Gpu
from perfmodel.l2_capacity import shared_l2_bytes, written_by_the_end
from perfmodel.predicting import evaluate_under
from perfmodel.prediction import Fidelity
from perfmodel.records import Measurements, read_records
from perfmodel.records.agreement import CountAgreement, count_agreement
from perfmodel.records.metrics import MeasuredCount, counts_of_metrics, measured_counts
from perfmodel.records.schema import Record, RecordKind
from perfmodel.simulator.executed_work import executed_work

from .micro.suite import find_benchmark


@dataclass(frozen=True, slots=True, kw_only=True)
class CountComparison:
    """One count of a family or of a micro-benchmark, which has no closed form: each against the hardware."""

    family: str
    closed_form: CountAgreement | None
    executed: CountAgreement


def compare_counts(
    family: Family[Any, Any], measurements: Measurements, under: Conditions, advance: Advance = no_progress
) -> tuple[CountComparison, ...]:
    """Comparisons over all rows that have counters and that compile; none where no row has."""
    parts = [_of_problem(family, measurements, index, under, advance) for index in range(len(measurements.problems))]
    found: list[CountComparison] = []
    for count in dict.fromkeys(name for closed, _ in parts for name in closed):
        closed = _pooled(count, [closed[count] for closed, _ in parts if count in closed], under.gpu)
        executed = _pooled(count, [executed[count] for _, executed in parts if count in executed], under.gpu)
        if closed is not None and executed is not None:
            found.append(CountComparison(family=family.name, closed_form=closed, executed=executed))
    return tuple(found)


_Pairs = dict[str, tuple[Any, MeasuredCount]]
"""Predicted and measured values of each count."""


def _of_problem(
    family: Family[Any, Any], measurements: Measurements, index: int, under: Conditions, advance: Advance
) -> tuple[_Pairs, _Pairs]:
    rows = np.flatnonzero((measurements.problem_index == index) & _counted(measurements))
    if not len(rows):
        return {}, {}
    problem, batch = measurements.problems[index], measurements.batch.take(rows)
    outcomes = gather_facts(family, problem, batch, under.gpu, fidelity=Fidelity.COMPILED, advance=advance)
    known = np.array([isinstance(outcome, Facts) for outcome in outcomes])
    rows, batch = rows[known], batch.take(known)
    if not len(rows):
        return {}, {}
    facts = [outcome for outcome in outcomes if isinstance(outcome, Facts)]
    measured = measured_counts(measurements.columns.iloc[rows])
    closed, executed = (
        written_by_the_end(evaluate_under(family, problem, batch, under, known).work.counts, under.gpu)
        for known in (None, facts)
    )
    return (
        {one.count: (one.predicted(closed), one) for one in measured},
        {one.count: (one.predicted(executed), one) for one in measured},
    )


def _counted(measurements: Measurements) -> Any:
    counts = measured_counts(measurements.columns)
    if not counts:
        return np.zeros(len(measurements), np.bool_)
    return np.any([np.isfinite(one.launches) for one in counts], axis=0)


def _pooled(count: str, parts: Sequence[tuple[Any, MeasuredCount]], gpu: Gpu) -> CountAgreement | None:
    predicted = np.concatenate([values for values, _ in parts])
    launches = np.concatenate([one.launches for _, one in parts])
    pooled = MeasuredCount(count=count, metrics=parts[0][1].metrics, launches=launches)
    return next(iter(count_agreement(Counts(**{count: predicted}), [pooled], shared_l2_bytes(gpu))), None)


def compare_benchmarks(
    records: Sequence[Record], gpu: Gpu, advance: Advance = no_progress
) -> tuple[CountComparison, ...]:
    """The same for the micro-benchmarks that were counted; one whose kernel or setting is no more is passed over."""
    pairs: dict[tuple[str, str], list[tuple[Any, MeasuredCount]]] = {}
    for record in records:
        measured = counts_of_metrics(record.counters)
        if record.kind is RecordKind.MICRO_BENCHMARK and measured:
            executed = _executed(record, gpu)
            if executed is not None:
                for one in measured:
                    pairs.setdefault((record.name, one.count), []).append((one.predicted(executed), one))
            advance()
    found = [(kernel, _pooled(count, parts, gpu)) for (kernel, count), parts in pairs.items()]
    return tuple(
        CountComparison(family=kernel, closed_form=None, executed=executed)
        for kernel, executed in found
        if executed is not None
    )


def _executed(record: Record, gpu: Gpu) -> Counts | None:
    """Counts of a micro-benchmark's launch, with inputs as drawn as the hardware's were."""
    try:
        benchmark = find_benchmark(gpu, record.name, record.configuration)
    except InputError:
        return None
    compiled = compile_kernel(benchmark.compile_request(), gpu.architecture)
    call = benchmark.make_call(np.random.default_rng(0)).call
    return executed_work(compiled, benchmark.launch, call, gpu).counts


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
    """Families whose kernels stand in a file of records."""
    return sorted({record.name for record in read_records(path) if record.kind is RecordKind.KERNEL})
