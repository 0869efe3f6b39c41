"""What one candidate executes, before it is summed over the launch into ``Counts``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .accesses import SharedTraffic, Traffic


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Global traffic of the launch; shared traffic and instructions (by the names of ``Counts``) of one block.

    ``input_sectors`` and ``weight_sectors`` are what all blocks together ask L2 for where L1 keeps nothing from block to
    block; ``round_trips``, ``chains`` and ``loop_instructions`` are ``Work``'s of a warp, thread and warp.
    """

    blocks: int
    input_sectors: int
    weight_sectors: int
    global_loads: Traffic
    global_stores: Traffic
    shared_loads_per_block: SharedTraffic
    shared_stores_per_block: SharedTraffic
    instructions_per_block: Mapping[str, int]
    warps_per_block: int
    round_trips: int
    chains: int
    loop_instructions: float


def straight_instructions(
    instructions: Mapping[str, int], loads: SharedTraffic, stores: SharedTraffic, warps: int
) -> float:
    """Instructions of an average warp of a block without global requests: the length of unrolled code."""
    return (sum(instructions.values()) + loads.requests + stores.requests) / warps
