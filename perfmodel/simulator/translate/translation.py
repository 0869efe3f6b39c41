"""A kernel translated: one Python function for each stretch of code, compiled when it is first reached."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir.instruction import Instruction, Space
from ...ir.kernel import Kernel
from ...ir.types import STORAGE_TYPES, VALUE_TYPES
from ..block_classes.values import FollowedValue
from ..faults import remedy
from ..functions import atomics, bits, conversions, floats, warp_functions
from ..global_memory import is_in_space
from ..plan import Mask, Values
from ..program import Program, SyncScope, Unit
from ..textures.fetching import Sites, surface_access, texture_read
from ..transfer import copy_async, load, load_generic, store, store_generic, touch, touch_generic
from . import basic, conversion, floating, integer, memory, tensor, textures, warp
from .emitter import Emitter, Pool
from .slices import address_slice
from .unit_functions import UnitFunctions

_TERMINATORS = frozenset({"bra", "brx", "ret", "exit"})
_ALWAYS_TRACED = frozenset(
    {"ld", "ldu", "st", "atom", "red", "cp", "bar", "barrier", "trap", "shfl", "vote", "match", "redux"}
).union(tensor.EMITTERS, textures.EMITTERS)
"""Instructions that trace mode counts or that synchronise, whatever becomes of their results."""
_INTEGER_ONLY = {name: function for name, function in integer.EMITTERS.items() if name not in floating.EMITTERS}
_EMITTERS = {
    **_INTEGER_ONLY,
    **{name: f for name, f in floating.EMITTERS.items() if name not in integer.EMITTERS},
    **basic.EMITTERS,
    **conversion.EMITTERS,
    **memory.EMITTERS,
    **warp.EMITTERS,
    **tensor.EMITTERS,
    **textures.EMITTERS,
}


EXECUTED = _TERMINATORS.union(_EMITTERS, integer.EMITTERS, floating.EMITTERS, {"call", "trap"}) - frozenset(
    tensor.REFUSED
)
"""First words of the instructions that are executed, or counted where tracing passes over them."""


def emit_instruction(e: Emitter, i: Instruction) -> None:
    """Translate one instruction.

    Raises:
        SimulationError: it is not supported; the text names it and its line.
    """
    name = i.name
    if name in _EMITTERS:
        _EMITTERS[name](e, i)
    elif name in floating.EMITTERS and floating.float_kind(i) is not None:
        floating.EMITTERS[name](e, i)
    elif name in integer.EMITTERS:
        integer.EMITTERS[name](e, i)
    else:
        raise i.error(remedy(name) or "instruction is not supported")


def engine_names() -> dict[str, Any]:
    """What generated code may call."""
    names: dict[str, Any] = {
        "where": np.where,
        "chosen": chosen,
        "settled": settled,
        "add": np.add,
        "subtract": np.subtract,
        "minimum": np.minimum,
        "maximum": np.maximum,
        "fmin": floats.least,
        "fmax": floats.greatest,
        "absolute": np.abs,
        "copysign": np.copysign,
        "isnan": np.isnan,
        "rint": np.rint,
        "floor": np.floor,
        "ceil": np.ceil,
        "trunc": np.trunc,
        "Space": Space,
        "is_in_space": is_in_space,
        "load": load,
        "store": store,
        "touch": touch,
        "load_generic": load_generic,
        "store_generic": store_generic,
        "touch_generic": touch_generic,
        "copy_async": copy_async,
        "Sites": Sites,
        "texture_read": texture_read,
        "surface_access": surface_access,
        **floats.directed_functions(),
    }
    names.update({scalar.__name__: scalar for scalar in (*STORAGE_TYPES.values(), *VALUE_TYPES.values())})
    for module in (bits, floats, conversions, warp_functions, atomics):
        names.update({name: value for name, value in vars(module).items() if callable(value) and name[0] != "_"})
    return names


def settled(new: Values) -> Values:
    """A value of which no quotient is left open, where blocks are followed (`FollowedValue`)."""
    return new.resolved() if isinstance(new, FollowedValue) else new


def chosen(guard: Mask, new: Values, old: Values) -> Values:
    """What a guarded instruction leaves in its destination; nothing is merged where the guard is the same for all lanes."""
    if guard.size == 1:
        return new if guard.item() else old
    return np.where(guard, new, old)


class Translation(UnitFunctions):
    """Functions of a kernel for one mode; sites of accesses are numbered while functions are translated."""

    program: Program

    def __init__(self, kernel: Kernel, trace: bool) -> None:
        super().__init__(Program(kernel), Pool(trace), engine_names())
        if trace:
            self.pool.kept, self.pool.wanted = address_slice(self.program)
        self._check_all()

    def _check_all(self) -> None:
        """Number the sites in program order, and refuse at once what is not supported anywhere in the kernel."""
        for unit in self.program.units:
            if unit.sync_scope is SyncScope.BLOCK:
                warp.barrier_identifier(unit.instructions[0])
            if unit.first == self.program.blocks[unit.block].first:
                self._sources[unit.index] = self.source(unit.index, False)

    def _emit(self, e: Emitter, index: int, instruction: Instruction) -> str | None:
        """Translate one instruction unless the mode leaves it out; gives what its branch depends on."""
        if instruction.name in _TERMINATORS:
            return warp.branch_value(e, instruction)
        if not self._needed(index, instruction):
            return None
        e.begin(index, instruction)
        if instruction.name == "trap":
            warp.emit_trap(e, instruction)
        else:
            emit_instruction(e, instruction)
        return None

    def _needed(self, index: int, instruction: Instruction) -> bool:
        if not self.pool.trace or instruction.name in _ALWAYS_TRACED or instruction.name not in EXECUTED:
            return True
        writes = self.program.effects[index].writes
        return any(self.program.register_index[name] in self.pool.wanted for name in writes)

    def _touched_by(self, unit: Unit) -> set[int]:
        stretch = self.program.effects[unit.first : unit.first + len(unit.instructions)]
        return {self.program.register_index[name] for effect in stretch for name in (*effect.reads, *effect.writes)}

    def _source_of(self, units: list[Unit], name: str, masked: bool) -> str:
        live_out = self.program.live_out[units[-1].index]
        e = Emitter(self.program, self.pool, live_out, masked)
        instructions = [(unit.first + k, i) for unit in units for k, i in enumerate(unit.instructions)]
        dying = self._dying([index for index, _ in instructions], live_out)
        result = None
        for (index, instruction), dead in zip(instructions, dying, strict=True):
            result = self._emit(e, index, instruction)
            if result is None:
                e.forget(dead)
        return e.source(name, result)

    def _dying(self, indices: list[int], live_out: set[int]) -> list[set[int]]:
        """Registers that nothing reads after each instruction."""
        live = set(live_out)
        dying: list[set[int]] = []
        for index in reversed(indices):
            effect = self.program.effects[index]
            touched = {self.program.register_index[name] for name in (*effect.reads, *effect.writes)}
            dying.append(touched - live)
            live -= {self.program.register_index[name] for name in effect.writes}
            live |= {self.program.register_index[name] for name in effect.reads}
        return dying[::-1]
