"""Warps whose lanes go different ways: what the launch would take if the lanes of a warp did the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from ..core.constants import INSTRUCTION_BYTES, SECTOR_BYTES
from ..machine_code.issue_table import Wait
from ..machine_code.program import Transfer, is_conditional, transfer_of
from ..profiles.access_patterns import NO_LANE
from ..profiles.kernel_profile import KernelProfile
from ..profiles.warp_traces import WarpTraces
from .changed_profiles import with_fewer_instructions
from .subject import AdviceKind, Candidate, Subject, places_of

_TOGETHER = (Wait.BARRIER, Wait.COPY_GROUP, Wait.COPY_WAIT)
"""What each warp executes however few of its lanes do."""
_PER_LANE = (
    Wait.GLOBAL_LOAD,
    Wait.GLOBAL_STORE,
    Wait.GLOBAL_REDUCTION,
    Wait.GLOBAL_ATOMIC,
    Wait.LOCAL_LOAD,
    Wait.LOCAL_STORE,
)
"""Requests whose sectors grow with their lanes."""
_LOADS = (Wait.GLOBAL_LOAD, Wait.ASYNC_COPY)
_LEFT = 0.9
"""Lanes in a loop over those that come to it, below which they leave it one after the other."""
_LEAST_SHARE = 0.05
"""Part of the launch's instructions that would go, below which divergence is not worth a look."""


def divergence(subject: Subject) -> Iterator[Candidate]:
    """A candidate in which as few warps execute each instruction as hold the lanes that do."""
    shares = _shares(subject)
    gone = {index: subject.executions[index] * (1.0 - share) for index, share in shares.items()}
    total = float(sum(subject.executions))
    if not total or sum(gone.values()) < _LEAST_SHARE * total:
        return
    traces: WarpTraces = subject.profile.traces
    executions, lanes = np.array(subject.executions), np.asarray(traces.active_lanes)
    divergent = np.array(sorted(gone))
    active = float(executions[divergent] @ lanes[divergent] / executions[divergent].sum())
    part = float(executions[divergent].sum()) / total
    yield Candidate(
        kind=AdviceKind.DIVERGENCE,
        places=places_of(subject, gone),
        finding=f"{active:.3g} lanes of a warp are active on average in {part:.0%} of the instructions",
        change="lanes that loop equally often (rows sorted by length, a warp for each row)"
        if _loops(subject, gone)
        else "lanes of a warp that take the same branch (data sorted by it, or an index by which neighbours agree)",
        profile=_packed(subject, shares),
    )


def _shares(subject: Subject) -> Mapping[int, float]:
    """Of each divergent instruction the part of its executions that warps full of lanes would need.

    A block's warps need no fewer than the one of them that executes it most often.
    """
    traces: WarpTraces | None = subject.profile.traces
    if traces is None or traces.active_lanes is None or not subject.code:
        return {}
    launch = subject.profile.launch
    full = float(launch.threads_per_block) / traces.warps_per_block
    executed, most = _visits(traces)
    needed = np.maximum(executed * traces.active_lanes / full, most)
    share = np.minimum(needed / np.maximum(executed, 1.0), 1.0)
    found = np.flatnonzero((share < 1.0) & (executed > 0) & ~np.isin(traces.table.wait, _TOGETHER))
    return {int(index): float(share[index]) for index in found if transfer_of(subject.code[index]) is not Transfer.EXIT}


def _visits(traces: WarpTraces) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """How often the followed blocks execute each instruction; and how often the warp does that does most, summed over blocks."""
    executed, most = np.zeros((2, len(traces.table)))
    for block in range(traces.observed):
        of_warps = np.zeros((traces.warps_per_block, len(traces.table) + 1))
        for warp, row in enumerate(of_warps):
            number = block * traces.warps_per_block + warp
            own = slice(traces.offsets[number], traces.offsets[number + 1])
            np.add.at(row, traces.first[own], 1)
            np.add.at(row, traces.first[own] + traces.length[own], -1)
        visits = np.cumsum(of_warps, axis=1)[:, :-1]
        executed += visits.sum(axis=0)
        most += visits.max(axis=0)
    return executed, most


def _loops(subject: Subject, gone: Mapping[int, float]) -> bool:
    """Whether most of what would go lies in loops that have fewer lanes on average than come to them."""
    lanes = subject.profile.traces.active_lanes
    within: set[int] = set()
    for last, one in enumerate(subject.code):
        if last not in gone or transfer_of(one) is not Transfer.BRANCH or not is_conditional(one):
            continue
        assert one.target is not None
        first = one.target // INSTRUCTION_BYTES
        if 0 < first <= last and lanes[last] < _LEFT * lanes[first - 1]:
            within.update(range(first, last + 1))
    return sum(amount for index, amount in gone.items() if index in within) > 0.5 * sum(gone.values())


def _packed(subject: Subject, shares: Mapping[int, float]) -> KernelProfile:
    """The profile with fewer executions; requests that are left ask for the sectors of the others, up to those of full ones."""
    profile = with_fewer_instructions(subject, subject.profile, shares)
    traces: WarpTraces = profile.traces
    memory, loads = traces.memory, traces.loads
    more = np.ones(len(traces.table))
    for index, share in shares.items():
        if traces.table.wait[index] in _PER_LANE and memory.sectors[index]:
            full = max(_sectors_of_lanes(subject, index) / float(memory.sectors[index]), 1.0)
            more[index] = min(1.0 / share, full)
    asked = np.where(np.isin(traces.table.wait, _LOADS), memory.requests * memory.sectors, 0.0)
    grown = float(asked @ more) / max(float(asked.sum()), 1.0)
    changed = structs.replace(
        traces,
        memory=replace(
            memory, sectors=memory.sectors * more, lines=memory.lines * more, wavefronts=memory.wavefronts * more
        ),
        loads=replace(loads, sectors=np.ceil(loads.sectors * grown).astype(np.int64)),
    )
    return replace(profile, traces=changed)


def _sectors_of_lanes(subject: Subject, index: int) -> int:
    """Sectors of the request of an instruction that has most lanes; 0 where nobody looked."""
    lanes = subject.lanes_of(index)
    return 0 if lanes is None else len(np.unique(lanes[lanes != NO_LANE] // SECTOR_BYTES))
