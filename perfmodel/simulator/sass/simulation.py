"""Simulate a launch of machine code: the same engine and result as for PTX, with the instructions that the hardware issues."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ...launch.launch import KernelCall, Launch
from ...machine_code.instruction import MachineInstruction
from ...machine_code.program import MachineCode
from ..access import Observers
from ..block_classes.classes import BlockClasses
from ..faults import FATAL
from ..simulation import Budget, Mode, Simulation, block_ids, check_launch, outputs_of, run_blocks
from ..translate.slices import WITHIN_BLOCK
from .environment import make_environment
from .program import MachineProgram
from .schedule import MachineScheduler
from .translation import MachineTranslation


def _translation(kernel: MachineCode, trace: bool) -> MachineTranslation:
    """The translation for a mode, kept with the kernel."""
    translation = kernel.translations.get(trace)
    if not isinstance(translation, MachineTranslation):
        translation = MachineTranslation(kernel, trace)
        kernel.translations[trace] = translation
    return translation


def units_of(kernel: MachineCode) -> tuple[tuple[MachineInstruction, ...], ...]:
    """Instructions of each unit, the stretches of basic blocks between waits whose visits a simulation counts.

    Raises:
        SimulationError: an instruction is not executed; the text names it and what it needs.
    """
    return tuple(unit.instructions for unit in _translation(kernel, True).program.units)  # type: ignore[misc]


def steering_instructions(kernel: MachineCode) -> frozenset[int]:
    """Indices of the instructions that load what a branch, an address or a guard of a memory access depends on.

    What a kernel writes to global memory itself is not followed to where it reads it again.
    """
    program = MachineProgram(kernel, True, WITHIN_BLOCK)
    return frozenset(
        index
        for index, effect in enumerate(program.effects)
        if effect.reads_space is not None
        and (effect.writes & program.live_after[index] or effect.writes_space in program.kept)
    )


def order_decides(kernel: MachineCode) -> str | None:
    """The first instruction whose result other threads may change, and that decides addresses or control flow."""
    return _translation(kernel, True).program.order_decides


def simulate_machine_code(
    kernel: MachineCode,
    launch: Launch,
    call: KernelCall,
    *,
    mode: Mode = Mode.EXECUTE,
    blocks: NDArray[np.int64] | None = None,
    budget: Budget | None = None,
    observers: Observers = (),
    check: bool = False,
    visits_by_block: bool = False,
    visits_by_warp: Sequence[int] = (),
    classes: BlockClasses | None = None,
) -> Simulation:
    """Execute thread blocks of one launch of machine code; arguments, result and errors are those of `simulate`.

    The result's ``visits`` are of units (`units_of`): executions by groups of lanes of a warp that run together. Where lanes
    run together again is in the machine code itself.

    Args:
        kernel: what `read_machine_code` gives.
        launch: grid, block and dynamic shared bytes of a single launch; static shared bytes come from the cubin.
        call: arguments; buffers are copied.
        mode: results, or only what decides addresses and control flow.
        blocks: linear indices (x fastest) of the blocks to run; all when None.
        budget: instructions, seconds and bytes; defaults when None.
        observers: each gets every memory access and every exchange within a warp.
        check: report races and uninitialised shared memory as well, and return a simulation that a fatal fault ended.
        visits_by_block: also give the visits of each block.
        visits_by_warp: blocks of whose warps the visits are given too.
        classes: follow other blocks too, as `simulate` does.

    Raises:
        SimulationError: something is not supported, a budget is used up, or (without ``check``) a fault ended the simulation.
    """
    budget = budget or Budget()
    check_launch(launch)
    translation = _translation(kernel, mode is Mode.TRACE)
    program = translation.program
    chosen = block_ids(launch, blocks)
    environment = make_environment(kernel, launch, call, translation.pool.sites, observers, budget.faults, check)
    tally = run_blocks(
        partial(MachineScheduler, translation),
        environment,
        chosen,
        budget,
        program.register_bytes_per_lane,
        len(program.units),
        visits_by_block=visits_by_block,
        visits_by_warp=visits_by_warp,
        classes=classes,
    )
    return Simulation(
        kernel=kernel,
        launch=launch,
        mode=mode,
        blocks=chosen,
        visits=tally.visits,
        outputs=outputs_of(call, environment.memory) if mode is Mode.EXECUTE else {},
        faults=tuple(environment.faults),
        completed=not any(fault.kind in FATAL for fault in environment.faults),
        undecided=environment.undecided,
        diverged=tally.diverged,
        segments=tuple(environment.memory.segments),
        visits_by_block=tally.by_block,
        visits_by_warp=tally.by_warp,
        paths=tally.paths,
    )
