"""The profile of one launch from execution: its PTX run on the CPU, its machine code counted by what ran."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np

from ..compiler.compiled import CompiledKernel
from ..core.counts import INSTRUCTION_CLASSES, Counts
from ..gpus.gpu import Gpu
from ..launch.launch import KernelCall, Launch
from ..machine_code.code_profile import CodeProfile, profile_of
from ..memory.access_counts import InstructionCount
from ..memory.hierarchy import memory_hierarchy, with_hierarchy
from ..program.kernel import Kernel
from ..ptx.module import Module
from ..ptx.parse import parse_module
from ..simulator.simulation import Budget
from .blocks.launch_classes import LaunchCounts, count_launch
from .kernel_profile import TRAFFIC_COUNTS, KernelProfile
from .matching.assembled import with_assembled_loads
from .matching.executed import ExecutedCode
from .matching.executed_code import code_of, fetched_code
from .matching.load_trips import load_trips
from .slowest_warp import slowest_warp

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much is executed: every block or a sample drawn by the seed, and the budget of each simulation."""

    all_blocks: bool = False
    seed: int = 0
    budget: Budget = field(default_factory=Budget)


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """The profile of an executed launch, and what else its execution gave.

    ``instructions`` are totals of each memory instruction where they were asked for; ``l1_hit_rate`` is NaN where no caches
    were simulated.
    """

    profile: KernelProfile
    instructions: tuple[InstructionCount, ...]
    blocks_executed: int
    l1_hit_rate: float


@lru_cache(maxsize=4)
def _module(ptx: str) -> Module:
    return parse_module(ptx)


def parsed(compiled: CompiledKernel) -> Kernel:
    """The kernel of a compiled kernel's PTX; one text serves several architectures, and its translation goes with it."""
    return _module(compiled.ptx).kernel(compiled.kernel_name)


def executed_profile(
    compiled: CompiledKernel,
    launch: Launch,
    call: KernelCall,
    gpu: Gpu | None = None,
    effort: Effort | None = None,
    *,
    critical_path: bool = True,
) -> KernelProfile:
    """The profile of one launch of a compiled kernel; arguments and errors as for `execute`."""
    return execute(compiled, launch, call, gpu, effort, critical_path=critical_path).profile


def execute(
    compiled: CompiledKernel,
    launch: Launch,
    call: KernelCall,
    gpu: Gpu | None = None,
    effort: Effort | None = None,
    *,
    kernel: Kernel | None = None,
    instructions: bool = False,
    critical_path: bool = True,
    counted: dict[str, LaunchCounts] | None = None,
) -> Execution:
    """Execute one launch of a compiled kernel.

    Memory requests, sectors and wavefronts come from the PTX (`count_launch`), instruction classes and local memory from the
    machine code (`executed_counts`). Before sm_70, whose machine code is not decoded, instruction classes are those of the
    PTX.

    Args:
        compiled: the kernel.
        launch: a single launch of it.
        call: its arguments.
        gpu: whose caches are simulated; None leaves the traffic behind L1 unknown.
        effort: how much is executed, and the budget.
        kernel: its parsed PTX, where that is at hand.
        instructions: give totals of each memory instruction.
        critical_path: follow the slowest warp too; else what it waits for is unknown.
        counted: counts by PTX text, which is executed once for several architectures; new ones are added.

    Raises:
        SimulationError: the kernel cannot be executed on the CPU, or does something wrong that ends it.
    """
    effort = effort or Effort()
    counted = {} if counted is None else counted

    def count(version: Kernel) -> LaunchCounts:
        return count_launch(
            version,
            launch,
            call,
            all_blocks=effort.all_blocks,
            instructions=instructions,
            seed=effort.seed,
            budget=effort.budget,
        )

    if compiled.ptx not in counted:
        counted[compiled.ptx] = count(parsed(compiled) if kernel is None else kernel)
    found = with_assembled_loads(compiled, counted[compiled.ptx], launch, call, count, effort.budget)
    machine = profile_of(compiled)
    code = None if machine.estimated else code_of(machine, found, launch)
    profile = KernelProfile(
        launch=replace(launch, static_shared_bytes=compiled.resources.static_shared_bytes),
        resources=replace(compiled.resources, dynamic_shared_bytes=int(launch.dynamic_shared_bytes)),
        counts=replace(joined_counts(found, code), **dict.fromkeys(TRAFFIC_COUNTS, np.nan)),
        global_round_trips=np.nan,
        loop_code_bytes=float(machine.largest_loop_bytes),
        constant_bytes=np.nan,
        read_only_share=np.nan,
        exact=found.exact and code is not None and code.exact,
    ).with_notes(*found.notes, *_notes(machine, code))
    hit_rate = np.nan
    if gpu is not None:
        caches = memory_hierarchy(
            found.kernel,
            launch,
            call,
            gpu,
            profile.counts,
            compiled.resources,
            trips=load_trips(found.kernel, machine),
            instruction_read_sectors=fetched_code(machine, code, launch, gpu),
            shape=found.shape,
            seed=effort.seed,
            budget=effort.budget,
        )
        hit_rate = caches.l1_hit_rate
        profile = replace(profile, counts=with_hierarchy(profile.counts, caches), caches_simulated=True)
        profile = profile.with_notes(*caches.notes)
    if critical_path:
        slowest = slowest_warp(compiled, found.kernel, found.watched)
        profile = replace(
            profile,
            warp_cycles=slowest.cycles,
            longest_warp_instructions=slowest.instructions,
            global_round_trips=slowest.round_trips + slowest.copy_round_trips,
            read_only_share=slowest.read_only_share,
        )
    return Execution(
        profile=profile,
        instructions=found.instructions,
        blocks_executed=found.blocks_executed,
        l1_hit_rate=hit_rate,
    )


def joined_counts(counted: LaunchCounts, code: ExecutedCode | None) -> Counts:
    """Accesses as executed in PTX; instructions and local memory as executed by the hardware.

    Where the assembler joined shared accesses to wider ones, one of those has the wavefronts of one of the narrow ones: as
    many lanes share words, and where each lane reads several words in a row, the narrow ones conflicted.
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
