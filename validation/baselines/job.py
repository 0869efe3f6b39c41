"""One library's implementation of one problem on the device: checked, then timed; runs in the worker."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from perfmodel.families.precision import channels_first
from perfmodel.families.registry import family as family_of_name
from perfmodel.records.columns import record_of_fields
from perfmodel.records.schema import (
    Correctness,
    Environment,
    Failure,
    FailureKind,
    Record,
    RecordKind,
    RunKey,
    Scalar,
    Timing,
    run_key,
)

from ..kernel_job import compare_outputs, flush_of, now, problem_inputs, problem_reference
from ..launching import cuda_errors, failure_kind
from ..sampling import SamplingPlan
from ..timing import time_work
from ..worker import Reply
from .catalogue import find_baseline
from .interface import BaselineUnavailableError, Precision
from .work import LibraryWork

LEAST_TOLERANCE = 1e-4
"""Libraries may use Winograd or Fourier transforms, which are right in fp32 and still round more than plain sums."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineJob:
    """What the worker is asked to do with one baseline of one problem of a family."""

    family: str
    problem: dict[str, Scalar]
    problem_name: str
    baseline: str
    folder: Path
    environment: Environment
    gpu: str
    seed: int
    sampling: SamplingPlan

    @property
    def key(self) -> RunKey:
        """What makes two runs the same."""
        return run_key(RecordKind.BASELINE, self.baseline, self.problem, self._configuration())

    def _configuration(self) -> dict[str, Scalar]:
        precision = Precision.of_problem(self.problem)
        if precision is not Precision.FP16:
            precision = find_baseline(self.family, self.baseline).settings.precision
        return {"family": self.family, "precision": precision.value}

    def failed(self, failure: Failure) -> Record:
        """The record of this job when there is nothing but a failure."""
        return self.record(failure=failure)

    def record(
        self,
        *,
        timings: tuple[Timing, ...] = (),
        correctness: Correctness | None = None,
        failure: Failure | None = None,
    ) -> Record:
        """The record of this job."""
        return Record(
            kind=RecordKind.BASELINE,
            name=self.baseline,
            problem=self.problem,
            problem_name=self.problem_name,
            configuration=self._configuration(),
            gpu=self.gpu,
            environment=self.environment,
            measured_at=now(),
            timings=timings,
            correctness=correctness,
            failure=failure,
        )


def run_baseline_job(job: BaselineJob) -> Reply[Record]:
    """Check and time one baseline; a fault of the GPU ends this process after the reply."""
    # PyTorch raises RuntimeError for every refusal of cuDNN or the driver.
    errors: tuple[type[Exception], ...] = (*cuda_errors(), RuntimeError)
    try:
        # PyTorch keeps the cuDNN plan of a convolution for each thread, whether it was the first or the fastest.
        with ThreadPoolExecutor(max_workers=1) as thread:
            return Reply(result=thread.submit(_measured, job).result())
    except BaselineUnavailableError as error:
        return Reply(result=job.failed(Failure(kind=FailureKind.UNAVAILABLE, message=str(error))))
    except errors as error:
        failed = Failure(kind=failure_kind(error), message=" ".join(str(error).split())[:300])
        return Reply(result=job.failed(failed), healthy=False)


def _measured(job: BaselineJob) -> Record:
    family = family_of_name(job.family)
    problem = record_of_fields(family.problem_type, job.problem)
    baseline = find_baseline(job.family, job.baseline)
    inputs = problem_inputs(job.family, problem, job.seed)
    reference = problem_reference(job.family, problem, job.seed)
    if Precision.of_problem(job.problem) is not Precision.FP32:
        # libraries are described for images whose channels come first
        inputs = {name: channels_first(one) for name, one in inputs.items()}
        reference = {name: channels_first(one) for name, one in reference.items()}
    work = LibraryWork.start(baseline, problem, inputs)
    outputs = {name: array.reshape(reference[name].shape) for name, array in work.results().items()}
    correctness = compare_outputs(outputs, reference, max(family.tolerance(problem), LEAST_TOLERANCE))
    if baseline.settings.precision is Precision.FP32 and not correctness.passed:
        message = f"error {correctness.max_relative_error:.3g} exceeds {correctness.tolerance:.3g}"
        return job.record(correctness=correctness, failure=Failure(kind=FailureKind.WRONG_RESULT, message=message))
    timings = time_work(work, flush_of(job.folder), job.sampling)
    work.torch.cuda.empty_cache()
    return job.record(correctness=correctness, timings=timings)
