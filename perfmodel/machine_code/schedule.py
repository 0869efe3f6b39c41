"""The compiler's own schedule, read from the machine code: how long a warp alone needs, and how often it waits for memory.

An instruction of sm_70 and newer carries, from bit 105 on, the cycles until the next one may issue (4 bits), yield (1), the
scoreboard barrier that its result releases (3, 7 for none), the one that its operands release (3) and the mask of the
barriers that it waits for (6). Source: Jia et al., "Dissecting the NVIDIA Volta GPU architecture via microbenchmarking"
(2018), section 2.1; compared with compiled kernels.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from ..core.numbers import numbers
from .code_profile import CodeProfile
from .control_flow import ControlFlow
from .opcodes import LOADS_THROUGH_L1

BARRIERS = 6
NO_BARRIER = 7
_STALL_BIT, _WRITE_BIT, _READ_BIT, _WAIT_BIT = 105 - 64, 110 - 64, 113 - 64, 116 - 64
_PASSES = 3
"""Walks over the code until what is in flight around loops has settled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WarpLatencies:
    """Cycles from the issue of an instruction without a fixed latency to its result; the data file says what each one means."""

    shared: int
    l1: int
    far: int
    slow: int
    operands: int


@cache
def warp_latencies() -> WarpLatencies:
    """The latencies that the package ships.

    >>> warp_latencies().l1
    33
    """
    return numbers("warp_latencies", WarpLatencies)


def fields(words: NDArray[np.uint64]) -> tuple[NDArray[np.int64], ...]:
    """Stall cycles, barrier that the result releases, barrier that the operands release, and wait mask of instructions.

    ``words`` has shape ``(n, 2)``, the low and the high half of each.
    """
    high = words[:, 1]

    def field(bit: int, bits: int) -> NDArray[np.int64]:
        return (high >> np.uint64(bit)).astype(np.int64) & ((1 << bits) - 1)

    return field(_STALL_BIT, 4), field(_WRITE_BIT, 3), field(_READ_BIT, 3), field(_WAIT_BIT, 6)


def lone_warp_cycles(profile: CodeProfile, memory_latency: int | None = None) -> NDArray[np.float64]:
    """Cycles that a warp alone on its scheduler spends in each basic block.

    A load that is issued long before its use hides its latency behind what stands between. Empty where the code is not decoded.

    Args:
        profile: the machine code.
        memory_latency: cycles of every global and local load; those of a hit in L1 where None.
    """
    decoded, flow = profile.decoded, profile.flow
    if decoded is None or flow is None:
        return np.zeros(0)
    stall, write, read, mask = (values.tolist() for values in fields(decoded.words))
    known = warp_latencies()
    latency = np.full(len(stall), known.slow)
    for name in ("shared_load", "shuffles", "atomics"):
        latency[decoded.is_class(name)] = known.shared
    for name in (*LOADS_THROUGH_L1, "global_reduction", "local_load"):
        latency[decoded.is_class(name)] = known.l1 if memory_latency is None else memory_latency
    latency[decoded.is_class("async_copy")] = 1
    latencies = latency.tolist()
    before = _predecessors(flow)
    cycles = np.zeros(len(flow))
    nothing = [0] * BARRIERS
    leaving = [nothing for _ in range(len(flow))]
    for _ in range(_PASSES):
        for block in range(len(flow)):
            release = [max(column) for column in zip(*(leaving[b] for b in before[block]), strict=True)] or [*nothing]
            now = 0
            for index in range(int(flow.first[block]), int(flow.stop[block])):
                waited = mask[index]
                if waited:
                    now = max(now, *(release[b] for b in range(BARRIERS) if waited >> b & 1))
                if write[index] != NO_BARRIER and write[index] < BARRIERS:
                    release[write[index]] = max(release[write[index]], now + latencies[index])
                if read[index] != NO_BARRIER and read[index] < BARRIERS:
                    release[read[index]] = max(release[read[index]], now + known.operands)
                now += max(stall[index], 1)
            cycles[block] = now
            leaving[block] = [max(0, time - now) for time in release]
    return cycles


def round_trips_of_blocks(profile: CodeProfile, near: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
    """Latencies of memory behind L1 that a warp alone waits for in each basic block, if every load goes there.

    Loads that are in flight together cost one, and one that other work hides costs the part that is left. ``near``:
    `lone_warp_cycles` where it is known already. Empty where the code is not decoded.
    """
    near = lone_warp_cycles(profile) if near is None else near
    known = warp_latencies()
    return (lone_warp_cycles(profile, known.far) - near) / (known.far - known.l1)


def _predecessors(flow: ControlFlow) -> list[list[int]]:
    before: list[list[int]] = [[] for _ in range(len(flow))]
    for tail, head in flow.edges:
        before[head].append(tail)
    return before
