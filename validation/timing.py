"""Device time of one launch: events around it, and a graph of many launches where it is so short that events add to it.

Cold: before each sample a kernel reads twice the L2's size of other data (reading leaves no dirty lines behind, which the
timed kernel would otherwise have to write back). Warm: the launch before was the same one on the same data.
A graph's launches work on copies of the buffers, one each, so that in a cold graph no launch finds what another left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from perfmodel.launch.launch import KernelCall, L2State, Launch
from perfmodel.records.schema import Mark, Timing, TimingMethod

from .device import import_cupy
from .launching import DeviceCall, DeviceKernel, duplicate, enqueue, load_kernel, upload
from .sampling import SamplingPlan, collect, is_settled, median_interval
from .sensors import sampled_sensors, summarise

SHORT_KERNEL_S = 100e-6
"""Below this the two microseconds that events add count, and the host cannot enqueue launches as fast as they end."""
GRAPH_LAUNCHES = 32
BATCH_LAUNCHES = 256
GRAPH_BUFFER_LIMIT_BYTES = 4 * 2**30
WARM_UP_LAUNCHES = 3
SECONDS_PER_MS = 1e-3
SAMPLE_DIGITS = 11
"""Samples are kept to a hundredth of a nanosecond."""
FLUSH_BLOCKS_PER_SM = 2
FLUSH_THREADS = 1024
FLUSH_L2_SIZES = 2


@dataclass(frozen=True, slots=True)
class L2Flush:
    """The kernel that empties L2, with its buffer."""

    kernel: DeviceKernel
    launch: Launch
    call: DeviceCall

    @classmethod
    def load(cls, cubin: Path, kernel_name: str, l2_bytes: int, sm_count: int) -> L2Flush:
        """The flush for a GPU, from the cubin of ``global_read``."""
        cupy = import_cupy()
        launch = Launch(grid_x=FLUSH_BLOCKS_PER_SM * sm_count, block_x=FLUSH_THREADS)
        words = FLUSH_L2_SIZES * l2_bytes // 16
        sums = cupy.empty(int(launch.blocks) * FLUSH_THREADS, cupy.float32)
        data = cupy.ones(4 * words, cupy.float32)
        return cls(
            load_kernel(cubin, kernel_name, 0), launch, DeviceCall((sums, data, np.int32(words), np.int32(1)), {})
        )

    def enqueue(self) -> None:
        """Put the flush into the current stream."""
        enqueue(self.kernel, self.launch, self.call)


class Enqueued(Protocol):
    """What is put into the stream before each sample, such as the flush of L2."""

    def enqueue(self) -> None:
        """Put it into the current stream."""


Take = Callable[[int], Sequence[float]]
"""Takes n samples in seconds."""
Enqueue = Callable[[], Any]
"""Puts one run into the current stream and does not wait."""


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


def graph_samples(runs: Sequence[Enqueue], flush: Enqueued | None) -> Take:
    """Samples that are the mean over one replay of a graph of the given runs, which allocate nothing."""
    cuda = import_cupy().cuda
    stream = cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        for enqueue_run in runs:
            enqueue_run()
        graph = stream.end_capture()
        graph.upload(stream)

    def take(count: int) -> list[float]:
        samples = []
        with stream:
            for _ in range(count):
                start, stop = cuda.Event(), cuda.Event()
                if flush is not None:
                    flush.enqueue()
                start.record(stream)
                graph.launch(stream)
                stop.record(stream)
                stop.synchronize()
                samples.append(cuda.get_elapsed_time(start, stop) * SECONDS_PER_MS / len(runs))
        return samples

    return take


def take_timing(take: Take, plan: SamplingPlan, l2: L2State, method: TimingMethod) -> Timing:
    """Warm up, sample until the plan is satisfied while the sensors are watched, and say how good the samples are."""
    take(WARM_UP_LAUNCHES)
    with sampled_sensors() as log:
        samples = tuple(round(sample, SAMPLE_DIGITS) for sample in collect(take, plan))
    interval = median_interval(samples)
    sensors = summarise(log.samples)
    noisy = () if is_settled(samples, plan) else (Mark.NOISY,)
    return Timing(
        l2=l2,
        method=method,
        samples_s=samples,
        interval_s=(interval.low, interval.high) if interval is not None else (),
        sm_clock_hz=sensors.sm_clock_hz,
        temperature_c=sensors.temperature_c,
        power_w=sensors.power_w,
        marks=sensors.marks + noisy,
    )


def time_kernel(
    kernel: DeviceKernel, launch: Launch, call: KernelCall, flush: L2Flush, plan: SamplingPlan
) -> tuple[Timing, ...]:
    """Warm and cold timing of a kernel, by graph too where a cold launch takes less than ``SHORT_KERNEL_S``.

    The launch is first timed cold, because the flush before it keeps the device busy while the host enqueues.
    """
    first = upload(call)
    run = launch_of(kernel, launch, first)
    cold = take_timing(event_samples(run, flush), plan, L2State.COLD, TimingMethod.EVENTS)
    if cold.median_s >= SHORT_KERNEL_S:
        return take_timing(event_samples(run, None), plan, L2State.WARM, TimingMethod.EVENTS), cold
    others = [duplicate(first) for _ in range(graph_copies(first.buffer_bytes) - 1)]
    apart = [launch_of(kernel, launch, copy) for copy in (first, *others)]
    return (
        take_timing(graph_samples([run] * GRAPH_LAUNCHES, None), plan, L2State.WARM, TimingMethod.GRAPH),
        take_timing(graph_samples(apart, flush), plan, L2State.COLD, TimingMethod.GRAPH),
        cold,
    )


def launch_of(kernel: DeviceKernel, launch: Launch, call: DeviceCall) -> Enqueue:
    """The function that enqueues this launch."""
    return lambda: enqueue(kernel, launch, call)


def graph_copies(buffer_bytes: int) -> int:
    """How many copies of a call's buffers a cold graph works on, so that together they stay within the limit.

    >>> graph_copies(1_000_000), graph_copies(2**31)
    (32, 2)
    """
    return max(1, min(GRAPH_LAUNCHES, GRAPH_BUFFER_LIMIT_BYTES // max(buffer_bytes, 1)))
