"""Everything that compiling and executing say of one launch: counts, caches, serial structure, totals by instruction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ..compiler import CompiledKernel
from ..compiler.sass import CodeProfile
from ..definitions import WARP_SIZE
from ..facts import Facts
from ..gpu import Gpu
from ..launch import KernelCall, Launch
from ..simulator import Budget, InstructionCount, Module
from ..simulator.executed_work import code_of, facts_of
from ..simulator.hierarchy import memory_hierarchy, with_hierarchy
from ..simulator.launch_classes import LaunchCounts, count_launch
from .round_trips import round_trips
from .warp_visits import visits_of_warps


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
    visits = visits_of_warps(module, name, launch, call, counted.visits, effort.budget)
    trips = _round_trips(profile, counted, launch, visits)
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


def _round_trips(
    profile: CodeProfile, counted: LaunchCounts, launch: Launch, visits: Sequence[NDArray[np.float64]]
) -> float:
    """Round trips by the machine code; before sm_70, whose code is not decoded, one for each block of PTX that loads."""
    if profile.estimated:
        blocks = counted.kernel.blocks
        loads = np.array([any(i.name == "ld" and "global" in i.parts for i in block.instructions) for block in blocks])
        return max((float(one[loads].sum()) for one in visits), default=0.0)
    single = replace(launch, grid_x=1, grid_y=1, grid_z=1, block_x=WARP_SIZE, block_y=1, block_z=1)
    each = [code_of(profile, replace(counted, visits=one, requests={}), single) for one in visits]
    return round_trips(profile, [code.block_executions for code in each])
