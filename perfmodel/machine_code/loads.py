"""Global loads that a warp has in flight together, as the scoreboards of the machine code tell."""

from __future__ import annotations

import numpy as np

from ..core.constants import INSTRUCTION_BYTES
from .code_profile import CodeProfile
from .opcodes import LOADS_THROUGH_L1
from .schedule import BARRIERS, fields


def loads_in_flight(profile: CodeProfile) -> dict[int, int]:
    """The number of the round trip of each global load that some path reaches, by the index of the instruction.

    Loads with the same number are issued before the warp waits for any of them: a new round trip begins with the first load
    after an instruction that waits for a load, after a branch back and after a barrier of the block. Empty where the code is
    not decoded.
    """
    decoded, flow = profile.decoded, profile.flow
    if decoded is None or flow is None:
        return {}
    _, releases, _, waits = (values.tolist() for values in fields(decoded.words))
    of_class = np.logical_or.reduce([decoded.is_class(name) for name in LOADS_THROUGH_L1])
    loads = (of_class & flow.reachable[flow.block_of_instruction()]).tolist()
    here = np.arange(len(decoded)) * INSTRUCTION_BYTES
    back = decoded.is_mnemonic("BRA", "JMP") & (decoded.target >= 0) & (decoded.target <= here)
    ends = (back | decoded.is_mnemonic("BAR")).tolist()
    trip, awaited, trips = 0, 0, {}
    for index, (load, release, waited, end) in enumerate(zip(loads, releases, waits, ends, strict=True)):
        if awaited & waited:
            trip, awaited = trip + 1, 0
        if load:
            trips[index] = trip
            awaited |= 1 << release if release < BARRIERS else 0
        if end and awaited:
            trip, awaited = trip + 1, 0
    return trips
