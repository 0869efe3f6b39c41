"""Pitches of the slabs in shared memory, searched so that no access of the main loop meets a bank conflict.

Both operands lie channel by channel. Three patterns touch an operand in each slab: lanes that read their columns (or rows) of
their own channel, and the threads that publish what they fetched: filters four channels at a time, transposed; inputs
along the positions. ``offset(channel) = channel · pitch + ⌊channel / pad_every⌋ · pad`` has three degrees of freedom for
them. Asynchronous copies publish the channels of a filter word by word, eight neighbouring ones of four filters in a
request, and the input in whole vectors.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product

import numpy as np
from numpy.typing import NDArray

from ...definitions import FLOAT_BYTES, SHARED_BANKS, WARP_SIZE
from ...simulator.access import shared_wavefronts
from .blocking import THREADS_PER_BLOCK, WARPS_PER_BLOCK

Integers = NDArray[np.int64]

PAD_EVERY = (4,)
ASYNC_PAD_EVERY = (16, 8, 4, 2)
"""Channels after which a pad may stand: for every vector and number of channel lanes one of these avoids conflicts."""
_TRIED_AT_ONCE = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Operand:
    """One operand of one tile: everything that decides which banks its accesses touch. Extents and vectors in words.

    A slab has ``slab_channels``, of which a warp reads ``channel_lanes`` at once.
    ``words``: of one channel; ``read_words``: that a lane reads, by vectors of at most ``read_vector``; ``spread``: whether
    the lanes of a channel read different words or all the same.
    ``store_lanes`` neighbouring threads store ``fetch_vector`` words each: channels of a filter when ``transposed``,
    of ``store_step`` filters at once; positions of a channel when not. ``asynchronous``: copied, in whole vectors.
    """

    channel_lanes: int
    slab_channels: int
    words: int
    read_words: int
    read_vector: int
    spread: bool
    transposed: bool
    fetch_vector: int
    store_lanes: int
    store_step: int
    asynchronous: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Accesses:
    """How an operand is touched: vector widths of reads and stores, and the order in which threads take its channels.

    With an ``interleave`` of 2, neighbouring groups of threads take channels half a pass apart.
    """

    read_vector: int
    store_vector: int
    interleave: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pitches:
    """Words from channel to channel, additional words after every ``pad_every``, and what follows for one slab.

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

    def words(self, slab_channels: int) -> int:
        """Words of one slab of the operand."""
        return slab_channels * self.pitch + (slab_channels - 1) // self.pad_every * self.pad


def _read_accesses(operand: Operand, vector: int) -> tuple[Integers, Integers]:
    """Channel and word within it of every lane in the reads of one warp, shapes ``(32,)`` and ``(requests, 32)``."""
    lane = np.arange(WARP_SIZE)
    element_lanes = WARP_SIZE // operand.channel_lanes
    step = np.arange(0, operand.read_words, vector)
    if not operand.spread:
        return lane // element_lanes, np.broadcast_to(step[:, None], (len(step), WARP_SIZE))
    return lane // element_lanes, step[:, None] * element_lanes + lane % element_lanes * vector


