"""Global accesses whose lanes do not lie side by side: what asking for the fewest sectors would save."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from msgspec import structs

from ..core.constants import SECTOR_BYTES, WARP_SIZE
from ..ir.instruction import Space
from ..memory.access_counts import InstructionCount
from ..profiles.access_patterns import NO_LANE
from ..profiles.kernel_profile import KernelProfile
from ..profiles.load_streams import spread
from ..simulator.access import Action
from .changed_profiles import Fetched, fetched_by_loads, widest_request_sectors, with_sectors
from .subject import AdviceKind, Candidate, Subject, by_place

_ACTIONS = (Action.LOAD, Action.STORE, Action.ASYNC_COPY)
_LEAST_EXCESS = 0.1
"""Part of a line's sectors that nobody asks for, below which the line is as it should be: ends of rows, halos."""
_SHORTEST_ROW = 4
"""Lanes at the same distance from which on they are a row."""
_STRUCTURE_BYTES = 128
"""Distance of neighbouring lanes up to which they are taken to walk over structures; beyond it over rows."""


def uncoalesced(subject: Subject) -> Iterator[Candidate]:
    """A candidate for each source line that asks for more sectors than its lanes need, and one for all together."""
    if subject.profile.traces is None:
        return
    accesses = [one for one in subject.instructions if one.space is Space.GLOBAL and one.action in _ACTIONS]
    lines = {
        place: [one for one in counts if _excess(one) > 0]
        for place, counts in by_place(accesses).items()
        if _is_excessive(counts)
    }
    for place, counts in lines.items():
        yield _candidate(subject, (place,), counts)
    if len(lines) > 1:
        worst_first = sorted(lines, key=lambda place: -sum(_excess(one) for one in lines[place]))
        yield _candidate(subject, tuple(worst_first), [one for place in worst_first for one in lines[place]])


def _is_excessive(counts: Sequence[InstructionCount]) -> bool:
    return sum(map(_excess, counts)) >= _LEAST_EXCESS * sum(one.sectors for one in counts)


def _excess(count: InstructionCount) -> float:
    return count.sectors - widest_request_sectors(count)


def _candidate(subject: Subject, places: tuple[str, ...], counts: Sequence[InstructionCount]) -> Candidate:
    requests = sum(one.requests for one in counts)
    asked, needed = sum(one.sectors for one in counts), sum(widest_request_sectors(one) for one in counts)
    worst = max(counts, key=_excess)
    return Candidate(
        kind=AdviceKind.UNCOALESCED,
        places=places,
        finding=f"{asked / requests:.3g} sectors per request where {needed / requests:.3g} would do"
        f" ({_layout_text(subject, worst)})",
        change=_remedy_text(subject, worst),
        profile=coalesced(subject, counts),
    )


def coalesced(subject: Subject, counts: Sequence[InstructionCount]) -> KernelProfile:
    """The profile in which the lanes of some instructions lie side by side.

    What a load then fetches past L1: its present share without the bytes that no load of the block asks for, and no more than
    it asks for. Each request of a warp fetches as much, where one fetched for several.
    """
    profile = subject.profile
    fetched, behind_l1 = _shared_by_lines(subject, counts)
    for one in counts:
        needed = widest_request_sectors(one)
        profile = with_sectors(subject, profile, one, needed, fetched, behind_l1.get(one.instruction))
    traces = profile.traces
    asked = {one.instruction: widest_request_sectors(one) / one.requests for one in counts}
    loads = spread(traces.loads, traces.warps_per_block, asked)
    return replace(profile, traces=structs.replace(traces, loads=loads))


def _shared_by_lines(
    subject: Subject, counts: Sequence[InstructionCount]
) -> tuple[Mapping[int, Fetched], Mapping[int, float]]:
    """What each load fetches, and the sectors that it fetches past L1 once its lanes lie side by side, by instruction.

    Loads of one source line share both by what they need: of an unrolled loop the first may have fetched for all.
    """
    alone, patterns = fetched_by_loads(subject), subject.profile.traces.patterns
    fetched, behind_l1 = dict(alone), dict[int, float]()
    for loads in by_place(one for one in counts if one.action is not Action.STORE).values():
        before = [alone[one.instruction] for one in loads]
        filled = [1.0 if patterns is None else float(patterns.filled[one.instruction]) or 1.0 for one in loads]
        useful = sum(one.behind_l1 * part for one, part in zip(before, filled, strict=True))
        needed = {one.instruction: widest_request_sectors(one) for one in loads}
        for load, sectors in needed.items():
            share = sectors / sum(needed.values())
            fetched[load] = Fetched(
                behind_l1=share * sum(one.behind_l1 for one in before),
                first_touches=share * sum(one.first_touches for one in before),
            )
            behind_l1[load] = min(share * useful, sectors)
    return fetched, behind_l1


@dataclass(frozen=True, slots=True)
class _Layout:
    """Rows of neighbouring lanes that lie at the same distance: bytes between them, lanes of a row, rows of a request."""

    stride_bytes: int
    lanes: int
    rows: int


def lies_unevenly(subject: Subject, count: InstructionCount) -> bool:
    """Whether most neighbouring lanes of a request lie at distances that no two others have: data decide where."""
    lanes = subject.lanes_of(count.instruction)
    if lanes is None:
        return False
    steps = np.diff(lanes[lanes != NO_LANE])
    _, often = np.unique(steps, return_counts=True)
    return len(steps) >= _SHORTEST_ROW and int((often == 1).sum()) > len(steps) / 2


def _layout(subject: Subject, count: InstructionCount) -> _Layout | None:
    """How most lanes of a request lie; None where they lie unevenly or nobody looked."""
    lanes = subject.lanes_of(count.instruction)
    if lanes is None:
        return None
    steps = np.diff(lanes[lanes != NO_LANE])
    if not len(steps):
        return None
    distances, often = np.unique(steps, return_counts=True)
    most = int(np.argmax(often))
    rows = len(steps) - int(often[most]) + 1
    length, left_over = divmod(len(steps) + 1, rows)
    between_rows = steps[length - 1 :: length][: rows - 1]
    if not distances[most] or left_over or length < _SHORTEST_ROW or np.any(between_rows == distances[most]):
        return None
    return _Layout(int(distances[most]), length, rows)


def _layout_text(subject: Subject, count: InstructionCount) -> str:
    layout = _layout(subject, count)
    if layout is None:
        return "lanes at uneven distances"
    apart = (
        ""
        if layout.stride_bytes == count.width_bytes
        else f"neighbouring lanes {abs(layout.stride_bytes):,} bytes apart"
    )
    if layout.rows > 1:
        return f"a warp covers {layout.rows} rows of {layout.lanes} lanes" + (f", {apart}" if apart else "")
    return apart or f"the warp's data do not begin at a multiple of {SECTOR_BYTES} bytes"


def _remedy_text(subject: Subject, count: InstructionCount) -> str:
    layout = _layout(subject, count)
    if layout is None:
        return "data in the order in which lanes ask for it (sorted or packed), or through shared memory"
    stride = abs(layout.stride_bytes)
    if stride == count.width_bytes and layout.rows > 1:
        return f"blocks whose x size is a multiple of {WARP_SIZE}, so that a warp's lanes lie in one row"
    if stride == count.width_bytes:
        return f"rows that begin at multiples of {SECTOR_BYTES} bytes"
    if stride < _STRUCTURE_BYTES:
        return (
            "neighbouring lanes at neighbouring elements (a structure of arrays), or vector loads of whole structures"
        )
    return "neighbouring lanes at neighbouring elements (swapped indices), or a tile in shared memory"
