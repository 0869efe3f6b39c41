"""Pitches of the slabs in shared memory, searched so that no access of the main loop meets a bank conflict.

``offset(line) = line · pitch + ⌊line / pad_every⌋ · pad`` has three degrees of freedom for the patterns in which lanes touch
the input (`shared_lanes`); filters need the first alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ...core.constants import FLOAT_BYTES, SHARED_BANKS, WARP_SIZE
from ...memory.async_copy import SECTOR_WORDS, WIDEST_COPY_WORDS
from ...memory.bank_conflicts import Addresses, Mask, Wavefronts, load_wavefronts, store_wavefronts
from .blocking import WARPS_PER_BLOCK
from .shared_lanes import Accesses, Integers, Operand, first_pass, interleaved, lanes_of_reads, lanes_of_stores, ways

__all__ = [
    "Accesses",
    "Operand",
    "Pitches",
    "interleaved",
    "pitches",
    "read_wavefronts",
    "store_accesses",
]

Rule = Callable[[Addresses, Mask, int], Wavefronts]
"""The simulator's count of wavefronts: lanes pair in loads, not in stores."""

PAD_EVERY = (4,)
ASYNC_PAD_EVERY = (16, 8, 4, 2)
"""Lines after which a pad may stand: for every vector and number of channel lanes one of these avoids conflicts."""
_TRIED_AT_ONCE = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Pitches:
    """Words from line to line, additional words after every ``pad_every``, and what follows for one slab.

    Reads are those of one group by one warp, stores those of a slab by the block; conflicts are the wavefronts beyond one
    for each phase with an active lane.
    """

    accesses: Accesses
    pitch: int
    pad: int
    pad_every: int
    read_requests: int
    read_wavefronts: int
    store_requests: int
    store_wavefronts: int
    read_conflicts: int
    store_conflicts: int

    @property
    def conflicts(self) -> int:
        """Conflicts of a slab, weighted as a block meets them: four warps read, and all of them together store."""
        return WARPS_PER_BLOCK * self.read_conflicts + self.store_conflicts

    def words(self, lines: int) -> int:
        """Words of so many lines."""
        return lines * self.pitch + (lines - 1) // self.pad_every * self.pad


