"""What all blocks of a launch ask of L2, from the streams of a few: each block is like the nearest executed one, moved.

In most kernels the words of a buffer that a block touches are those of another block moved by a fixed distance for each step of
the block index. Where they are not, a block's words lie anywhere in the buffer. Words beyond a buffer belong to lanes that
the kernel turns off. Of all lines only those whose hash lies in a window are taken: as the hash of a sum is the sum of the
hashes, they are found without looking at the others.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.spatial import KDTree

from ..core.constants import BANK_BYTES, LINE_BYTES
from ..simulator.global_memory import Segment
from .trace import HASH_BITS, LOCAL_LINES, BlockStream, Integers, hashes

LINE_WORDS = LINE_BYTES // BANK_BYTES
_ALL_WORDS = (1 << LINE_WORDS) - 1
_MODULUS = 1 << HASH_BITS
_COMPARED_WORDS = 4096
"""Words of a block that are compared with those of another one, moved."""
_ALIKE = 0.9
"""Part of the words of the smaller of two blocks that must be the other one's, moved."""
_TRIALS = 8
_SEARCHES = 4
"""Groups of instructions for which axes are split in vain, at most."""
_WORDS_OF_GROUP = 1 << 21
_LEAST_COMPARED = 8
"""Blocks that are compared however many words they touch."""
_BLOCKS_AT_ONCE = 4096
_WINDOWS = 16
"""Windows of hashes of which lines are sampled, so that strides of lines and of hashes do not meet."""


@dataclass(frozen=True, slots=True)
class LaunchStream:
    """Accesses of all blocks to the sampled lines, shape ``(n,)``, in no order.

    ``time`` counts steps of a block's life from its begin; ``share`` is the part of all lines that is sampled.
    """

    block: Integers
    time: Integers
    kind: Integers
    line: Integers
    words: Integers
    share: float


@dataclass(frozen=True, slots=True)
class Movement:
    """By how many words a step along each axis of a grid of ``shape`` moves the words of one group of instructions."""

    shape: tuple[int, ...]
    steps: tuple[int, ...]

    def words(self, blocks: Integers) -> Integers:
        """Where the words of blocks, by linear index, lie relative to those of the first block."""
        return positions(blocks, self.shape) @ np.array(self.steps, np.int64)


@dataclass(frozen=True, slots=True)
class Placement:
    """Which executed block each block of the grid is like (``like``, by linear index), and how its words are moved.

    ``movements`` has that of each group of instructions, None where the words of a block lie anywhere.
    """

    executed: Integers
    like: Integers
    movements: Mapping[int, Movement | None]

    @property
    def exact(self) -> bool:
        """Whether all words just move."""
        return None not in self.movements.values()


def positions(blocks: Integers, shape: tuple[int, ...]) -> Integers:
    """Block index along every axis, first axis fastest, of linear indices: shape ``(n, axes)``.

    >>> positions(np.array([7]), (3, 2, 2)).tolist()
    [[1, 0, 1]]
    """
    return np.stack(np.unravel_index(blocks, shape[::-1])[::-1], axis=1).astype(np.int64)


def place_blocks(streams: Mapping[int, BlockStream], shape: tuple[int, ...]) -> Placement:
    """How the blocks of a grid of ``shape`` follow from those whose streams are known, by linear index."""
    groups = np.unique(np.concatenate([stream.group[stream.line < LOCAL_LINES] for stream in streams.values()]))
    words = {group: _touched(streams, group) for group in groups.tolist()}
    movements: dict[int, Movement | None] = {}
    shapes, searches = [shape], 0
    for group in sorted(words, key=lambda group: -sum(map(len, words[group].values()))):
        found = _movement(words[group], shapes)
        if found is None and searches < _SEARCHES:
            found = _movement(words[group], _splits(shape))
            searches += found is None
        if found is not None and found.shape not in shapes:
            shapes.append(found.shape)
        movements[group] = found
    for group, movement in movements.items():
        if movement is None:
            movements[group] = _movement_of_others(words, movements, group)
    executed = np.array(sorted(streams), np.int64)
    accesses = np.array([len(streams[block].line) for block in executed.tolist()])
    like = _nearest(executed, accesses, sorted(shapes, key=len)[-1])
    return Placement(executed=executed, like=like, movements=movements)


