"""The compiler's own schedule, read from the machine code: how long a warp alone needs, and how often it waits for memory.

An instruction of sm_70 and newer carries, from bit 105 on, the cycles until the next one may issue (4 bits), yield (1), the
scoreboard barrier that its result releases (3, 7 for none), the one that its operands release (3) and the mask of the
barriers that it waits for (6). Source: Jia et al., "Dissecting the NVIDIA Volta GPU architecture via microbenchmarking"
(2018), section 2.1; compared with compiled kernels.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .code_profile import CodeProfile
from .control_flow import ControlFlow

BARRIERS = 6
NO_BARRIER = 7
_STALL_BIT, _WRITE_BIT, _READ_BIT, _WAIT_BIT = 105 - 64, 110 - 64, 113 - 64, 116 - 64
SHARED_LATENCY_CYCLES = 24
"""From issue to result of a shared load or shuffle; 22 to 29 cycles on GPUs since Volta (micro-benchmark ``chase_shared``)."""
L1_LATENCY_CYCLES = 33
"""The same for a global load that hits in L1; 32 to 40 cycles on GPUs since Volta (micro-benchmark ``chase_global``)."""
FAR_LATENCY_CYCLES = 400
"""The same for one that does not, where the number of latencies is asked for; between those of L2 and DRAM."""
SLOW_LATENCY_CYCLES = 18
"""The same for what else has no fixed latency: special functions, conversions, FP64, constants by index, special registers."""
_OPERAND_CYCLES = 8
"""Until a store or load has read its operands, so that their registers may be written again."""
_PASSES = 3
"""Walks over the code until what is in flight around loops has settled."""


def fields(words: NDArray[np.uint64]) -> tuple[NDArray[np.int64], ...]:
    """Stall cycles, barrier that the result releases, barrier that the operands release, and wait mask of instructions.

    ``words`` has shape ``(n, 2)``, the low and the high half of each.
    """
    high = words[:, 1]

    def field(bit: int, bits: int) -> NDArray[np.int64]:
        return (high >> np.uint64(bit)).astype(np.int64) & ((1 << bits) - 1)

    return field(_STALL_BIT, 4), field(_WRITE_BIT, 3), field(_READ_BIT, 3), field(_WAIT_BIT, 6)


def lone_warp_cycles(profile: CodeProfile, memory_latency: int = L1_LATENCY_CYCLES) -> NDArray[np.float64]:
    """Cycles that a warp alone on its scheduler spends in each basic block, if every global and local load takes the same.

    A load that is issued long before its use hides its latency behind what stands between. Empty where the code is not
    decoded.
    """
    decoded, flow = profile.decoded, profile.flow
    if decoded is None or flow is None:
        return np.zeros(0)
    stall, write, read, mask = (values.tolist() for values in fields(decoded.words))
    latency = np.full(len(stall), SLOW_LATENCY_CYCLES)
    for name in ("shared_load", "shuffles", "atomics"):
        latency[decoded.is_class(name)] = SHARED_LATENCY_CYCLES
    for name in ("global_load", "global_reduction", "local_load"):
        latency[decoded.is_class(name)] = memory_latency
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
                    release[read[index]] = max(release[read[index]], now + _OPERAND_CYCLES)
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
    far = lone_warp_cycles(profile, FAR_LATENCY_CYCLES)
    return (far - near) / (FAR_LATENCY_CYCLES - L1_LATENCY_CYCLES)


def _predecessors(flow: ControlFlow) -> list[list[int]]:
    before: list[list[int]] = [[] for _ in range(len(flow))]
    for tail, head in flow.edges:
        before[head].append(tail)
    return before
