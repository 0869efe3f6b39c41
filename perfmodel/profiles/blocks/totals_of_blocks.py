"""Totals of the blocks of a launch: how often each place of the code was visited, and what each memory instruction asked for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.counts import Counts
from ...memory.access_counts import BLOCK_TOTALS, InstructionCount, instruction_counts
from ...simulator.access import Site
from ...simulator.execution import Code
from ..totals import launch_counts


@dataclass(slots=True)
class BlockTotals:
    """What has been counted: visits of places by warps, and totals of accesses by site."""

    visits: NDArray[np.float64]
    sites: dict[int, tuple[Site, NDArray[np.float64]]] = field(default_factory=dict)

    @classmethod
    def of(cls, places: int) -> BlockTotals:
        """Nothing yet, of code of so many places."""
        return cls(np.zeros(places))

    def add(self, site: Site, totals: NDArray[Any]) -> None:
        """Add totals of one site."""
        _, before = self.sites.get(site.number, (site, np.zeros(len(BLOCK_TOTALS))))
        self.sites[site.number] = (site, before + totals)

    def instructions(self) -> tuple[InstructionCount, ...]:
        """Records of the memory instructions that were reached."""
        return instruction_counts(self.sites.values())

    def counts(self, kernel: Code) -> Counts:
        """Under the project's names."""
        found = self.instructions()
        return launch_counts(kernel, found, np.rint(self.visits).astype(np.int64), found)


def idle_blocks(lengths: NDArray[np.int64], visits_by_block: NDArray[Any], sites: Iterable[Site]) -> NDArray[np.bool_]:
    """Which executed blocks come to no instruction that accesses memory, of the sites of their run.

    ``lengths``: instructions of each place of the code.
    """
    place_of = np.repeat(np.arange(len(lengths)), lengths)
    idle = np.ones(len(visits_by_block), np.bool_)
    for place in {int(place_of[site.instruction_index]) for site in sites}:
        idle &= visits_by_block[:, place] == 0
    return idle
