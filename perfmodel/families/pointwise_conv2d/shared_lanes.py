"""Which words of a slab in shared memory the lanes of the pointwise kernel touch, and in what widths they may do it.

An operand lies line by line: filters as rows of the slab's channels, the input as channels of the tile's positions. Two
patterns touch it in each slab: lanes that read the words of their own channel, and threads that publish, or copy
asynchronously, vectors along the lines.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from ...core.constants import WARP_SIZE
from .blocking import THREADS_PER_BLOCK

Integers = NDArray[np.int64]


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


def lanes_of_reads(operand: Operand, vector: int) -> tuple[Integers, Integers]:
    """Line and word within it of every lane in the reads of one warp, each of shape ``(requests, 32)``."""
    lane = np.arange(WARP_SIZE)
    elements = WARP_SIZE // operand.channel_lanes
    channel = lane // elements
    step = np.arange(0, operand.read_words, vector)[:, None]
    place = step * elements + lane % elements * vector if operand.spread else step + 0 * lane
    channel = np.broadcast_to(channel, place.shape)
    return (place, channel) if operand.filters else (channel, place)


def interleaved(group: Integers, lines: int, interleave: int) -> Integers:
    """Line that a group of threads takes in a pass over ``lines``; groups beyond keep a number beyond.

    >>> interleaved(np.arange(8), 8, 2)
    array([0, 4, 1, 5, 2, 6, 3, 7])
    """
    apart = group % interleave * (lines // interleave) + group // interleave
    return np.where(group < lines, apart, group)


def lanes_of_stores(operand: Operand, chosen: Accesses) -> tuple[Integers, Integers, NDArray[np.bool_]]:
    """Line, word and activity of every lane in the block's stores of one slab, each of shape ``(requests, 32)``."""
    thread = np.arange(THREADS_PER_BLOCK)
    step = operand.store_step
    line = interleaved(thread // operand.store_lanes, operand.pass_lines, chosen.interleave)
    line = line + np.arange(0, operand.lines, step)[:, None, None, None]
    across = np.arange(0, operand.words, operand.store_lanes * operand.fetch_vector)[:, None, None]
    within = np.arange(0, operand.fetch_vector, chosen.store_vector)[:, None]
    word = thread % operand.store_lanes * operand.fetch_vector + across + within
    shape = (len(line), len(across), len(within), THREADS_PER_BLOCK)
    line, word = (np.broadcast_to(index, shape).reshape(-1, WARP_SIZE) for index in (line, word))
    active = (word < operand.words) & (line < operand.lines)
    used = active.any(axis=1)
    return line[used], word[used], active[used]


def first_pass(operand: Operand) -> Operand:
    """The part of an operand that the threads store in their first pass; later ones shift it by whole periods of the pad."""
    across = operand.store_lanes * operand.fetch_vector
    return replace(operand, words=min(operand.words, across), lines=min(operand.lines, operand.store_step))


def _narrowing(width: int) -> list[int]:
    """The width and its halves down to 1.

    >>> _narrowing(4)
    [4, 2, 1]
    """
    return [width >> shift for shift in range(width.bit_length())]


def ways(operand: Operand) -> list[Accesses]:
    """Ways to touch the operand, the widest accesses and the plain order of lines first.

    Rows of filters that are read side by side, ``channel_lanes`` words apart, are stored as many apart as the slab has groups
    of these words: whole rows then lie side by side on the banks.
    """
    apart = operand.store_step * operand.channel_lanes // operand.words if operand.filters else 2
    several = operand.lines > 1 and operand.store_lanes < THREADS_PER_BLOCK and apart > 1
    interleaves = (1, apart) if several else (1,)
    stores = [operand.fetch_vector] if operand.asynchronous or operand.filters else _narrowing(operand.fetch_vector)
    reads = _narrowing(operand.read_vector)
    return [
        Accesses(read_vector=read, store_vector=store, interleave=interleave)
        for read, store, interleave in product(reads, stores, interleaves)
    ]
