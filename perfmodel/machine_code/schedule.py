"""The compiler's own schedule, read from the machine code: how long a warp alone needs, and how often it waits for memory.

An instruction of sm_70 and newer carries, from bit 105 on, the cycles until the next one may issue (4 bits), yield (1), the
scoreboard barrier that its result releases (3, 7 for none), the one that its operands release (3) and the mask of the
barriers that it waits for (6). Source: Jia et al., "Dissecting the NVIDIA Volta GPU architecture via microbenchmarking"
(2018), section 2.1; compared with compiled kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from ..core.numbers import numbers
from .control_flow import within_procedures
from .instruction import MachineInstruction
from .opcodes import LOADS_THROUGH_L1
from .operands import Immediate
from .program import MachineCode, reachable_blocks

BARRIERS = 6
"""Scoreboards of a warp."""
NO_BARRIER = 7
"""The number of a scoreboard that is none."""
_STALL_BIT, _WRITE_BIT, _READ_BIT, _WAIT_BIT = 105 - 64, 110 - 64, 113 - 64, 116 - 64
_PASSES = 3
"""Walks over the code until what is in flight around loops has settled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WarpLatencies:
    """Cycles from the issue of an instruction without a fixed latency to its result; the data file says what each one means."""

    shared: int
    l1: int
    l2: int
    l2_atomic: int
    fence: int
    far: int
    slow: int
    phase: int
    product: int
    operands: int


@cache
def warp_latencies() -> WarpLatencies:
    """The latencies that the package ships.

    >>> warp_latencies().l1
    33
    """
    return numbers("warp_latencies", WarpLatencies)


def fields(instructions: Sequence[MachineInstruction]) -> tuple[NDArray[np.int64], ...]:
    """Stall cycles, barrier that the result releases, barrier that the operands release, and wait mask of instructions."""
    high = np.array([instruction.high for instruction in instructions], np.uint64)

    def field(bit: int, bits: int) -> NDArray[np.int64]:
        return (high >> np.uint64(bit)).astype(np.int64) & ((1 << bits) - 1)

    return field(_STALL_BIT, 4), field(_WRITE_BIT, 3), field(_READ_BIT, 3), field(_WAIT_BIT, 6)


def _latency(instruction: MachineInstruction, memory: int) -> int:
    """Cycles to the result of an instruction, by those of a load from global or local memory."""
    known, name = warp_latencies(), instruction.class_name
    if instruction.never:
        return known.slow
    if name in ("shared_load", "shuffles", "atomics"):
        return known.shared
    if name in (*LOADS_THROUGH_L1, "global_reduction", "local_load"):
        return memory
    return 1 if name == "async_copy" else known.slow


def lone_warp_cycles(code: MachineCode, memory_latency: int | None = None) -> NDArray[np.float64]:
    """Cycles that a warp alone on its scheduler spends in each basic block.

    A load that is issued long before its use hides its latency behind what stands between.

    Args:
        code: the machine code.
        memory_latency: cycles of every global and local load; those of a hit in L1 where None.
    """
    stall, write, read, mask = (values.tolist() for values in fields(code.instructions))
    known = warp_latencies()
    memory = known.l1 if memory_latency is None else memory_latency
    latencies = [_latency(instruction, memory) for instruction in code.instructions]
    blocks = code.blocks
    before: list[list[int]] = [[] for _ in range(len(blocks) + 1)]
    for tail, after in enumerate(within_procedures(blocks)[0]):
        for head in after:
            before[head].append(tail)
    cycles = np.zeros(len(blocks))
    nothing = [0] * BARRIERS
    leaving = [nothing for _ in blocks]
    for _ in range(_PASSES):
        for block in blocks:
            entering = (leaving[b] for b in before[block.index])
            release = [max(column) for column in zip(*entering, strict=True)] or [*nothing]
            now = 0
            for index in range(block.first, block.first + len(block.instructions)):
                waited = mask[index]
                if waited:
                    now = max(now, *(release[b] for b in range(BARRIERS) if waited >> b & 1))
                if write[index] < BARRIERS:
                    release[write[index]] = max(release[write[index]], now + latencies[index])
                if read[index] < BARRIERS:
                    release[read[index]] = max(release[read[index]], now + known.operands)
                now += max(stall[index], 1)
            cycles[block.index] = now
            leaving[block.index] = [max(0, time - now) for time in release]
    return cycles


def round_trips_of_blocks(code: MachineCode, near: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
    """Latencies of memory behind L1 that a warp alone waits for in each basic block, if every load goes there.

    Loads that are in flight together cost one, and one that other work hides costs the part that is left. ``near``:
    `lone_warp_cycles` where it is known already.
    """
    near = lone_warp_cycles(code) if near is None else near
    known = warp_latencies()
    return (lone_warp_cycles(code, known.far) - near) / (known.far - known.l1)


def issue_cycles(code: MachineCode) -> NDArray[np.int64]:
    """When a warp alone would issue each instruction, in cycles from the begin of the code, if it waited for no result."""
    stall, *_ = fields(code.instructions)
    return np.cumsum(np.maximum(stall, 1)) - np.maximum(stall, 1)


def copies_ahead(code: MachineCode) -> int:
    """How many groups of asynchronous copies are on their way, at most, while a warp uses what it has copied before.

    0 where a warp waits for its copies by an ``mbarrier``: the code does not say how far ahead they are.
    """
    if not any(i.name == "LDGSTS" and not i.never for i in code.instructions):
        return 0
    waits = [i for i in code.instructions if i.name == "DEPBAR" and i.has("LE") and not i.never]
    return max((o.value or 0 for i in waits for o in i.operands if isinstance(o, Immediate)), default=0)


def loads_in_flight(code: MachineCode) -> dict[int, int]:
    """The number of the round trip of each global load and asynchronous copy that some path reaches, by instruction.

    Loads with the same number are issued before the warp waits for any of them: a new round trip begins with the first load
    after an instruction that waits for a load or for copies, after a branch back and after a barrier of the block.
    """
    _, releases, _, waits = (values.tolist() for values in fields(code.instructions))
    reached = reachable_blocks(code.blocks)
    trip, awaited, copying, trips = 0, 0, False, dict[int, int]()
    for block in code.blocks:
        for index, instruction in enumerate(block.instructions, block.first):
            if awaited & waits[index] or (instruction.name == "DEPBAR" and copying):
                trip, awaited, copying = trip + 1, 0, False
            if instruction.never:
                continue
            if block.index in reached and instruction.name == "LDGSTS":
                trips[index], copying = trip, True
            if block.index in reached and instruction.class_name in LOADS_THROUGH_L1:
                trips[index] = trip
                awaited |= 1 << releases[index] if releases[index] < BARRIERS else 0
            back = instruction.name in ("BRA", "JMP") and (instruction.target or 0) <= instruction.address
            if awaited and (instruction.name == "BAR" or (back and instruction.target is not None)):
                trip, awaited = trip + 1, 0
    return trips
