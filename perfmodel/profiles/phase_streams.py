"""What the warps of followed blocks do with ``mbarrier`` objects and bulk copies, one after the other, as arrays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..simulator.phases import PhaseEvent, PhaseLog

Integers = NDArray[np.int64]

NO_PHASE = -1
"""The phase of an event that names none of its block, or one that nobody takes part in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseStreams:
    """Executions of instructions that wait for a phase, take part in its end, or copy in bulk, by the warps of some blocks.

    Attributes:
        instruction: Of each event the instruction, or `phases.CUT`.
        phase: The phase, by its number in the block, or `NO_PHASE`.
        sectors: Sectors of global memory that a bulk copy accesses.
        fresh: Of these the pairs (64 bytes) that no bulk copy of the block has accessed before.
        common: 1 where bulk copies of other blocks access all of the sectors, too, else 0.
        offsets: First event of each warp, shape ``(blocks * warps_per_block + 1,)``.
        ends: Of each phase how many events take part in its end.
        phase_offsets: First phase of each block, shape ``(blocks + 1,)``.
    """

    instruction: Integers
    phase: Integers
    sectors: Integers
    fresh: Integers
    common: Integers
    offsets: Integers
    ends: Integers
    phase_offsets: Integers

    def __len__(self) -> int:
        return len(self.instruction)

    def of_blocks(self, blocks: Sequence[int]) -> PhaseStreams:
        """The streams of some of the blocks."""
        if not len(self):
            return self
        warps = (len(self.offsets) - 1) // (len(self.phase_offsets) - 1)
        own = [slice(self.offsets[b * warps], self.offsets[(b + 1) * warps]) for b in blocks]
        phases = [slice(self.phase_offsets[b], self.phase_offsets[b + 1]) for b in blocks]
        counts = [np.diff(self.offsets[b * warps : (b + 1) * warps + 1]) for b in blocks]
        return PhaseStreams(
            instruction=np.concatenate([self.instruction[part] for part in own]),
            phase=np.concatenate([self.phase[part] for part in own]),
            sectors=np.concatenate([self.sectors[part] for part in own]),
            fresh=np.concatenate([self.fresh[part] for part in own]),
            common=np.concatenate([self.common[part] for part in own]),
            offsets=np.append(0, np.cumsum(np.concatenate(counts))),
            ends=np.concatenate([self.ends[part] for part in phases]),
            phase_offsets=np.append(0, np.cumsum([part.stop - part.start for part in phases])),
        )

    def event_blocks(self, warps_per_block: int) -> Integers:
        """The block of each event."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets)) // warps_per_block


_NONE = np.zeros(0, np.int64)
_START = np.zeros(1, np.int64)
NO_PHASES = PhaseStreams(
    instruction=_NONE,
    phase=_NONE,
    sectors=_NONE,
    fresh=_NONE,
    common=_NONE,
    offsets=_START,
    ends=_NONE,
    phase_offsets=_START,
)
"""Of a kernel without any."""


def phase_streams(logs: Sequence[PhaseLog], warps_per_block: int) -> PhaseStreams:
    """The streams of blocks from what was noted of each.

    >>> log = PhaseLog()
    >>> log.add(1, 7, log.current(0), ends=True, sectors=[4, 5, 6])
    >>> log.over([0])
    >>> log.add(0, 9, log.before(0), ends=False)
    >>> streams = phase_streams([log], 2)
    >>> streams.instruction.tolist(), streams.phase.tolist(), streams.ends.tolist(), streams.fresh.tolist()
    ([9, 7], [0, 0], [1], [0, 2])
    """
    if not any(log.events for log in logs):
        return NO_PHASES
    asked = Counter(
        sector
        for log in logs
        for sector in {sector for events in log.events.values() for event in events for sector in event.sectors}
    )
    rows: list[tuple[int, int, int, int, int]] = []
    offsets, phase_offsets, ends = [0], [0], list[int]()
    for log in logs:
        numbers, of_block = _numbered(log.events)
        ends += of_block
        phase_offsets.append(len(ends))
        pairs: set[int] = set()
        for warp in range(warps_per_block):
            for event in log.events.get(warp, ()):
                before = len(pairs)
                pairs.update(sector >> 1 for sector in event.sectors)
                common = bool(event.sectors) and all(asked[sector] > 1 for sector in event.sectors)
                phase = NO_PHASE if event.phase is None else numbers.get(event.phase, NO_PHASE)
                rows.append((event.instruction, phase, len(event.sectors), len(pairs) - before, int(common)))
            offsets.append(len(rows))
    columns = np.array(rows, np.int64).reshape(-1, 5).T
    return PhaseStreams(
        instruction=columns[0].copy(),
        phase=columns[1].copy(),
        sectors=columns[2].copy(),
        fresh=columns[3].copy(),
        common=columns[4].copy(),
        offsets=np.array(offsets, np.int64),
        ends=np.array(ends, np.int64),
        phase_offsets=np.array(phase_offsets, np.int64),
    )


def _numbered(events: Mapping[int, Sequence[PhaseEvent]]) -> tuple[dict[tuple[int, int], int], list[int]]:
    """Numbers of the phases that somebody takes part in, and how many do."""
    ends = Counter(event.phase for own in events.values() for event in own if event.ends and event.phase is not None)
    return {phase: number for number, phase in enumerate(ends)}, list(ends.values())
