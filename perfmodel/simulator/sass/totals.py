"""Counts of executed machine code under the project's names: every instruction is what the hardware issues."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...counts import INSTRUCTION_CLASSES, Counts
from ...source_line import SourceLine
from ..module import Space
from ..recorder import Action, InstructionCount
from .program import MachineProgram


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineInstructionCount:
    """How often warps executed one instruction; those with all lanes predicated off are among them."""

    address: int
    text: str
    class_name: str
    source: SourceLine | None
    warp_executions: int


def executions(program: MachineProgram, visits: NDArray[np.int64]) -> NDArray[np.int64]:
    """Warp executions of every instruction from visits by unit."""
    lengths = np.array([len(unit.instructions) for unit in program.units], np.int64)
    return np.repeat(visits, lengths)


def instruction_executions(program: MachineProgram, visits: NDArray[np.int64]) -> tuple[MachineInstructionCount, ...]:
    """Executed instructions in order of address."""
    return tuple(
        MachineInstructionCount(
            address=i.address, text=i.text, class_name=i.class_name, source=i.source, warp_executions=int(times)
        )
        for i, times in zip(program.instructions, executions(program, visits), strict=True)
        if times
    )


def _of(counts: tuple[InstructionCount, ...], action: Action, space: Space, name: str) -> int:
    return sum(getattr(count, name) for count in counts if count.action is action and count.space is space)


def machine_counts(program: MachineProgram, counts: tuple[InstructionCount, ...], visits: NDArray[np.int64]) -> Counts:
    """Counts from totals by instruction and visits by unit.

    What accesses memory is a request where it has an active lane; with all lanes predicated off it is ``control``.
    """
    requests: Counter[int] = Counter()
    for count in counts:
        if count.action is Action.ASYNC_COPY and count.space is Space.GLOBAL:
            continue
        if count.action not in (Action.SHUFFLE, Action.VOTE):
            requests[count.instruction] += count.requests
    classes: Counter[str] = Counter()
    off: Counter[str] = Counter()
    for index, (instruction, times) in enumerate(zip(program.instructions, executions(program, visits), strict=True)):
        name, issued = instruction.class_name, int(times)
        if not issued:
            continue
        if name in INSTRUCTION_CLASSES and name != "atomics":
            classes[name] += issued
            continue
        # a generic access to two spaces is one instruction and two requests
        active = min(requests[index], issued) if not instruction.never else 0
        classes["atomics" if name == "atomics" else "memory"] += active
        classes["control"] += issued - active
        off[name] += issued - active
    load, store, reduce, copy = Action.LOAD, Action.STORE, Action.REDUCTION, Action.ASYNC_COPY
    shared = [_of(counts, a, Space.SHARED, "wavefronts") for a in (load, store)]
    ideal = [_of(counts, a, Space.SHARED, "conflict_free_wavefronts") for a in (load, store)]
    by_class = {name: float(classes[name]) for name in INSTRUCTION_CLASSES}
    return Counts(
        global_load_requests=float(_of(counts, load, Space.GLOBAL, "requests")),
        global_load_sectors=float(_of(counts, load, Space.GLOBAL, "sectors")),
        global_load_lines=float(_of(counts, load, Space.GLOBAL, "lines")),
        global_store_requests=float(_of(counts, store, Space.GLOBAL, "requests")),
        global_store_sectors=float(_of(counts, store, Space.GLOBAL, "sectors")),
        global_reduction_requests=float(_of(counts, reduce, Space.GLOBAL, "requests")),
        shared_load_requests=float(_of(counts, load, Space.SHARED, "requests")),
        shared_store_requests=float(_of(counts, store, Space.SHARED, "requests")),
        shared_load_wavefronts=float(shared[0]),
        shared_store_wavefronts=float(shared[1]),
        shared_bank_conflicts=float(sum(shared) - sum(ideal)),
        async_copy_requests=float(_of(counts, copy, Space.SHARED, "requests")),
        async_copy_wavefronts=float(_of(counts, copy, Space.SHARED, "wavefronts")),
        async_copy_read_requests=float(_of(counts, copy, Space.GLOBAL, "requests")),
        async_copy_read_sectors=float(_of(counts, copy, Space.GLOBAL, "sectors")),
        async_copy_read_wavefronts=float(_of(counts, copy, Space.GLOBAL, "wavefronts")),
        constant_load_requests=float(_of(counts, load, Space.CONSTANT, "requests")),
        local_load_sectors=float(_of(counts, load, Space.LOCAL, "sectors")),
        local_store_sectors=float(_of(counts, store, Space.LOCAL, "sectors")),
        shared_load_predicated_off=float(off["shared_load"]),
        shared_store_predicated_off=float(off["shared_store"]),
        async_copy_predicated_off=float(off["async_copy"]),
        warp_instructions=float(sum(classes.values())),
        **by_class,
    )
