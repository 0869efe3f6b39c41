"""Prepared launches on the GPU of this machine: the times of each, then Nsight Compute's counters.

``python -m campaigns.public_kernels.measuring FOLDER RECORDS STEP``, with the step ``time`` or ``count``; both go on
where they stopped.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace

from perfmodel.errors import InputError
from perfmodel.launch.launch import L2State, Launch
from perfmodel.records.own_records import record_line
from perfmodel.records.schema import Failure, FailureKind, Timing, TimingMethod
from perfmodel.validation.device import environment, import_cupy, require_device
from perfmodel.validation.kernel_job import now
from perfmodel.validation.launching import (
    DeviceCall,
    DeviceKernel,
    cuda_errors,
    duplicate,
    enqueue,
    failure_kind,
    load_kernel,
    upload,
    upload_constants,
)
from perfmodel.validation.running import RunSummary, run_missing
from perfmodel.validation.sampling import SamplingPlan
from perfmodel.validation.timing import (
    FLUSH_KERNEL,
    WARM_UP_SAMPLES,
    KernelWork,
    L2Flush,
    captured,
    graph_copies,
    graph_runs,
    graph_samples,
    launch_of,
    take_timing,
    time_work,
)
from perfmodel.validation.worker import Reply

from ..counting import Counters, Counting
from ..metrics import OPCODES_METRIC
from ..tools import require_tool
from .preparing import CUBINS, FLUSH, INPUTS, call_of
from .record import PublicRecord, read_public_records

SAMPLING = SamplingPlan(max_samples=40, time_limit_s=0.08)
MODULE = "campaigns.public_kernels.measuring"
PLAN = "plan.jsonl"
"""The launches of a prepared folder."""
LAUNCH_LIMIT_S = 40.0
"""Longest that all samples of one launch may take."""
MORE_METRICS = (
    "l1tex__t_sectors_pipe_lsu_mem_global_op_red.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_atom.sum",
    "smsp__inst_executed_op_shared_atom.sum",
    "smsp__inst_executed_pipe_xu.sum",
    "smsp__inst_executed_pipe_fp64.sum",
    "smsp__inst_executed_pipe_fma.sum",
    "smsp__inst_executed_pipe_alu.sum",
    "lts__t_requests_srcunit_tex_op_red.sum",
    "lts__t_requests_srcunit_tex_op_atom.sum",
    "lts__t_sectors_srcunit_tex_op_red.sum",
    "lts__t_sectors_srcunit_tex_op_atom.sum",
    OPCODES_METRIC,
)
"""Atomics, pipes and opcodes, beside what every count is compared with."""


@dataclass(frozen=True, slots=True)
class _Restored:
    """Buffers that a kernel writes, put back to what they held before L2 is emptied."""

    targets: Sequence[tuple[Any, Any]]
    flush: L2Flush

    @classmethod
    def of(cls, calls: Sequence[DeviceCall], variables: Sequence[Any], flush: L2Flush) -> _Restored:
        """Of some launches, with what their buffers and the module's variables hold now."""
        written = [array for call in calls for array in call.outputs.values()]
        return cls([(array, array.copy()) for array in (*written, *variables)], flush)

    def enqueue(self) -> None:
        for target, pristine in self.targets:
            target[...] = pristine
        self.flush.enqueue()


@dataclass(frozen=True, slots=True)
class Loaded:
    """A launch on the device."""

    kernel: DeviceKernel
    launch: Launch
    call: DeviceCall
    variables: tuple[Any, ...]


def loaded(record: PublicRecord, folder: Path) -> Loaded:
    """The machine code that was prepared, and its arguments."""
    call = call_of(record.launch, record.signature, folder / INPUTS)
    shared_bytes = record.resources.dynamic_shared_bytes
    launch = Launch.of(record.launch.grid, record.launch.block, dynamic_shared_bytes=shared_bytes)
    kernel = load_kernel(
        folder / CUBINS / f"{record.resources.cubin_sha256}.cubin",
        record.kernel_name,
        int(launch.dynamic_shared_bytes),
        cooperative=record.launch.cooperative,
    )
    variables = upload_constants(kernel, call)
    return Loaded(kernel, launch, _by_value(upload(call)), variables)


def _by_value(call: DeviceCall) -> DeviceCall:
    """Structures as arrays of one element, as CuPy takes them."""
    arguments = tuple(
        np.frombuffer(one.tobytes(), one.dtype) if isinstance(one, np.void) else one for one in call.arguments
    )
    return DeviceCall(arguments, call.outputs)


def timings(record: PublicRecord, one: Loaded, flush: L2Flush) -> tuple[Timing, ...]:
    """Warm and cold, as every run is timed (`timing.time_work`).

    A kernel that does something else on its own results is timed cold only, its buffers and the variables given for its module
    restored before each sample. A graph has copies of buffers, not of variables: where there are some, it has one run.
    """
    work = KernelWork(one.kernel, one.launch, one.call)
    if not record.launch.restore:
        return time_work(work, flush, SAMPLING)
    restored = _Restored.of([one.call], one.variables, flush)
    first = graph_samples(work.capture(1, apart=False), restored)(WARM_UP_SAMPLES)
    runs = 1 if one.variables else graph_copies(work.buffer_bytes, graph_runs(float(np.median(first))))
    restored.enqueue()
    calls = [one.call, *(duplicate(one.call) for _ in range(runs - 1))]
    apart = captured([launch_of(one.kernel, one.launch, call) for call in calls])
    samples = graph_samples(apart, _Restored.of(calls, one.variables, flush))
    return (take_timing(samples, SAMPLING, L2State.COLD, TimingMethod.GRAPH),)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeJob:
    """One prepared launch to be timed."""

    record: PublicRecord
    folder: Path

    @property
    def key(self) -> str:
        """The launch's name."""
        return self.record.launch.id

    def failed(self, failure: Failure) -> PublicRecord:
        """The record of a launch that gave nothing else."""
        return replace(self.record, failure=failure)


