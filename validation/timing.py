"""Device time of one run, whoever made it: the mean over the runs of a CUDA graph, so that nothing that the host does is in it.

Cold: before each sample a kernel reads twice the L2's size of other data (reading leaves no dirty lines behind, which the
timed kernel would otherwise have to write back), and the graph's runs work on copies of the buffers, one each, so that none
finds what another left. Warm: the run before was the same one on the same data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from perfmodel.core.units import SECONDS_PER_MS
from perfmodel.launch.launch import KernelCall, L2State, Launch
from perfmodel.records.schema import Mark, Timing, TimingMethod

from .device import import_cupy
from .launching import DeviceCall, DeviceKernel, duplicate, enqueue, load_kernel, upload
from .sampling import SamplingPlan, collect, is_settled, median_interval
from .sensors import sampled_sensors, summarise

GRAPH_RUNS = 32
"""Most runs of a graph."""
GRAPH_SPAN_S = 400e-6
"""How long a graph should take: the events around it resolve half a microsecond."""
GRAPH_BUFFER_LIMIT_BYTES = 4 * 2**30
WARM_UP_SAMPLES = 3
SAMPLE_DIGITS = 11
"""Samples are kept to a hundredth of a nanosecond."""
FLUSH_BLOCKS_PER_SM = 2
FLUSH_THREADS = 1024
FLUSH_L2_SIZES = 2
FLUSH_KERNEL = "global_read"
"""The kernel that empties L2: it reads a buffer of `FLUSH_L2_SIZES` times its size."""


def flush_launch(sm_count: int) -> Launch:
    """The launch that empties L2."""
    return Launch(grid_x=FLUSH_BLOCKS_PER_SM * sm_count, block_x=FLUSH_THREADS)


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
        launch = flush_launch(sm_count)
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


@dataclass(frozen=True, slots=True)
class Graph:
    """Runs that were captured as one CUDA graph; ``replay`` puts it into the current stream."""

    replay: Enqueue
    runs: int


class Capturable(Protocol):
    """Work that can be captured as a graph: one launch of a kernel, or all that a library launches."""

    @property
    def buffer_bytes(self) -> int:
        """Bytes of all that one run reads and writes."""

    def capture(self, runs: int, *, apart: bool) -> Graph:
        """A graph of that many runs, all on the same buffers or (``apart``) each on a copy of its own."""


def captured(runs: Sequence[Enqueue]) -> Graph:
    """A graph of the given runs, which allocate nothing."""
    stream = import_cupy().cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        for enqueue_run in runs:
            enqueue_run()
        graph = stream.end_capture()
        graph.upload(stream)
    stream.synchronize()
    return Graph(graph.launch, len(runs))


def graph_samples(graph: Graph, flush: Enqueued | None) -> Take:
    """Samples that are the mean over one replay.

    The flush, or another replay where there is none, keeps the device busy while the host enqueues what is timed.
    """
    cuda = import_cupy().cuda

    def take(count: int) -> list[float]:
        samples = []
        for _ in range(count):
            start, stop = cuda.Event(), cuda.Event()
            if flush is None:
                graph.replay()
            else:
                flush.enqueue()
            start.record()
            graph.replay()
            stop.record()
            stop.synchronize()
            samples.append(cuda.get_elapsed_time(start, stop) * SECONDS_PER_MS / graph.runs)
        return samples

    return take


def take_timing(take: Take, plan: SamplingPlan, l2: L2State, method: TimingMethod) -> Timing:
    """Warm up, sample until the plan is satisfied while the sensors are watched, and say how good the samples are."""
    take(WARM_UP_SAMPLES)
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


def time_work(work: Capturable, flush: Enqueued, plan: SamplingPlan) -> tuple[Timing, Timing]:
    """Warm and cold timing; what is short is captured many times, so that events and gaps between samples do not count."""
    once = graph_samples(work.capture(1, apart=False), flush)
    once(WARM_UP_SAMPLES)
    runs = graph_runs(float(np.median(once(WARM_UP_SAMPLES))))
    copies = graph_copies(work.buffer_bytes, runs)
    cold = graph_samples(work.capture(copies, apart=True), flush)
    warm = graph_samples(work.capture(runs, apart=False), None)
    return (
        take_timing(warm, plan, L2State.WARM, TimingMethod.GRAPH),
        take_timing(cold, plan, L2State.COLD, TimingMethod.GRAPH),
    )


def graph_runs(seconds: float) -> int:
    """How many runs of that length a graph has.

    >>> graph_runs(2e-6), graph_runs(100e-6), graph_runs(1e-3)
    (32, 4, 1)
    """
    return max(1, min(GRAPH_RUNS, math.ceil(GRAPH_SPAN_S / seconds)))


def graph_copies(buffer_bytes: int, runs: int) -> int:
    """How many copies of a run's buffers a cold graph works on, so that together they stay within the limit.

    >>> graph_copies(1_000_000, 32), graph_copies(2**31, 4)
    (32, 2)
    """
    return max(1, min(runs, GRAPH_BUFFER_LIMIT_BYTES // max(buffer_bytes, 1)))


@dataclass(frozen=True, slots=True)
class KernelWork:
    """One launch of a loaded kernel."""

    kernel: DeviceKernel
    launch: Launch
    call: DeviceCall

    @classmethod
    def of(cls, kernel: DeviceKernel, launch: Launch, call: KernelCall) -> KernelWork:
        """The launch with its buffers uploaded."""
        return cls(kernel, launch, upload(call))

    @property
    def buffer_bytes(self) -> int:
        """Bytes of the launch's buffers."""
        return self.call.buffer_bytes

    def capture(self, runs: int, *, apart: bool) -> Graph:
        """A graph of launches, on the call's buffers or on copies of them."""
        others = [duplicate(self.call) for _ in range(runs - 1)] if apart else [self.call] * (runs - 1)
        return captured([launch_of(self.kernel, self.launch, call) for call in (self.call, *others)])


def launch_of(kernel: DeviceKernel, launch: Launch, call: DeviceCall) -> Enqueue:
    """The function that enqueues this launch."""
    return lambda: enqueue(kernel, launch, call)
