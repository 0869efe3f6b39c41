"""Loads of what the block has loaded before: what shared memory, or registers that serve several results, would save."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ..core.constants import SECTOR_BYTES
from ..ir.instruction import Space
from ..memory.access_counts import InstructionCount
from ..profiles.kernel_profile import KernelProfile
from ..simulator.access import Action
from .changed_profiles import (
    fetched_by_loads,
    widest_request_sectors,
    with_added,
    with_executions,
    with_sectors,
)
from .coalescing import lies_unevenly
from .subject import AdviceKind, Candidate, Subject, by_place

_REPEATED = 2.0
"""Loads of a byte by its block, on average, from which on they are looked at; and sectors fetched over sectors needed."""
_REUSED = 4.0
"""Loads of a byte in shared memory, on average, from which on threads that share it could be one thread."""
_STORES = (Action.STORE, Action.ASYNC_COPY, Action.BULK_READ)
_LEAST_SHARE = 0.05
"""Part of the launch's instructions below which loads are not worth a look."""


def redundant_loads(subject: Subject) -> Iterator[Candidate]:
    """Candidates for lines whose blocks load each byte at least twice.

    One in which each block takes every sector from L2 once, where L1 does not hold them; and one in which each loaded value
    serves two results, so that half of the loads go. Loads whose lanes lie at uneven distances are left out: data decide there
    which values threads have in common.
    """
    fetched, traces = fetched_by_loads(subject), subject.profile.traces
    reuse = None if traces is None or traces.patterns is None else traces.patterns.reuse
    loads = [
        one
        for one in subject.instructions
        if one.instruction in fetched
        and one.action is Action.LOAD
        and reuse is not None
        and reuse[one.instruction] >= _REPEATED
        and not lies_unevenly(subject, one)
    ]
    for place, counts in by_place(loads).items():
        passed = sum(fetched[one.instruction].behind_l1 for one in counts)
        needed = sum(fetched[one.instruction].first_touches for one in counts)
        if passed > _REPEATED * needed:
            yield Candidate(
                kind=AdviceKind.REDUNDANT_LOADS,
                places=(place,),
                finding=f"each block reads the same sectors from L2 {passed / needed:.3g} times",
                change="keeping them in shared memory",
                profile=_once(subject, counts),
            )
    for kind, counts in (("global", loads), ("shared", _reused_shared_loads(subject))):
        share = sum(one.requests for one in counts) / max(float(subject.profile.counts.warp_instructions), 1.0)
        if share > _LEAST_SHARE:
            places = tuple(sorted(by_place(counts), key=lambda place: -_requests(counts, place)))
            yield Candidate(
                kind=AdviceKind.REDUNDANT_LOADS,
                places=places,
                finding=f"{share:.0%} of the instructions load from {kind} memory what other threads of the block load, too",
                change="twice the results per thread (register tiling), so that each loaded value serves two",
                profile=_halved(subject, counts),
            )


def _reused_shared_loads(subject: Subject) -> list[InstructionCount]:
    """Loads from shared memory, where the launch loads each byte that it puts there several times."""
    loads = [one for one in subject.instructions if one.space is Space.SHARED and one.action is Action.LOAD]
    stores = [one for one in subject.instructions if one.space is Space.SHARED and one.action in _STORES]
    loaded, stored = (sum(one.lanes * one.width_bytes for one in counts) for counts in (loads, stores))
    return loads if loaded >= _REUSED * stored else []


def _requests(counts: Sequence[InstructionCount], place: str) -> int:
    return sum(one.requests for one in by_place(counts)[place])


def _once(subject: Subject, counts: Sequence[InstructionCount]) -> KernelProfile:
    """The profile in which blocks take the sectors of some loads from L2 once."""
    profile, fetched = subject.profile, fetched_by_loads(subject)
    for one in counts:
        needed = min(float(one.sectors), widest_request_sectors(one))
        behind_l1 = min(fetched[one.instruction].first_touches, needed)
        profile = with_sectors(subject, profile, one, needed, fetched, behind_l1)
    return profile


def _halved(subject: Subject, counts: Sequence[InstructionCount]) -> KernelProfile:
    """The profile with half of the executions of some loads."""
    profile, fetched = subject.profile, fetched_by_loads(subject)
    for one in counts:
        half = {"warp_instructions": -one.requests / 2}
        if one.space is Space.SHARED:
            half |= {"shared_load_requests": -one.requests / 2, "shared_load_wavefronts": -one.wavefronts / 2}
        else:
            passed = fetched[one.instruction].behind_l1 / 2
            half |= {
                "global_load_requests": -one.requests / 2,
                "global_load_sectors": -one.sectors / 2,
                "global_load_lines": -one.lines / 2,
                "l1_missed_sectors": -passed,
                "l2_read_sectors": -passed,
            }
        profile = with_added(profile, **half)
    read = float(profile.counts.l2_read_sectors) * SECTOR_BYTES
    least = min(float(profile.counts.dram_read_bytes), read)
    profile = replace(profile, counts=replace(profile.counts, dram_read_bytes=least))
    return with_executions(profile, {one.instruction: 0.5 for one in counts})
