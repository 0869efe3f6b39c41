"""Simulate a launch of machine code: the same engine and result as for PTX, with the instructions that the hardware issues."""

from __future__ import annotations

from functools import partial
from typing import Any

from ...ir.instruction import Space
from ...launch.launch import KernelCall, Launch
from ...machine_code.instruction import MachineInstruction
from ...machine_code.program import MachineCode
from ..block_classes.classes import NotFollowedError
from ..simulation import Mode, RunOptions, Simulation, run_launch
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


def kept_in_trace(kernel: MachineCode) -> frozenset[Space]:
    """Spaces from which values are loaded that decide something."""
    return _translation(kernel, True).program.kept


def order_decides(kernel: MachineCode) -> str | None:
    """The first instruction whose result other threads may change, and that decides addresses or control flow."""
    return _translation(kernel, True).program.order_decides


def simulate_machine_code(kernel: MachineCode, launch: Launch, call: KernelCall, **options: Any) -> Simulation:
    """Execute thread blocks of one launch of machine code; result and errors are those of `simulate`.

    The result's ``visits`` are of units (`units_of`): executions by groups of lanes of a warp that run together. Where lanes
    run together again is in the machine code itself.

    Args:
        kernel: what `read_machine_code` gives.
        launch: grid, block and dynamic shared bytes of a single launch; static shared bytes come from the cubin.
        call: arguments; buffers are copied where they are touched.
        options: fields of `RunOptions`.
    """
    given = RunOptions(**options)
    if given.classes is not None and launch.blocks_per_cluster > 1:
        raise NotFollowedError("blocks of a cluster use one another's shared memory")
    translation = _translation(kernel, given.mode is Mode.TRACE)
    return run_launch(
        kernel,
        call,
        given,
        make_environment(kernel, launch, call, translation.pool.sites),
        partial(MachineScheduler, translation),
        translation.program.register_bytes_per_lane,
        len(translation.program.units),
    )