def _transposed_stores(operand: Operand) -> tuple[Integers, Integers]:
    """Channel and word of every thread in the stores of the filters, shapes ``(stores, 128)``: one channel a store."""
    group, row = filter_threads(operand.store_lanes, operand.store_step)
    down = np.arange(0, operand.words, operand.store_step)
    across = np.arange(0, operand.slab_channels, THREADS_PER_BLOCK // operand.store_step * operand.fetch_vector)
    within = np.arange(operand.fetch_vector)[:, None]
    channel = group * operand.fetch_vector + across[:, None, None] + within
    shape = (len(down), len(across), operand.fetch_vector, THREADS_PER_BLOCK)
    return np.broadcast_to(channel, shape), np.broadcast_to((row + down[:, None])[:, None, None], shape)


def filter_threads(lanes: int, step: int) -> tuple[Integers, Integers]:
    """Vector of channels and filter that each of the 128 threads takes in the first pass.

    >>> channel, row = filter_threads(8, 4)
    >>> channel[[0, 1, 8, 32]], row[[0, 1, 8, 32]]
    (array([0, 1, 0, 8]), array([0, 0, 1, 0]))
    """
    thread = np.arange(THREADS_PER_BLOCK)
    return thread // (lanes * step) * lanes + thread % lanes, thread // lanes % step


def _straight_stores(operand: Operand, chosen: Accesses) -> tuple[Integers, Integers]:
    """Channel and first word of every thread in the stores of the input."""
    thread = np.arange(THREADS_PER_BLOCK)
    group, step = thread // operand.store_lanes, THREADS_PER_BLOCK // operand.store_lanes
    channel = interleaved(group, min(operand.slab_channels, step), chosen.interleave)
    channel = channel + np.arange(0, operand.slab_channels, step)[:, None, None, None]
    across = np.arange(0, operand.words, THREADS_PER_BLOCK * operand.fetch_vector)[:, None, None]
    within = np.arange(0, operand.fetch_vector, chosen.store_vector)[:, None]
    word = thread % operand.store_lanes * operand.fetch_vector + across + within
    shape = (len(channel), len(across), len(within), THREADS_PER_BLOCK)
    return np.broadcast_to(channel, shape), np.broadcast_to(word, shape)


def interleaved(group: Integers, channels: int, interleave: int) -> Integers:
    """Channel that a group of threads takes in a pass over ``channels``; groups beyond keep a number beyond.

    >>> interleaved(np.arange(8), 8, 2)
    array([0, 4, 1, 5, 2, 6, 3, 7])
    """
    apart = group % interleave * (channels // interleave) + group // interleave
    return np.where(group < channels, apart, group)


def _store_accesses(operand: Operand, chosen: Accesses) -> tuple[Integers, Integers, NDArray[np.bool_]]:
    """Channel, word and activity of every lane in the block's stores of one slab, each of shape ``(requests, 32)``."""
    channel, word = _transposed_stores(operand) if operand.transposed else _straight_stores(operand, chosen)
    channel, word = channel.reshape(-1, WARP_SIZE), word.reshape(-1, WARP_SIZE)
    active = (word < operand.words) & (channel < operand.slab_channels)
    used = active.any(axis=1)
    return channel[used], word[used], active[used]


def _candidates(operand: Operand, unit: int) -> list[tuple[int, int, int]]:
    """Pitches, pads and their periods worth trying, smallest footprint first; the first is the tightest layout."""
    channels = operand.slab_channels
    pitch = range(-(-operand.words // unit) * unit, operand.words + SHARED_BANKS + unit, unit)
    periods = ASYNC_PAD_EVERY if operand.asynchronous else PAD_EVERY
    pads = [(0, periods[0])] + [(q, e) for e in periods if e < channels for q in range(unit, SHARED_BANKS, unit)]
    footprint = {(p, q, e): channels * p + (channels - 1) // e * q for p in pitch for q, e in pads}
    return sorted(footprint, key=lambda layout: (footprint[layout], layout))


def _wavefronts(
    channel: Integers, word: Integers, active: NDArray[np.bool_], vector: int, layouts: Integers
) -> tuple[Integers, Integers]:
    """Wavefronts of an access under each layout ``(pitch, pad, period)``, rows of ``layouts``, and without conflicts."""
    pitch, pad, every = (layouts[:, column, None, None] for column in range(3))
    at = np.broadcast_to(word + channel * pitch + channel // every * pad, (len(layouts), *word.shape))
    lanes = np.broadcast_to(active, at.shape).reshape(-1, WARP_SIZE)
    addresses = (at * FLOAT_BYTES).astype(np.uint64).reshape(-1, WARP_SIZE)
    total, ideal = shared_wavefronts(addresses, lanes, vector * FLOAT_BYTES)
    return total.reshape(len(layouts), -1).sum(axis=1), ideal.reshape(len(layouts), -1).sum(axis=1)


def read_wavefronts(operand: Operand, found: Pitches, channels: int) -> tuple[int, int]:
    """Wavefronts of one warp's reads of a group that has only so many channels, and their number without conflicts."""
    vector = found.accesses.read_vector
    channel, word = _read_accesses(operand, vector)
    active = np.broadcast_to(channel < channels, word.shape)
    total, ideal = _wavefronts(channel, word, active, vector, _only(found))
    return int(total[0]), int(ideal[0])


def store_accesses(operand: Operand, found: Pitches, channels: int) -> tuple[int, int]:
    """Requests and wavefronts of the block's stores of a slab that has only so many channels."""
    channel, word, active = _store_accesses(operand, found.accesses)
    active = active & (channel < channels)
    used = active.any(axis=1)
    if not used.any():
        return 0, 0
    vector = found.accesses.store_vector
    total, _ = _wavefronts(channel[used], word[used], active[used], vector, _only(found))
    return int(used.sum()), int(total[0])


def _only(found: Pitches) -> Integers:
    return np.array([[found.pitch, found.pad, found.pad_every]])


def _first_pass(operand: Operand) -> Operand:
    """The part of an operand that the threads store in their first pass; later ones shift it by whole periods of the pad."""
    across = operand.store_step if operand.transposed else operand.store_lanes * operand.fetch_vector
    channels = THREADS_PER_BLOCK // (operand.store_step if operand.transposed else operand.store_lanes)
    channels *= operand.fetch_vector if operand.transposed else 1
    return replace(operand, words=min(operand.words, across), slab_channels=min(operand.slab_channels, channels))


def _measured(operand: Operand, chosen: Accesses, layout: Integers) -> Pitches:
    """Everything that follows from one layout, a row ``(pitch, pad, period)``."""
    read_channel, read_word = _read_accesses(operand, chosen.read_vector)
    store_channel, store_word, active = _store_accesses(operand, chosen)
    everyone = np.ones(read_word.shape, dtype=bool)
    reads, ideal_reads = _wavefronts(read_channel, read_word, everyone, chosen.read_vector, layout[None])
    stores, ideal_stores = _wavefronts(store_channel, store_word, active, chosen.store_vector, layout[None])
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
    read_channel, read_word = _read_accesses(operand, read_vector)
    store_channel, store_word, active = _store_accesses(_first_pass(operand), chosen)
    passes = len(_store_accesses(operand, chosen)[0]) / len(store_channel)
    everyone = np.ones((1, WARP_SIZE), dtype=bool)
    layouts = np.array(_candidates(operand, max(read_vector, store_vector)))
    best, fewest = layouts[0], np.inf
    for start in range(0, len(layouts), _TRIED_AT_ONCE):
        tried = layouts[start : start + _TRIED_AT_ONCE]
        reads, ideal_reads = _wavefronts(read_channel, read_word[:1], everyone, read_vector, tried)
        stores, ideal_stores = _wavefronts(store_channel, store_word, active, store_vector, tried)
        conflicts = WARPS_PER_BLOCK * len(read_word) * (reads - ideal_reads) + passes * (stores - ideal_stores)
        index = int(conflicts.argmin())
        if conflicts[index] < fewest:
            best, fewest = tried[index], conflicts[index]
        if fewest == 0:
            break
    return _measured(operand, chosen, best)


def _narrowing(width: int) -> list[int]:
    """The width and its halves down to 1.

    >>> _narrowing(4)
    [4, 2, 1]
    """
    return [width >> shift for shift in range(width.bit_length())]


def _ways(operand: Operand) -> list[Accesses]:
    """Ways to touch the operand, the widest accesses and the plain order of channels first."""
    several = operand.slab_channels > 1 and operand.store_lanes < THREADS_PER_BLOCK
    interleaves = (1, 2) if several and not operand.transposed else (1,)
    whole = [operand.fetch_vector] if operand.asynchronous else _narrowing(operand.fetch_vector)
    stores = [1] if operand.transposed else whole
    reads = _narrowing(operand.read_vector)
    return [
        Accesses(read_vector=read, store_vector=store, interleave=interleave)
        for read, store, interleave in product(reads, stores, interleaves)
    ]


@lru_cache(maxsize=16384)
def pitches(operand: Operand) -> Pitches:
    """The layout with the widest accesses that is free of bank conflicts, or the one with the fewest where none is.

    >>> filters = Operand(
    ...     channel_lanes=8, slab_channels=8, words=64, read_words=8, read_vector=4, spread=True, transposed=True,
    ...     fetch_vector=4, store_lanes=2, store_step=64, asynchronous=False)
    >>> found = pitches(filters)
    >>> found.pitch, found.pad, found.conflicts
    (80, 16, 0)
    """
    best: Pitches | None = None
    for way in _ways(operand):
        found = _best_layout(operand, way)
        if best is None or found.conflicts < best.conflicts:
            best = found
        if best.conflicts == 0:
            break
    assert best is not None
    return best
