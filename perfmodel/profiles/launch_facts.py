"""Everything that compiling and executing say of one launch: counts, caches, serial structure, totals by instruction."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ..compiler.compiled import CompiledKernel
from ..gpus.gpu import Gpu
from ..launch.launch import KernelCall, Launch
from ..machine_code.code_profile import profile_of
from ..memory.access_counts import InstructionCount
from ..memory.hierarchy import memory_hierarchy, with_hierarchy
from ..program.kernel import Kernel
from ..simulator.simulation import Budget
from .blocks.launch_classes import LaunchCounts, count_launch
from .executed_work import facts_of
from .facts import Facts
from .matching.assembled import with_assembled_loads
from .matching.executed_code import code_of, fetched_code
from .matching.load_trips import load_trips
from .slowest_warp import watched_warp, with_serial


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
    kernel: Kernel,
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

    counted = with_assembled_loads(compiled, count(kernel), launch, call, count, effort.budget)
    profile = profile_of(compiled)
    code = None if profile.estimated else code_of(profile, counted, launch)
    base = facts_of(compiled, counted, launch)
    counts = base.counts
    caches = memory_hierarchy(
        counted.kernel,
        launch,
        call,
        gpu,
        counts,
        compiled.resources,
        trips=load_trips(counted.kernel, profile),
        instruction_read_sectors=fetched_code(profile, code, launch, gpu),
        shape=counted.shape,
        seed=effort.seed,
        budget=effort.budget,
    )
    slowest = watched_warp(compiled, counted.kernel, counted.watched)
    facts = replace(
        with_serial(base, slowest),
        global_round_trips=slowest.round_trips + slowest.copy_round_trips,
        counts=with_hierarchy(counts, caches),
        hierarchy=True,
        notes=(*base.notes, *caches.notes),
    )
    return LaunchFacts(
        facts=facts,
        instructions=counted.instructions,
        blocks_executed=counted.blocks_executed,
        l1_hit_rate=caches.l1_hit_rate,
    )
