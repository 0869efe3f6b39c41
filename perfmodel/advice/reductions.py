"""Reductions in shared memory whose last steps a single warp does: what shuffles, which need no barrier, would save."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from ..ir.instruction import Space
from ..machine_code.issue_table import Wait
from ..memory.access_counts import InstructionCount
from ..profiles.warp_traces import WarpTraces
from ..simulator.access import Action
from .changed_profiles import sequences, with_added, without_places
from .subject import AdviceKind, Candidate, Subject, places_of

Integers = NDArray[np.int64]

_LEAST_STEPS = 3
"""Steps one after the other from which on a warp reduces something."""
_MOST_ACCESSES = 8
"""Loads and stores of a step: two loads and a store for one sum, four and two for a maximum with its index."""
_BLOCK, _PASSED, _WARP, _LOADS, _STORES = range(5)
"""Columns of `AccessPatterns.lone_steps`."""
_BARRIER, _STORE, _LOAD = range(1, 4)
"""Kinds of instructions; others are 0."""


def reductions(subject: Subject) -> Iterator[Candidate]:
    """A candidate in which the other warps are done when one begins such steps, and this one keeps its sums in registers."""
    traces: WarpTraces | None = subject.profile.traces
    if traces is None or traces.patterns is None or not subject.code or traces.warps_per_block < 2:
        return
    runs = _runs(traces.patterns.lone_steps)
    if not runs:
        return
    stores, loads = (
        [one for one in _shared(subject) if one.action is action] for action in (Action.STORE, Action.LOAD)
    )
    kinds = np.zeros(len(traces.table), np.int64)
    kinds[traces.table.wait == Wait.BARRIER] = _BARRIER
    kinds[[one.instruction for one in stores]] = _STORE
    kinds[[one.instruction for one in loads]] = _LOAD
    gone, waits = [], dict[int, float]()
    for number, own in enumerate(sequences(traces)[: traces.observed * traces.warps_per_block]):
        block, warp = divmod(number, traces.warps_per_block)
        places = _superfluous(kinds[own], warp, [run for run in runs if run[0, _BLOCK] == block])
        gone.append(places)
        for index in own[places & (kinds[own] == _BARRIER)].tolist():
            waits[index] = waits.get(index, 0.0) + 1.0
    profile = without_places(subject, gone)
    requests = traces.memory.requests.copy()
    for counts, name, fewer in (
        (stores, "shared_store", sum(int(run[:-1, _STORES].sum()) for run in runs)),
        (loads, "shared_load", sum(int((run[1:, _LOADS] // 2).sum()) for run in runs)),
    ):
        indices = [one.instruction for one in counts]
        part = min(fewer / max(float(requests[indices].sum()), 1.0), 1.0)
        requests[indices] *= 1.0 - part
        lowered = {"requests": sum(one.requests for one in counts), "wavefronts": sum(one.wavefronts for one in counts)}
        profile = with_added(profile, **{f"{name}_{what}": -part * amount for what, amount in lowered.items()})
    changed = structs.replace(profile.traces, memory=replace(traces.memory, requests=requests))
    yield Candidate(
        kind=AdviceKind.REDUCTIONS,
        places=places_of(subject, waits),
        finding=f"all warps of a block wait at a barrier after each of {max(map(len, runs))} steps that one warp does alone",
        change="shuffles within that warp for these steps (__shfl_down_sync; __shfl_up_sync in a scan)",
        profile=replace(profile, traces=changed),
    )


def _shared(subject: Subject) -> Iterator[InstructionCount]:
    return (one for one in subject.instructions if one.space is Space.SHARED)


def _superfluous(kinds: Integers, warp: int, runs: Sequence[Integers]) -> NDArray[np.bool_]:
    """Which of the instructions that a warp issues shuffles do without; ``kinds`` says what each one is."""
    passed = np.cumsum(kinds == _BARRIER) - (kinds == _BARRIER)
    gone = np.zeros(len(kinds), np.bool_)
    for run in runs:
        first, last = run[0, _PASSED], run[-1, _PASSED]
        inside = (passed >= first) & (passed <= last)
        gone |= inside & (passed < last) & ((kinds == _BARRIER) | (kinds == _STORE))
        later = inside & (passed > first)
        if warp != run[0, _WARP]:
            gone |= later & ~((passed == last) & (kinds == _BARRIER))
        else:
            gone[np.flatnonzero(later & (kinds == _LOAD))[::2]] = True
    return gone


def _runs(steps: Integers) -> list[Integers]:
    """Steps of a reduction that follow one another, all of one block and warp; rows of `AccessPatterns.lone_steps`."""
    loads, stores = steps[:, _LOADS], steps[:, _STORES]
    fits = (loads > 0) & (stores > 0) & (loads + stores <= _MOST_ACCESSES)
    kept = steps[fits]
    follows = (np.diff(kept[:, :3], axis=0) == [0, 1, 0]).all(axis=1)
    return [run for run in np.split(kept, np.flatnonzero(~follows) + 1) if len(run) >= _LEAST_STEPS]
