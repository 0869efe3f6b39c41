"""Counts of a launch with the global loads that the machine code makes, where these are fewer than those of the PTX."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from ...compiler.compiled import CompiledKernel
from ...launch.launch import KernelCall, Launch
from ...machine_code.code_profile import profile_of
from ...program.instruction import Space
from ...program.kernel import Kernel
from ...simulator.access import Action
from ...simulator.simulation import Budget
from ..blocks.launch_classes import LaunchCounts
from .executed import Disagreement
from .executed_code import code_of
from .invariant_loads import with_invariant_loads_outside
from .repeated_loads import without_repeated_loads

Recount = Callable[[Kernel], LaunchCounts]
"""Counts of the same launch of another version of its kernel."""


def with_assembled_loads(
    compiled: CompiledKernel,
    counted: LaunchCounts,
    launch: Launch,
    call: KernelCall,
    recount: Recount,
    budget: Budget | None = None,
) -> LaunchCounts:
    """The launch counted without the loads that the assembler left out; as it was counted where that is not found out.

    Left out are loads of what a register holds already and of what does not change in a loop. A version of the PTX without
    them is believed if it makes as many requests as the machine code: of loads whose addresses differ none can be missing, so
    that their number alone says which are left. Where the machine code may execute more, because some of its loads stand under
    a predicate, the counts are not exact.

    Args:
        compiled: the kernel.
        counted: the counts of the launch as the PTX stands.
        launch: the launch.
        call: its arguments.
        recount: counts it again.
        budget: of each simulation that looks for equal addresses.
    """
    before = _of_loads(compiled, counted, launch)
    if not any(one.ptx > one.most for one in before):
        return counted
    for kernel in _versions(counted.kernel, launch, call, budget):
        again = recount(kernel)
        if not _of_loads(compiled, again, launch):
            certain = all(_requests(again, one.width_bytes) > one.most - 0.5 for one in before)
            return replace(again, exact=again.exact and certain, notes=(*again.notes, *map(_note, before)))
    return counted


def _requests(counted: LaunchCounts, width_bytes: int) -> float:
    return counted.requests.get((Action.LOAD, Space.GLOBAL, width_bytes), 0.0)


def _of_loads(compiled: CompiledKernel, counted: LaunchCounts, launch: Launch) -> tuple[Disagreement, ...]:
    """Widths of global loads in which PTX and machine code disagree; none where the machine code is not decoded."""
    profile = profile_of(compiled)
    if profile.estimated:
        return ()
    return tuple(one for one in code_of(profile, counted, launch).disagreements if one.name == "global_load")


def _versions(kernel: Kernel, launch: Launch, call: KernelCall, budget: Budget | None) -> Iterator[Kernel]:
    """The kernel without loads that repeat another one; the same with loads in front of loops that repeat them, loop by loop."""
    while True:
        distinct = without_repeated_loads(kernel, launch, call, budget)
        if distinct is not kernel:
            yield distinct
        outside = with_invariant_loads_outside(kernel)
        if outside is kernel:
            return
        yield outside
        kernel = outside


def _note(before: Disagreement) -> str:
    """What was left out of one width."""
    loads = f"{before.ptx:.0f} global loads of {before.width_bytes} bytes in PTX"
    return f"{loads}: the assembler leaves out those that repeat an address, {before.most:.0f} are executed"
