"""Which words of a slab in shared memory the lanes of the pointwise kernel touch, and in what widths they may do it.

Both operands lie channel by channel. Three patterns touch an operand in each slab: lanes that read their columns (or rows) of
their own channel, and the threads that publish what they fetched: filters four channels at a time, transposed; inputs
along the positions. Asynchronous copies publish the channels of a filter word by word, eight neighbouring ones of four
filters in a request, and the input in whole vectors.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from ...definitions import WARP_SIZE
from .blocking import THREADS_PER_BLOCK

Integers = NDArray[np.int64]


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


def lanes_of_reads(operand: Operand, vector: int) -> tuple[Integers, Integers]:
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


def lanes_of_stores(operand: Operand, chosen: Accesses) -> tuple[Integers, Integers, NDArray[np.bool_]]:
    """Channel, word and activity of every lane in the block's stores of one slab, each of shape ``(requests, 32)``."""
    channel, word = _transposed_stores(operand) if operand.transposed else _straight_stores(operand, chosen)
    channel, word = channel.reshape(-1, WARP_SIZE), word.reshape(-1, WARP_SIZE)
    active = (word < operand.words) & (channel < operand.slab_channels)
    used = active.any(axis=1)
    return channel[used], word[used], active[used]


def first_pass(operand: Operand) -> Operand:
    """The part of an operand that the threads store in their first pass; later ones shift it by whole periods of the pad."""
    across = operand.store_step if operand.transposed else operand.store_lanes * operand.fetch_vector
    channels = THREADS_PER_BLOCK // (operand.store_step if operand.transposed else operand.store_lanes)
    channels *= operand.fetch_vector if operand.transposed else 1
    return replace(operand, words=min(operand.words, across), slab_channels=min(operand.slab_channels, channels))


def _narrowing(width: int) -> list[int]:
    """The width and its halves down to 1.

    >>> _narrowing(4)
    [4, 2, 1]
    """
    return [width >> shift for shift in range(width.bit_length())]


def ways(operand: Operand) -> list[Accesses]:
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
