"""One run of a kernel, a baseline or a micro-benchmark on a real GPU, as it is written down: the schema of a record."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

import msgspec
import numpy as np
from msgspec import Struct

from ..launch.launch import L2State
from ..profiles.kernel_profile import Fidelity

SCHEMA_VERSION = 1

Scalar = bool | int | float | str | None
"""What a field of a problem or of a configuration is in JSON."""


class RecordKind(Enum):
    """What ran."""

    KERNEL = "kernel"
    """A configuration of a kernel family."""
    BASELINE = "baseline"
    """A library's implementation of the same problem."""
    MICRO_BENCHMARK = "micro-benchmark"
    """A kernel that measures one property of the GPU."""
    SANITIZER = "sanitizer"
    """A tool of compute-sanitizer over many kernels; ``counters`` say over how many."""


class TimingMethod(Enum):
    """How a sample was taken."""

    EVENTS = "events"
    """One launch between two CUDA events."""
    GRAPH = "graph"
    """The mean over the runs of a CUDA graph: nothing that the host does is in it."""
    BATCH = "batch"
    """The mean of many launches in a row between two events."""


class Mark(Enum):
    """Why a timing deserves less trust."""

    THROTTLED = "throttled"
    """The driver reported a clock limit other than idleness, or the SM clock moved during the run."""
    NOISY = "noisy"
    """The confidence interval of the median stayed wider than was asked for."""


class FailureKind(Enum):
    """Why a run gave no result; a failed run is a record too."""

    REJECTED = "rejected"
    """The configuration does not fit the GPU."""
    COMPILE = "compile"
    LAUNCH = "launch"
    """The driver refused the launch or the kernel faulted."""
    OUT_OF_MEMORY = "out-of-memory"
    WRONG_RESULT = "wrong-result"
    TIME_OUT = "time-out"
    """No answer within the limit; the worker was ended."""
    WORKER_DIED = "worker-died"
    UNAVAILABLE = "unavailable"
    """A library that a baseline needs is not installed or does not offer the operation."""


class Environment(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a run took place; an empty text or zero where it is not known."""

    gpu_name: str
    compute_capability: str
    driver_version: str
    cuda_version: str
    compiler_version: str
    commit: str
    sm_clock_max_hz: float = 0.0
    memory_clock_max_hz: float = 0.0


class Timing(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All samples of one kind, in the order taken, with what the GPU's sensors said meanwhile (zero where unknown)."""

    l2: L2State
    method: TimingMethod
    samples_s: tuple[float, ...]
    interval_s: tuple[float, ...] = ()
    """95 % confidence interval of the median, low and high."""
    sm_clock_hz: float = 0.0
    temperature_c: float = 0.0
    power_w: float = 0.0
    marks: tuple[Mark, ...] = ()

    @property
    def median_s(self) -> float:
        """Median of the samples.

        >>> Timing(l2=L2State.COLD, method=TimingMethod.EVENTS, samples_s=(3e-6, 1e-6, 2e-6)).median_s
        2e-06
        """
        return float(np.median(self.samples_s))


class KernelResources(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the compiler gave the kernel that ran; ``cubin_sha256`` ties the record to the very code."""

    registers_per_thread: int
    static_shared_bytes: int
    dynamic_shared_bytes: int
    stack_bytes_per_thread: int
    code_bytes: int
    cubin_sha256: str


class Correctness(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Largest error against the float64 reference, and what was allowed; both relative to its largest magnitude."""

    max_relative_error: float
    tolerance: float

    @property
    def passed(self) -> bool:
        """Whether the result may be trusted; NaN never passes."""
        return self.max_relative_error <= self.tolerance


class Predicted(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What was predicted of a configuration before it ran."""

    fidelity: Fidelity
    time_s: float
    place: int | None = None
    """Its place among the problem's predicted fastest, from 1; None for one that was chosen otherwise."""


class Failure(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why there is no result, with the first line of the message."""

    kind: FailureKind
    message: str


class Record(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One run. ``name`` is the family, library function or micro-benchmark; ``gpu`` the id, or the device's own name.

    ``counters`` are Nsight Compute metrics under their own names, or what a micro-benchmark's kernel counted itself.
    """

    kind: RecordKind
    name: str
    problem: Mapping[str, Scalar]
    configuration: Mapping[str, Scalar]
    gpu: str
    environment: Environment
    measured_at: str
    """UTC, ISO 8601."""
    timings: tuple[Timing, ...] = ()
    resources: KernelResources | None = None
    correctness: Correctness | None = None
    counters: Mapping[str, float] = msgspec.field(default_factory=dict)
    failure: Failure | None = None
    predicted: Predicted | None = None
    problem_name: str = ""
    """What a list of problems calls the problem."""
    schema: int = SCHEMA_VERSION

    def timing(self, l2: L2State) -> Timing | None:
        """The timing with that state of the L2 cache, or None; of several the first, which is the most exact."""
        return next((timing for timing in self.timings if timing.l2 is l2), None)

    @property
    def key(self) -> RunKey:
        """What makes two records runs of the same thing."""
        return run_key(self.kind, self.name, self.problem, self.configuration)


RunKey = tuple[str, str, tuple[tuple[str, Scalar], ...], tuple[tuple[str, Scalar], ...]]


def run_key(kind: RecordKind, name: str, problem: Mapping[str, Scalar], configuration: Mapping[str, Scalar]) -> RunKey:
    """A value equal for two runs of the same kind, name, problem and configuration, whatever the order of the fields.

    >>> run_key(RecordKind.KERNEL, "conv1d", {"b": 1, "a": 2}, {}) == run_key(
    ...     RecordKind.KERNEL, "conv1d", {"a": 2, "b": 1}, {}
    ... )
    True
    """
    return kind.value, name, tuple(sorted(problem.items())), tuple(sorted(configuration.items()))
