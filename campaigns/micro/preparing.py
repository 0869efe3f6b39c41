"""Micro-benchmarks compiled into a prepared folder."""

from __future__ import annotations

from collections.abc import Sequence

from perfmodel.compiler.pool import compile_many
from perfmodel.core.progress import Advance, no_progress
from perfmodel.gpus.gpu import Gpu
from perfmodel.records.schema import RecordKind
from perfmodel.validation.prepared import PreparedFolder, PreparedKernel, Purpose
from perfmodel.validation.preparing import KernelFields, prepared_kernel

from .benchmark import MicroBenchmark

COUNTED_BENCHMARKS = frozenset({"divergent_walk", "sector_parts", "shared_read", "shuffle"})
"""Micro-benchmarks whose hardware counters say something that their times do not."""
UNTIMED_BENCHMARKS = frozenset({"common_read", "copy_patterns", "shared_patterns"})
"""Micro-benchmarks that are only counted."""


def prepare_benchmarks(
    benchmarks: Sequence[MicroBenchmark], gpu: Gpu, folder: PreparedFolder, advance: Advance = no_progress
) -> list[PreparedKernel]:
    """Compile micro-benchmarks and keep their code in the folder; some are counted as well, some only counted."""
    requests = [(benchmark.compile_request(), gpu.architecture.name) for benchmark in benchmarks]
    compiled = compile_many(requests, advance=advance)
    return [
        prepared_kernel(
            KernelFields(
                kind=RecordKind.MICRO_BENCHMARK,
                name=benchmark.kernel,
                problem={},
                configuration=dict(benchmark.setting),
                purposes=_purposes(benchmark.kernel),
            ),
            outcome,
            benchmark.launch,
            gpu,
            folder,
        )
        for benchmark, outcome in zip(benchmarks, compiled, strict=True)
    ]


def _purposes(kernel: str) -> tuple[Purpose, ...]:
    if kernel in UNTIMED_BENCHMARKS:
        return (Purpose.COUNT,)
    return (Purpose.MICRO, Purpose.COUNT) if kernel in COUNTED_BENCHMARKS else (Purpose.MICRO,)
