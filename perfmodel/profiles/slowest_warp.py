"""The warp that a block waits for longest: what it executes, how long it would need alone, how often it waits for L2.

Loads go behind L1 where they touch a sector that their block has not touched before; the others are served by L1, whose
latency is part of the warp's own cycles.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..compiler.compiled import CompiledKernel
from ..core.constants import WARP_SIZE
from ..machine_code.code_profile import CodeProfile, profile_of
from ..machine_code.schedule import lone_warp_cycles, round_trips_of_blocks
from ..program.instruction import Instruction
from ..program.kernel import Kernel
from .blocks.watched_block import WatchedBlock
from .matching.executed import PtxExecution, executed_counts

_UNLIKE = 0.4
"""Machine instructions for each one of the PTX, or the inverse, below which executions are not believed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowestWarp:
    """Of the warps of the block in the middle of the grid: the most cycles alone, the most waits for memory behind L1.

    ``instructions`` are those that the warp with the most cycles executes.
    """

    cycles: float
    """NaN where the machine code is not decoded."""
    instructions: float
    """Likewise."""
    round_trips: float
    copy_round_trips: float = 0.0
    """Of asynchronous copies: each wait lets some groups of copies run on, over which a latency is spread."""
    read_only_share: float = 0.0
    """Part of the block's global loads that go by the read-only path."""


def slowest_warp(compiled: CompiledKernel, kernel: Kernel, watched: WatchedBlock) -> SlowestWarp:
    """Follow each different warp of an executed block through the machine code.

    Before sm_70, whose machine code is not decoded, a round trip is counted for each block of PTX that loads.

    Args:
        compiled: the kernel.
        kernel: the version of it that was executed.
        watched: its block (`LaunchCounts.watched`).
    """
    profile = profile_of(compiled)
    visits = watched.visits
    missing = watched.missing_loads()
    loads = visits @ _loading(kernel)
    rest = {
        "copy_round_trips": _copy_round_trips(kernel, visits),
        "read_only_share": _read_only_share(kernel, visits.sum(axis=0)),
    }
    if profile.estimated:
        return SlowestWarp(
            cycles=np.nan, instructions=np.nan, round_trips=float(np.minimum(loads, missing).max()), **rest
        )
    code = _Schedule.of(profile)
    walked, behind_l1 = [], []
    for row in np.unique(np.column_stack([visits, missing, loads]), axis=0):
        cycles, instructions, waits = code.walk(kernel, row[:-2], row[-1])
        behind_l1.append(min(waits, float(row[-2])))
        walked.append((cycles, instructions))
    cycles, instructions = max(walked)
    return SlowestWarp(cycles=cycles, instructions=instructions, round_trips=max(behind_l1), **rest)


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

    def walk(self, kernel: Kernel, visits: NDArray[np.int64], loads: int) -> tuple[float, float, float]:
        """Cycles, instructions and waits of a warp with these visits of the PTX; ``loads``: waits if each block waited once.

        Where loops of PTX and machine code cannot be brought together, executions come out far from the PTX's; then the
        average instruction of the machine code stands for each of the PTX.
        """
        executions = _executions(self.profile, kernel, visits)
        expected = float(visits @ np.array([len(block.instructions) for block in kernel.blocks]))
        instructions = float(self.instructions @ executions)
        if _UNLIKE < instructions / max(expected, 1.0) < 1 / _UNLIKE:
            return float(self.cycles @ executions), instructions, float(self.round_trips @ executions)
        return expected * float(self.cycles.sum()) / float(self.instructions.sum()), expected, float(loads)


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


def _read_only_share(kernel: Kernel, visits: NDArray[np.int64]) -> float:
    """Part of the global loads of a block, whose warps together enter each basic block so often, that are ``ld.global.nc``."""
    loads = [[i.parts for i in block.instructions if i.name == "ld" and "global" in i.parts] for block in kernel.blocks]
    all_of_them = float(visits @ np.array([len(found) for found in loads], np.int64))
    read_only = float(visits @ np.array([sum("nc" in parts for parts in found) for found in loads], np.int64))
    return read_only / max(all_of_them, 1.0)


def _copy_round_trips(kernel: Kernel, visits: NDArray[np.int64]) -> float:
    """Latencies of asynchronous copies that the warps with these visits (one row each) wait for, at most.

    ``cp.async.wait_group n`` lets the last n groups run on: what it waits for was asked for n + 1 groups ago, so that so many
    waits share one latency. With a slab in each group this is slabs over slabs in flight; that the last waits of a pipeline
    let fewer run on makes them no longer, as nothing was asked for since.
    """
    running_on = [[n for one in block.instructions if (n := _groups_left(one)) is not None] for block in kernel.blocks]
    waits = visits @ np.array([len(groups) for groups in running_on], np.int64)
    met = np.flatnonzero(visits.max(axis=0)).tolist()
    most = max((groups for block in met for groups in running_on[block]), default=0)
    return float(np.ceil(waits.max() / (1 + most)))


def _groups_left(instruction: Instruction) -> int | None:
    """Groups of copies that an instruction lets run on; None where it does not wait for any."""
    kind = instruction.opcode.removeprefix("cp.async.")
    if kind == "wait_all":
        return 0
    return int(instruction.operand(0), 0) if kind == "wait_group" else None