def _nearest(executed: Integers, accesses: Integers, shape: tuple[int, ...]) -> Integers:
    """The executed block that is nearest to each block of the grid; an axis counts as far as accesses depend on it."""
    at = positions(executed, shape)
    scale = np.array([_dependence(at[:, axis], accesses, extent) / extent for axis, extent in enumerate(shape)])
    _, nearest = KDTree(at * scale).query(positions(np.arange(int(np.prod(shape))), shape) * scale)
    return executed[nearest]


def _dependence(index: Integers, accesses: Integers, extent: int) -> float:
    """Part of the variance of accesses that an axis explains, at least a tenth; the extent of a short axis that explains any."""
    parts = min(extent, max(int(len(index) ** 0.5), 1))
    part = index * parts // extent
    number = np.bincount(part, minlength=parts)
    spread = float(np.var(accesses))
    if not spread:
        return 1.0
    mean = np.bincount(part, accesses, minlength=parts) / np.maximum(number, 1)
    freedom = max(len(index) - int(np.count_nonzero(number)), 1) / max(len(index) - 1, 1)
    explained = 1.0 - float(np.mean((accesses - mean[part]) ** 2)) / spread / freedom
    return float(extent) if explained > 0.1 and parts == extent else max(float(explained), 0.1)


def _touched(streams: Mapping[int, BlockStream], group: int) -> dict[int, Integers]:
    """Words that a group of instructions touches in each block that it runs in, of fewer blocks where they are many."""
    words: dict[int, Integers] = {}
    room = _WORDS_OF_GROUP
    for block in np.random.default_rng(0).permutation(sorted(streams)).tolist():
        found = _words(streams[block], group)
        if len(found):
            words[block] = found
            room -= len(found)
        if room < 0 and len(words) >= _LEAST_COMPARED:
            break
    return words


def _movement_of_others(
    words: Mapping[int, Mapping[int, Integers]], movements: Mapping[int, Movement | None], group: int
) -> Movement | None:
    """The movement of another group that touches, in each block, all words that this one does."""
    for other, movement in movements.items():
        if movement is not None and all(
            block in words[other] and _common(found, words[other][block]) == min(len(found), _COMPARED_WORDS)
            for block, found in words[group].items()
        ):
            return movement
    return None


def _words(stream: BlockStream, group: int) -> Integers:
    """Sorted words of global memory that a group of instructions touches."""
    own = (stream.group == group) & (stream.line < LOCAL_LINES)
    line, first = np.unique(stream.line[own], return_inverse=True)
    masks = np.zeros(len(line), np.int64)
    np.bitwise_or.at(masks, first, stream.words[own])
    entry, bit = np.nonzero(masks[:, None] >> np.arange(LINE_WORDS) & 1)
    return np.asarray(line[entry] * LINE_WORDS + bit, np.int64)


def _movement(touched: Mapping[int, Integers], shapes: Iterable[tuple[int, ...]]) -> Movement | None:
    """How the words of blocks move in the first of some shapes of the grid in which they do; None where in none."""
    blocks = np.array(list(touched), np.int64)
    ends = [np.array([found[end] for found in touched.values()], np.int64) for end in (0, -1)]
    for shape in shapes:
        if len(touched) < 2:
            return Movement(shape, (0,) * len(shape))
        for end in ends:
            movement = _fitted(blocks, end, shape)
            if movement is not None and _all_move(touched, movement):
                return movement
    return None


