"""What all blocks of a launch ask of L2, from the streams of a few: each block is like the nearest executed one, moved.

Where a group of instructions moves by no fixed distance (`block_placement`), a block's words lie anywhere in the buffer; but
where each executed block touches one stretch of it and these do not meet, as rows of a sparse matrix, they lie one after the
other. Words beyond a buffer belong to lanes that the kernel turns off. Of all lines only those whose hash lies in a window are
taken: as the hash of a sum is the sum of the hashes, they are found without looking at the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..core.constants import LINE_BYTES, ceil_div
from ..simulator.global_memory import Segment
from .block_placement import LINE_WORDS, Movement, Placement
from .trace import HASH_BITS, LOCAL_LINES, BlockStream, Integers, hashes

_ALL_WORDS = (1 << LINE_WORDS) - 1
_MODULUS = 1 << HASH_BITS
_COMPACT = 1.5
"""Lines from a block's first to its last one, for each that it touches, up to which they are one stretch."""
_APART = 0.25
"""Of the lines that random stretches would have in common those that stretches have at most which do not meet."""
_WINDOWS = 4
"""Windows of hashes of which lines are sampled, so that strides of lines and of hashes do not meet."""


@dataclass(frozen=True, slots=True)
class LaunchStream:
    """Accesses of all blocks to the sampled lines, shape ``(n,)``, in no order.

    ``block`` is a place in `Placement.blocks`; ``time`` counts steps of a block's life from its begin; ``share`` is the part of
    all lines that is sampled.
    """

    block: Integers
    time: Integers
    kind: Integers
    line: Integers
    words: Integers
    share: float


class GridStreams:
    """What all blocks of a grid ask of L2, of which accesses to some lines are drawn.

    Args:
        streams: of the executed blocks, by linear index.
        segments: buffers.
        placement: which executed block each block is like.
        local_shifts: lines by which the local memory of each block that accesses memory is moved.
        company: a number for each of these blocks; of blocks with the same number that access the same lines one is taken.
        seed: of the places of words that lie anywhere.
    """

    def __init__(
        self,
        streams: Mapping[int, BlockStream],
        segments: Sequence[Segment],
        placement: Placement,
        local_shifts: Integers,
        company: Integers,
        seed: int,
    ) -> None:
        rng = np.random.default_rng(seed)
        regions = _regions(streams, segments, placement, local_shifts, company, rng)
        self._parts = [part for region in regions for part in _parts(region)]
        self.entries = sum(len(part.line.keys) * len(part.by.keys) for part in self._parts)
        """How many accesses there are, about."""

    def drawn(self, samples: int, turn: int) -> LaunchStream:
        """Accesses to one of so many samples of all lines: those whose hash lies in some windows."""
        windows = _windows(samples, turn)
        parts = [found for part in self._parts for found in part.within(windows)]
        if not parts:
            none = np.zeros(0, np.int64)
            return LaunchStream(none, none, none, none, none, 1.0 / samples)
        block, step, kind, line, words = (np.concatenate(column) for column in zip(*parts, strict=True))
        return LaunchStream(block, step, kind, line, words, 1.0 / samples)


@dataclass(frozen=True, slots=True)
class _Region:
    """Entries of an executed block's stream within lines ``low`` to ``high``, and by how many words each block moves them."""

    stream: BlockStream
    entries: Integers
    low: int
    high: int
    blocks: Integers
    shift: Integers


