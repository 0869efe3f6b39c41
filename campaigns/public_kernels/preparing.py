"""Launches compiled and executed without a GPU: their records without times, and the machine code that a GPU will run."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.resources import files
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace

from perfmodel.compiler.compiled import CompiledKernel, compile_kernel, compiler_of
from perfmodel.compiler.request import CompileRequest
from perfmodel.compiler.user_kernel import described_signature, user_request
from perfmodel.errors import InputError, PerfmodelError
from perfmodel.families.kernel_files import kernel_text
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.launch.arguments import Signature, kernel_call
from perfmodel.launch.launch import KernelCall
from perfmodel.profiles.executed_profile import Effort, execute
from perfmodel.profiles.profile_cache import encoded_profile
from perfmodel.profiles.user_launch import launch_of, require_fits
from perfmodel.records.schema import KernelResources
from perfmodel.simulator.simulation import Budget
from perfmodel.sources.kernel_source import read_kernel_source
from perfmodel.validation.timing import FLUSH_KERNEL

from .inputs import with_files
from .record import OWN_REPOSITORY, Parameter, PublicLaunch, PublicRecord

EFFORT = Effort(budget=Budget(seconds=300.0, memory_bytes=3 * 2**30))
LAUNCHES_PER_PROCESS = 8
CUBINS, INPUTS = "cubins", "inputs"
"""Folders of a prepared campaign."""
FLUSH = "flush.cubin"
"""The kernel that empties L2, in the folder of a prepared campaign."""


def source_of(launch: PublicLaunch, sources: Path) -> Path:
    """The launch's file, below ``sources`` in the folder ``owner+name`` of its repository.

    Raises:
        InputError: the file is missing, or not the one that the launch names.
    """
    path = (
        Path(str(files("perfmodel"))) / launch.path
        if launch.repository == OWN_REPOSITORY
        else sources / launch.repository.replace("/", "+") / launch.path
    )
    if not path.is_file():
        raise InputError(
            f"{launch.id}: {path} is missing; it is {launch.path} of {launch.repository} at {launch.commit}"
        )
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if launch.sha256 and found != launch.sha256:
        raise InputError(f"{launch.id}: {path} has SHA-256 {found}, the launch names {launch.sha256}")
    return path


def call_of(launch: PublicLaunch, signature: Signature, inputs: Path) -> KernelCall:
    """The arguments, alike wherever they are made."""
    return kernel_call(
        signature,
        [with_files(spec, inputs) for spec in launch.args],
        {name: with_files(spec, inputs) for name, spec in launch.constants.items()},
        np.random.default_rng(0),
    )


def write_flush(folder: Path, gpu_id: str) -> None:
    """Compile the kernel that empties L2 into a folder."""
    name = f"{FLUSH_KERNEL}.cu"
    request = CompileRequest(source=kernel_text("micro", name), kernel=FLUSH_KERNEL, file_name=name)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / FLUSH).write_bytes(compile_kernel(request, load_gpu(gpu_id).architecture.name).cubin)


def compiled_record(launch: PublicLaunch, sources: Path, folder: Path, gpu_id: str) -> PublicRecord:
    """Compile one launch; its machine code is kept in the folder."""
    compiled, request = compiled_launch(launch, sources, gpu_id)
    signature = described_signature(compiled, request)
    require_fits(launch_of(launch.configuration, compiled), compiled, load_gpu(gpu_id))
    call_of(launch, signature, folder / INPUTS)  # refuses what a GPU would be asked for in vain
    resources = _resources(launch, compiled)
    cubin = folder / CUBINS / f"{resources.cubin_sha256}.cubin"
    cubin.parent.mkdir(parents=True, exist_ok=True)
    cubin.write_bytes(compiled.cubin)
    return PublicRecord(
        launch=launch,
        kernel_name=compiled.kernel_name,
        parameters=tuple(
            Parameter(name=one.name, ptx_type=one.ptx_type, size_bytes=one.size_bytes, cpp_type=one.cpp_type)
            for one in signature.parameters
        ),
        resources=resources,
        code_sha256=compiled.code_digest,
        compiler_version=compiler_of(request),
        gpu=gpu_id,
    )


def _resources(launch: PublicLaunch, compiled: CompiledKernel) -> KernelResources:
    found = compiled.resources
    return KernelResources(
        registers_per_thread=found.registers_per_thread,
        static_shared_bytes=found.static_shared_bytes,
        dynamic_shared_bytes=launch.shared or 0,
        stack_bytes_per_thread=found.stack_bytes_per_thread,
        code_bytes=found.code_bytes,
        cubin_sha256=hashlib.sha256(compiled.cubin).hexdigest(),
    )


def is_measured_code(record: PublicRecord, compiled: CompiledKernel) -> bool:
    """Whether a kernel's machine code and resources are those of the record.

    Names of internal symbols, which depend on the host compiler and its headers, do not matter. A record that has no hash of its
    code is compared by size of the code, registers, shared memory and stack, of the same source.
    """
    found = _resources(record.launch, compiled)
    if record.resources.cubin_sha256 == found.cubin_sha256:
        return True
    alike = replace(found, cubin_sha256=record.resources.cubin_sha256) == record.resources
    return alike and record.code_sha256 in ("", compiled.code_digest)


def executed_record(record: PublicRecord, sources: Path, folder: Path, gpu_id: str) -> PublicRecord:
    """The record with the profile that execution gives.

    Raises:
        InputError: the compiler gives other machine code than was measured.
    """
    compiled, _ = compiled_launch(record.launch, sources, gpu_id)
    if not is_measured_code(record, compiled):
        raise InputError(f"{record.launch.id}: the machine code is not the one that was measured")
    shape = launch_of(record.launch.configuration, compiled)
    call = call_of(record.launch, record.signature, folder / INPUTS)
    found = execute(compiled, shape, call, load_gpu(gpu_id), EFFORT)
    profile, traces = encoded_profile(found.profile)
    return replace(
        record,
        code_sha256=compiled.code_digest,
        profile=profile,
        traces=traces,
        blocks_executed=found.blocks_executed,
        l1_hit_rate=None if math.isnan(found.l1_hit_rate) else found.l1_hit_rate,
    )


def compiled_launch(launch: PublicLaunch, sources: Path, gpu_id: str) -> tuple[CompiledKernel, CompileRequest]:
    """The compiled kernel of a launch, and what the compiler was asked for.

    Raises:
        InputError: as for `source_of`, or the source cannot be compiled.
    """
    top = sources / launch.repository.replace("/", "+")
    source = read_kernel_source(source_of(launch, sources), [top / one for one in launch.include])
    request = user_request(source, launch.kernel, dict(launch.defines))
    return compile_kernel(request, load_gpu(gpu_id).architecture.name), request


Outcome = PublicRecord | str
"""A record, or why there is none."""


def compile_all(
    launches: Sequence[PublicLaunch], sources: Path, folder: Path, gpu_id: str, *, workers: int
) -> Iterator[tuple[str, Outcome]]:
    """Id and record of each launch as it is compiled, in processes."""
    yield from _in_processes(partial(compiled_record, sources=sources, folder=folder, gpu_id=gpu_id), launches, workers)


def execute_all(
    records: Sequence[PublicRecord], sources: Path, folder: Path, gpu_id: str, *, workers: int
) -> Iterator[tuple[str, Outcome]]:
    """Id and completed record of each launch as it has been executed, in processes."""
    yield from _in_processes(partial(executed_record, sources=sources, folder=folder, gpu_id=gpu_id), records, workers)


def _in_processes(
    step: Callable[[Any], PublicRecord], items: Sequence[PublicLaunch | PublicRecord], workers: int
) -> Iterator[tuple[str, Outcome]]:
    with get_context("spawn").Pool(workers, maxtasksperchild=LAUNCHES_PER_PROCESS) as pool:
        yield from pool.imap_unordered(partial(_outcome, step), items)


def _outcome(step: Callable[[Any], PublicRecord], item: PublicLaunch | PublicRecord) -> tuple[str, Outcome]:
    launch_id = item.id if isinstance(item, PublicLaunch) else item.launch.id
    try:
        return launch_id, step(item)
    except PerfmodelError as error:
        return launch_id, str(error)
