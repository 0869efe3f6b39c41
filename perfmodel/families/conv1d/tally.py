"""What one candidate executes, before it is summed over the launch into ``Counts``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .accesses import SharedTraffic, Traffic


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Global traffic of the launch; shared traffic and instructions (by the names of ``Counts``) of one block."""

    global_loads: Traffic
    global_stores: Traffic
    shared_loads_per_block: SharedTraffic
    shared_stores_per_block: SharedTraffic
    instructions_per_block: Mapping[str, int]
    warps_per_block: int

    @property
    def instructions_per_warp(self) -> float:
        """Instructions of an average warp without global requests: the length of the unrolled code."""
        shared = self.shared_loads_per_block.requests + self.shared_stores_per_block.requests
        return (sum(self.instructions_per_block.values()) + shared) / self.warps_per_block
