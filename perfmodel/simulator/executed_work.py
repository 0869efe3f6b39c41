"""Facts of one configuration from execution: its PTX run on the CPU, its machine code counted by what ran."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

import numpy as np

from ..compiler import CompiledKernel
from ..compiler.sass import CodeProfile
from ..counts import INSTRUCTION_CLASSES, Counts
from ..facts import Facts
from ..launch import KernelCall, Launch
from .executed import ExecutedCode, PtxExecution, executed_counts
from .launch_classes import LaunchCounts, count_launch
from .module import Module, Space
from .parse import parse_module
from .recorder import Action

_CLASS_OF_ACCESS: Mapping[tuple[Action, Space], str] = {
    (Action.LOAD, Space.GLOBAL): "global_load",
    (Action.STORE, Space.GLOBAL): "global_store",
    (Action.LOAD, Space.SHARED): "shared_load",
    (Action.STORE, Space.SHARED): "shared_store",
    (Action.ASYNC_COPY, Space.SHARED): "async_copy",
}


@lru_cache(maxsize=4)
def _parsed(ptx: str) -> Module:
    """The module of a PTX text; one text serves several architectures, and its translation goes with the module."""
    return parse_module(ptx)


def executed_work(
    compiled: CompiledKernel, launch: Launch, call: KernelCall, *, all_blocks: bool = False, seed: int = 0
) -> Facts:
    """Resources and executed counts of one launch of a compiled kernel.

    Memory requests, sectors and wavefronts come from executing the PTX (`count_launch`), instruction classes and local memory
    from the machine code (`executed_counts`). Before sm_70, whose machine code is not decoded, instruction classes are those of
    the PTX.

    Raises:
        SimulationError: the kernel cannot be executed on the CPU.
    """
    counted = count_launch(_parsed(compiled.ptx), compiled.kernel_name, launch, call, all_blocks=all_blocks, seed=seed)
    profile = compiled.profile()
    code = None if profile.estimated else code_of(profile, counted, launch)
    return Facts(
        resources=replace(compiled.resources, dynamic_shared_bytes=int(launch.dynamic_shared_bytes)),
        counts=joined_counts(counted, code),
        loop_code_bytes=float(profile.largest_loop_bytes),
        exact=counted.exact and code is not None and code.exact,
        notes=counted.notes + _notes(profile, code),
    )


def code_of(profile: CodeProfile, counted: LaunchCounts, launch: Launch) -> ExecutedCode:
    """Executed machine code of a launch whose PTX has been counted."""
    requests: dict[tuple[str, int], float] = {}
    for (action, space, width), number in counted.requests.items():
        name = _CLASS_OF_ACCESS.get((action, space))
        if name is not None:
            requests[name, width] = requests.get((name, width), 0.0) + number
    execution = PtxExecution(
        visits=counted.visits,
        requests=requests,
        warps=float(launch.blocks * launch.warps_per_block),
        threads_per_block=int(launch.threads_per_block),
    )
    return executed_counts(profile, counted.kernel.blocks, execution)


def joined_counts(counted: LaunchCounts, code: ExecutedCode | None) -> Counts:
    """Accesses as executed in PTX, instructions and local memory as executed by the hardware."""
    if code is None:
        return counted.counts
    names = (*INSTRUCTION_CLASSES, "warp_instructions", "constant_load_requests", "local_load_sectors")
    taken = {name: float(np.asarray(getattr(code.counts, name))) for name in (*names, "local_store_sectors")}
    return replace(counted.counts, **taken)


def _notes(profile: CodeProfile, code: ExecutedCode | None) -> tuple[str, ...]:
    if code is None:
        return (f"instruction classes are those of PTX: {profile.architecture} code is not decoded",)
    notes = [f"PTX and machine code disagree: {text}" for text in code.disagreements]
    if profile.unknown_opcodes:
        unknown = ", ".join(f"0x{code:03x}" for code in profile.unknown_opcodes)
        notes.append(f"unknown machine opcodes count as control: {unknown}")
    if not code.exact and not notes:
        notes.append("loops of PTX and machine code do not correspond one to one: instructions are estimated")
    return tuple(notes)
