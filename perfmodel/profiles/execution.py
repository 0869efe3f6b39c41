"""Facts from execution: a configuration compiled and run in the simulator on the problem's own sizes."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..compiler.compiled import compile_kernel
from ..families.base import Batch, Family
from ..gpus.gpu import Gpu
from ..launch.launch import KernelCall, Launch
from ..prediction.prediction import Fidelity
from .facts import Facts, take_launch
from .profile_cache import facts_key, fetch_facts, keep_facts


@functools.lru_cache(maxsize=2)
def _inputs(family: Family[Any, Any], problem: Any) -> Mapping[str, Any]:
    """The problem's inputs; counts hardly ever depend on their values, and then the same ones must be used each time."""
    return family.inputs(problem, np.random.default_rng(0))


def _launch_and_call(family: Family[Any, Any], problem: Any, configuration: Any, gpu: Gpu) -> tuple[Launch, KernelCall]:
    launch = take_launch(family.launch(problem, Batch.of([configuration]), gpu), 0)
    return launch, family.call(problem, configuration, gpu, _inputs(family, problem))


def _key(family: Family[Any, Any], problem: Any, configuration: Any, gpu: Gpu, fidelity: Fidelity) -> str:
    request = family.compile_request(problem, configuration, gpu)
    return facts_key(request, gpu, (*family.facts_identity(problem, configuration), fidelity))


def remembered_facts(
    family: Family[Any, Any], problem: Any, configuration: Any, gpu: Gpu, fidelity: Fidelity
) -> Facts | None:
    """Facts of an earlier execution by the same code, None where the disk cache has none."""
    return fetch_facts(_key(family, problem, configuration, gpu, fidelity))


def executed_facts(family: Family[Any, Any], problem: Any, configuration: Any, gpu: Gpu, fidelity: Fidelity) -> Facts:
    """Resources and executed counts of one configuration, kept on disk; at simulated fidelity with simulated caches.

    Raises ``CompileError`` or ``SimulationError`` where it cannot be compiled or executed.
    """
    from .executed_work import executed_work, parsed
    from .slowest_warp import slowest_warp, with_serial

    found = family.facts(problem, configuration, gpu)
    if found is None:
        launch, call = _launch_and_call(family, problem, configuration, gpu)
        kernel = compile_kernel(family.compile_request(problem, configuration, gpu), gpu.architecture.name)
        found = executed_work(kernel, launch, call, gpu if fidelity is Fidelity.SIMULATED else None)
        if fidelity is Fidelity.SIMULATED or not family.serial_closed_forms:
            found = with_serial(found, slowest_warp(kernel, parsed(kernel), launch, call))
    keep_facts(_key(family, problem, configuration, gpu, fidelity), found)
    return found


def executed_facts_each(family: Family[Any, Any], problem: Any, configuration: Any, gpus: Sequence[Gpu]) -> list[Facts]:
    """The same, compiled fidelity, for several GPUs whose launch is the same; what they share is executed once."""
    from .executed_work import executed_work_each, parsed
    from .slowest_warp import slowest_warp, with_serial

    request = family.compile_request(problem, configuration, gpus[0])
    kernels = [compile_kernel(request, gpu.architecture.name) for gpu in gpus]
    launch, call = _launch_and_call(family, problem, configuration, gpus[0])
    found = executed_work_each(kernels, launch, call)
    if family.serial_closed_forms:
        return found
    return [
        with_serial(facts, slowest_warp(kernel, parsed(kernel), launch, call))
        for kernel, facts in zip(kernels, found, strict=True)
    ]
