"""Facts of one configuration from execution: its PTX run on the CPU, its machine code counted by what ran."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from ..compiler.compiled import CompiledKernel
from ..core.counts import INSTRUCTION_CLASSES, Counts
from ..gpus.gpu import Gpu
from ..launch.launch import KernelCall, Launch
from ..machine_code.chains import independent_chains
from ..machine_code.code_profile import CodeProfile, profile_of
from ..memory.hierarchy import memory_hierarchy, with_hierarchy
from ..program.kernel import Kernel
from ..ptx.module import Module
from ..ptx.parse import parse_module
from .blocks.launch_classes import LaunchCounts, count_launch
from .facts import Facts
from .matching.assembled import with_assembled_loads
from .matching.executed import ExecutedCode
from .matching.executed_code import code_of, fetched_code
from .matching.load_trips import load_trips

_OF_MACHINE_CODE = (
    *INSTRUCTION_CLASSES,
    "warp_instructions",
    "constant_load_requests",
    "shared_load_predicated_off",
    "shared_store_predicated_off",
    "async_copy_predicated_off",
    "local_load_sectors",
    "local_store_sectors",
)
"""Counts that the hardware takes from the instructions it executes; the others are those of the executed PTX."""


@lru_cache(maxsize=4)
def _module(ptx: str) -> Module:
    return parse_module(ptx)


def parsed(compiled: CompiledKernel) -> Kernel:
    """The kernel of a compiled kernel's PTX; one text serves several architectures, and its translation goes with it."""
    return _module(compiled.ptx).kernel(compiled.kernel_name)


def executed_work(
    compiled: CompiledKernel,
    launch: Launch,
    call: KernelCall,
    gpu: Gpu | None = None,
    *,
    all_blocks: bool = False,
    seed: int = 0,
) -> Facts:
    """Resources and executed counts of one launch of a compiled kernel.

    Memory requests, sectors and wavefronts come from executing the PTX (`count_launch`), instruction classes and local memory
    from the machine code (`executed_counts`). Before sm_70, whose machine code is not decoded, instruction classes are those of
    the PTX.

    Args:
        compiled: the kernel.
        launch: a single launch of it.
        call: its arguments.
        gpu: whose caches are simulated too (`memory_hierarchy`); None leaves the traffic behind L1 at 0.
        all_blocks: execute every block.
        seed: of the blocks that are drawn.

    Raises:
        SimulationError: the kernel cannot be executed on the CPU.
    """

    def count(kernel: Kernel) -> LaunchCounts:
        return count_launch(kernel, launch, call, all_blocks=all_blocks, seed=seed)

    counted = with_assembled_loads(compiled, count(parsed(compiled)), launch, call, count)
    facts = facts_of(compiled, counted, launch)
    return facts if gpu is None else with_caches(facts, compiled, counted, launch, call, gpu, seed=seed)


def with_caches(
    facts: Facts,
    compiled: CompiledKernel,
    counted: LaunchCounts,
    launch: Launch,
    call: KernelCall,
    gpu: Gpu,
    *,
    seed: int = 0,
) -> Facts:
    """The facts with the traffic behind L1 on a GPU put in."""
    profile = profile_of(compiled)
    code = None if profile.estimated else code_of(profile, counted, launch)
    found = memory_hierarchy(
        counted.kernel,
        launch,
        call,
        gpu,
        facts.counts,
        facts.resources,
        trips=load_trips(counted.kernel, profile),
        instruction_read_sectors=fetched_code(profile, code, launch, gpu),
        shape=counted.shape,
        seed=seed,
    )
    counts = with_hierarchy(facts.counts, found)
    return replace(facts, counts=counts, hierarchy=True, notes=facts.notes + found.notes)


def executed_work_each(kernels: Sequence[CompiledKernel], launch: Launch, call: KernelCall) -> list[Facts]:
    """`executed_work` of one kernel compiled for several architectures; the same PTX is executed once."""
    counted: dict[str, LaunchCounts] = {}
    found = []
    for kernel in kernels:

        def count(version: Kernel) -> LaunchCounts:
            return count_launch(version, launch, call)

        if kernel.ptx not in counted:
            counted[kernel.ptx] = count(parsed(kernel))
        loaded = with_assembled_loads(kernel, counted[kernel.ptx], launch, call, count)
        found.append(facts_of(kernel, loaded, launch))
    return found


def facts_of(compiled: CompiledKernel, counted: LaunchCounts, launch: Launch) -> Facts:
    """Facts from the counted PTX of a launch and the machine code of one architecture."""
    profile = profile_of(compiled)
    code = None if profile.estimated else code_of(profile, counted, launch)
    return Facts(
        resources=replace(compiled.resources, dynamic_shared_bytes=int(launch.dynamic_shared_bytes)),
        counts=joined_counts(counted, code),
        loop_code_bytes=float(profile.largest_loop_bytes),
        independent_chains=None if code is None else independent_chains(profile, code.block_executions),
        exact=counted.exact and code is not None and code.exact,
        notes=counted.notes + _notes(profile, code),
    )


def joined_counts(counted: LaunchCounts, code: ExecutedCode | None) -> Counts:
    """Accesses as executed in PTX; instructions and local memory as executed by the hardware.

    Where the assembler joined shared accesses to wider ones, one of those has the wavefronts of one of the narrow ones: as
    many lanes share words, and where lanes stand apart by what each of them reads, the narrow ones conflicted.
    """
    if code is None:
        return counted.counts
    own = {name: float(np.asarray(getattr(code.counts, name))) for name in _OF_MACHINE_CODE}
    wider = {
        f"{name}_{what}": float(np.asarray(getattr(counted.counts, f"{name}_{what}"))) * part
        for name, part in code.joined.items()
        for what in ("requests", "wavefronts")
    }
    return replace(counted.counts, **own, **wider)


def _notes(profile: CodeProfile, code: ExecutedCode | None) -> tuple[str, ...]:
    if code is None:
        return (f"instruction classes are those of PTX: {profile.architecture} code is not decoded",)
    notes = [f"PTX and machine code disagree: {one.text}" for one in code.disagreements]
    if profile.unknown_opcodes:
        unknown = ", ".join(f"0x{code:03x}" for code in profile.unknown_opcodes)
        notes.append(f"unknown machine opcodes count as control: {unknown}")
    if not code.exact and not notes:
        notes.append("loops of PTX and machine code do not correspond one to one: instructions are estimated")
    return tuple(notes)
