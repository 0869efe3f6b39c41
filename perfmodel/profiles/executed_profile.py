"""The profile of one launch from execution: its machine code run on the CPU, or its PTX where that is all there is."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np

from ..compiler.compiled import CompiledKernel
from ..errors import CompilerMissingError, SimulationError
from ..gpus.gpu import Gpu
from ..launch.launch import KernelCall, Launch
from ..machine_code.code_profile import profile_of
from ..machine_code.loads import loads_in_flight
from ..machine_code.program import MachineCode, read_machine_code
from ..memory.access_counts import InstructionCount
from ..memory.hierarchy import memory_hierarchy, with_hierarchy
from ..memory.instruction_fetch import instruction_sectors
from ..program.kernel import Kernel
from ..ptx.module import Module
from ..ptx.parse import parse_module
from ..simulator.execution import Code, executions, instructions_of_places
from ..simulator.simulation import Budget
from .blocks.launch_counts import LaunchCounts, count_launch
from .kernel_profile import TRAFFIC_COUNTS, KernelProfile
from .slowest_warp import slowest_warp
from .warp_traces import trace_warps


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


@lru_cache(maxsize=8)
def executable(compiled: CompiledKernel) -> tuple[Code, str | None]:
    """What is executed of a compiled kernel, and why it is not the machine code, where it is not.

    Machine code is executed from sm_70 on, where nvdisasm is installed and every instruction is known; the error says what is
    missing where there is no PTX either.
    """
    try:
        code = read_machine_code(compiled)
        instructions_of_places(code)
    except (SimulationError, CompilerMissingError) as reason:
        if not compiled.ptx:
            raise
        return parsed(compiled), f"counted from PTX, instructions are estimates: {reason}"
    return code, None


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
    instructions: bool = False,
    critical_path: bool = True,
) -> Execution:
    """Execute one launch of a compiled kernel.

    Every count is read off the machine code's instructions as they are executed. Where that cannot be executed (`executable`),
    the PTX is: its memory accesses are those of the machine code but for what the assembler merges or unrolls, and its
    instructions are estimates.

    Args:
        compiled: the kernel.
        launch: a single launch of it.
        call: its arguments.
        gpu: whose caches are simulated; None leaves the traffic behind L1 unknown.
        effort: how much is executed, and the budget.
        instructions: give totals of each memory instruction.
        critical_path: follow the slowest warp too; else what it waits for is unknown.

    Raises:
        SimulationError: the kernel cannot be executed on the CPU, or does something wrong that ends it.
    """
    effort = effort or Effort()
    code, reason = executable(compiled)
    counted = count_launch(
        code,
        launch,
        call,
        all_blocks=effort.all_blocks,
        seed=effort.seed,
        budget=effort.budget,
    )
    machine = profile_of(compiled)
    profile = KernelProfile(
        launch=replace(launch, static_shared_bytes=compiled.resources.static_shared_bytes),
        resources=replace(compiled.resources, dynamic_shared_bytes=int(launch.dynamic_shared_bytes)),
        counts=replace(counted.counts, **dict.fromkeys(TRAFFIC_COUNTS, np.nan)),
        global_round_trips=np.nan,
        loop_code_bytes=float(machine.largest_loop_bytes),
        constant_bytes=np.nan,
        read_only_share=np.nan,
        exact=counted.exact and reason is None,
    ).with_notes(*counted.notes, *([] if reason is None else [reason]))
    hit_rate = np.nan
    if gpu is not None:
        caches = memory_hierarchy(
            code,
            launch,
            call,
            gpu,
            profile.counts,
            compiled.resources,
            trips=loads_in_flight(machine) if reason is None else {},
            instruction_read_sectors=_fetched_code(code, compiled, counted, launch, gpu),
            shape=counted.shape,
            seed=effort.seed,
            budget=effort.budget,
        )
        hit_rate = caches.l1_hit_rate
        profile = replace(profile, counts=with_hierarchy(profile.counts, caches), caches_simulated=True)
        profile = profile.with_notes(*caches.notes)
    if critical_path:
        slowest = slowest_warp(compiled, code, counted.watched)
        profile = replace(
            profile,
            warp_cycles=slowest.cycles,
            longest_warp_instructions=slowest.instructions,
            global_round_trips=slowest.round_trips + slowest.copy_round_trips,
            read_only_share=slowest.read_only_share,
        )
    if gpu is not None and critical_path and isinstance(code, MachineCode):
        profile = replace(profile, traces=trace_warps(code, launch, call, effort.budget))
    return Execution(
        profile=profile,
        instructions=counted.instructions,
        blocks_executed=counted.blocks_executed,
        l1_hit_rate=hit_rate,
    )


def _fetched_code(code: Code, compiled: CompiledKernel, counted: LaunchCounts, launch: Launch, gpu: Gpu) -> float:
    """Sectors of code that the launch fetches from L2; 0 where the machine code is not executed."""
    profile = profile_of(compiled)
    if not isinstance(code, MachineCode) or profile.flow is None:
        return 0.0
    return instruction_sectors(profile, executions(code, counted.visits)[profile.flow.first], launch, gpu)
