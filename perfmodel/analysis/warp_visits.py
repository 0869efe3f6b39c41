"""How often single warps walk through the basic blocks of a kernel, seen from their global loads."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..launch import KernelCall, Launch
from ..simulator import Budget, Mode, Module, Space, simulate


@dataclass(slots=True)
class _Loads:
    """Executions of each global load by each warp."""

    counts: dict[int, dict[int, int]] = field(default_factory=dict)

    def access(
        self,
        instruction: int,
        space: Space,
        store: bool,
        width: int,
        block: NDArray[np.int64],
        warp: NDArray[np.int64],
        addresses: NDArray[np.uint64],
        active: NDArray[np.bool_],
    ) -> None:
        """Count one instruction of some warps."""
        if not store:
            for number in warp.tolist():
                own = self.counts.setdefault(number, {})
                own[instruction] = own.get(instruction, 0) + 1


def visits_of_warps(
    module: Module, kernel: str, launch: Launch, call: KernelCall, visits: NDArray[np.float64], budget: Budget
) -> list[NDArray[np.float64]]:
    """Visits of each basic block by the warps of the block in the middle of the grid, every different pattern once.

    Blocks that load are seen exactly; one without a load is taken to be visited like a loading block that the whole launch visits
    as often, else as often as by the average warp. ``visits`` are those of the whole launch.
    """
    gx, gy, gz = launch.grid
    middle = ((gz - 1) // 2 * gy + (gy - 1) // 2) * gx + (gx - 1) // 2
    seen = _Loads()
    found = simulate(
        module,
        kernel,
        launch,
        call,
        mode=Mode.TRACE,
        blocks=np.array([middle], np.int64),
        budget=budget,
        observer=seen,
    )
    first = np.array([block.first for block in found.kernel.blocks])
    average = visits / float(launch.blocks * launch.warps_per_block)
    patterns: dict[bytes, NDArray[np.float64]] = {}
    for loads in seen.counts.values():
        own = np.zeros(len(first))
        for instruction, times in loads.items():
            block = int(np.searchsorted(first, instruction, side="right")) - 1
            own[block] = max(own[block], times)
        pattern = _completed(own, average, loading=_loading_blocks(seen, first))
        patterns[pattern.tobytes()] = pattern
    return list(patterns.values())


def _loading_blocks(seen: _Loads, first: NDArray[np.int64]) -> NDArray[np.int64]:
    """Blocks in which some warp loads."""
    instructions = sorted({instruction for loads in seen.counts.values() for instruction in loads})
    return np.unique(np.searchsorted(first, instructions, side="right") - 1)


def _completed(
    own: NDArray[np.float64], average: NDArray[np.float64], loading: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Visits of all blocks from those of the loading ones."""
    result = average.copy()
    result[loading] = own[loading]
    for block in np.setdiff1d(np.arange(len(own)), loading):
        alike = loading[average[loading] == average[block]]
        if len(alike):
            result[block] = own[alike[0]]
    return result
