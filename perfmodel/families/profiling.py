"""Profiles of a family's configurations: stored, kept on disk, or compiled and executed."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import Enum
from typing import Any

import numpy as np

from ..compiler.compiled import CompiledKernel, compile_kernel
from ..compiler.pool import compile_many, run_many, warm_up
from ..compiler.toolchain import nvrtc, ptxas_path
from ..core.json_values import plain
from ..core.progress import Advance, no_progress
from ..errors import InputError, PerfmodelError
from ..gpus.gpu import Gpu
from ..launch.launch import KernelCall, Launch
from ..machine_code.disassembly import disassemble_together
from ..profiles.counts_store import CountsStore, load_store, store_key
from ..profiles.kernel_profile import Fidelity, KernelProfile
from ..profiles.profile_cache import fetch_profile, keep_profile, profile_key
from .base import Batch, Family

Outcome = KernelProfile | PerfmodelError
"""Profile of a configuration, or why there is none."""


def fidelity_of(family: Family[Any, Any], asked: Fidelity) -> Fidelity:
    """The fidelity of a family's configurations: that asked for, but ``simulated`` for a family without closed forms.

    Raises:
        InputError: closed forms are asked for where there are none.
    """
    if family.closed_forms:
        return asked
    if asked is Fidelity.ANALYTIC:
        raise InputError(f"{family.name} has no closed forms: fidelity {asked.value!r} is not available")
    return Fidelity.SIMULATED


APPROXIMATE_NOTE = "counts of an equivalent configuration: the same requests, instructions may differ by a few"


@functools.lru_cache(maxsize=2)
def _inputs(family: Family[Any, Any], problem: Any) -> Mapping[str, Any]:
    """The problem's inputs; counts hardly ever depend on their values, and then the same ones must be used each time."""
    return family.inputs(problem, np.random.default_rng(0))


def _launch_and_call(family: Family[Any, Any], problem: Any, configuration: Any, gpu: Gpu) -> tuple[Launch, KernelCall]:
    launch = family.launch(problem, Batch.of([configuration]), gpu).at(0)
    return launch, family.call(problem, configuration, gpu, _inputs(family, problem))


class Depth(Enum):
    """How much of a launch is executed."""

    MIDDLE_BLOCK = "middle block"
    """One block; closed forms count the memory accesses of all."""
    WHOLE = "whole"
    """Every kind of block, so that all is counted, as the counts store has it."""
    CACHES = "caches"
    """With simulated caches, too."""


Job = tuple[Family[Any, Any], Any, Any, Gpu, Depth]
"""Whose profile is wanted: family, problem, configuration, GPU, and how much is executed."""


def depth_of(fidelity: Fidelity) -> Depth:
    """What is executed of a launch at a fidelity."""
    return Depth.CACHES if fidelity is Fidelity.SIMULATED else Depth.MIDDLE_BLOCK


def _key(family: Family[Any, Any], problem: Any, configuration: Any, gpu: Gpu, depth: Depth) -> str:
    request = family.compile_request(problem, configuration, gpu)
    closed = _closed(family, problem, configuration, gpu) if depth is Depth.MIDDLE_BLOCK else None
    return profile_key(request, gpu, (*family.profile_identity(problem, configuration), depth, closed))


def _closed(family: Family[Any, Any], problem: Any, configuration: Any, gpu: Gpu) -> tuple[float | None, float]:
    """What closed forms say of a launch of which one block is executed: memory requests, None where inexact, and copies."""
    closed = family.closed_counts(problem, Batch.of([configuration]), gpu).at(0)
    requests = float(closed.memory_requests) if family.counts_accesses(configuration) else None
    return requests, float(closed.async_copy_requests)


def remembered_profile(
    family: Family[Any, Any], problem: Any, configuration: Any, gpu: Gpu, depth: Depth
) -> KernelProfile | None:
    """The profile of an earlier execution by the same code, None where the disk cache has none."""
    return fetch_profile(_key(family, problem, configuration, gpu, depth))


def configuration_profile(
    family: Family[Any, Any], problem: Any, configuration: Any, gpu: Gpu, depth: Depth
) -> KernelProfile:
    """The profile of one configuration, compiled and executed, kept on disk.

    Raises ``CompileError`` or ``SimulationError`` where it cannot be compiled or executed.
    """
    found = family.executed_profile(problem, configuration, gpu)
    if found is None:
        found = _executed(family, problem, configuration, gpu, depth)
    keep_profile(_key(family, problem, configuration, gpu, depth), found)
    return found


def _executed(family: Family[Any, Any], problem: Any, configuration: Any, gpu: Gpu, depth: Depth) -> KernelProfile:
    from ..profiles.executed_profile import executed_profile
    from ..profiles.middle_block import middle_block_profile

    launch, call = _launch_and_call(family, problem, configuration, gpu)
    kernel = compile_kernel(family.compile_request(problem, configuration, gpu), gpu.architecture.name)
    path = depth is Depth.CACHES or not family.closed_critical_path
    if depth is Depth.MIDDLE_BLOCK:
        requests, copies = _closed(family, problem, configuration, gpu)
        found = middle_block_profile(kernel, launch, call, requests, gpu.sm_count, critical_path=path)
        return _with_closed_copies(found, copies)
    found = executed_profile(kernel, launch, call, gpu if depth is Depth.CACHES else None, critical_path=path)
    return _with_closed_copies(found, found.counts.async_copy_requests)


