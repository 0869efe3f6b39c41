"""What records say was counted, as a plan to count it again: with more metrics, or in another version of the kernels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any

from perfmodel.accuracy.counter_metrics import counts_of_metrics
from perfmodel.errors import InputError
from perfmodel.families.registry import family as family_of_name
from perfmodel.gpus.gpu import Gpu
from perfmodel.records.columns import record_of_fields
from perfmodel.records.schema import Record, RecordKind

from .micro.benchmark import MicroBenchmark
from .micro.suite import find_benchmark
from .prepared import Purpose
from .preparing import Choice


def counted_choices(records: Sequence[Record]) -> tuple[Choice, ...]:
    """The configurations of families that have counters, those of one problem together, each once."""
    found: dict[tuple[str, Any], dict[Any, None]] = {}
    for record in _counted(records, RecordKind.KERNEL):
        family = family_of_name(record.name)
        problem = record_of_fields(family.problem_type, record.problem)
        names = {field.name for field in fields(family.configuration_type)}
        absent = {name: value for name, value in family.measurement_defaults.items() if name in names}
        configuration = record_of_fields(family.configuration_type, absent | dict(record.configuration))
        found.setdefault((record.name, problem), {})[configuration] = None
    return tuple(
        Choice(family=name, problem=problem, configurations=tuple(configurations), purposes=(Purpose.COUNT,))
        for (name, problem), configurations in found.items()
    )


def counted_benchmarks(records: Sequence[Record], gpu: Gpu) -> tuple[MicroBenchmark, ...]:
    """The micro-benchmarks that have counters, each once; one whose kernel or setting is no more is passed over."""
    found: dict[tuple[str, str], MicroBenchmark] = {}
    for record in _counted(records, RecordKind.MICRO_BENCHMARK):
        try:
            benchmark = find_benchmark(gpu, record.name, record.configuration)
        except InputError:
            continue
        found[record.name, str(benchmark.setting)] = benchmark
    return tuple(found.values())


def only_named(records: Sequence[Record], names: Sequence[str] | None) -> list[Record]:
    """The records of these families and micro-benchmarks, of all where no name is given.

    Raises:
        InputError: A name that nothing with counters has.
    """
    if names is None:
        return list(records)
    known = sorted({record.name for kind in RecordKind for record in _counted(records, kind)})
    for name in names:
        if name not in known:
            raise InputError(f"--only {name}: no launch of it was counted; accepted: {', '.join(known) or 'none'}")
    return [record for record in records if record.name in names]


def _counted(records: Sequence[Record], kind: RecordKind) -> Iterator[Record]:
    return (record for record in records if record.kind is kind and counts_of_metrics(record.counters))
