"""Pitches of the slabs in shared memory, searched so that no access of the main loop meets a bank conflict.

Both operands lie channel by channel. Three patterns touch an operand in each slab: lanes that read their columns (or rows) of
their own channel, and the threads that publish what they fetched: filters four channels at a time, transposed; inputs
along the positions. ``offset(channel) = channel · pitch + ⌊channel / 4⌋ · pad`` has two degrees of freedom for them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ...definitions import FLOAT_BYTES, SHARED_BANKS, WARP_SIZE
from ...simulator.access import shared_wavefronts
from .blocking import THREADS_PER_BLOCK, WARPS_PER_BLOCK

Integers = NDArray[np.int64]

CHANNELS_PER_PAD = 4
_TRIED_AT_ONCE = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Operand:
    """One operand of one tile: everything that decides which banks its accesses touch. Extents and vectors in words.

    A slab has ``slab_channels``, of which a warp reads ``channel_lanes`` at once.
    ``words``: of one channel; ``read_words``: that a lane reads, in steps of ``read_vector``; ``spread``: whether the
    lanes of a channel read different words or all the same.
    ``store_lanes`` neighbouring threads store ``fetch_vector`` words each: channels of a filter when ``transposed``,
    positions of a channel when not.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Pitches:
    """Words from channel to channel, additional words after each fourth, and what follows for one slab.

    ``store_vector`` is the width of a store, at most that of the fetch. Reads are those of one group by one warp, stores
    those of a slab by the block; conflicts are the wavefronts beyond one for each phase with an active lane.
    """

    pitch: int
    pad: int
    store_vector: int
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
        return slab_channels * self.pitch + (slab_channels - 1) // CHANNELS_PER_PAD * self.pad


def _read_accesses(operand: Operand) -> tuple[Integers, Integers]:
    """Channel and word within it of every lane in the reads of one warp, shapes ``(32,)`` and ``(requests, 32)``."""
    lane = np.arange(WARP_SIZE)
    element_lanes = WARP_SIZE // operand.channel_lanes
    step = np.arange(0, operand.read_words, operand.read_vector)
    if not operand.spread:
        return lane // element_lanes, np.broadcast_to(step[:, None], (len(step), WARP_SIZE))
    return lane // element_lanes, step[:, None] * element_lanes + lane % element_lanes * operand.read_vector


def _transposed_stores(operand: Operand) -> tuple[Integers, Integers]:
    """Channel and word of every thread in the stores of the filters, shapes ``(stores, 128)``: one channel a store."""
    thread = np.arange(THREADS_PER_BLOCK)
    step = THREADS_PER_BLOCK // operand.store_lanes
    row = thread // operand.store_lanes + np.arange(0, operand.words, step)[:, None]
    channel = thread % operand.store_lanes * operand.fetch_vector + np.arange(operand.fetch_vector)[:, None]
    shape = (len(row), operand.fetch_vector, THREADS_PER_BLOCK)
    return np.broadcast_to(channel, shape), np.broadcast_to(row[:, None], shape)


def _straight_stores(operand: Operand, vector: int) -> tuple[Integers, Integers]:
    """Channel and first word of every thread in the stores of the input, ``vector`` words each."""
    thread = np.arange(THREADS_PER_BLOCK)
    step = THREADS_PER_BLOCK // operand.store_lanes
    channel = thread // operand.store_lanes + np.arange(0, operand.slab_channels, step)[:, None, None, None]
    across = np.arange(0, operand.words, THREADS_PER_BLOCK * operand.fetch_vector)[:, None, None]
    within = np.arange(0, operand.fetch_vector, vector)[:, None]
    word = thread % operand.store_lanes * operand.fetch_vector + across + within
    shape = (len(channel), len(across), len(within), THREADS_PER_BLOCK)
    return np.broadcast_to(channel, shape), np.broadcast_to(word, shape)


def _store_accesses(operand: Operand, vector: int) -> tuple[Integers, Integers, NDArray[np.bool_]]:
    """Channel, word and activity of every lane in the block's stores of one slab, each of shape ``(requests, 32)``."""
    channel, word = _transposed_stores(operand) if operand.transposed else _straight_stores(operand, vector)
    channel, word = channel.reshape(-1, WARP_SIZE), word.reshape(-1, WARP_SIZE)
    active = (word < operand.words) & (channel < operand.slab_channels)
    used = active.any(axis=1)
    return channel[used], word[used], active[used]