def _with_closed_copies(profile: KernelProfile, copies: float) -> KernelProfile:
    """How far asynchronous copies run ahead of their use does not show in the scoreboards: a closed form has to say it."""
    return replace(profile, global_round_trips=np.nan) if copies > 0 else profile


def stored_profiles(
    family: Family[Any, Any],
    problem: Any,
    configurations: Sequence[Any],
    gpu: Gpu,
    store: CountsStore,
    *,
    equivalents: bool = False,
) -> list[KernelProfile | None]:
    """What the store has of each configuration; with ``equivalents`` also by ``Family.equivalents``, then not exact."""
    if not len(store) or not configurations:
        return [None] * len(configurations)
    launches = family.launch(problem, Batch.of(configurations), gpu)

    def find(configuration: Any, launch: Launch) -> KernelProfile | None:
        request = family.compile_request(problem, configuration, gpu)
        return store.find(store_key(request, problem, gpu.architecture.name, store.compiler), launch)

    found: list[KernelProfile | None] = []
    for index, configuration in enumerate(configurations):
        launch = launches.at(index)
        profile = find(configuration, launch)
        for other in family.equivalents(configuration) if profile is None and equivalents else ():
            known = find(other, launch)
            if known is not None:
                profile = replace(known, launch=launch, exact=False, approximate=True, notes=APPROXIMATE_NOTE)
                break
        found.append(profile)
    return found


def start_workers() -> None:
    """Start the processes in which `gather_profiles` compiles and executes, so that they are ready when it is called."""
    warm_up("perfmodel.profiles.middle_block")


def gather_profiles(
    family: Family[Any, Any],
    problem: Any,
    batch: Batch[Any],
    gpu: Gpu,
    *,
    fidelity: Fidelity = Fidelity.COMPILED,
    depth: Depth | None = None,
    use_store: bool = True,
    equivalents: bool = False,
    stored_only: bool = False,
    stores: Sequence[CountsStore] | None = None,
    advance: Advance = no_progress,
) -> list[Outcome]:
    """Profiles of every configuration of the batch, in order; ``advance`` is called once for each.

    The stores are asked first (compiled fidelity only; the family's own where None are given), one after the other, then the
    disk cache; what all lack is compiled and executed in parallel, to the ``depth`` given or that of the
    fidelity. Stores keep counts alone: give none to follow what warps issue.
    Without ``use_store`` everything is compiled and executed anew; with ``stored_only`` nothing is.
    """
    depth = depth or depth_of(fidelity)
    configurations = [batch.configuration(i) for i in range(len(batch))]
    outcomes: dict[int, Outcome] = {}
    if use_store and fidelity is Fidelity.COMPILED:
        for store in (load_store(family.name),) if stores is None else stores:
            lacking = [i for i in range(len(batch)) if i not in outcomes]
            asked = [configurations[i] for i in lacking]
            stored = stored_profiles(family, problem, asked, gpu, store, equivalents=equivalents)
            outcomes |= {i: profile for i, profile in zip(lacking, stored, strict=True) if profile is not None}
        for _ in outcomes:
            advance()
    missing = [i for i in range(len(batch)) if i not in outcomes]
    if stored_only:
        absent = PerfmodelError(f"not in the counts store of {family.name} for {gpu.architecture.name}")
        return [outcomes.get(i, absent) for i in range(len(batch))]
    if missing:
        nvrtc(), ptxas_path()
    if use_store:
        for i in missing:
            known = remembered_profile(family, problem, configurations[i], gpu, depth)
            if known is not None:
                outcomes[i] = known
                advance()
        missing = [i for i in missing if i not in outcomes]
    jobs = [(family, problem, configurations[i], gpu, depth) for i in missing]
    compile_together(jobs)
    fresh = run_many(configuration_profile, jobs, describe=_described, advance=advance)
    outcomes |= dict(zip(missing, fresh, strict=True))
    return [outcomes[i] for i in range(len(batch))]


def compile_together(jobs: Sequence[Job], workers: int | None = None) -> None:
    """Compile what `configuration_profile` asks for, and disassemble all of an architecture at once, into the disk cache."""
    requests = [
        (family.compile_request(problem, configuration, gpu), gpu.architecture.name)
        for family, problem, configuration, gpu, _ in jobs
        if family.closed_forms
    ]
    cubins: dict[str, list[bytes]] = {}
    for kernel in compile_many(requests, workers=workers) if len(requests) > 1 else ():
        if isinstance(kernel, CompiledKernel):
            cubins.setdefault(kernel.architecture, []).append(kernel.cubin)
    for together in cubins.values():
        disassemble_together(together)


def _described(family: Family[Any, Any], problem: Any, configuration: Any, gpu: Gpu, depth: Depth) -> str:
    return f"{family.name} {plain(configuration)} for {gpu.id}"
