"""Micro-benchmarks as unseen_kernels: what each took on the GPU, by the clock that measured it.

A launch that was timed as a whole is compared as a whole. Where the kernel read its own clock, the cycles of the part between
its two readings are compared with the prediction for the launch less that for a launch whose part does nothing (no steps).
Not compared: a kernel that waits for the clock, whose time does not follow from what it does; and one whose warps start the
clock at different times is compared by the time of the launch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from perfmodel.gpus.gpu import Gpu
from perfmodel.launch.launch import KernelCall, L2State
from perfmodel.records.schema import Record, RecordKind, RunKey, TimingMethod, run_key

from ..micro.benchmark import Clock, MicroBenchmark
from ..micro.compute_suite import ComputeSizes
from ..micro.memory_suite import MemorySizes
from ..micro.suite import micro_suite
from .launches import MakeCall, MeasuredTime, UnseenLaunch

SHORT_EVENTS_S = 20e-6
"""Launches below this are not compared by events, which add about two microseconds (`timing.SHORT_KERNEL_S`)."""
WAITING_FOR_THE_CLOCK = frozenset({"early_exit"})
NO_COMMON_START = frozenset({"code_walk"})
"""Kernels whose warps read the clock first without a barrier before: for many warps the part is shorter than their work."""
NO_STEPS = MemorySizes(l1_passes=0, shared_steps=0, chase_steps=0), ComputeSizes(steps=0, code_steps=0)


def benchmark_launches(records: Sequence[Record], gpu: Gpu) -> tuple[UnseenLaunch, ...]:
    """The micro-benchmarks whose last record has a time that can be compared, in the order of the suite."""
    timed: dict[RunKey, Record] = {}
    for record in records:
        if record.kind is RecordKind.MICRO_BENCHMARK and record.failure is None and record.timings:
            timed[record.key] = record
    memory, compute = NO_STEPS
    found: dict[RunKey, UnseenLaunch] = {}
    for benchmark, idle in zip(micro_suite(gpu), micro_suite(gpu, memory, compute), strict=True):
        if benchmark.kernel in WAITING_FOR_THE_CLOCK:
            continue
        key = run_key(RecordKind.MICRO_BENCHMARK, benchmark.kernel, {}, benchmark.setting)
        measured = tuple(_measured(timed[key], benchmark, gpu)) if key in timed else ()
        if measured:
            found[key] = _launch(benchmark, idle, measured)
    return tuple(found.values())


def _measured(record: Record, benchmark: MicroBenchmark, gpu: Gpu) -> Iterator[MeasuredTime]:
    if _has_own_clock(benchmark):
        seconds = record.counters["cycles"] / gpu.boost_clock_hz
        yield MeasuredTime(seconds=seconds, l2=L2State.WARM, way="kernel clock")
        return
    for timing in record.timings:
        long = timing.method is TimingMethod.EVENTS and timing.median_s >= SHORT_EVENTS_S
        if long or timing.method is TimingMethod.GRAPH:
            yield MeasuredTime(seconds=timing.median_s, l2=timing.l2, way=timing.method.value)


def _has_own_clock(benchmark: MicroBenchmark) -> bool:
    return benchmark.clock is Clock.KERNEL and benchmark.kernel not in NO_COMMON_START


def _launch(benchmark: MicroBenchmark, idle: MicroBenchmark, measured: tuple[MeasuredTime, ...]) -> UnseenLaunch:
    request = benchmark.compile_request()
    return UnseenLaunch(
        group=benchmark.kernel,
        setting=" ".join(f"{name}={value}" for name, value in benchmark.setting.items()),
        source=request.source,
        kernel=request.kernel,
        defines=dict(request.defines),
        launch=benchmark.launch,
        call=_call(benchmark),
        without=_call(idle) if _has_own_clock(benchmark) else None,
        measured=measured,
        buffer_bytes=int(benchmark.setting.get("bytes") or 0),
    )


def _call(benchmark: MicroBenchmark) -> MakeCall:
    def make() -> KernelCall:
        return benchmark.make_call(np.random.default_rng(0)).call

    return make