def _candidates(operand: Operand, unit: int) -> list[tuple[int, int]]:
    """Pitches and pads worth trying, smallest footprint first; the first is the tightest layout."""
    channels = operand.slab_channels
    pitch = range(-(-operand.words // unit) * unit, operand.words + SHARED_BANKS + unit, unit)
    pad = range(0, SHARED_BANKS if channels > CHANNELS_PER_PAD else 1, unit)
    footprint = {(p, q): channels * p + (channels - 1) // CHANNELS_PER_PAD * q for p in pitch for q in pad}
    return sorted(footprint, key=lambda pair: (footprint[pair], pair))


def _wavefronts(
    channel: Integers, word: Integers, active: NDArray[np.bool_], vector: int, layouts: Integers
) -> tuple[Integers, Integers]:
    """Wavefronts of an access under each layout ``(pitch, pad)``, rows of ``layouts``, and without conflicts."""
    pitch, pad = layouts[:, 0, None, None], layouts[:, 1, None, None]
    at = np.broadcast_to(word + channel * pitch + channel // CHANNELS_PER_PAD * pad, (len(layouts), *word.shape))
    lanes = np.broadcast_to(active, at.shape).reshape(-1, WARP_SIZE)
    addresses = (at * FLOAT_BYTES).astype(np.uint64).reshape(-1, WARP_SIZE)
    total, ideal = shared_wavefronts(addresses, lanes, vector * FLOAT_BYTES)
    return total.reshape(len(layouts), -1).sum(axis=1), ideal.reshape(len(layouts), -1).sum(axis=1)


def read_wavefronts(operand: Operand, found: Pitches, channels: int) -> tuple[int, int]:
    """Wavefronts of one warp's reads of a group that has only so many channels, and their number without conflicts."""
    channel, word = _read_accesses(operand)
    active = np.broadcast_to(channel < channels, word.shape)
    layout = np.array([[found.pitch, found.pad]])
    total, ideal = _wavefronts(channel, word, active, operand.read_vector, layout)
    return int(total[0]), int(ideal[0])


def _best_layout(operand: Operand, store_vector: int) -> Pitches:
    """The smallest layout without conflicts for this width of stores, or the one with the fewest."""
    read_channel, read_word = _read_accesses(operand)
    store_channel, store_word, active = _store_accesses(operand, store_vector)
    everyone = np.ones(read_word.shape, dtype=bool)
    layouts = np.array(_candidates(operand, max(operand.read_vector, store_vector)))
    best: Pitches | None = None
    for start in range(0, len(layouts), _TRIED_AT_ONCE):
        tried = layouts[start : start + _TRIED_AT_ONCE]
        reads, ideal_reads = _wavefronts(read_channel, read_word, everyone, operand.read_vector, tried)
        stores, ideal_stores = _wavefronts(store_channel, store_word, active, store_vector, tried)
        conflicts = WARPS_PER_BLOCK * (reads - ideal_reads) + stores - ideal_stores
        index = int(conflicts.argmin())
        if best is None or conflicts[index] < best.conflicts:
            best = Pitches(
                pitch=int(tried[index, 0]),
                pad=int(tried[index, 1]),
                store_vector=store_vector,
                read_requests=len(read_word),
                read_wavefronts=int(reads[index]),
                store_requests=len(store_word),
                store_wavefronts=int(stores[index]),
                read_conflicts=int(reads[index] - ideal_reads[index]),
                store_conflicts=int(stores[index] - ideal_stores[index]),
            )
        if best.conflicts == 0:
            break
    assert best is not None
    return best


@lru_cache(maxsize=16384)
def pitches(operand: Operand) -> Pitches:
    """The layout with the widest stores that is free of bank conflicts, or the one with the fewest where none is.

    >>> filters = Operand(
    ...     channel_lanes=8, slab_channels=8, words=64, read_words=8, read_vector=4, spread=True, transposed=True, fetch_vector=4,
    ...     store_lanes=2)
    >>> found = pitches(filters)
    >>> found.pitch, found.pad, found.conflicts
    (80, 16, 0)
    """
    vector = 1 if operand.transposed else operand.fetch_vector
    best = _best_layout(operand, vector)
    while best.conflicts > 0 and vector > 1:
        vector //= 2
        narrower = _best_layout(operand, vector)
        best = narrower if narrower.conflicts < best.conflicts else best
    return best
