"""Conflicts of the banks of shared memory: what a layout without them would save, and whether padded rows are one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ..core.constants import BANK_BYTES
from ..ir.instruction import Space
from ..memory.access_counts import InstructionCount
from ..memory.bank_conflicts import load_wavefronts, store_wavefronts
from ..profiles.access_patterns import NO_LANE
from ..profiles.kernel_profile import KernelProfile
from ..simulator.access import Action
from .changed_profiles import with_added, with_demand
from .subject import AdviceKind, Candidate, Subject, by_place

_COUNTS = {Action.LOAD: "shared_load_wavefronts", Action.STORE: "shared_store_wavefronts"}
_PITCHES_BYTES = tuple(2**power for power in range(6, 13))
"""Lengths of rows of an array in shared memory that padding is tried for."""


def bank_conflicts(subject: Subject) -> Iterator[Candidate]:
    """A candidate for each source line with conflicts, and one for all of them together where there are several."""
    conflicting = [one for one in subject.instructions if one.space is Space.SHARED and _excess(one) > 0]
    lines = by_place(one for one in conflicting if one.action in _COUNTS)
    for place, counts in lines.items():
        yield _candidate(subject, (place,), counts)
    if len(lines) > 1:
        worst_first = sorted(lines, key=lambda place: -sum(_excess(one) for one in lines[place]))
        yield _candidate(subject, tuple(worst_first), [one for counts in lines.values() for one in counts])


def _excess(count: InstructionCount) -> int:
    return count.wavefronts - count.conflict_free_wavefronts


def _candidate(subject: Subject, places: tuple[str, ...], counts: Sequence[InstructionCount]) -> Candidate:
    passes = sum(one.wavefronts for one in counts) / sum(one.conflict_free_wavefronts for one in counts)
    return Candidate(
        kind=AdviceKind.BANK_CONFLICTS,
        places=places,
        finding=f"{passes:.0f}-way bank conflict" if passes >= 2 else f"bank conflicts, {passes:.1f} passes for one",
        change=_padding_text(subject, counts),
        profile=without_conflicts(subject.profile, counts),
    )


def without_conflicts(profile: KernelProfile, counts: Sequence[InstructionCount]) -> KernelProfile:
    """The profile in which some instructions have no bank conflicts."""
    for one in counts:
        excess = -float(_excess(one))
        profile = with_added(profile, **{_COUNTS[one.action]: excess}, shared_bank_conflicts=excess)
        profile = with_demand(profile, one.instruction, wavefronts=one.conflict_free_wavefronts / one.wavefronts)
    return profile


def _padding_text(subject: Subject, counts: Sequence[InstructionCount]) -> str:
    found = padding_of(subject, counts)
    if found is None:
        return "another order of the data in shared memory (a swizzle) or of the lanes"
    pitch, padding = found
    return f"{padding} bytes of padding after every {pitch:,} bytes of the shared array"


def padding_of(subject: Subject, counts: Sequence[InstructionCount]) -> tuple[int, int] | None:
    """Bytes of a row of the shared array and of the padding behind it that take all conflicts away; None where none do.

    It is tried on the lanes of one request of each instruction.
    """
    rows = [subject.lanes_of(one.instruction) for one in counts]
    widest = max(BANK_BYTES, *(one.width_bytes for one in counts))
    for pitch in _PITCHES_BYTES:
        for padding in (widest, 2 * widest, 4 * widest):
            if all(
                lanes is not None and _is_free(lanes + lanes // pitch * padding, lanes != NO_LANE, one)
                for lanes, one in zip(rows, counts, strict=True)
            ):
                return pitch, padding
    return None


def _is_free(offsets: np.ndarray[tuple[int], np.dtype[np.int64]], active: np.ndarray, count: InstructionCount) -> bool:
    passes = load_wavefronts if count.action is Action.LOAD else store_wavefronts
    addresses = np.where(active, offsets, 0).astype(np.uint64)[None]
    wavefronts, fewest = passes(addresses, active[None], count.width_bytes)
    return bool(active.any() and wavefronts[0] == fewest[0])
