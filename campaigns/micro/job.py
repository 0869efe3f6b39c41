"""One micro-benchmark on the device: run, proved, and measured by its own clock or by events; runs in the worker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfmodel.core.units import SECONDS_PER_MS
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.launch.launch import KernelCall, L2State
from perfmodel.records.schema import (
    Correctness,
    Failure,
    FailureKind,
    Record,
    Timing,
    TimingMethod,
)
from perfmodel.validation.device import import_cupy
from perfmodel.validation.kernel_job import PreparedJob, compare_outputs, flush_of, now
from perfmodel.validation.launching import DeviceKernel, cuda_errors, failure_kind, load_kernel, run_once, upload
from perfmodel.validation.prepared import PreparedFolder, unpacked_cubin
from perfmodel.validation.timing import (
    GRAPH_RUNS,
    Enqueue,
    Enqueued,
    Take,
    captured,
    graph_samples,
    launch_of,
    take_timing,
)
from perfmodel.validation.worker import Reply

from .benchmark import CYCLES, Clock, MicroBenchmark, MicroCall
from .suite import find_benchmark

KERNEL_CLOCK_LAUNCHES = 5
BATCH_LAUNCHES = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroJob(PreparedJob):
    """What the worker is asked to do with one prepared micro-benchmark."""

    def failed(self, failure: Failure) -> Record:
        """The record of this job when there is nothing but a failure."""
        return micro_record(self, failure=failure)


def micro_record(
    job: MicroJob,
    *,
    timings: tuple[Timing, ...] = (),
    counters: Mapping[str, float] | None = None,
    correctness: Correctness | None = None,
    failure: Failure | None = None,
) -> Record:
    """The record of a micro-benchmark; its problem is empty, its configuration the setting."""
    return Record(
        kind=job.kernel.kind,
        name=job.kernel.name,
        problem={},
        configuration=job.kernel.configuration,
        gpu=job.gpu,
        environment=job.environment,
        measured_at=now(),
        timings=timings,
        resources=job.kernel.resources,
        correctness=correctness,
        counters=counters or {},
        failure=failure,
    )


def run_micro_job(job: MicroJob) -> Reply[Record]:
    """Run, prove and measure one micro-benchmark; a fault of the GPU ends this process after the reply."""
    errors = cuda_errors()
    try:
        return Reply(result=_measured(job))
    except errors as error:
        failed = Failure(kind=failure_kind(error), message=" ".join(str(error).split()))
        return Reply(result=micro_record(job, failure=failed), healthy=False)


def _measured(job: MicroJob) -> Record:
    resources = job.kernel.resources
    if resources is None:
        raise ValueError(f"{job.kernel.name}: no code was prepared")
    benchmark = find_benchmark(load_gpu(job.kernel.gpu), job.kernel.name, job.kernel.configuration)
    cubin = unpacked_cubin(PreparedFolder(job.folder), resources.cubin_sha256)
    loaded = load_kernel(cubin, job.kernel.kernel_name, 0)
    micro_call = benchmark.make_call(np.random.default_rng(job.seed))
    outputs = [run_once(loaded, benchmark.launch, upload(micro_call.call)) for _ in range(_launches(benchmark))]
    correctness = prove(outputs[-1], micro_call, benchmark.tolerance)
    if not correctness.passed:
        message = f"error {correctness.max_relative_error:.3g} exceeds {correctness.tolerance:.3g}"
        failed = Failure(kind=FailureKind.WRONG_RESULT, message=message)
        return micro_record(job, correctness=correctness, failure=failed)
    return micro_record(
        job,
        timings=_timings(job, loaded, benchmark, micro_call.call),
        counters={
            "amount": benchmark.amount,
            **cycle_counters([found[CYCLES] for found in outputs if CYCLES in found]),
        },
        correctness=correctness,
    )


def _launches(benchmark: MicroBenchmark) -> int:
    return KERNEL_CLOCK_LAUNCHES if benchmark.clock is Clock.KERNEL else 1


def prove(outputs: Mapping[str, NDArray[Any]], micro_call: MicroCall, tolerance: float) -> Correctness:
    """Whether the outputs are what the kernel's work gives; a kernel without results proves nothing and passes."""
    if not micro_call.expected:
        return Correctness(max_relative_error=0.0, tolerance=tolerance)
    return compare_outputs(outputs, micro_call.expected, tolerance)


def cycle_counters(cycles: list[NDArray[np.int64]]) -> dict[str, float]:
    """Median, smallest and largest number of cycles over blocks and launches; the first launch only warms up.

    >>> cycle_counters([np.array([900]), np.array([10, 12]), np.array([11, 13])])
    {'cycles': 11.5, 'cycles_low': 10.0, 'cycles_high': 13.0}
    """
    if not cycles:
        return {}
    counted = np.concatenate(cycles[1:] or cycles).astype(np.float64)
    return {
        "cycles": float(np.median(counted)),
        "cycles_low": float(counted.min()),
        "cycles_high": float(counted.max()),
    }


def _timings(job: MicroJob, loaded: DeviceKernel, benchmark: MicroBenchmark, call: KernelCall) -> tuple[Timing, ...]:
    run, plan = launch_of(loaded, benchmark.launch, upload(call)), job.sampling
    if benchmark.clock is Clock.EVENTS:
        take = event_samples(run, flush_of(job.folder))
        return (take_timing(take, plan, L2State.COLD, TimingMethod.EVENTS),)
    warm = take_timing(event_samples(run, None), plan, L2State.WARM, TimingMethod.EVENTS)
    if benchmark.clock is Clock.KERNEL:
        return (warm,)
    return (
        warm,
        take_timing(batch_samples(run), plan, L2State.WARM, TimingMethod.BATCH),
        take_timing(graph_samples(captured([run] * GRAPH_RUNS), None), plan, L2State.WARM, TimingMethod.GRAPH),
    )


def event_samples(enqueue_run: Enqueue, flush: Enqueued | None, runs: int = 1) -> Take:
    """Samples of one enqueuing of ``runs`` runs each, between two events; all are enqueued before it waits."""
    cuda = import_cupy().cuda

    def take(count: int) -> list[float]:
        pairs = [(cuda.Event(), cuda.Event()) for _ in range(count)]
        for start, stop in pairs:
            if flush is not None:
                flush.enqueue()
            start.record()
            enqueue_run()
            stop.record()
        pairs[-1][1].synchronize()
        return [cuda.get_elapsed_time(start, stop) * SECONDS_PER_MS / runs for start, stop in pairs]

    return take


def batch_samples(enqueue_run: Enqueue) -> Take:
    """Samples that are the mean over many runs in a row between two events."""

    def enqueue_many() -> None:
        for _ in range(BATCH_LAUNCHES):
            enqueue_run()

    return event_samples(enqueue_many, None, BATCH_LAUNCHES)
