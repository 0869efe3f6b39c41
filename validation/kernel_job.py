"""One configuration of a family on the device: checked against the reference, then timed; runs in the worker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfmodel.families.base import Batch, Family
from perfmodel.families.registry import family as family_of_name
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.gpus.gpu import Gpu
from perfmodel.launch.launch import KernelCall, Launch
from perfmodel.records.columns import record_of_fields
from perfmodel.records.schema import (
    Correctness,
    Environment,
    Failure,
    FailureKind,
    KernelResources,
    Record,
    RunKey,
    Timing,
)

from .device import import_cupy, require_device
from .launching import DeviceKernel, cuda_errors, failure_kind, load_kernel, run_once, upload, upload_constants
from .prepared import PreparedFolder, PreparedKernel, Purpose, unpacked_cubin
from .sampling import SamplingPlan
from .timing import KernelWork, L2Flush, time_work
from .worker import Reply


def compare_outputs(
    outputs: Mapping[str, NDArray[Any]], reference: Mapping[str, NDArray[np.float64]], tolerance: float
) -> Correctness:
    """Largest error over all outputs, each relative to the largest magnitude of its reference.

    An element that was never written still holds the poison, NaN, and makes the error infinite; so does an output of
    another shape or one that is missing.

    >>> compare_outputs({"y": np.float32([1, 2])}, {"y": np.array([1.0, 2.5])}, 1e-5).max_relative_error
    0.2
    """
    error = max((output_error(outputs.get(name), exact) for name, exact in reference.items()), default=np.inf)
    return Correctness(max_relative_error=float(error), tolerance=tolerance)


def output_error(output: NDArray[Any] | None, exact: NDArray[np.float64]) -> float:
    """Largest absolute difference over the largest magnitude of the exact result; infinite where nothing compares."""
    if output is None or output.shape != exact.shape:
        return float(np.inf)
    if exact.size == 0:
        return 0.0
    difference = np.max(np.abs(output.astype(np.float64) - exact))
    if not np.isfinite(difference):
        return float(np.inf)
    magnitude = np.max(np.abs(exact))
    return float(difference / magnitude) if magnitude > 0 else float(difference)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedJob:
    """A prepared kernel and how it is measured; ``seed`` decides its inputs."""

    kernel: PreparedKernel
    folder: Path
    environment: Environment
    gpu: str
    seed: int
    sampling: SamplingPlan

    @property
    def key(self) -> RunKey:
        """What makes two runs the same."""
        return self.kernel.key


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelJob(PreparedJob):
    """What the worker is asked to do with one configuration of a family."""

    timed: bool

    def failed(self, failure: Failure) -> Record:
        """The record of this job when there is nothing but a failure."""
        return job_record(self, failure=failure)


@dataclass(frozen=True, slots=True)
class PreparedCall:
    """A configuration ready to be launched."""

    family: Family[Any, Any]
    problem: Any
    launch: Launch
    call: KernelCall


def now() -> str:
    """The time of day, UTC, ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def job_record(
    job: KernelJob,
    *,
    timings: tuple[Timing, ...] = (),
    correctness: Correctness | None = None,
    counters: Mapping[str, float] | None = None,
    failure: Failure | None = None,
) -> Record:
    """The record of a job."""
    kernel = job.kernel
    return Record(
        kind=kernel.kind,
        name=kernel.name,
        problem=kernel.problem,
        configuration=kernel.configuration,
        gpu=job.gpu,
        environment=job.environment,
        measured_at=now(),
        timings=timings,
        resources=kernel.resources,
        correctness=correctness,
        counters=counters or {},
        failure=failure,
        predicted=kernel.predicted,
        problem_name=kernel.problem_name,
    )


def run_kernel_job(job: KernelJob) -> Reply[Record]:
    """Check the kernel, time it if asked to and if it is right; a fault of the GPU ends this process after the reply.

    A kernel that was prepared as a failure is not run: its record has the failure.
    """
    if job.kernel.failure is not None:
        return Reply(result=job.failed(job.kernel.failure))
    errors = cuda_errors()
    try:
        return Reply(result=_measured(job, _loadable(job.kernel)))
    except errors as error:
        message = " ".join(str(error).split())
        failed = Failure(kind=failure_kind(error), message=message)
        return Reply(result=job_record(job, failure=failed), healthy=False)


def _loadable(kernel: PreparedKernel) -> KernelResources:
    if kernel.resources is None:
        raise ValueError(f"{kernel.name}: no code was prepared for {kernel.configuration}")
    return kernel.resources


def _measured(job: KernelJob, resources: KernelResources) -> Record:
    prepared = prepare_call(job.kernel, job.seed)
    folder = PreparedFolder(job.folder)
    loaded = load_kernel(
        unpacked_cubin(folder, resources.cubin_sha256), job.kernel.kernel_name, resources.dynamic_shared_bytes
    )
    correctness = _checked(loaded, prepared, job.seed)
    if not correctness.passed:
        message = f"error {correctness.max_relative_error:.3g} exceeds {correctness.tolerance:.3g}"
        failed = Failure(kind=FailureKind.WRONG_RESULT, message=message)
        return job_record(job, correctness=correctness, failure=failed)
    timings: tuple[Timing, ...] = ()
    if job.timed:
        work = KernelWork.of(loaded, prepared.launch, prepared.call)
        timings = time_work(work, flush_of(job.folder), job.sampling)
    import_cupy().get_default_memory_pool().free_all_blocks()
    return job_record(job, correctness=correctness, timings=timings)


def _checked(loaded: DeviceKernel, prepared: PreparedCall, seed: int) -> Correctness:
    upload_constants(loaded, prepared.call)
    outputs = run_once(loaded, prepared.launch, upload(prepared.call))
    reference = problem_reference(prepared.family.name, prepared.problem, seed)
    return compare_outputs(outputs, reference, prepared.family.tolerance(prepared.problem))


def prepare_call(kernel: PreparedKernel, seed: int) -> PreparedCall:
    """Launch geometry, inputs and poisoned outputs of a prepared configuration."""
    family = family_of_name(kernel.name)
    gpu: Gpu = load_gpu(kernel.gpu)
    problem = record_of_fields(family.problem_type, kernel.problem)
    configuration = record_of_fields(family.configuration_type, kernel.configuration)
    launch = family.launch(problem, Batch.of([configuration]), gpu).at(0)
    inputs = problem_inputs(family.name, problem, seed)
    return PreparedCall(family, problem, launch, family.call(problem, configuration, gpu, inputs))


@lru_cache(maxsize=2)
def problem_inputs(family_name: str, problem: Any, seed: int) -> Mapping[str, NDArray[np.float32]]:
    """The inputs of a problem that a seed draws, kept for the configurations that run one after the other."""
    return family_of_name(family_name).inputs(problem, np.random.default_rng(seed))


@lru_cache(maxsize=2)
def problem_reference(family_name: str, problem: Any, seed: int) -> Mapping[str, NDArray[np.float64]]:
    """The float64 results for these inputs, kept likewise."""
    return family_of_name(family_name).reference(problem, problem_inputs(family_name, problem, seed))


@lru_cache(maxsize=1)
def flush_of(path: Path) -> L2Flush:
    """The L2 flush prepared in this folder, loaded once in a process."""
    folder = PreparedFolder(path)
    kernel = next(kernel for kernel in folder.kernels() if Purpose.FLUSH in kernel.purposes)
    cubin = unpacked_cubin(folder, _loadable(kernel).cubin_sha256)
    device = require_device()
    return L2Flush.load(cubin, kernel.kernel_name, device.l2_bytes, device.sm_count)
