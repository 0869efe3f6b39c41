"""Where a slab lies in shared memory: pitches searched so that no access of the main loop has a bank conflict.

An operand lies line by line: filters as rows of the slab's channels, the input as channels of the tile's positions. Two
patterns touch it in each slab: lanes that read the words of their own channel, and threads that store, or copy
asynchronously, vectors along the lines. ``offset(line) = line · pitch + ⌊line / pad_every⌋ · pad`` has three degrees of freedom
for the input; filters need the pitch alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product

import numpy as np

from ....core.constants import FLOAT_BYTES, SHARED_BANKS, WARP_SIZE
from ....memory.async_copy import SECTOR_WORDS, WIDEST_COPY_WORDS
from ....memory.bank_conflicts import Addresses, Mask, Wavefronts, load_wavefronts, store_wavefronts
from ...accesses import SharedAccesses
from .tiles import THREADS_PER_BLOCK, WARPS_PER_BLOCK, Flags, Integers

Rule = Callable[[Addresses, Mask, int], Wavefronts]
"""The simulator's count of wavefronts: lanes pair in loads, not in stores."""

PAD_EVERY = (4,)
ASYNC_PAD_EVERY = (16, 8, 4, 2)
"""Lines after which a pad may stand: for every vector and number of channel lanes one of these avoids conflicts."""
ALL_CHANNELS = 1 << 30
_TRIED_AT_ONCE = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Operand:
    """One operand of one tile: everything that decides which banks its accesses touch. Extents and vectors in words.

    ``lines`` of ``words`` each: filters of channels when ``filters``, channels of positions when not; of the channels a warp
    reads ``channel_lanes`` at once. ``read_words``: what a lane reads, by vectors of at most ``read_vector`` (filters word by
    word); ``spread``: whether the lanes of a channel read different words or all the same. ``store_lanes`` neighbouring
    threads store ``fetch_vector`` words each of a line. ``asynchronous``: copied, in whole vectors.
    """

    filters: bool
    channel_lanes: int
    lines: int
    words: int
    read_words: int
    read_vector: int
    spread: bool
    fetch_vector: int
    store_lanes: int
    asynchronous: bool

    @property
    def store_step(self) -> int:
        """Lines that the 128 threads store in a pass."""
        return THREADS_PER_BLOCK // self.store_lanes

    @property
    def pass_lines(self) -> int:
        """Lines of a pass whose order may differ from that of the threads."""
        return self.store_step if self.filters else min(self.lines, self.store_step)

    def channel(self, line: Integers, word: Integers) -> Integers:
        """The channel of the slab that a word of a line belongs to."""
        return word if self.filters else line


@dataclass(frozen=True, slots=True, kw_only=True)
class Accesses:
    """How an operand is touched: vector widths of reads and stores, and the order in which threads take its lines.

    With an ``interleave`` of n, neighbouring groups of threads take lines an n-th of a pass apart.
    """

    read_vector: int
    store_vector: int
    interleave: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pitches:
    """Words from line to line, additional words after every ``pad_every``, and what one slab then costs.

    ``reads`` are those of one group of channels by one warp, ``stores`` those of a slab by the block.
    """

    accesses: Accesses
    pitch: int
    pad: int
    pad_every: int
    reads: SharedAccesses
    stores: SharedAccesses

    @property
    def conflicts(self) -> int:
        """Conflicts weighted as a block has them: four warps read, and all of them together store."""
        reads, stores = self.reads, self.stores
        return WARPS_PER_BLOCK * (reads.wavefronts - reads.ideal) + stores.wavefronts - stores.ideal

    def words(self, lines: int) -> int:
        """Words of so many lines."""
        return lines * self.pitch + (lines - 1) // self.pad_every * self.pad


