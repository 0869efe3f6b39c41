"""What a kernel does wrong, as compute-sanitizer would report it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from ..errors import SimulationError
from ..ir.instruction import ExecutedInstruction, Space


class FaultKind(Enum):
    """Kinds of faults; those in ``FATAL`` end the simulation."""

    OUT_OF_BOUNDS = "out-of-bounds access"
    MISALIGNED = "misaligned access"
    TRAP = "trap"
    ASSERTION = "failed assertion"
    DEADLOCK = "barrier that some threads never reach"
    SHARED_RACE = "race in shared memory"
    UNINITIALISED_SHARED = "read of uninitialised shared memory"
    DIVERGENT_BARRIER = "divergent barrier"
    INACTIVE_LANE = "shuffle from an inactive lane"


FATAL = frozenset(
    {FaultKind.OUT_OF_BOUNDS, FaultKind.MISALIGNED, FaultKind.TRAP, FaultKind.ASSERTION, FaultKind.DEADLOCK}
)

Index = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault: kind, block and thread (x, y, z), the instruction's index and source line, and a line that names all."""

    kind: FaultKind
    block: Index
    thread: Index
    instruction_index: int
    source_line: int | None
    text: str

    def is_beyond(self, space: Space) -> bool:
        """Whether it is an access beyond what there is of a space."""
        return self.kind is FaultKind.OUT_OF_BOUNDS and f"at {space.value} address" in self.text


def fault_texts(faults: Iterable[Fault]) -> tuple[str, ...]:
    """A line for each kind of fault: the first of it, how many further instructions have it, and their source lines.

    One cause, such as a barrier that is missing, shows at many instructions.

    >>> from dataclasses import replace
    >>> race = Fault(
    ...     kind=FaultKind.SHARED_RACE, block=(0, 0, 0), thread=(1, 0, 0), instruction_index=4, source_line=9, text="a race"
    ... )
    >>> fault_texts([race, replace(race, instruction_index=5), replace(race, instruction_index=7, source_line=12)])
    ('a race (and at 2 more instructions: lines 9, 12)',)
    """
    kinds: dict[FaultKind, dict[int, Fault]] = {}
    for fault in faults:
        kinds.setdefault(fault.kind, {}).setdefault(fault.instruction_index, fault)
    texts = []
    for alike in kinds.values():
        first, *others = alike.values()
        lines = sorted({other.source_line for other in others if other.source_line is not None})
        named = f": line{'s' if len(lines) > 1 else ''} {', '.join(map(str, lines))}" if lines else ""
        counted = f" (and at {len(others)} more instruction{'s' if len(others) > 1 else ''}{named})" if others else ""
        texts.append(first.text + counted)
    return tuple(texts)


def fault_of(
    kind: FaultKind, block: Index, thread: Index, index: int, instruction: ExecutedInstruction, detail: str
) -> Fault:
    """The fault of one thread at an instruction; ``detail`` says what happened."""
    return Fault(
        kind=kind,
        block=block,
        thread=thread,
        instruction_index=index,
        source_line=instruction.source.line if instruction.source else None,
        text=str(instruction.error(f"{kind.value} by thread {thread} of block {block}: {detail}")),
    )


class WaitsForBlocksError(SimulationError):
    """Threads wait in a loop for what no block that is executed with them writes."""


class FaultError(SimulationError):
    """A fault that ended the simulation."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.text)
        self.fault = fault

    def __reduce__(self) -> tuple[type[FaultError], tuple[Fault]]:
        """Made anew from the fault where a worker sends it; an exception is made from its text otherwise."""
        return FaultError, (self.fault,)


_QUERIES = (
    "the properties of texture and surface objects are not asked for by kernels here: hand them over as arguments"
)
_LEVELS = "levels of mipmaps are not computed: read level 0 (tex2D, or tex2DLod with 0)"
OFFSETS = "offsets and depth comparisons of textures are not executed: add the offset to the coordinates, compare what is read"
_ATOMICS = "atomics on surfaces are not executed: use atomics on a buffer instead"
_REMEDIES = {
    **dict.fromkeys(("txq", "suq", "TXQ", "SUQUERY"), _QUERIES),
    **dict.fromkeys(("sured", "SUATOM", "SURED"), _ATOMICS),
    "TMML": _LEVELS,
    **dict.fromkeys((".AOFFI", ".DC"), OFFSETS),
}


def remedy(name: str) -> str | None:
    """What to do about an instruction of PTX or opcode of machine code that is not executed; None where there is nothing.

    A modifier of machine code is named with its dot.

    >>> remedy("sured")
    'atomics on surfaces are not executed: use atomics on a buffer instead'
    """
    return _REMEDIES.get(name)