def _splits(shape: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """All shapes with an axis split in two, and in three: a kernel may take a block index apart by division."""
    for parts in (2, 3):
        for axis, extent in enumerate(shape):
            for split in _factors(extent, parts):
                yield (*shape[:axis], *split, *shape[axis + 1 :])


def _factors(extent: int, parts: int) -> Iterator[tuple[int, ...]]:
    """All ways to write an extent as a product of so many numbers above 1, in each order.

    >>> list(_factors(12, 2))
    [(2, 6), (3, 4), (4, 3), (6, 2)]
    """
    if parts == 1:
        yield (extent,)
        return
    low = [factor for factor in range(2, math.isqrt(extent) + 1) if extent % factor == 0]
    for factor in sorted({*low, *(extent // factor for factor in low)}):
        for rest in _factors(extent // factor, parts - 1):
            yield (factor, *rest)


def _fitted(blocks: Integers, words: Integers, shape: tuple[int, ...]) -> Movement | None:
    """The steps that explain where one word lies of half of the blocks: those at edges may lack it.

    They are looked for with few blocks drawn at random, several times.
    """
    at = positions(blocks, shape)
    unknown = np.column_stack([np.ones(len(at)), at])
    relative = (words - words[0]).astype(np.float64)
    rng = np.random.default_rng(0)
    for _ in range(_TRIALS):
        few = rng.permutation(len(at))[: unknown.shape[1] + 2]
        found = np.linalg.lstsq(unknown[few], relative[few], rcond=None)[0]
        steps = np.round(found[1:])
        if np.abs(found[1:] - steps).max() > 0.01:
            continue
        origin = relative - at @ steps
        if 2 * np.count_nonzero(origin == np.median(origin)) >= len(at):
            return Movement(shape, tuple(int(step) for step in steps))
    return None


def _all_move(touched: Mapping[int, Integers], movement: Movement) -> bool:
    """Whether the words of all blocks are those of the one with most words, moved."""
    blocks = np.array(list(touched), np.int64)
    moved = movement.words(blocks)
    most = int(np.argmax([len(found) for found in touched.values()]))
    origin = touched[int(blocks[most])] - moved[most]
    return all(
        _common(found, origin + by) >= _ALIKE * min(len(found), _COMPARED_WORDS)
        for found, by in zip(touched.values(), moved.tolist(), strict=True)
    )


def _common(few: Integers, many: Integers) -> int:
    """How many of the words, drawn evenly where they are many, are among others."""
    drawn = few[np.linspace(0, len(few) - 1, min(len(few), _COMPARED_WORDS)).astype(np.int64)]
    place = np.minimum(np.searchsorted(many, drawn), len(many) - 1)
    return int((many[place] == drawn).sum())


def launch_stream(
    streams: Mapping[int, BlockStream],
    segments: Sequence[Segment],
    placement: Placement,
    local_shifts: Integers,
    company: Integers,
    entries: int,
    seed: int,
) -> LaunchStream:
    """Accesses of all blocks to a share of all lines, as large as so many ``entries`` allow.

    Args:
        streams: of the executed blocks, by linear index.
        segments: buffers.
        placement: which executed block each block is like.
        local_shifts: lines by which the local memory of each block of the grid is moved.
        company: a number for each block of the grid; of blocks with the same number that access the same lines one is taken.
        entries: to find, about.
        seed: of the places of words that lie anywhere.
    """
    regions = list(_regions(streams, segments, placement, local_shifts, company, np.random.default_rng(seed)))
    total = sum(len(region.entries) * len(region.blocks) for region in regions)
    share = min(1.0, entries / max(total, 1))
    parts = [part for region in regions for part in _moved(region, share)]
    if not parts:
        none = np.zeros(0, np.int64)
        return LaunchStream(none, none, none, none, none, share)
    block, step, kind, line, words = (np.concatenate(column) for column in zip(*parts, strict=True))
    return LaunchStream(block, step, kind, line, words, share)


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
    order = np.argsort(placement.like, kind="stable")
    bounds = np.searchsorted(placement.like[order], np.append(placement.executed, np.iinfo(np.int64).max))
    for block, begin, end in zip(placement.executed.tolist(), bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        stream, blocks = streams[block], order[begin:end]
        local = stream.line >= LOCAL_LINES
        if local.any():
            stacks = local_shifts[blocks] * LINE_WORDS
            yield _Region(stream, np.flatnonzero(local), LOCAL_LINES, 2 * LOCAL_LINES, blocks, stacks)
        alike: dict[Movement | None, list[int]] = {}
        for group in np.unique(stream.group[~local]).tolist():
            alike.setdefault(placement.movements[group], []).append(group)
        for movement, groups in alike.items():
            of_groups = ~local & np.isin(stream.group, groups)
            shift = None if movement is None else movement.words(blocks) - movement.words(np.array([block]))
            for segment in segments:
                low, high = segment.start // LINE_BYTES, -(-(segment.start + segment.size_bytes) // LINE_BYTES)
                own = np.flatnonzero(of_groups & (stream.line >= low) & (stream.line < high))
                if not len(own):
                    continue
                if shift is not None:
                    first = np.unique(np.stack([shift, company[blocks]]), axis=1, return_index=True)[1]
                    yield _Region(stream, own, low, high, blocks[first], shift[first])
                    continue
                drawn = np.where(blocks == block, 0, rng.integers(0, high - low, len(blocks)))
                for around in (0, high - low):  # what is moved beyond the end lies at the begin
                    yield _Region(stream, own, low, high, blocks, (drawn - around) * LINE_WORDS)


def _moved(region: _Region, share: float) -> list[tuple[Integers, ...]]:
    """Block, step, kind, line and words of the entries of a region for all its blocks, in the sampled lines."""
    stream, blocks, low, high = region.stream, region.blocks, region.low, region.high
    key = hashes(stream.line[region.entries])
    order = np.argsort(key, kind="stable")
    chosen, key = region.entries[order], key[order]
    line, words = stream.line[chosen], stream.words[chosen]
    twice = np.concatenate([key, key + _MODULUS])
    windows = _windows(share)
    parts: list[tuple[Integers, ...]] = []
    whole, rest = region.shift // LINE_WORDS, region.shift % LINE_WORDS
    for carried in (False, True):
        by = whole + carried
        taken = np.flatnonzero(rest > 0) if carried else np.arange(len(blocks))
        for begin in range(0, len(taken), _BLOCKS_AT_ONCE):
            some = taken[begin : begin + _BLOCKS_AT_ONCE]
            first = (windows[:, :1] - hashes(by[some])) % _MODULUS
            ends = np.searchsorted(twice, np.stack([first, first + windows[:, 1:]]))
            number = (ends[1] - ends[0]).reshape(-1)
            entry = np.arange(int(number.sum())) - np.repeat(np.cumsum(number) - number - ends[0].reshape(-1), number)
            entry %= len(key)
            of = np.repeat(np.tile(some, len(windows)), number)
            bits = words[entry] >> (LINE_WORDS - rest[of]) if carried else words[entry] << rest[of] & _ALL_WORDS
            at = line[entry] + by[of]
            kept = (bits != 0) & (at >= low) & (at < high)
            entry, of = chosen[entry[kept]], of[kept]
            parts.append((blocks[of], stream.step[entry], stream.kind[entry], at[kept], bits[kept]))
    return parts


def _windows(share: float) -> Integers:
    """Where the windows of hashes begin, and how long they are: shape ``(windows, 2)``; one for all lines."""
    if share >= 1.0:
        return np.array([[0, _MODULUS]])
    part = _MODULUS // _WINDOWS
    room = part - int(share * part)
    begins = np.arange(_WINDOWS) * part + (np.random.default_rng(1).random(_WINDOWS) * room).astype(np.int64)
    return np.stack([begins, np.full(_WINDOWS, int(share * part))], axis=1)
