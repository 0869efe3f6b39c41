"""Global accesses of sampled blocks, kept as sectors in the order in which co-resident blocks would issue them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..core.constants import SECTOR_BYTES, SECTORS_PER_LINE
from ..program.instruction import Space
from ..simulator.access import WarpAccess

WORD_BYTES = 4
SECTORS_OF_MASK = np.array([bin(mask).count("1") for mask in range(1 << SECTORS_PER_LINE)], np.int64)
"""How many sectors a line's sectors, as bits, are."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """Distinct 4-byte words that one block reads or writes, as sorted word addresses."""

    read: NDArray[np.int64]
    written: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class LineAccesses:
    """Loads, in order of time, as one entry for each line that a warp's request touches.

    ``trip`` counts the round trips of a warp: loads that it has in flight together have the same number. ``line`` is the
    line's address over its size, ``sectors`` has the sectors that are read as bits.
    """

    block: NDArray[np.int64]
    warp: NDArray[np.int64]
    trip: NDArray[np.int64]
    line: NDArray[np.int64]
    sectors: NDArray[np.int64]


@dataclass(slots=True)
class Trace:
    """An observer that keeps load lines of all blocks, and words of the blocks in ``footprint_blocks``."""

    footprint_blocks: NDArray[np.int64]
    _loads: list[tuple[int, tuple[NDArray[np.int64], ...]]] = field(default_factory=list)
    _words: dict[bool, list[tuple[NDArray[np.int64], NDArray[np.int64]]]] = field(
        default_factory=lambda: {False: [], True: []}
    )
    _calls: int = 0

    def access(self, access: WarpAccess) -> None:
        """Keep one access; the order of the calls is the order of time."""
        if access.site.space is not Space.GLOBAL:
            return
        self._calls += 1
        warps = access.of_warps
        bytes_at = warps.addresses.astype(np.int64)
        chosen = np.isin(warps.block, self.footprint_blocks)
        if chosen.any():
            row, lane = np.nonzero(warps.active[chosen])
            words = bytes_at[chosen][row, lane] // WORD_BYTES
            spread = words[:, None] + np.arange(max(1, access.site.width_bytes // WORD_BYTES))
            owner = np.repeat(warps.block[chosen][row], spread.shape[1])
            self._words[access.writes].append((owner, spread.reshape(-1)))
        if not access.writes:
            row, lane = np.nonzero(warps.active)
            keys = np.unique(row.astype(np.int64) << 48 | bytes_at[row, lane] // SECTOR_BYTES)
            row, sector = keys >> 48, keys & ((1 << 48) - 1)
            time = np.full(len(row), self._calls, np.int64)
            self._loads.append((access.site.instruction_index, (warps.block[row], warps.warp[row], time, sector)))

    def lines(
        self,
        trips: Mapping[int, int],
        *,
        without: frozenset[int] = frozenset(),
        only: frozenset[int] | None = None,
    ) -> LineAccesses:
        """All loads so far, or those of the instructions ``only``, but those of the instructions ``without``.

        Args:
            trips: the round trip of each instruction that shares one with others (`load_trips`); the others have their own.
            without: instructions to leave out.
            only: instructions to take.
        """
        kept = [
            (np.full(len(load[0]), instruction, np.int64), *load)
            for instruction, load in self._loads
            if instruction not in without and (only is None or instruction in only)
        ]
        if not kept:
            none = np.zeros(0, np.int64)
            return LineAccesses(none, none, none, none, none)
        instruction, block, warp, time, sector = (np.concatenate(parts) for parts in zip(*kept, strict=True))
        line = sector // SECTORS_PER_LINE
        new = _changes(line) | _changes(time) | _changes(block) | _changes(warp)
        bits = np.bitwise_or.reduceat(1 << (sector % SECTORS_PER_LINE), np.flatnonzero(new))
        trip = _trips_of_warps(block[new], warp[new], time[new], instruction[new], trips)
        return LineAccesses(block[new], warp[new], trip, line[new], bits)

    def footprint(self, block: int) -> Footprint:
        """Words of one of the ``footprint_blocks``."""
        read, written = (
            np.unique(
                np.concatenate(
                    [words[owner == block] for owner, words in self._words[store]] or [np.zeros(0, np.int64)]
                )
            )
            for store in (False, True)
        )
        return Footprint(read, written)


def _changes(values: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Where a value differs from the one before, and at the first."""
    return np.append(True, values[1:] != values[:-1])


def _trips_of_warps(
    block: NDArray[np.int64],
    warp: NDArray[np.int64],
    time: NDArray[np.int64],
    instruction: NDArray[np.int64],
    trips: Mapping[int, int],
) -> NDArray[np.int64]:
    """Number of each access's round trip, from 0 in each warp of each block.

    A warp's next request is in the same round trip if it is one of its instructions that comes later in the code; one that comes
    again is the loop's next round.
    """
    order = np.lexsort((time, warp, block))
    known, place = np.unique(instruction[order], return_inverse=True)
    own = np.array([trips.get(number, -1 - number) for number in known.tolist()], np.int64)[place]
    new_warp = _changes(block[order]) | _changes(warp[order])
    earlier = np.append(True, place[1:] <= place[:-1])
    begins = new_warp | (_changes(time[order]) & (_changes(own) | earlier))
    number = np.cumsum(begins)
    trips_of_warps = np.empty_like(number)
    trips_of_warps[order] = number - np.maximum.accumulate(np.where(new_warp, number, 0))
    return trips_of_warps
