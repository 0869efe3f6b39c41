"""Simulate a launch of machine code: the same engine and result as for PTX, with the instructions that the hardware issues."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...counts import Counts
from ...launch import KernelCall, Launch
from ...machine_code import MachineCode
from ..faults import FATAL, Fault
from ..recorder import AccessObserver, InstructionCount, Recorder
from ..simulation import BlockTotals, Budget, Mode, block_ids, block_totals, check_launch, outputs_of, run_blocks
from .environment import make_environment
from .schedule import MachineScheduler
from .totals import MachineInstructionCount, instruction_executions, machine_counts
from .translation import MachineTranslation


@dataclass(frozen=True, kw_only=True)
class MachineSimulation:
    """What the executed blocks did; the fields are those of a `Simulation` of PTX.

    ``visits`` has one element for each unit of the program (a stretch of a basic block between waits): executions by
    groups of lanes of a warp that run together. ``instructions`` are the totals of what accesses memory or exchanges
    values; `instruction_executions` has all instructions.
    """

    kernel: MachineCode
    launch: Launch
    mode: Mode
    blocks: NDArray[np.int64]
    instructions: tuple[InstructionCount, ...]
    visits: NDArray[np.int64]
    outputs: Mapping[str, NDArray[Any]]
    faults: tuple[Fault, ...]
    completed: bool
    diverged: bool
    per_block: BlockTotals | None = field(default=None, repr=False)
    per_warp: NDArray[np.int64] | None = field(default=None, repr=False)
    translation: MachineTranslation = field(repr=False)

    @cached_property
    def warp_instructions(self) -> int:
        """Executed instructions of warps, as the hardware counts them (``smsp__inst_executed.sum``)."""
        return int(self.counts().warp_instructions)

    @cached_property
    def instruction_executions(self) -> tuple[MachineInstructionCount, ...]:
        """Executed instructions in order of address, with their source lines where the cubin has them."""
        return instruction_executions(self.translation.program, self.visits)

    def counts(self) -> Counts:
        """Counts of the executed blocks under the project's names, read off the instructions."""
        return machine_counts(self.translation.program, self.instructions, self.visits)


def _translation(kernel: MachineCode, trace: bool) -> MachineTranslation:
    """The translation for a mode, kept with the kernel."""
    translation = kernel.translations.get(trace)
    if not isinstance(translation, MachineTranslation):
        translation = MachineTranslation(kernel, trace)
        kernel.translations[trace] = translation
    return translation


def simulate_machine_code(
    kernel: MachineCode,
    launch: Launch,
    call: KernelCall,
    *,
    mode: Mode = Mode.EXECUTE,
    blocks: NDArray[np.int64] | None = None,
    budget: Budget | None = None,
    observer: AccessObserver | None = None,
    check: bool = False,
    per_block: bool = False,
    per_warp: bool = False,
) -> MachineSimulation:
    """Run thread blocks of one launch of machine code on the CPU and count what they do.

    Args:
        kernel: what `read_machine_code` gives.
        launch: grid, block and dynamic shared bytes of a single launch; static shared bytes come from the cubin.
        call: arguments; buffers are copied, so that nothing of the caller changes.
        mode: results, or only what decides addresses and control flow.
        blocks: linear indices (x fastest) of the blocks to run; all when None.
        budget: instructions, seconds and bytes; defaults when None.
        observer: receives every global access in program order.
        check: report races and uninitialised shared memory as well, and return a simulation that a fatal fault ended
            instead of raising it.
        per_block: also sum by block.
        per_warp: also count the visits of each warp.

    Raises:
        SimulationError: something is not supported, a budget is used up, or (without ``check``) a fault ended the
        simulation.
    """
    budget = budget or Budget()
    check_launch(launch)
    translation = _translation(kernel, mode is Mode.TRACE)
    program = translation.program
    chosen = block_ids(launch, blocks)
    recorder = Recorder(translation.pool.sites, observer, len(chosen), per_block)
    environment = make_environment(kernel, launch, call, recorder, budget.faults, check)
    tally = run_blocks(
        partial(MachineScheduler, translation),
        environment,
        chosen,
        budget,
        program.register_bytes_per_lane,
        len(program.units),
        per_block=per_block,
        per_warp=per_warp,
    )
    return MachineSimulation(
        kernel=kernel,
        launch=launch,
        mode=mode,
        blocks=chosen,
        instructions=recorder.instruction_counts(),
        visits=tally.visits,
        outputs=outputs_of(call, environment.memory) if mode is Mode.EXECUTE else {},
        faults=tuple(environment.faults),
        completed=not any(fault.kind in FATAL for fault in environment.faults),
        diverged=tally.diverged,
        per_block=block_totals(recorder, tally),
        per_warp=tally.by_warp,
        translation=translation,
    )
