"""Global accesses of sampled blocks, kept as sectors in the order in which co-resident blocks would issue them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..definitions import SECTOR_BYTES, SECTORS_PER_LINE
from .module import Space

WORD_BYTES = 4


@dataclass(frozen=True, slots=True)
class Footprint:
    """Distinct 4-byte words that one block reads or writes, as sorted word addresses."""

    read: NDArray[np.int64]
    written: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class LineAccesses:
    """Loads as one entry for each line that a warp's request touches: block, warp, time, line address and its sectors as bits."""

    block: NDArray[np.int64]
    warp: NDArray[np.int64]
    time: NDArray[np.int64]
    line: NDArray[np.int64]
    sectors: NDArray[np.int64]


@dataclass(slots=True)
class Trace:
    """An `AccessObserver` that keeps load lines of all blocks, and words of the blocks in ``footprint_blocks``."""

    footprint_blocks: NDArray[np.int64]
    _loads: list[tuple[int, tuple[NDArray[np.int64], ...]]] = field(default_factory=list)
    _words: dict[bool, list[tuple[NDArray[np.int64], NDArray[np.int64]]]] = field(
        default_factory=lambda: {False: [], True: []}
    )
    _calls: int = 0

    def access(
        self,
        instruction: int,
        space: Space,
        store: bool,
        width: int,
        block: NDArray[np.int64],
        warp: NDArray[np.int64],
        addresses: NDArray[np.uint64],
        active: NDArray[np.bool_],
    ) -> None:
        """Keep one access; the order of the calls is the order of time."""
        if space is not Space.GLOBAL:
            return
        self._calls += 1
        bytes_at = addresses.astype(np.int64)
        chosen = np.isin(block, self.footprint_blocks)
        if chosen.any():
            row, lane = np.nonzero(active[chosen])
            words = bytes_at[chosen][row, lane] // WORD_BYTES
            spread = words[:, None] + np.arange(max(1, width // WORD_BYTES))
            self._words[store].append((np.repeat(block[chosen][row], spread.shape[1]), spread.reshape(-1)))
        if not store:
            row, lane = np.nonzero(active)
            keys = np.unique(row.astype(np.int64) << 48 | bytes_at[row, lane] // SECTOR_BYTES)
            row, sector = keys >> 48, keys & ((1 << 48) - 1)
            time = np.full(len(row), self._calls, np.int64)
            self._loads.append((instruction, (block[row], warp[row], time, sector)))

    def lines(self, without: frozenset[int] = frozenset(), only: frozenset[int] | None = None) -> LineAccesses:
        """All loads so far, or those of the instructions ``only``, but those of the instructions ``without``."""
        kept = [
            load
            for instruction, load in self._loads
            if instruction not in without and (only is None or instruction in only)
        ]
        if not kept:
            none = np.zeros(0, np.int64)
            return LineAccesses(none, none, none, none, none)
        block, warp, time, sector = (np.concatenate(parts) for parts in zip(*kept, strict=True))
        line = sector // SECTORS_PER_LINE
        new = np.ones(len(line), np.bool_)
        new[1:] = (
            (line[1:] != line[:-1]) | (time[1:] != time[:-1]) | (block[1:] != block[:-1]) | (warp[1:] != warp[:-1])
        )
        bits = np.bitwise_or.reduceat(1 << (sector % SECTORS_PER_LINE), np.flatnonzero(new))
        return LineAccesses(block[new], warp[new], time[new], line[new], bits)

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
