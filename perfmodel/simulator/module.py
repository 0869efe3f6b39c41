"""Records of a PTX module: variables, instructions, functions and kernels, as the text states them (PTX ISA, chapters 4 to 6)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from ..errors import SimulationError
from ..source_line import SourceLine

if TYPE_CHECKING:
    from .expand import Expanded
    from .translate.translation import Translation


MAX_TEXT = 160
"""Characters of an instruction that a message shows."""


class Space(Enum):
    """State space of a variable or of an access (PTX ISA 5.1)."""

    GENERIC = "generic"
    GLOBAL = "global"
    SHARED = "shared"
    LOCAL = "local"
    CONSTANT = "const"
    PARAMETER = "param"


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
    external: bool
    initialiser: str | None
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A parameter of a kernel or function, or a parameter-space variable of a call sequence."""

    name: str
    type_name: str
    alignment_bytes: int
    size_bytes: int


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

    def error(self, reason: str) -> SimulationError:
        """The error that names this instruction and the reason."""


_PAST_L1 = frozenset({"cg", "cv", "volatile"})


@dataclass(frozen=True, slots=True)
class Instruction:
    """One PTX instruction: opcode with its modifiers, guard and operands as text, and where it stands."""

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
    def text(self) -> str:
        """The instruction as one line of PTX, cut where it is longer than anybody reads."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """What stands between the braces of a function; names declared in inner scopes are unique already.

    ``registers`` maps a register to its PTX type; ``register_ranges`` maps the stem of ``%r<9>`` to type and count.
    """

    registers: Mapping[str, str]
    register_ranges: Mapping[str, tuple[str, int]]
    variables: Mapping[str, Variable]
    parameters: Mapping[str, Parameter]
    branch_targets: Mapping[str, tuple[str, ...]]
    statements: tuple[Instruction | Label, ...]

    def register_type(self, name: str) -> str | None:
        """PTX type of a register, or None where the name is no register of this body."""
        found = self.registers.get(name)
        if found is not None:
            return found
        stem = name.rstrip("0123456789")
        digits = name[len(stem) :]
        known = self.register_ranges.get(stem)
        if known is None or not digits or len(digits) > 9 or int(digits) >= known[1]:
            return None
        return known[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A device function; ``body`` is None where it is only declared (``vprintf``, ``__assertfail``)."""

    name: str
    returns: tuple[Parameter, ...]
    parameters: tuple[Parameter, ...]
    body: Body | None
    line: int


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


@dataclass(frozen=True, kw_only=True, eq=False)
class Kernel:
    """An entry point. ``functions`` are those of the module, which calls are expanded from.

    ``rewritten`` are statements that stand for the expanded ones of the body.
    """

    name: str
    parameters: tuple[Parameter, ...]
    body: Body
    line: int
    functions: Mapping[str, Function] = field(repr=False)
    variables: Mapping[str, Variable] = field(repr=False)
    rewritten: Expanded | None = field(default=None, repr=False)

    @cached_property
    def translations(self) -> dict[bool, Translation]:
        """Translations to Python made so far: for execution (False) and for tracing (True)."""
        return {}

    @cached_property
    def expanded(self) -> Expanded:
        """Flat statements, calls expanded in place; SimulationError for a call that is not supported."""
        from .expand import expand

        return self.rewritten or expand(self)

    @cached_property
    def blocks(self) -> tuple[BasicBlock, ...]:
        """Basic blocks in layout order; SimulationError for control flow that is not supported."""
        from .control_flow import basic_blocks

        return basic_blocks(self.expanded)


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """A parsed PTX module."""

    target: str
    kernels: Mapping[str, Kernel]
    functions: Mapping[str, Function]
    variables: Mapping[str, Variable]

    def kernel(self, name: str) -> Kernel:
        """The kernel of that name; SimulationError names those that there are."""
        if name not in self.kernels:
            raise SimulationError(f"kernel {name!r} is not in the module, which has {sorted(self.kernels)}")
        return self.kernels[name]

    def with_kernel(self, kernel: Kernel) -> Module:
        """The module with a kernel in the place of that of its name."""
        return replace(self, kernels={**self.kernels, kernel.name: kernel})
