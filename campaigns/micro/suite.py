"""All micro-benchmarks of a GPU, and one of them by its name and setting."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from perfmodel.errors import InputError
from perfmodel.gpus.gpu import Gpu
from perfmodel.records.schema import Scalar

from .benchmark import MicroBenchmark
from .compute_suite import ComputeSizes, compute_suite
from .copy_suite import CopySizes, copy_suite
from .memory_suite import MemorySizes, memory_suite
from .pattern_suite import PatternSizes, pattern_suite
from .sector_suite import SectorSizes, sector_suite


def micro_suite(
    gpu: Gpu,
    memory: MemorySizes | None = None,
    compute: ComputeSizes | None = None,
    patterns: PatternSizes | None = None,
    copies: CopySizes | None = None,
    sectors: SectorSizes | None = None,
) -> tuple[MicroBenchmark, ...]:
    """Every micro-benchmark, in the order in which they are run."""
    return (
        *memory_suite(gpu, memory or MemorySizes()),
        *compute_suite(gpu, compute or ComputeSizes()),
        *pattern_suite(patterns or PatternSizes()),
        *copy_suite(copies or CopySizes()),
        *sector_suite(gpu, sectors or SectorSizes()),
    )


def find_benchmark(gpu: Gpu, kernel: str, setting: Mapping[str, Scalar]) -> MicroBenchmark:
    """The micro-benchmark with this kernel and setting.

    Raises:
        InputError: There is none; it was prepared by another version.
    """
    for benchmark in _whole_suite(gpu):
        if benchmark.kernel == kernel and dict(benchmark.setting) == dict(setting):
            return benchmark
    raise InputError(f"no micro-benchmark {kernel!r} with the setting {dict(setting)}")


@lru_cache(maxsize=2)
def _whole_suite(gpu: Gpu) -> tuple[MicroBenchmark, ...]:
    return micro_suite(gpu)
