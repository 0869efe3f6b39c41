"""How often a warp waits for global loads: read from the scoreboard fields of the machine code and what was executed.

An instruction of sm_70 and newer carries, from bit 105 on, stall cycles (4 bits), yield (1), the scoreboard barrier that its
result releases (3, 7 for none), the one that its operands release (3) and the mask of barriers that it waits for (6).
Source: Jia et al., "Dissecting the NVIDIA Volta GPU architecture via microbenchmarking" (2018), section 2.1;
compared with compiled kernels.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..compiler.sass import CodeProfile

_BARRIERS = 6
_NO_BARRIER = 7
_COPY_GROUPS = 6
"""Place of the groups of asynchronous copies beside the six barriers."""
_WRITE_BARRIER_BIT, _WAIT_MASK_BIT = 110 - 64, 116 - 64
_NONE = -(10**6)
_PASSES = 3
"""Walks over the code until what is in flight around loops has settled."""


def round_trips(profile: CodeProfile, executions: Sequence[NDArray[np.float64]]) -> float:
    """Groups of global loads that the slowest of some warps issues together and then waits for, one group after the other.

    Loads that are in flight together cost one round trip.

    Args:
        profile: decoded machine code.
        executions: for each warp, how often it executes each basic block of the machine code.
    """
    waits = _waits_of_blocks(profile)
    return float(round(max((float(waits @ times) for times in executions), default=0.0)))


def _waits_of_blocks(profile: CodeProfile) -> NDArray[np.float64]:
    """Round trips that end in each basic block."""
    decoded, flow = profile.decoded, profile.flow
    assert decoded is not None
    assert flow is not None
    high = decoded.words[:, 1]
    write = (high >> np.uint64(_WRITE_BARRIER_BIT)).astype(np.int64) & 7
    mask = (high >> np.uint64(_WAIT_MASK_BIT)).astype(np.int64) & 63
    loads = decoded.is_class("global_load") | decoded.is_class("global_reduction")
    commits, drains = decoded.is_mnemonic("LDGDEPBAR"), decoded.is_mnemonic("DEPBAR")
    before: dict[int, list[int]] = {block: [] for block in range(len(flow))}
    for tail, head in flow.edges:
        before[head].append(tail)
    waits = np.zeros(len(flow))
    leaving = [[_NONE] * (_BARRIERS + 1) for _ in range(len(flow))]
    for _ in range(_PASSES):
        for block in range(len(flow)):
            flight = [max(column) for column in zip(*(leaving[b] for b in before[block]), strict=True)]
            flight = flight or [_NONE] * (_BARRIERS + 1)
            waits[block] = 0
            for index in range(int(flow.first[block]), int(flow.stop[block])):
                waited = [b for b in range(_BARRIERS) if mask[index] >> b & 1]
                waited += [_COPY_GROUPS] if drains[index] else []
                waits[block] += _wait(flight, waited)
                if loads[index] and write[index] != _NO_BARRIER:
                    flight[write[index]] = 0
                if commits[index]:
                    flight[_COPY_GROUPS] = 0
            leaving[block] = flight
    return waits


def _wait(flight: list[int], waited: list[int]) -> int:
    """Let the barriers in ``waited`` pass: 1 if a load among them was issued after the last wait, else 0.

    ``flight`` holds, for each barrier, how many waits ago its youngest load was issued, as a number of 0 or below.
    """
    newest = max((flight[b] for b in waited), default=_NONE)
    for barrier in waited:
        flight[barrier] = _NONE
    if newest < 0:
        return 0
    for barrier, age in enumerate(flight):
        flight[barrier] = age - 1 if age > _NONE else age
    return 1