@cache
def _flush(cubin: Path) -> L2Flush:
    device = require_device()
    return L2Flush.load(cubin, FLUSH_KERNEL, device.l2_bytes, device.sm_count)


def run_time_job(job: TimeJob) -> Reply[PublicRecord]:
    """The record with times, or with the failure, after which this process is ended: its context may be lost."""
    found: tuple[Timing, ...] = ()
    failure = None
    try:
        flush = _flush(job.folder / FLUSH)
        found = timings(job.record, loaded(job.record, job.folder), flush)
    except cuda_errors() as error:
        failure = Failure(kind=failure_kind(error), message=str(error).splitlines()[0])
    device = require_device()
    where = environment(device, job.record.compiler_version, "")
    import_cupy().get_default_memory_pool().free_all_blocks()
    result = replace(
        job.record, timings=found, failure=failure, environment=where, gpu=device.gpu_id, measured_at=now()
    )
    return Reply(result=result, healthy=failure is None or failure.kind is FailureKind.OUT_OF_MEMORY)


def time_step(folder: Path, records: Path, time_limit_s: float) -> RunSummary:
    """Time the launches that have no line in the file yet, in the order of the plan.

    Raises:
        InputError: the folder lacks the kernel that empties L2.
    """
    plan = plan_of(folder)
    if not (folder / FLUSH).is_file():
        raise InputError(f"{folder / FLUSH} is missing, the kernel that empties L2: prepare the folder anew")

    def keep(record: PublicRecord) -> None:
        append_record(records, record)
        said = " ".join(f"{one.l2.value}/{one.method.value} {one.median_s * 1e6:.2f}" for one in record.timings)
        print(f"{record.launch.id}: {said or record.failure}", flush=True)

    return run_missing(
        [TimeJob(record=record, folder=folder) for record in plan],
        run_time_job,
        keep,
        done=_recorded(records),
        time_limit_s=time_limit_s,
        job_limit_s=LAUNCH_LIMIT_S,
    )


def _recorded(records: Path) -> set[str]:
    return {one.launch.id for one in read_public_records(records)} if records.exists() else set()


def count_step(folder: Path, records: Path, time_limit_s: float) -> RunSummary:
    """Count what has no counters yet; what the profiler fails at is said, and tried again by the next step."""
    done, plan = _recorded(records), plan_of(folder)
    missing = [one for one in plan if one.launch.id not in done]
    target = [sys.executable, "-m", MODULE, str(folder), str(records), "launch"]
    counting: Counting[PublicRecord] = Counting(
        ncu=require_tool("ncu", "Nsight Compute (ncu)"),
        target=lambda some: [*target, ",".join(one.launch.id for one in some)],
        kernel_name=lambda one: one.kernel_name,
        more=MORE_METRICS,
    )

    def keep(one: PublicRecord, found: Counters | Failure) -> None:
        if not isinstance(found, Failure):
            append_record(records, replace(one, counters=found))
        print(f"{one.launch.id}: {found.message if isinstance(found, Failure) else 'counted'}", flush=True)

    finished, failed = counting.count(missing, keep, time_limit_s)
    return RunSummary(
        done=finished, failed=failed, already_recorded=len(plan) - len(missing), left=len(missing) - finished
    )


def launch_once(folder: Path, ids: Sequence[str]) -> None:
    """What the profiler watches: these launches, each once."""
    plan = {one.launch.id: one for one in plan_of(folder)}
    for launch_id in ids:
        one = loaded(plan[launch_id], folder)
        enqueue(one.kernel, one.launch, one.call)
        import_cupy().cuda.runtime.deviceSynchronize()
        del one
        import_cupy().get_default_memory_pool().free_all_blocks()


def plan_of(folder: Path) -> tuple[PublicRecord, ...]:
    """The records of the prepared folder."""
    return read_public_records(folder / PLAN)


def append_record(records: Path, record: PublicRecord) -> None:
    """Add a launch to a file of records."""
    with records.open("a") as stream:
        stream.write(record_line(record) + "\n")


STEPS: dict[str, Callable[[Path, Path, float], RunSummary]] = {"time": time_step, "count": count_step}


def main(words: Sequence[str]) -> None:
    """Run a step within its limit in seconds (500)."""
    folder, records, step = Path(words[0]), Path(words[1]), words[2]
    if step == "launch":
        launch_once(folder, words[3].split(","))
    else:
        print(STEPS[step](folder, records, float(words[3]) if len(words) > 3 else 500.0))


if __name__ == "__main__":
    main(sys.argv[1:])
