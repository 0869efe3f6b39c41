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
from .changed_profiles import ATOMIC_COUNTS, BUSIEST_COUNTS, with_added, with_more_work_per_block
from .subject import AdviceKind, Candidate, Subject, by_place

_OF_WORDS = BUSIEST_COUNTS[1:]
_MANY_BLOCKS = 0.5
"""Atomics on the busiest word over blocks, from which on all blocks are taken to change it."""
_WAVES = (1, 4)
"""Blocks that are left, in those that the GPU holds at once."""
_MOST_TIMES = 32
"""Parts that a block then does one after the other; what more of them would save is little."""
_SHARED = 0.9
"""Distinct words over lanes from which on there is nothing to add up."""


def atomics(subject: Subject) -> Iterator[Candidate]:
    """For each source line, candidates with one atomic a warp and word, with one a block and word, and with fewer blocks."""
    traces: WarpTraces | None = subject.profile.traces
    if traces is None or traces.patterns is None:
        return
    patterns = traces.patterns
    lines = by_place(one for one in subject.instructions if _is_global_atomic(one) and not _is_awaited_alone(one))
    for place, counts in lines.items():
        lanes = sum(one.lanes for one in counts)
        in_block = sum(one.lanes * float(patterns.atomic_words_of_blocks[one.instruction]) for one in counts)
        added_up: KernelProfile | None = None
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
                added_up = _aggregated(subject, counts, distinct / lanes, in_shared=owner == "block")
                yield Candidate(
                    kind=AdviceKind.ATOMICS,
                    places=(place,),
                    finding=_sharers_text(lanes / distinct, owner),
                    change=change,
                    profile=added_up,
                )
        yield from _fewer_blocks(subject, place, counts, in_block, added_up)


def _fewer_blocks(
    subject: Subject,
    place: str,
    counts: Sequence[InstructionCount],
    atomics_left: float,
    added_up: KernelProfile | None,
) -> Iterator[Candidate]:
    """Candidates with as many blocks as the GPU holds at once, or a few times as many, each of which adds once.

    ``added_up``: the launch in which blocks add up what they have, where there is something to add up.
    """
    profile = subject.profile if added_up is None else added_up
    blocks = int(profile.launch.blocks)
    busiest = max(float(getattr(profile.counts, name)) for name in _OF_WORDS)
    if busiest < _MANY_BLOCKS * blocks:
        return
    places = subject.gpu.sm_count * subject.prediction.occupancy.blocks_per_sm
    seen = set()
    for waves in _WAVES:
        times = min(-(-blocks // (waves * places)), _MOST_TIMES)
        if times < 2 or times in seen:
            continue
        seen.add(times)
        fewer = with_more_work_per_block(profile, times, once=[one.instruction for one in counts])
        less = {name: -float(getattr(fewer.counts, name)) * (1.0 - 1.0 / times) for name in ATOMIC_COUNTS}
        first = "" if added_up is None else "adding up in shared memory, and "
        yield Candidate(
            kind=AdviceKind.ATOMICS,
            places=(place,),
            finding=f"{blocks:,} blocks add to one word, {_atomics_text(atomics_left / blocks)} each"
            if added_up is None
            else f"{blocks:,} blocks with many lanes each add to one word",
            change=f"{first}{blocks // times:,} blocks in a grid-stride loop, which add once at their end",
            profile=with_added(fewer, **less),
        )


def _sharers_text(lanes: float, owner: str) -> str:
    """How many lanes of a warp or block change the same word.

    >>> _sharers_text(32.0, "warp"), _sharers_text(1.57, "block")
    ('32 lanes of a warp add to one word', '1.57 lanes of a block, on average, add to the same word')
    """
    if lanes == round(lanes):
        return f"{lanes:,.0f} lanes of a {owner} add to one word"
    return f"{lanes:,.3g} lanes of a {owner}, on average, add to the same word"


def _atomics_text(count: float) -> str:
    return "1 atomic" if count == 1 else f"{count:,.3g} atomics"


def _aggregated(subject: Subject, counts: Sequence[InstructionCount], left: float, *, in_shared: bool) -> KernelProfile:
    """The profile in which a part of the atomics is left; in shared memory, all are done there first."""
    profile = subject.profile
    traces: WarpTraces = profile.traces
    patterns = traces.patterns
    assert patterns is not None
    all_lanes = sum(one.lanes for one in subject.instructions if _is_global_atomic(one))
    own = sum(one.lanes for one in counts) / max(all_lanes, 1)
    kept = 1.0 - own * (1.0 - left)
    busiest = {name: getattr(profile.counts, name) * kept for name in BUSIEST_COUNTS}
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


def _is_awaited_alone(count: InstructionCount) -> bool:
    """Whether one lane at a time makes an atomic and takes its result, as at a barrier of the grid: nothing is to be added up."""
    return count.opcode.startswith("ATOM") and count.lanes == count.requests


def _is_global_atomic(count: InstructionCount) -> bool:
    return count.space is Space.GLOBAL and count.action is Action.REDUCTION
