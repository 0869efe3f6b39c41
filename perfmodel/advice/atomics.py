"""Atomics on global memory that queue in L2: what adding up within warps, or within blocks, would save."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from msgspec import structs

from ..ir.instruction import Space
from ..machine_code.issue_table import Wait
from ..memory.access_counts import InstructionCount
from ..profiles.kernel_profile import KernelProfile
from ..profiles.warp_traces import WarpTraces
from ..simulator.access import Action
from .changed_profiles import with_added
from .subject import AdviceKind, Candidate, Subject, by_place

_BUSIEST = ("l2_busiest_slice_atomics", "l2_busiest_word_atomics", "l2_busiest_float_atomics")
_SHARED = 0.9
"""Distinct words over lanes from which on there is nothing to add up."""


def atomics(subject: Subject) -> Iterator[Candidate]:
    """For each source line, a candidate with one atomic a warp and word, and one with one a block and word."""
    traces: WarpTraces | None = subject.profile.traces
    if traces is None or traces.patterns is None:
        return
    patterns = traces.patterns
    lines = by_place(
        one for one in subject.instructions if one.space is Space.GLOBAL and one.action is Action.REDUCTION
    )
    for place, counts in lines.items():
        lanes = sum(one.lanes for one in counts)
        for owner, words, change in (
            (
                "warp",
                patterns.atomic_words_of_requests,
                "adding up within each warp (shuffles) and one atomic per word",
            ),
            ("block", patterns.atomic_words_of_blocks, "adding up in shared memory and one atomic per block and word"),
        ):
            distinct = sum(one.lanes * float(words[one.instruction]) for one in counts)
            if 0 < distinct < _SHARED * lanes:
                yield Candidate(
                    kind=AdviceKind.ATOMICS,
                    places=(place,),
                    finding=f"{lanes / distinct:,.3g} lanes of a {owner} add to one word",
                    change=change,
                    profile=_aggregated(subject, counts, distinct / lanes, in_shared=owner == "block"),
                )


def _aggregated(subject: Subject, counts: Sequence[InstructionCount], left: float, *, in_shared: bool) -> KernelProfile:
    """The profile in which a part of the atomics is left; in shared memory, all are done there first."""
    profile = subject.profile
    traces: WarpTraces = profile.traces
    patterns = traces.patterns
    assert patterns is not None
    all_lanes = sum(one.lanes for one in subject.instructions if _is_global_atomic(one))
    own = sum(one.lanes for one in counts) / max(all_lanes, 1)
    kept = 1.0 - own * (1.0 - left)
    busiest = {name: getattr(profile.counts, name) * kept for name in _BUSIEST}
    profile = replace(profile, counts=replace(profile.counts, **busiest))
    memory, table = traces.memory, traces.table
    wavefronts, sectors, wait = memory.wavefronts.copy(), memory.sectors.copy(), table.wait.copy()
    for one in counts:
        gone = -one.uncached_sectors * (1.0 - left)
        profile = with_added(profile, l2_atomic_sectors=gone)
        if in_shared:
            passes = float(patterns.atomic_wavefronts[one.instruction])
            profile = with_added(profile, shared_atomic_wavefronts=passes * one.requests)
            wavefronts[one.instruction] = passes
            wait[one.instruction] = Wait.SHARED
        else:
            sectors[one.instruction] = max(sectors[one.instruction] * left, 1.0)
    changed = structs.replace(
        traces,
        memory=replace(memory, wavefronts=wavefronts, sectors=np.asarray(sectors, np.float64)),
        table=replace(table, wait=wait),
    )
    return replace(profile, traces=changed)


def _is_global_atomic(count: InstructionCount) -> bool:
    return count.space is Space.GLOBAL and count.action is Action.REDUCTION
