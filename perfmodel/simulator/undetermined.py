"""What the program and its data do not fix: why counts of an execution need not be those of the hardware."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ..ir.instruction import ExecutedInstruction


class Cause(Enum):
    """What else decides what is executed, or how often; the value says it to the reader."""

    ORDER = "the work of blocks depends on the order of memory accesses of others"
    CLOCK = "the work of blocks depends on the time"
    PLACE = "the work of blocks depends on where the GPU runs them"
    DRIVER = "the work of blocks depends on a constant that the driver sets"
    APPROXIMATION = "the work of blocks depends on how the GPU rounds an approximate value"
    TRIES = "the GPU counts each try_wait of an mbarrier, but only one is counted here"
    SHARED_RACE = "the work of blocks depends on a race in shared memory"
    UNWRITTEN = "the work of blocks depends on uninitialised shared memory"
    UNWATCHED = "the work of blocks depends on shared memory, which is not checked for races in kernels with clusters"
    THREADS = "the work of threads depends on which comes first: they read what others write"
    MEETING = "lanes of a warp reach an instruction in several groups, some of which the GPU may join"
    BARRIER = (
        "lanes of a warp reach a barrier in several groups, some of which the GPU may join; all other counts are exact"
    )
    ENDING = "lanes of a warp exit while others wait for them, whose barrier the GPU may issue again; all other counts are exact"


@dataclass(frozen=True, slots=True)
class Undetermined:
    """One cause, and where it is: an instruction with its source line, or a buffer."""

    cause: Cause
    where: str

    @property
    def note(self) -> str:
        """The sentence for the reader.

        >>> Undetermined(Cause.CLOCK, "CS2R R2,SR_CLOCKLO (k.cu:4)").note
        'the work of blocks depends on the time: CS2R R2,SR_CLOCKLO (k.cu:4)'
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
