"""One configuration of whatever is tuned, on the device: its outputs compared, then timed; and the session that runs many."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfmodel.compiler.compiled import CompiledKernel
from perfmodel.compiler.pool import compile_many
from perfmodel.errors import InfeasibleError, InputError
from perfmodel.families.base import Batch
from perfmodel.families.registry import family_of
from perfmodel.families.user.family import UserFamily
from perfmodel.gpus.gpu import Gpu
from perfmodel.launch.launch import KernelCall, L2State, Launch
from perfmodel.profiles.user_launch import require_fits
from perfmodel.records.schema import Failure, FailureKind, Timing
from perfmodel.records.tuning_cache import FAILURE_NAMES, OTHER_FAILURE_NAME, TunedRun

from .device import import_cupy
from .kernel_job import compare_outputs, flush_of, output_error
from .launching import cuda_errors, failure_kind, load_kernel, run_once, upload, upload_constants
from .prepared import PreparedFolder, unpacked_cubin
from .preparing import COMPILE_LIMIT_S, MESSAGE_CHARACTERS, prepare_flush
from .sampling import SamplingPlan
from .timing import KernelWork, time_work
from .worker import Reply, Worker

RUN_LIMIT_S = 60.0
"""After so many seconds a configuration counts as hanging."""
EXPECTED_FOLDER = "expected"


@dataclass(frozen=True, slots=True, kw_only=True)
class TunedJob:
    """What the worker is asked to do with one configuration.

    ``tolerance``: largest error of an output relative to its largest magnitude; None compares nothing. What is expected lies in
    the folder, where the first job that is right puts its own outputs if there is nothing yet.
    """

    folder: Path
    cubin_sha256: str
    kernel_name: str
    launch: Launch
    call: KernelCall
    l2: L2State
    tolerance: float | None
    sampling: SamplingPlan


def run_tuned_job(job: TunedJob) -> Reply[Timing | Failure]:
    """Compare the outputs of one launch, then time it; a fault of the GPU ends this process after the reply."""
    errors = cuda_errors()
    try:
        return Reply(result=_timed(job))
    except errors as error:
        message = " ".join(str(error).split())
        return Reply(result=Failure(kind=failure_kind(error), message=message), healthy=False)


def _timed(job: TunedJob) -> Timing | Failure:
    cubin = unpacked_cubin(PreparedFolder(job.folder), job.cubin_sha256)
    loaded = load_kernel(cubin, job.kernel_name, int(job.launch.dynamic_shared_bytes))
    upload_constants(loaded, job.call)
    outputs = run_once(loaded, job.launch, upload(job.call))
    wrong = None if job.tolerance is None else differs(outputs, job.folder / EXPECTED_FOLDER, job.tolerance)
    if wrong is not None:
        return wrong
    timings = time_work(KernelWork.of(loaded, job.launch, job.call), flush_of(job.folder), job.sampling)
    import_cupy().get_default_memory_pool().free_all_blocks()
    return next(timing for timing in timings if timing.l2 is job.l2)


def differs(outputs: Mapping[str, NDArray[Any]], expected: Path, tolerance: float) -> Failure | None:
    """How outputs differ from the files of a folder; where there is no folder yet, they become what is expected."""
    if not expected.exists():
        keep_expected(outputs, expected)
        return None
    wanted = {file.stem: np.load(file).astype(np.float64).reshape(-1) for file in sorted(expected.iterdir())}
    flat = {name: found.reshape(-1) for name, found in outputs.items()}
    found = compare_outputs(flat, wanted, tolerance)
    if found.passed:
        return None
    worst = max(wanted, key=lambda name: output_error(flat.get(name), wanted[name]))
    return Failure(
        kind=FailureKind.WRONG_RESULT,
        message=f"{worst} differs from what is expected by {found.max_relative_error:.2g} of its largest value",
    )


def keep_expected(outputs: Mapping[str, NDArray[Any]], folder: Path) -> None:
    """Put outputs into a folder, in one step."""
    partial = folder.with_suffix(".partial")
    partial.mkdir(exist_ok=True)
    for name, values in outputs.items():
        np.save(partial / f"{name}.npy", values)
    partial.replace(folder)


class DeviceTuning:
    """Compiles configurations of a problem, runs them in a worker process and times them. Use as a context manager.

    Args:
        problem: a problem of a family, or a user's space.
        gpu: what the device is, for the compiler and for limits.
        l2: what the L2 holds when a timed launch begins.
        tolerance: see `TunedJob`.
        expected: what outputs are compared with by their parameters' names; empty: a family's own reference, or what the first
            configuration of a user's space computes.
        seed: of inputs that a family draws.

    Raises:
        InputError: what is expected is no output of the kernel, when the first configuration runs.
    """

    def __init__(
        self,
        problem: Any,
        gpu: Gpu,
        *,
        l2: L2State,
        tolerance: float | None,
        expected: Mapping[str, NDArray[Any]],
        seed: int,
    ) -> None:
        self._problem, self._gpu, self._l2, self._tolerance = problem, gpu, l2, tolerance
        self._family, self._named = family_of(problem), tuple(expected)
        self._inputs = self._family.inputs(problem, np.random.default_rng(seed))
        self._home = tempfile.TemporaryDirectory(prefix="perfmodel-tune-")
        self._folder = PreparedFolder(Path(self._home.name))
        self._worker = Worker(run_tuned_job)
        self._folder.write_plan([prepare_flush(gpu, self._folder)])
        if tolerance is not None and not expected and not isinstance(self._family, UserFamily):
            expected = self._family.reference(problem, self._inputs)
            self._tolerance = self._family.tolerance(problem)
        if expected:
            keep_expected(expected, self._folder.path / EXPECTED_FOLDER)

    def run(self, configuration: Any) -> TunedRun:
        """Compile, check and time one configuration."""
        prepared = self._prepared(configuration)
        found = prepared if isinstance(prepared, Failure) else self._worker.run(prepared, RUN_LIMIT_S)
        if isinstance(found, Timing):
            return TunedRun(seconds=found.median_s, samples_s=found.samples_s)
        name = FAILURE_NAMES.get(found.kind.value, OTHER_FAILURE_NAME)
        return TunedRun(seconds=None, failure=name, message=found.message)

    def _prepared(self, configuration: Any) -> TunedJob | Failure:
        family, gpu = self._family, self._gpu
        request = family.compile_request(self._problem, configuration, gpu)
        (outcome,) = compile_many([(request, gpu.architecture.name)], time_limit_s=COMPILE_LIMIT_S)
        if not isinstance(outcome, CompiledKernel):
            return Failure(kind=FailureKind.COMPILE, message=" ".join(str(outcome).split())[:MESSAGE_CHARACTERS])
        launch = family.launch(self._problem, Batch.of([configuration]), gpu).at(0)
        try:
            require_fits(replace(launch, static_shared_bytes=outcome.resources.static_shared_bytes), outcome, gpu)
        except InfeasibleError as error:
            return Failure(kind=FailureKind.REJECTED, message=str(error))
        call = _uploadable(family.call(self._problem, configuration, gpu, self._inputs))
        outputs = [buffer.name for buffer in call.buffers if buffer.output]
        for name in self._named:
            if name not in outputs:
                raise InputError(f"--reference {name}=…: the kernel's outputs are {', '.join(outputs) or 'none'}")
        return TunedJob(
            folder=self._folder.path,
            cubin_sha256=self._folder.keep_cubin(outcome.cubin),
            kernel_name=outcome.kernel_name,
            launch=launch,
            call=call,
            l2=self._l2,
            tolerance=self._tolerance,
            sampling=SamplingPlan(),
        )

    def __enter__(self) -> DeviceTuning:
        self._worker.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._worker.__exit__(kind, error, trace)
        self._home.cleanup()


def _uploadable(call: KernelCall) -> KernelCall:
    """The call with buffers as arrays; those that follow a rule do not travel to the worker as rules."""

    def arrays(parameter: Any) -> Any:
        if not hasattr(parameter, "array"):
            if not isinstance(parameter, np.generic):
                raise InputError(f"a parameter of type {type(parameter).__name__} cannot be launched by `tune`")
            return parameter
        return replace(parameter, array=np.ascontiguousarray(parameter.array))

    return replace(
        call,
        parameters=tuple(arrays(one) for one in call.parameters),
        constants=tuple(arrays(one) for one in call.constants),
    )
