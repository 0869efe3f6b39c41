"""Everything that compiling and executing say of one launch: counts, caches, serial structure, totals by instruction."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ..compiler import CompiledKernel
from ..facts import Facts
from ..gpu import Gpu
from ..launch import KernelCall, Launch
from ..simulator import Budget, InstructionCount, Mode, Module, Space, simulate
from ..simulator.executed_work import code_of, facts_of
from ..simulator.hierarchy import memory_hierarchy, with_hierarchy
from ..simulator.launch_classes import count_launch
from .round_trips import round_trips


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much is executed: every block or a sample drawn by the seed, and the budget of each simulation."""

    all_blocks: bool = False
    seed: int = 0
    budget: Budget = field(default_factory=Budget)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchFacts:
    """Facts of a launch with its caches simulated, and totals of each memory instruction."""

    facts: Facts
    instructions: tuple[InstructionCount, ...]
    blocks_executed: int
    l1_hit_rate: float


@dataclass(slots=True)
class _LoadsOfWarps:
    """Counts the global loads of each warp."""

    loads: dict[int, int] = field(default_factory=dict)

    def access(
        self,
        instruction: int,
        space: Space,
        store: bool,
        width: int,
        block: NDArray[np.int64],
        warp: NDArray[np.int64],
        addresses: NDArray[np.uint64],
        active: NDArray[np.bool_],
    ) -> None:
        """Count one instruction of some warps."""
        if not store:
            for number in warp.tolist():
                self.loads[number] = self.loads.get(number, 0) + 1


def launch_facts(
    compiled: CompiledKernel,
    module: Module,
    launch: Launch,
    call: KernelCall,
    gpu: Gpu,
    effort: Effort,
    *,
    instructions: bool = False,
) -> LaunchFacts:
    """Counts of a whole launch and what the time model needs beside them.

    Raises:
        SimulationError: the kernel cannot be executed on the CPU, or does something wrong that ends it.
    """
    name = compiled.kernel_name
    counted = count_launch(
        module,
        name,
        launch,
        call,
        all_blocks=effort.all_blocks,
        instructions=instructions,
        seed=effort.seed,
        budget=effort.budget,
    )
    profile = compiled.profile()
    code = None if profile.estimated else code_of(profile, counted, launch)
    base = facts_of(compiled, counted, launch)
    counts = base.counts
    caches = memory_hierarchy(
        module,
        name,
        launch,
        call,
        gpu,
        counts,
        compiled.resources,
        profile,
        code,
        shape=counted.shape,
        seed=effort.seed,
        budget=effort.budget,
    )
    loads = float(counts.global_load_requests + counts.async_copy_requests)
    slowest = _loads_of_slowest_warp(module, name, launch, call, effort.budget) if loads else 0
    trips = float(slowest) if code is None else round_trips(profile, code.block_executions, loads, slowest)
    facts = replace(
        base,
        counts=with_hierarchy(counts, caches),
        hierarchy=True,
        global_round_trips=trips,
        notes=(*base.notes, *caches.notes),
    )
    return LaunchFacts(
        facts=facts,
        instructions=counted.instructions,
        blocks_executed=counted.blocks_executed,
        l1_hit_rate=caches.l1_hit_rate,
    )


def _loads_of_slowest_warp(module: Module, kernel: str, launch: Launch, call: KernelCall, budget: Budget) -> int:
    """Global load requests of the warp that makes most of them, in the block at the middle of the grid."""
    gx, gy, gz = launch.grid
    middle = (gz // 2 * gy + gy // 2) * gx + gx // 2
    found = _LoadsOfWarps()
    simulate(
        module,
        kernel,
        launch,
        call,
        mode=Mode.TRACE,
        blocks=np.array([middle], np.int64),
        budget=budget,
        observer=found,
    )
    return max(found.loads.values(), default=0)
