"""When the warps of one SM issue their instructions, by its model: the time of each instruction, and one block's warps."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from ..launch.launch import L2State
from ..machine_code.issue_table import IssueTable, Wait
from ..machine_code.schedule import BARRIERS
from ..profiles.kernel_profile import KernelProfile
from ..time_model.sm_time import SmIssues, sm_issues
from .feasibility import launch_occupancy
from .prediction import Prediction
from .scenario import Scenario

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_FREE_CYCLES = 2.0
"""Cycles beyond those of the control bits up to which a warp counts as issuing."""


class Waiting(Enum):
    """What a warp does until it issues an instruction (Nsight Compute: warp states)."""

    ISSUING = "issuing"
    MEMORY = "memory (long scoreboard)"
    SHORT = "shared memory, special functions (short scoreboard)"
    BARRIER = "barrier"
    NOT_SELECTED = "pipe taken, not selected"


_LONG = frozenset({Wait.GLOBAL_LOAD, Wait.GLOBAL_ATOMIC, Wait.LOCAL_LOAD, Wait.ASYNC_COPY, Wait.COPY_WAIT})


@dataclass(frozen=True, slots=True, kw_only=True)
class WarpSpan:
    """A stretch of a warp's life before it issues an instruction, in seconds from the start of the launch."""

    warp: int
    instruction: int
    begin_s: float
    end_s: float
    waiting: Waiting


def issues_of(profile: KernelProfile, prediction: Prediction, scenario: Scenario) -> SmIssues | None:
    """What the warps of one SM issue in an executed launch; None where the model of one SM gave no time."""
    if profile.traces is None or scenario.own_coefficients or not prediction.occupancy.blocks_per_sm:
        return None
    return sm_issues(
        profile.traces,
        profile.launch,
        profile.counts,
        launch_occupancy(profile.launch, profile.resources.registers_per_thread, scenario.gpu),
        scenario.gpu,
        warm=scenario.l2 is L2State.WARM,
        touched_bytes=float(profile.touched_bytes),
    )


def time_shares(issues: SmIssues, instructions: int) -> Floats:
    """Part of the warps' time that each instruction takes until it is issued, shape ``(instructions,)``; they sum to 1.

    As a sampling profiler has it: a warp that waits for a load stands at the instruction that needs what is loaded.
    """
    spent = np.zeros(instructions)
    for warp in np.unique(issues.warp):
        own = issues.warp == warp
        index, cycle = issues.instruction[own], issues.cycle[own]
        waited = np.diff(cycle)
        follows = index[1:] != index[0]  # a block's first instruction waits for the block before it
        np.add.at(spent, index[1:][follows], waited[follows])
    total = float(spent.sum())
    return spent / total if total else spent


def timeline(issues: SmIssues, table: IssueTable, clock_hz: float, most_warps: int) -> tuple[WarpSpan, ...]:
    """The first warps of the SM's first block, from their first instruction to their last.

    Args:
        issues: of one SM.
        table: pipes and control bits of the instructions.
        clock_hz: SM clock.
        most_warps: so many warps at most.
    """
    spans: list[WarpSpan] = []
    for warp in range(min(issues.warps_per_block, most_warps)):
        own = issues.warp == warp
        index, cycle = issues.instruction[own], issues.cycle[own]
        again = np.flatnonzero(index[1:] == index[0])
        end = int(again[0]) + 1 if len(again) else len(index)
        spans += _spans(warp, index[:end], cycle[:end] / clock_hz, table, 1.0 / clock_hz)
    return tuple(spans)


def _spans(warp: int, index: Integers, time_s: Floats, table: IssueTable, cycle_s: float) -> list[WarpSpan]:
    """The spans of one warp; ones that follow each other and are alike become one."""
    found: list[WarpSpan] = []
    producer: dict[int, Wait] = {}
    for place in range(1, len(index)):
        before, now = int(index[place - 1]), int(index[place])
        for board in (int(table.write_barrier[before]), int(table.read_barrier[before])):
            if board < BARRIERS:
                producer[board] = Wait(int(table.wait[before]))
        waited = float(time_s[place] - time_s[place - 1]) / cycle_s
        kind = _waiting(waited - float(table.stall_cycles[before]), before, now, producer, table)
        begin, end = float(time_s[place - 1]), float(time_s[place])
        if found and found[-1].waiting is kind and kind is Waiting.ISSUING:
            begin = found.pop().begin_s
        found.append(WarpSpan(warp=warp, instruction=now, begin_s=begin, end_s=end, waiting=kind))
    return found


def _waiting(beyond: float, before: int, now: int, producer: dict[int, Wait], table: IssueTable) -> Waiting:
    """Why a warp took so many cycles more than its control bits say."""
    if beyond <= _FREE_CYCLES:
        return Waiting.ISSUING
    if table.wait[before] == Wait.BARRIER:
        return Waiting.BARRIER
    mask = int(table.wait_mask[now])
    kinds = {producer[board] for board in range(BARRIERS) if mask >> board & 1 and board in producer}
    if kinds & _LONG or table.wait[before] == Wait.COPY_WAIT:
        return Waiting.MEMORY
    return Waiting.SHORT if kinds else Waiting.NOT_SELECTED