def _candidates(operand: Operand, unit: int) -> list[tuple[int, int, int]]:
    """Pitches, pads and their periods worth trying, those that copies of 16 bytes like first, then by footprint.

    Such copies ask L2 for what they move by sectors of source and target: lines that start with one ask for less.
    """
    lines = operand.lines
    pitch = range(-(-operand.words // unit) * unit, operand.words + SHARED_BANKS + unit, unit)
    periods = ASYNC_PAD_EVERY if operand.asynchronous else PAD_EVERY
    padded = () if operand.filters else periods
    pads = [(0, periods[0])] + [(q, e) for e in padded if e < lines for q in range(unit, SHARED_BANKS, unit)]
    footprint = {(p, q, e): lines * p + (lines - 1) // e * q for p in pitch for q, e in pads}
    wide = operand.asynchronous and operand.fetch_vector == WIDEST_COPY_WORDS

    def order(layout: tuple[int, int, int]) -> tuple[bool, int, tuple[int, int, int]]:
        whole = layout[0] % SECTOR_WORDS == layout[1] % SECTOR_WORDS == 0
        return wide and not whole, footprint[layout], layout

    return sorted(footprint, key=order)


def _wavefronts(
    rule: Rule, line: Integers, word: Integers, active: Mask, vector: int, layouts: Integers
) -> tuple[Integers, Integers]:
    """Wavefronts of an access under each layout ``(pitch, pad, period)``, rows of ``layouts``, and without conflicts."""
    pitch, pad, every = (layouts[:, column, None, None] for column in range(3))
    at = np.broadcast_to(word + line * pitch + line // every * pad, (len(layouts), *word.shape))
    lanes = np.broadcast_to(active, at.shape).reshape(-1, WARP_SIZE)
    addresses = (at * FLOAT_BYTES).astype(np.uint64).reshape(-1, WARP_SIZE)
    total, ideal = rule(addresses, lanes, vector * FLOAT_BYTES)
    return total.reshape(len(layouts), -1).sum(axis=1), ideal.reshape(len(layouts), -1).sum(axis=1)


def read_wavefronts(operand: Operand, found: Pitches, channels: int) -> tuple[int, int]:
    """Wavefronts of one warp's reads of a group that has only so many channels, and their number without conflicts."""
    vector = found.accesses.read_vector
    line, word = lanes_of_reads(operand, vector)
    active = operand.channel(line, word) < channels
    total, ideal = _wavefronts(load_wavefronts, line, word, active, vector, _only(found))
    return int(total[0]), int(ideal[0])


def store_accesses(operand: Operand, found: Pitches, channels: int) -> tuple[int, int]:
    """Requests and wavefronts of the block's stores of a slab that has only so many channels."""
    line, word, active = lanes_of_stores(operand, found.accesses)
    active = active & (operand.channel(line, word) < channels)
    used = active.any(axis=1)
    if not used.any():
        return 0, 0
    vector = found.accesses.store_vector
    total, _ = _wavefronts(store_wavefronts, line[used], word[used], active[used], vector, _only(found))
    return int(used.sum()), int(total[0])


def _only(found: Pitches) -> Integers:
    return np.array([[found.pitch, found.pad, found.pad_every]])


def _measured(operand: Operand, chosen: Accesses, layout: Integers) -> Pitches:
    """Everything that follows from one layout, a row ``(pitch, pad, period)``."""
    read_line, read_word = lanes_of_reads(operand, chosen.read_vector)
    store_line, store_word, active = lanes_of_stores(operand, chosen)
    everyone = np.ones(read_word.shape, dtype=bool)
    reads, ideal_reads = _wavefronts(load_wavefronts, read_line, read_word, everyone, chosen.read_vector, layout[None])
    stores, ideal_stores = _wavefronts(
        store_wavefronts, store_line, store_word, active, chosen.store_vector, layout[None]
    )
    return Pitches(
        accesses=chosen,
        pitch=int(layout[0]),
        pad=int(layout[1]),
        pad_every=int(layout[2]),
        read_requests=len(read_word),
        read_wavefronts=int(reads[0]),
        store_requests=len(store_word),
        store_wavefronts=int(stores[0]),
        read_conflicts=int(reads[0] - ideal_reads[0]),
        store_conflicts=int(stores[0] - ideal_stores[0]),
    )


def _best_layout(operand: Operand, chosen: Accesses) -> Pitches:
    """The smallest layout without conflicts for these accesses, or the one with the fewest.

    Searched with one read and one pass of stores, because the others only shift them by a constant.
    """
    read_vector, store_vector = chosen.read_vector, chosen.store_vector
    read_line, read_word = lanes_of_reads(operand, read_vector)
    store_line, store_word, active = lanes_of_stores(first_pass(operand), chosen)
    passes = len(lanes_of_stores(operand, chosen)[0]) / len(store_line)
    everyone = np.ones((1, WARP_SIZE), dtype=bool)
    layouts = np.array(_candidates(operand, max(read_vector, store_vector)))
    best, fewest = layouts[0], np.inf
    for start in range(0, len(layouts), _TRIED_AT_ONCE):
        tried = layouts[start : start + _TRIED_AT_ONCE]
        reads, ideal_reads = _wavefronts(load_wavefronts, read_line[:1], read_word[:1], everyone, read_vector, tried)
        stores, ideal_stores = _wavefronts(store_wavefronts, store_line, store_word, active, store_vector, tried)
        conflicts = WARPS_PER_BLOCK * len(read_word) * (reads - ideal_reads) + passes * (stores - ideal_stores)
        index = int(conflicts.argmin())
        if conflicts[index] < fewest:
            best, fewest = tried[index], conflicts[index]
        if fewest == 0:
            break
    return _measured(operand, chosen, best)


@lru_cache(maxsize=16384)
def pitches(operand: Operand) -> Pitches:
    """The layout with the widest accesses that is free of bank conflicts, or the one with the fewest where none is.

    >>> filters = Operand(
    ...     filters=True, channel_lanes=8, lines=64, words=32, read_words=8, read_vector=1, spread=True,
    ...     fetch_vector=4, store_lanes=8, asynchronous=True)
    >>> found = pitches(filters)
    >>> found.pitch, found.conflicts
    (40, 0)
    """
    best: Pitches | None = None
    for way in ways(operand):
        found = _best_layout(operand, way)
        if best is None or found.conflicts < best.conflicts:
            best = found
        if best.conflicts == 0:
            break
    assert best is not None
    return best
