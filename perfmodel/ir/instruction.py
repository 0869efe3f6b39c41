"""Instructions, variables and basic blocks of a kernel, and the registers that an instruction uses."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from ..errors import SimulationError

MAX_TEXT = 160
"""Characters of an instruction that a message shows."""


class Space(Enum):
    """State space of a variable or of an access (PTX ISA 5.1)."""

    GENERIC = "generic"
    GLOBAL = "global"
    SHARED = "shared"
    LOCAL = "local"
    CONSTANT = "const"
    TEXTURE = "texture"
    """Arrays that texture objects see: requests of warps; the sectors that they read are those of `GLOBAL`."""
    SURFACE = "surface"
    """Likewise of surface objects."""
    PARAMETER = "param"


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A place in the CUDA source, from the compiler's line information."""

    file: str
    line: int


class ExecutedInstruction(Protocol):
    """What counting and messages need to know of an instruction, be it of PTX or of machine code."""

    @property
    def opcode(self) -> str:
        """Opcode with its modifiers."""

    @property
    def line(self) -> int:
        """Line of the PTX, or address in the machine code."""

    @property
    def source(self) -> SourceLine | None:
        """Line of the CUDA source, where it is known."""

    @property
    def text(self) -> str:
        """The instruction as one line."""

    @property
    def loads_past_l1(self) -> bool:
        """Whether it reads L2 whatever L1 holds."""

    @property
    def copies_past_l1(self) -> bool:
        """Whether it is an asynchronous copy that leaves L1 out."""

    @property
    def evicts_first(self) -> bool:
        """Whether what it loads is to give way in the caches first, as it is not needed again."""

    def error(self, reason: str) -> SimulationError:
        """The error that names this instruction and the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """A variable of a state space: size 0 stands for an array whose size the launch gives (dynamic shared memory).

    ``initialiser`` is the text right of the equals sign, or None.
    """

    name: str
    space: Space
    type_name: str
    alignment_bytes: int
    size_bytes: int
    initialiser: str | None
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A parameter of a kernel or function, or a parameter-space variable of a call sequence."""

    name: str
    type_name: str
    alignment_bytes: int
    size_bytes: int


_PAST_L1 = frozenset({"cg", "cv", "volatile"})
_EVICTS_FIRST = frozenset({"cs"})


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction: opcode with its modifiers, guard and operands as text, and where it stands."""

    opcode: str
    operands: tuple[str, ...]
    guard: str | None
    negated: bool
    line: int
    source: SourceLine | None

    @property
    def parts(self) -> list[str]:
        """The opcode split at its dots.

        >>> Instruction("ld.global.f32", ("%f1", "[%rd1]"), None, False, 7, None).parts
        ['ld', 'global', 'f32']
        """
        return self.opcode.split(".")

    @property
    def name(self) -> str:
        """First part of the opcode."""
        return self.opcode.partition(".")[0]

    @property
    def loads_past_l1(self) -> bool:
        """Whether it reads L2 whatever L1 holds (PTX ISA, cache operators ``.cg`` and ``.cv``, volatile loads).

        >>> Instruction("ld.global.cg.f32", (), None, False, 1, None).loads_past_l1
        True
        """
        return self.name == "ld" and not _PAST_L1.isdisjoint(self.parts)

    @property
    def copies_past_l1(self) -> bool:
        """Whether it is an asynchronous copy that leaves L1 out (``cp.async.cg``)."""
        return self.name == "cp" and "cg" in self.parts

    @property
    def evicts_first(self) -> bool:
        """Whether what it loads is to give way in the caches first (PTX ISA, cache operator ``.cs``)."""
        return not _EVICTS_FIRST.isdisjoint(self.parts)

    @property
    def text(self) -> str:
        """The instruction as one line, cut where it is longer than ``MAX_TEXT``."""
        guard = f"@{'!' if self.negated else ''}{self.guard} " if self.guard else ""
        text = " ".join(f"{guard}{self.opcode} {', '.join(self.operands)}".split())
        return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"

    def operand(self, position: int) -> str:
        """Operand at a position; a SimulationError names the instruction when it has fewer."""
        if position >= len(self.operands):
            raise self.error(f"needs more than {len(self.operands)} operands")
        return self.operands[position]

    def error(self, reason: str) -> SimulationError:
        """The error that names this instruction, its PTX line and the reason."""
        where = f" ({self.source.file}:{self.source.line})" if self.source else ""
        return SimulationError(f"PTX line {self.line}{where}: {self.text}: {' '.join(reason.split())}")


@dataclass(frozen=True, slots=True)
class Label:
    """A place that control flow may go to."""

    name: str


@dataclass(frozen=True, slots=True)
class Effects:
    """Registers that an instruction writes, and those that it reads (its guard among them)."""

    writes: tuple[str, ...]
    reads: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BasicBlock:
    """Instructions that one warp executes together; the last one may branch.

    ``first`` is the index of the first instruction in the kernel's list. ``successors`` are block indices; the index one past
    the last block stands for the end of the thread.
    """

    index: int
    first: int
    instructions: tuple[Instruction, ...]
    successors: tuple[int, ...]
