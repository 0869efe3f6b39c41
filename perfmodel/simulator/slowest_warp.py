"""The warp that a block waits for longest: what it executes, how long it would need alone, how often it waits for L2.

Loads go behind L1 where they touch a sector that their block has not touched before; the others are served by L1, whose
latency is part of the warp's own cycles.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ..compiler import CompiledKernel
from ..compiler.sass import CodeProfile
from ..compiler.sass_schedule import lone_warp_cycles, round_trips_of_blocks
from ..definitions import SECTOR_BYTES, WARP_SIZE
from ..facts import Facts
from ..launch import KernelCall, Launch
from .executed import PtxExecution, executed_counts
from .module import Kernel, Module, Space
from .simulation import Budget, Mode, simulate

_UNLIKE = 0.4
"""Machine instructions for each one of the PTX, or the inverse, below which executions are not believed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowestWarp:
    """Of the warps of the block in the middle of the grid: the most cycles alone, the most waits for memory behind L1."""

    cycles: float | None
    """None where the machine code is not decoded."""
    round_trips: float


@dataclass(slots=True)
class _FirstTouches:
    """The sectors that warps load, in program order."""

    warps: list[NDArray[np.int64]] = field(default_factory=list)
    sectors: list[NDArray[np.uint64]] = field(default_factory=list)
    loads: int = 0
    numbers: list[NDArray[np.int64]] = field(default_factory=list)

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
        """Keep the sectors of one load of some warps; a lane that reads across sectors counts by its first."""
        if store:
            return
        rows, lanes = np.nonzero(active)
        self.warps.append(warp[rows])
        self.sectors.append(addresses[rows, lanes] // np.uint64(SECTOR_BYTES))
        self.numbers.append(self.loads + rows)
        self.loads += len(warp)

    def missing_loads(self, warps: int) -> NDArray[np.int64]:
        """For each warp, how many of its loads touch a sector that no load of the block touched before."""
        if not self.warps:
            return np.zeros(warps, np.int64)
        warp, number = np.concatenate(self.warps), np.concatenate(self.numbers)
        _, first = np.unique(np.concatenate(self.sectors), return_index=True)
        _, once = np.unique(number[first], return_index=True)
        return np.bincount(warp[first][once], minlength=warps)


def slowest_warp(
    compiled: CompiledKernel, module: Module, launch: Launch, call: KernelCall, budget: Budget | None = None
) -> SlowestWarp:
    """Execute one block and follow each different warp through the machine code.

    Before sm_70, whose machine code is not decoded, a round trip is counted for each block of PTX that loads.

    Raises:
        SimulationError: the kernel cannot be executed on the CPU.
    """
    profile = compiled.profile()
    touches = _FirstTouches()
    found = simulate(
        module,
        compiled.kernel_name,
        launch,
        call,
        mode=Mode.TRACE,
        blocks=np.array([middle_block(launch)], np.int64),
        budget=budget,
        observer=touches,
        per_warp=True,
    )
    assert found.per_warp is not None
    visits = found.per_warp[0]
    missing = touches.missing_loads(len(visits))
    loads = visits @ _loading(found.kernel)
    if profile.estimated:
        return SlowestWarp(cycles=None, round_trips=float(np.minimum(loads, missing).max()))
    code = _Schedule.of(profile)
    walked, behind_l1 = [], []
    for row in np.unique(np.column_stack([visits, missing, loads]), axis=0):
        cycles, waits = code.walk(found.kernel, row[:-2], row[-1])
        behind_l1.append(min(waits, float(row[-2])))
        walked.append(cycles)
    return SlowestWarp(cycles=max(walked), round_trips=max(behind_l1))


@dataclass(frozen=True, slots=True)
class _Schedule:
    """The machine code's basic blocks: cycles, round trips and instructions of each."""

    profile: CodeProfile
    cycles: NDArray[np.float64]
    round_trips: NDArray[np.float64]
    instructions: NDArray[np.int64]

    @classmethod
    def of(cls, profile: CodeProfile) -> _Schedule:
        """That of decoded machine code."""
        assert profile.flow is not None
        lengths = np.asarray(profile.flow.stop - profile.flow.first, np.int64)
        cycles = lone_warp_cycles(profile)
        return cls(profile, cycles, round_trips_of_blocks(profile, cycles), lengths)

    def walk(self, kernel: Kernel, visits: NDArray[np.int64], loads: int) -> tuple[float, float]:
        """Cycles and waits of a warp with these visits of the PTX and as many waits if each of its blocks waited once.

        Where loops of PTX and machine code cannot be brought together, executions come out far from the PTX's; then the
        average instruction of the machine code stands for each of the PTX.
        """
        executions = _executions(self.profile, kernel, visits)
        expected = float(visits @ np.array([len(block.instructions) for block in kernel.blocks]))
        if _UNLIKE < float(self.instructions @ executions) / max(expected, 1.0) < 1 / _UNLIKE:
            return float(self.cycles @ executions), float(self.round_trips @ executions)
        return expected * float(self.cycles.sum()) / float(self.instructions.sum()), float(loads)


def middle_block(launch: Launch) -> int:
    """Linear index of the block in the middle of the grid.

    >>> middle_block(Launch(grid_x=4, grid_y=3, block_x=32))
    5
    """
    gx, gy, gz = launch.grid
    return int(((gz - 1) // 2 * gy + (gy - 1) // 2) * gx + (gx - 1) // 2)


def _executions(profile: CodeProfile, kernel: Kernel, visits: NDArray[np.int64]) -> NDArray[np.float64]:
    """How often one warp executes each basic block of the machine code, from its visits of those of the PTX."""
    execution = PtxExecution(
        visits=visits.astype(np.float64),
        requests={},
        local_load_sectors=0.0,
        local_store_sectors=0.0,
        warps=1.0,
        threads_per_block=WARP_SIZE,
    )
    return executed_counts(profile, kernel.blocks, execution).block_executions


def _loading(kernel: Kernel) -> NDArray[np.int64]:
    """1 for each basic block of PTX that loads from global memory."""
    loads = [any(i.name == "ld" and "global" in i.parts for i in block.instructions) for block in kernel.blocks]
    return np.array(loads, np.int64)


def with_serial(facts: Facts, slowest: SlowestWarp) -> Facts:
    """The facts with the serial structure of a warp put in.

    How far asynchronous copies run ahead of their use does not show in the scoreboards: then a closed form has to say how
    often a warp waits.
    """
    ahead = float(np.asarray(facts.counts.async_copy_requests)) > 0
    trips = facts.global_round_trips if ahead else slowest.round_trips
    return replace(facts, warp_cycles=slowest.cycles, global_round_trips=trips)
