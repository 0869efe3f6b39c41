"""What the program and its data do not fix: why counts of an execution need not be those of the hardware."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ..ir.instruction import ExecutedInstruction


class Cause(Enum):
    """What else decides what is executed, or how often; the value says it to the reader."""

    ORDER = "what blocks do depends on the order of what others do to memory"
    CLOCK = "what blocks do depends on the time"
    PLACE = "what blocks do depends on where the GPU runs them"
    DRIVER = "what blocks do depends on a constant that the driver sets"
    APPROXIMATION = "what blocks do depends on how the GPU rounds an approximate value"
    TRIES = "the GPU counts every try of a loop that waits for an mbarrier, of which one is counted here"
    SHARED_RACE = "what blocks do depends on a race in shared memory"
    UNWRITTEN = "what blocks do depends on shared memory that nobody has written"
    UNWATCHED = "what blocks do depends on shared memory, in which races are not looked for where blocks form clusters"
    THREADS = "what threads do depends on who comes first: they decide by what other threads write"
    MEETING = (
        "lanes of a warp come to one instruction in several groups, for some of which the GPU may issue it together"
    )
    BARRIER = "lanes of a warp come to a barrier in groups, for some of which the GPU may issue it once; no other count is open"
    ENDING = (
        "lanes of a warp end while others wait for them, whose barrier the GPU may issue again; no other count is open"
    )


@dataclass(frozen=True, slots=True)
class Undetermined:
    """One cause, and where it is: an instruction with its source line, or a buffer."""

    cause: Cause
    where: str

    @property
    def note(self) -> str:
        """The sentence for the reader.

        >>> Undetermined(Cause.CLOCK, "CS2R R2,SR_CLOCKLO (k.cu:4)").note
        'what blocks do depends on the time: CS2R R2,SR_CLOCKLO (k.cu:4)'
        """
        return f"{self.cause.value}: {self.where}"


@dataclass(frozen=True, slots=True)
class OpenInstruction:
    """An instruction whose result the program and its data do not fix, where that decides something.

    ``place`` is where it is in the code, among the places whose visits a simulation counts. ``only_with`` are places of which a
    launch must come to one as well, for the result to decide anything; without any it always does.
    """

    place: int
    reason: Undetermined
    only_with: frozenset[int] = frozenset()


def undetermined_at(cause: Cause, instruction: ExecutedInstruction) -> Undetermined:
    """A cause at an instruction."""
    source = instruction.source
    return Undetermined(
        cause, instruction.text if source is None else f"{instruction.text} ({source.file}:{source.line})"
    )