def _regions(
    streams: Mapping[int, BlockStream],
    segments: Sequence[Segment],
    placement: Placement,
    local_shifts: Integers,
    company: Integers,
    rng: np.random.Generator,
) -> Iterator[_Region]:
    grid = len(placement.like)
    apart = [_stretches_lie_apart(streams, placement, *_lines(segment)) for segment in segments]
    order = np.argsort(placement.like, kind="stable")
    executed = np.unique(placement.like)
    bounds = np.searchsorted(placement.like[order], np.append(executed, np.iinfo(np.int64).max))
    for block, begin, end in zip(executed.tolist(), bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        stream, blocks = streams[block], order[begin:end]
        linear = placement.blocks[blocks]
        local = stream.line >= LOCAL_LINES
        if local.any():
            stacks = local_shifts[blocks] * LINE_WORDS
            yield _Region(stream, np.flatnonzero(local), LOCAL_LINES, 2 * LOCAL_LINES, blocks, stacks)
        alike: dict[Movement | None, list[int]] = {}
        for group in np.unique(stream.group[~local]).tolist():
            alike.setdefault(placement.movements[group], []).append(group)
        for movement, groups in alike.items():
            of_groups = ~local & np.isin(stream.group, groups)
            shift = None if movement is None else movement.words(linear) - movement.words(np.array([block]))
            for segment, in_turn in zip(segments, apart, strict=True):
                low, high = _lines(segment)
                own = np.flatnonzero(of_groups & (stream.line >= low) & (stream.line < high))
                if not len(own):
                    continue
                if shift is not None:
                    keys = shift * (int(company.max()) + 1) + company[blocks]
                    first = np.unique(keys, return_index=True)[1]
                    yield _Region(stream, own, low, high, blocks[first], shift[first])
                    continue
                if in_turn:
                    drawn = (blocks * (high - low) // grid - (stream.line[own].min() - low)) % (high - low)
                else:
                    drawn = np.where(linear == block, 0, rng.integers(0, high - low, len(blocks)))
                for around in (0, high - low):  # what is moved beyond the end lies at the begin
                    yield _Region(stream, own, low, high, blocks, (drawn - around) * LINE_WORDS)


def _lines(segment: Segment) -> tuple[int, int]:
    """First line of a buffer, and the one behind its last."""
    return segment.start // LINE_BYTES, ceil_div(segment.start + segment.size_bytes, LINE_BYTES)


def _stretches_lie_apart(streams: Mapping[int, BlockStream], placement: Placement, low: int, high: int) -> bool:
    """Whether what blocks touch of some lines, where it does not just move, is a stretch each that meets no other one's."""
    anywhere = [group for group, movement in placement.movements.items() if movement is None]
    touched = []
    for block in placement.executed.tolist() if anywhere else ():
        stream = streams[block]
        own = (stream.line >= low) & (stream.line < high) & np.isin(stream.group, anywhere)
        if own.any():
            touched.append(np.unique(stream.line[own]))
    lines = float(sum(map(len, touched)))
    if len(touched) < 2 or sum(int(np.ptp(one)) + 1 for one in touched) > _COMPACT * lines:
        return False
    pairs = lines * lines * (1.0 - 1.0 / len(touched)) / 2.0
    by_chance = pairs / (high - low)
    readers = np.unique(np.concatenate(touched), return_counts=True)[1]
    met = float(readers @ (readers - 1)) / 2.0
    return by_chance >= lines / len(touched) and met <= _APART * by_chance


class _Hashed:
    """Lines in the order of their hashes: ``keys`` are the hashes, ``index`` says where each line stood."""

    def __init__(self, lines: Integers) -> None:
        found = hashes(lines)
        self.index = np.argsort(found, kind="stable")
        self.keys = found[self.index]

    def pairs(self, others: _Hashed, windows: Integers) -> tuple[Integers, Integers]:
        """Places of a line here and one there for which the sum of both hashes lies in a window."""
        twice = np.concatenate([others.keys, others.keys + _MODULUS])
        first = (windows[:, :1] - self.keys) % _MODULUS
        ends = np.searchsorted(twice, np.stack([first, first + windows[:, 1:]]))
        number = (ends[1] - ends[0]).reshape(-1)
        other = np.arange(int(number.sum())) - np.repeat(np.cumsum(number) - number - ends[0].reshape(-1), number)
        own = np.repeat(np.tile(self.index, len(windows)), number)
        return own, others.index[other % len(others.keys)]


@dataclass(frozen=True, slots=True)
class _Part:
    """A region whose words stay within their lines when moved, or cross into the next ones (``carried``)."""

    region: _Region
    carried: bool
    taken: Integers
    lines: Integers
    line: _Hashed
    by: _Hashed

    def within(self, windows: Integers) -> Iterator[tuple[Integers, ...]]:
        """Block, step, kind, line and words of the accesses in some windows."""
        region, stream = self.region, self.region.stream
        if len(self.line.keys) < len(self.by.keys):
            entry, of = self.line.pairs(self.by, windows)
        else:
            of, entry = self.by.pairs(self.line, windows)
        at = stream.line[region.entries[entry]] + self.lines[of]
        entry, of = region.entries[entry], self.taken[of]
        words, rest = stream.words[entry], region.shift[of] % LINE_WORDS
        bits = words >> (LINE_WORDS - rest) if self.carried else words << rest & _ALL_WORDS
        kept = (bits != 0) & (at >= region.low) & (at < region.high)
        entry = entry[kept]
        yield region.blocks[of[kept]], stream.step[entry], stream.kind[entry], at[kept], bits[kept]


def _parts(region: _Region) -> Iterator[_Part]:
    line = _Hashed(region.stream.line[region.entries])
    for carried in (False, True):
        taken = np.flatnonzero(region.shift % LINE_WORDS > 0) if carried else np.arange(len(region.blocks))
        if len(taken):
            by = region.shift[taken] // LINE_WORDS + carried
            yield _Part(region, carried, taken, by, line, _Hashed(by))


def _windows(samples: int, turn: int) -> Integers:
    """Where the windows of hashes of a sample begin, and how long they are: shape ``(windows, 2)``; one for all lines.

    The samples of all turns are all lines.
    """
    if samples <= 1:
        return np.array([[0, _MODULUS]])
    part = _MODULUS // _WINDOWS
    first = np.random.default_rng(1).integers(0, samples, _WINDOWS)
    place = (first + turn) % samples
    ends = [
        np.arange(_WINDOWS) * part + part // samples * place,
    ]
    return np.stack([*ends, np.full(_WINDOWS, part // samples)], axis=1)
