"""The slice of a kernel that decides addresses, predicates and control flow: all that trace mode computes."""

from __future__ import annotations

from collections.abc import Iterable

from ...ir.instruction import Instruction, Space
from ...ptx.operands import names
from ..program import Program
from .memory import space_of

_OBJECTS = frozenset({"tex", "tld4", "suld", "sust"})
_MEMORY = frozenset({"ld", "ldu", "st", "atom", "red", "cp", "ldmatrix", "stmatrix"}) | _OBJECTS
_EXCHANGES = frozenset({"shfl", "vote", "match", "redux"})


def _roots(instruction: Instruction) -> list[str]:
    """Names whose values an instruction needs whatever becomes of its result."""
    roots = [instruction.guard] if instruction.guard else []
    name = instruction.name
    if name in _MEMORY:
        for text in instruction.operands:
            if text.startswith("["):
                roots += names(text)
        if name == "cp":
            roots += [n for text in instruction.operands[3:] for n in names(text)]
    elif name == "brx":
        roots += names(instruction.operand(0))
    elif name in ("bar", "barrier"):
        roots += [n for text in instruction.operands for n in names(text)]
    elif name in _EXCHANGES and "sync" in instruction.parts:
        roots += names(instruction.operands[-1])
    return roots


def _guard_matters(instruction: Instruction) -> bool:
    return instruction.name in _MEMORY | _EXCHANGES | {"bra", "ret", "exit", "trap", "bar", "barrier"}


EVERY_SPACE = frozenset(Space)
WITHIN_BLOCK = frozenset({Space.SHARED, Space.LOCAL})
"""Spaces in which a value reaches other instructions of the same block alone."""


def address_slice(program: Program, through: frozenset[Space] = EVERY_SPACE) -> tuple[frozenset[Space], set[int]]:
    """Spaces whose contents feed the slice, so that what is written there must be kept, and the registers of the slice.

    Values are followed through memory in the spaces ``through`` alone.
    """
    return _Slice(program, through).run()


class _Slice:
    """Registers are followed back to what defines them; a load from memory adds what is stored in its space."""

    def __init__(self, program: Program, through: frozenset[Space]) -> None:
        self.program, self.through = program, through
        self.wanted: set[int] = set()
        self.kept: set[Space] = set()
        self.waiting: list[int] = []
        self.definitions: dict[int, list[int]] = {}
        self.writers: list[tuple[int, Space]] = []
        for position, (instruction, effect) in enumerate(zip(program.instructions, program.effects, strict=True)):
            for name in effect.writes:
                self.definitions.setdefault(program.register_index[name], []).append(position)
            if instruction.name in ("st", "atom", "red", "cp"):
                space = Space.SHARED if instruction.name == "cp" else space_of(instruction)
                self.writers.append((position, space))
            if instruction.name == "sust":
                self.writers.append((position, Space.GLOBAL))

    def run(self) -> tuple[frozenset[Space], set[int]]:
        for instruction in self.program.instructions:
            if _guard_matters(instruction) or instruction.name == "brx":
                self._want(_roots(instruction))
        while self.waiting:
            for position in self.definitions.get(self.waiting.pop(), ()):
                self._want(self.program.effects[position].reads)
                instruction = self.program.instructions[position]
                if instruction.name in ("ld", "ldu", "atom"):
                    self._keep(_read_spaces(space_of(instruction)))
                elif instruction.name in _OBJECTS:
                    self._keep({Space.GLOBAL})
        return frozenset(self.kept), self.wanted

    def _want(self, names_read: Iterable[str]) -> None:
        for name in names_read:
            index = self.program.register_index.get(name)
            if index is not None and index not in self.wanted:
                self.wanted.add(index)
                self.waiting.append(index)

    def _keep(self, spaces: set[Space]) -> None:
        new = (spaces & self.through) - self.kept
        self.kept |= new
        for position, space in self.writers if new else ():
            if space in new or space is Space.GENERIC:
                self._want(self.program.effects[position].reads)
                if self.program.instructions[position].name == "cp":
                    self._keep({Space.GLOBAL})


def _read_spaces(space: Space) -> set[Space]:
    if space is Space.GENERIC:
        return {Space.GLOBAL, Space.SHARED, Space.LOCAL}
    return set() if space in (Space.CONSTANT, Space.PARAMETER) else {space}
