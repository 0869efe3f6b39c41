"""Simulate a launch of machine code: the same engine and result as for PTX, with the instructions that the hardware issues."""

from __future__ import annotations

from functools import partial
from typing import Any

from ...ir.instruction import Space
from ...launch.launch import KernelCall, Launch
from ...machine_code.control_flow import without_long_ways
from ...machine_code.instruction import MachineInstruction
from ...machine_code.program import MachineCode, Transfer
from ..block_classes.classes import NotFollowedError
from ..program import Unit
from ..simulation import Mode, RunOptions, Simulation, run_launch
from ..translate.emitter import Pool
from ..translate.slices import EVERY_SPACE, WITHIN_BLOCK
from ..translate.translation import engine_names
from ..translate.unit_functions import UnitFunctions
from ..undetermined import OpenInstruction
from . import bulk_copy, functions, matrices, mbarrier, outside, warp, warpgroup
from .emitter import Effects, Emitter
from .environment import make_environment
from .program import MachineProgram, emit_instruction
from .schedule import MachineScheduler
from .undetermined import undetermined

_Mode = tuple[bool, frozenset[Space]]
"""Whether only what decides is computed, and the spaces that it is followed through."""


def _names() -> dict[str, Any]:
    own = {
        name: value
        for module in (functions, matrices, warpgroup, mbarrier, bulk_copy, outside)
        for name, value in vars(module).items()
        if callable(value) and name[0] != "_"
    }
    return {**engine_names(), **own}


class MachineTranslation(UnitFunctions):
    """Functions of a kernel's machine code for one mode; sites of accesses are numbered while functions are translated."""

    program: MachineProgram

    def __init__(self, kernel: MachineCode, trace: bool, through: frozenset[Space] = EVERY_SPACE) -> None:
        outside = {address: name for name, address in kernel.cubin.external_functions.items()}
        super().__init__(_program(kernel, trace, through), Pool(trace), {**_names(), "FUNCTIONS": outside})
        self.pool.kept = self.program.kept
        self.undetermined: tuple[OpenInstruction, ...] | None = None
        """What is found when it is first asked for."""
        self._check_all()

    def _check_all(self) -> None:
        """Number the sites in program order, and refuse at once what is not supported anywhere that is reached."""
        for block in self.program.blocks:
            if block.index in self.program.reached:
                first = self.program.unit_of_block[block.index]
                self._sources[first] = self.source(first, False)

    def _touched_by(self, unit: Unit) -> set[int]:
        return self.program.touched(unit)

    def _source_of(self, units: list[Unit], name: str, masked: bool) -> str:
        program = self.program
        e = Emitter(self.pool, masked)
        block = program.blocks[units[0].block]
        last = block.first + len(block.instructions) - 1
        result: str | None = None
        for unit in units:
            for k in range(len(unit.instructions)):
                index = unit.first + k
                instruction = program.instructions[index]
                if index == last and block.transfer is not Transfer.NEXT:
                    e.index = index
                    result = warp.branch_value(e, instruction, block)
                else:
                    self._emit(e, index, instruction)
                    e.forget(program.live_after[index])
        return e.source(name, result, program.live_out(units[-1]))

    def _emit(self, e: Emitter, index: int, instruction: MachineInstruction) -> None:
        if instruction.never or not self.program.is_needed(index):
            return
        e.reduction = self.program.reductions.get(index)
        e.stores_slot = self.program.stores_slot(index)
        e.begin(index, instruction, self.program.live_after[index])
        emit_instruction(e, instruction)


def _program(kernel: MachineCode, trace: bool, through: frozenset[Space]) -> MachineProgram:
    """What is needed of the machine code for a mode, kept with the kernel; what instructions read and write is found once."""
    known: dict[_Mode, MachineProgram] = kernel.translations.setdefault(MachineProgram, {})
    if (trace, through) not in known:
        effects = next(iter(known.values())).effects if known else None
        known[trace, through] = MachineProgram(kernel, trace, through, effects)
    return known[trace, through]


def _short_program(kernel: MachineCode, through: frozenset[Space]) -> MachineProgram:
    """The program of a trace without long ways of quotients and roots."""
    short, whole = without_long_ways(kernel), _program(kernel, True, through)
    if short is kernel:
        return whole
    pairs = zip(whole.effects, kernel.instructions, short.instructions, strict=True)
    return MachineProgram(short, True, through, [effect if one is other else Effects() for effect, one, other in pairs])


def _translation(kernel: MachineCode, trace: bool, through: frozenset[Space] = EVERY_SPACE) -> MachineTranslation:
    """The translation for a mode, kept with the kernel."""
    known: dict[_Mode, MachineTranslation] = kernel.translations.setdefault(MachineTranslation, {})
    if (trace, through) not in known:
        known[trace, through] = MachineTranslation(kernel, trace, through)
    return known[trace, through]


def units_of(kernel: MachineCode) -> tuple[tuple[MachineInstruction, ...], ...]:
    """Instructions of each unit, the stretches of basic blocks between waits whose visits a simulation counts.

    Raises:
        SimulationError: an instruction is not executed; the text names it and what it needs.
    """
    return tuple(unit.instructions for unit in _translation(kernel, True, WITHIN_BLOCK).program.units)  # type: ignore[misc]


def steering_instructions(kernel: MachineCode, *, long_ways: bool = True) -> frozenset[int]:
    """Indices of the instructions that load what a branch, an address or a guard of a memory access depends on.

    What a kernel writes to global memory itself is not followed to where it reads it again. Without ``long_ways`` what decides
    only whether a quotient or a root takes its long way (`without_long_ways`) is left out.
    """
    program = _program(kernel, True, WITHIN_BLOCK) if long_ways else _short_program(kernel, WITHIN_BLOCK)
    return frozenset(
        index
        for index, effect in enumerate(program.effects)
        if effect.reads_space is not None
        and (effect.writes & program.live_after[index] or effect.writes_space in program.kept)
    )


def kept_in_trace(kernel: MachineCode) -> frozenset[Space]:
    """Spaces from which values are loaded that decide something."""
    return _translation(kernel, True).program.kept


def undetermined_instructions(kernel: MachineCode) -> tuple[OpenInstruction, ...]:
    """Instructions whose results the program and its data do not fix, where these decide addresses or control flow.

    Their places are units (`units_of`).
    """
    translation = _translation(kernel, True)
    if translation.undetermined is None:
        translation.undetermined = tuple(undetermined(translation.program, _short_program(kernel, EVERY_SPACE)))
    return translation.undetermined


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
    through = WITHIN_BLOCK if given.mode is Mode.TRACE_WITHIN_BLOCK else EVERY_SPACE
    translation = _translation(kernel, given.mode is not Mode.EXECUTE, through)
    return run_launch(
        kernel,
        call,
        given,
        make_environment(kernel, launch, call, translation.pool.sites),
        partial(MachineScheduler, translation),
        translation.program.register_bytes_per_lane,
        len(translation.program.units),
    )