def _lanes_of_reads(operand: Operand, vector: int) -> tuple[Integers, Integers]:
    """Line and word within it of every lane in the reads of one warp, each of shape ``(requests, 32)``."""
    lane = np.arange(WARP_SIZE)
    elements = WARP_SIZE // operand.channel_lanes
    step = np.arange(0, operand.read_words, vector)[:, None]
    place = step * elements + lane % elements * vector if operand.spread else step + 0 * lane
    channel = np.broadcast_to(lane // elements, place.shape)
    return (place, channel) if operand.filters else (channel, place)


def interleaved(group: Integers, lines: int, interleave: int) -> Integers:
    """Line that a group of threads takes in a pass over ``lines``; groups beyond keep a number beyond.

    >>> interleaved(np.arange(8), 8, 2)
    array([0, 4, 1, 5, 2, 6, 3, 7])
    """
    apart = group % interleave * (lines // interleave) + group // interleave
    return np.where(group < lines, apart, group)


def _lanes_of_stores(operand: Operand, chosen: Accesses) -> tuple[Integers, Integers, Flags]:
    """Line, word and activity of every lane in the block's stores of one slab, each of shape ``(requests, 32)``."""
    thread = np.arange(THREADS_PER_BLOCK)
    line = interleaved(thread // operand.store_lanes, operand.pass_lines, chosen.interleave)
    line = line + np.arange(0, operand.lines, operand.store_step)[:, None, None, None]
    across = np.arange(0, operand.words, operand.store_lanes * operand.fetch_vector)[:, None, None]
    within = np.arange(0, operand.fetch_vector, chosen.store_vector)[:, None]
    word = thread % operand.store_lanes * operand.fetch_vector + across + within
    shape = (len(line), len(across), len(within), THREADS_PER_BLOCK)
    line, word = (np.broadcast_to(index, shape).reshape(-1, WARP_SIZE) for index in (line, word))
    active = (word < operand.words) & (line < operand.lines)
    used = active.any(axis=1)
    return line[used], word[used], active[used]


def _wavefronts(
    rule: Rule, line: Integers, word: Integers, active: Mask, vector: int, layouts: Integers
) -> tuple[Integers, Integers]:
    """Wavefronts of an access under each layout ``(pitch, pad, period)``, rows of ``layouts``, and without conflicts."""
    pitch, pad, every = (layouts[:, column, None, None] for column in range(3))
    at = (word + line * pitch + line // every * pad).reshape(-1, WARP_SIZE)
    lanes = np.tile(active, (len(layouts), 1))
    total, ideal = rule((at * FLOAT_BYTES).astype(np.uint64), lanes, vector * FLOAT_BYTES)
    return total.reshape(len(layouts), -1).sum(axis=1), ideal.reshape(len(layouts), -1).sum(axis=1)


def reads_of(operand: Operand, chosen: Accesses, layout: Integers, channels: int = ALL_CHANNELS) -> SharedAccesses:
    """One warp's reads of a group that has only so many channels, under the layout ``(pitch, pad, period)``."""
    line, word = _lanes_of_reads(operand, chosen.read_vector)
    active = operand.channel(line, word) < channels
    total, ideal = _wavefronts(load_wavefronts, line, word, active, chosen.read_vector, layout[None])
    return SharedAccesses(requests=len(line), wavefronts=int(total[0]), ideal=int(ideal[0]))


def stores_of(operand: Operand, chosen: Accesses, layout: Integers, channels: int = ALL_CHANNELS) -> SharedAccesses:
    """The block's stores of a slab that has only so many channels, under the layout ``(pitch, pad, period)``."""
    line, word, active = _lanes_of_stores(operand, chosen)
    active = active & (operand.channel(line, word) < channels)
    used = active.any(axis=1)
    if not used.any():
        return SharedAccesses()
    total, ideal = _wavefronts(
        store_wavefronts, line[used], word[used], active[used], chosen.store_vector, layout[None]
    )
    return SharedAccesses(requests=int(used.sum()), wavefronts=int(total[0]), ideal=int(ideal[0]))


def layout_of(pitches: Pitches) -> Integers:
    """The row ``(pitch, pad, period)``."""
    return np.array([pitches.pitch, pitches.pad, pitches.pad_every])


def _candidates(operand: Operand, unit: int) -> Integers:
    """Pitches, pads and their periods worth trying, those that copies of 16 bytes like first, then by footprint.

    Such copies ask L2 for what they move by sectors of source and target: lines that start with one ask for less.
    """
    lines = operand.lines
    pitches = range(-(-operand.words // unit) * unit, operand.words + SHARED_BANKS + unit, unit)
    periods = ASYNC_PAD_EVERY if operand.asynchronous else PAD_EVERY
    padded = [(q, e) for e in periods if e < lines for q in range(unit, SHARED_BANKS, unit)]
    pads = [(0, periods[0]), *(() if operand.filters else padded)]
    layouts = np.array([(p, q, e) for p in pitches for q, e in pads])
    pitch, pad, every = layouts.T
    footprint = lines * pitch + (lines - 1) // every * pad
    wide = operand.asynchronous and operand.fetch_vector == WIDEST_COPY_WORDS
    cut = wide & ((pitch % SECTOR_WORDS != 0) | (pad % SECTOR_WORDS != 0))
    return layouts[np.lexsort((every, pad, pitch, footprint, cut))]


def _best_layout(operand: Operand, chosen: Accesses) -> Pitches:
    """The smallest layout without conflicts for these accesses, or the one with the fewest.

    Searched with one read and the first pass of stores, because the others only shift them by a constant.
    """
    read_vector, store_vector = chosen.read_vector, chosen.store_vector
    read_line, read_word = _lanes_of_reads(operand, read_vector)
    across = operand.store_lanes * operand.fetch_vector
    first_pass = replace(operand, words=min(operand.words, across), lines=min(operand.lines, operand.store_step))
    store_line, store_word, active = _lanes_of_stores(first_pass, chosen)
    passes = len(_lanes_of_stores(operand, chosen)[0]) / len(store_line)
    everyone = np.ones((1, WARP_SIZE), dtype=bool)
    layouts = _candidates(operand, max(read_vector, store_vector))
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
    return Pitches(
        accesses=chosen,
        pitch=int(best[0]),
        pad=int(best[1]),
        pad_every=int(best[2]),
        reads=reads_of(operand, chosen, best),
        stores=stores_of(operand, chosen, best),
    )


def _ways(operand: Operand) -> list[Accesses]:
    """Ways to touch the operand, the widest accesses and the plain order of lines first.

    Rows of filters that are read side by side, ``channel_lanes`` words apart, are stored as many apart as the slab has groups
    of these words: whole rows then lie side by side on the banks.
    """
    apart = operand.store_step * operand.channel_lanes // operand.words if operand.filters else 2
    several = operand.lines > 1 and operand.store_lanes < THREADS_PER_BLOCK and apart > 1
    whole_stores = operand.asynchronous or operand.filters
    stores = [operand.fetch_vector] if whole_stores else _halves(operand.fetch_vector)
    return [
        Accesses(read_vector=read, store_vector=store, interleave=interleave)
        for read, store, interleave in product(_halves(operand.read_vector), stores, (1, apart) if several else (1,))
    ]


def _halves(width: int) -> list[int]:
    """The width and its halves down to 1.

    >>> _halves(4)
    [4, 2, 1]
    """
    return [width >> shift for shift in range(width.bit_length())]


@lru_cache(maxsize=16384)
def pitches_of(operand: Operand) -> Pitches:
    """The layout with the widest accesses that is free of bank conflicts, or the one with the fewest where none is.

    >>> filters = Operand(
    ...     filters=True, channel_lanes=8, lines=64, words=32, read_words=8, read_vector=1, spread=True,
    ...     fetch_vector=4, store_lanes=8, asynchronous=True)
    >>> pitches = pitches_of(filters)
    >>> pitches.pitch, pitches.conflicts
    (40, 0)
    """
    best: Pitches | None = None
    for way in _ways(operand):
        pitches = _best_layout(operand, way)
        if best is None or pitches.conflicts < best.conflicts:
            best = pitches
        if best.conflicts == 0:
            break
    assert best is not None
    return best
