"""The slice of a kernel that decides addresses, predicates and control flow: all that trace mode computes."""

from __future__ import annotations

from ..module import Instruction, Space
from ..operands import names
from ..program import Program
from .memory import space_of

_MEMORY = frozenset({"ld", "ldu", "st", "atom", "red", "cp"})
_EXCHANGES = frozenset({"shfl", "vote", "match", "redux"})


def _roots(instruction: Instruction) -> list[str]:
    """Names whose values an instruction needs whatever becomes of its result."""
    found = [instruction.guard] if instruction.guard else []
    name = instruction.name
    if name in _MEMORY:
        for text in instruction.operands:
            if text.startswith("["):
                found += names(text)
        if name == "cp":
            found += [n for text in instruction.operands[3:] for n in names(text)]
    elif name == "brx":
        found += names(instruction.operand(0))
    elif name in ("bar", "barrier"):
        found += [n for text in instruction.operands for n in names(text)]
    elif name in _EXCHANGES and "sync" in instruction.parts:
        found += names(instruction.operands[-1])
    return found


def _guard_matters(instruction: Instruction) -> bool:
    return instruction.name in _MEMORY | _EXCHANGES | {"bra", "ret", "exit", "trap", "bar", "barrier"}


def address_slice(program: Program) -> tuple[frozenset[Space], set[int]]:
    """Spaces whose contents feed the slice, so that what is written there must be kept, and the registers of the slice."""
    index = program.register_index
    wanted: set[int] = set()
    for instruction in program.instructions:
        if _guard_matters(instruction) or instruction.name == "brx":
            wanted |= {index[name] for name in _roots(instruction) if name in index}
    kept: set[Space] = set()
    before = (-1, -1)
    while before != (len(wanted), len(kept)):
        before = (len(wanted), len(kept))
        for instruction, effect in zip(program.instructions, program.effects, strict=True):
            if _feeds_memory(instruction, kept):
                wanted |= {index[name] for name in effect.reads}
            if any(index[name] in wanted for name in effect.writes):
                wanted |= {index[name] for name in effect.reads}
                if instruction.name in ("ld", "ldu", "atom"):
                    kept |= _read_spaces(space_of(instruction))
    return frozenset(kept), wanted


def _read_spaces(space: Space) -> set[Space]:
    if space is Space.GENERIC:
        return {Space.GLOBAL, Space.SHARED, Space.LOCAL}
    return set() if space in (Space.CONSTANT, Space.PARAMETER) else {space}


def _feeds_memory(instruction: Instruction, kept: set[Space]) -> bool:
    """Whether an instruction writes to a space whose contents are kept."""
    if instruction.name == "cp":
        return Space.SHARED in kept
    if instruction.name not in ("st", "atom", "red"):
        return False
    space = space_of(instruction)
    return space in kept or (space is Space.GENERIC and bool(kept))
