"""What advice is given on: an executed launch with its prediction; and what a change of it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import PurePath

import numpy as np
from numpy.typing import NDArray

from ..gpus.gpu import Gpu
from ..ir.instruction import SourceLine
from ..machine_code.instruction import MachineInstruction
from ..memory.access_counts import InstructionCount
from ..prediction.prediction import Prediction
from ..prediction.scenario import Scenario
from ..profiles.kernel_profile import KernelProfile


class AdviceKind(Enum):
    """What is wrong."""

    BANK_CONFLICTS = "bank_conflicts"
    UNCOALESCED = "uncoalesced"
    REDUNDANT_LOADS = "redundant_loads"
    ATOMICS = "atomics"
    SPILLS = "spills"
    REGISTERS = "registers"
    SHARED_MEMORY = "shared_memory"
    BLOCK_SIZE = "block_size"
    GRID_SIZE = "grid_size"
    TAIL = "tail"
    WORK_PER_BLOCK = "work_per_block"
    DIVERGENCE = "divergence"
    REDUCTIONS = "reductions"
    INTEGER = "integer"
    DOUBLE_PRECISION = "double_precision"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """An executed launch: its profile, totals of its memory instructions, its prediction and the scenario of that.

    ``code`` is its machine code, ``executions`` says how often warps execute each instruction of it; both are empty where PTX
    was executed.
    """

    profile: KernelProfile
    instructions: tuple[InstructionCount, ...]
    prediction: Prediction
    scenario: Scenario
    code: tuple[MachineInstruction, ...] = ()
    executions: tuple[float, ...] = ()

    @property
    def gpu(self) -> Gpu:
        """The GPU of the prediction."""
        return self.scenario.gpu

    def lanes_of(self, instruction: int) -> NDArray[np.int64] | None:
        """`AccessPatterns.lanes` of an instruction; None where nobody looked."""
        traces = self.profile.traces
        return None if traces is None or traces.patterns is None else traces.patterns.lanes[instruction]


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A change that may be worth something.

    Attributes:
        kind: What it mends.
        places: Source lines (``file:line``), the worst first; empty where it concerns the launch.
        finding: What is wrong.
        change: What to do about it.
        profile: The launch after the change.
        work: Times that the part of the changed launch's time beyond the fixed launch cost is taken: its blocks do so much
            more each.
        verify_registers: Registers of a thread that the compiler is to be asked about before the change is named.
    """

    kind: AdviceKind
    places: tuple[str, ...]
    finding: str
    change: str
    profile: KernelProfile
    work: float = 1.0
    verify_registers: int | None = None


def place_of(count: InstructionCount) -> str:
    """Source line of an instruction, or its address where no line is known."""
    return _place(count.source, count.opcode, count.ptx_line)


def _place(source: SourceLine | None, opcode: str, address: int) -> str:
    if source is None or not source.file:
        return f"{opcode} at {address:#x}"
    return f"{PurePath(source.file).name}:{source.line}"


def places_of(subject: Subject, amounts: Mapping[int, float], least_part: float = 0.05) -> tuple[str, ...]:
    """Source lines of machine instructions, those with the largest sum of their amounts first, small ones left out."""
    sums: dict[str, float] = {}
    for index, amount in amounts.items():
        one = subject.code[index]
        place = _place(one.source, one.name, one.address)
        sums[place] = sums.get(place, 0.0) + amount
    least = least_part * sum(sums.values())
    return tuple(place for place in sorted(sums, key=lambda place: -sums[place]) if sums[place] >= least)


def by_place(counts: Iterable[InstructionCount]) -> Mapping[str, Sequence[InstructionCount]]:
    """Instructions by source line, in the order in which the lines come."""
    groups: dict[str, list[InstructionCount]] = {}
    for count in counts:
        groups.setdefault(place_of(count), []).append(count)
    return groups
