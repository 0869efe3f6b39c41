"""What a kernel does wrong, as compute-sanitizer would report it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from ..errors import SimulationError
from ..program.instruction import ExecutedInstruction, Space


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

    @property
    def is_beyond_shared(self) -> bool:
        """Whether it is an access beyond the block's shared memory."""
        return self.kind is FaultKind.OUT_OF_BOUNDS and f"at {Space.SHARED.value} address" in self.text


def fault_texts(faults: Iterable[Fault]) -> tuple[str, ...]:
    """A line for each cause, a kind of fault at one source line; the first of them with the number of further instructions.

    >>> from dataclasses import replace
    >>> race = Fault(
    ...     kind=FaultKind.SHARED_RACE, block=(0, 0, 0), thread=(1, 0, 0), instruction_index=4, source_line=9, text="a race"
    ... )
    >>> fault_texts([race, replace(race, instruction_index=5), replace(race, instruction_index=5)])
    ('a race (and at 1 more instruction of this line)',)
    """
    causes: dict[tuple[object, ...], list[Fault]] = {}
    for fault in faults:
        place = fault.instruction_index if fault.source_line is None else fault.source_line
        causes.setdefault((fault.kind, fault.source_line is None, place), []).append(fault)
    texts = []
    for alike in causes.values():
        more = len({fault.instruction_index for fault in alike}) - 1
        counted = f" (and at {more} more instruction{'s' if more > 1 else ''} of this line)" if more else ""
        texts.append(alike[0].text + counted)
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
