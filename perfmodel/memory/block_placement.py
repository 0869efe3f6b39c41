"""Which executed block each block of a launch is like, and how far its words are moved against that one's.

In most kernels the words of a buffer that a block touches are those of another block moved by a fixed distance for each step of
the block index.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from ..core.constants import BANK_BYTES, LINE_BYTES
from .trace import LOCAL_LINES, BlockStream, Integers

LINE_WORDS = LINE_BYTES // BANK_BYTES
_COMPARED_WORDS = 4096
"""Words of a block that are compared with those of another one, moved."""
_ALIKE = 0.9
"""Part of the words of the smaller of two blocks that must be the other one's, moved."""
_TRIALS = 8
"""Draws of a few blocks that steps are fitted to."""
_SEARCHES = 4
"""Groups of instructions for which axes are split in vain, at most."""
_WORDS_OF_GROUP = 1 << 21
_LEAST_COMPARED = 8
"""Blocks that are compared however many words they touch."""


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

    ``blocks`` are the linear indices of the blocks that access memory, in order, and ``like`` has one value for each.
    ``movements`` has that of each group of instructions, None where the words of a block lie anywhere.
    """

    executed: Integers
    blocks: Integers
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


def place_blocks(
    streams: Mapping[int, BlockStream], shape: tuple[int, ...], parts: int = 1, working: Integers | None = None
) -> Placement:
    """How the blocks of a grid of ``shape`` follow from those whose streams are known, by linear index.

    Only ``working`` blocks access memory; all when None.

    Groups ``g * parts`` to ``g * parts + parts - 1`` are looked at as one, and one by one where they do not move together.
    """
    streams_of_wholes = {
        block: replace(stream, group=stream.group // parts) if parts > 1 else stream
        for block, stream in streams.items()
    }
    wholes = {group: _touched(streams_of_wholes, group) for group in _global_groups(streams_of_wholes)}
    of_whole: dict[int, list[int]] = {}
    for group in _global_groups(streams):
        of_whole.setdefault(group // parts, []).append(group)
    words: dict[int, Mapping[int, Integers]] = {}
    movements: dict[int, Movement | None] = {}
    shapes, searches = [shape], 0

    def found(touched: Mapping[int, Integers]) -> Movement | None:
        nonlocal searches
        movement = _movement(touched, shapes)
        if movement is None and searches < _SEARCHES:
            movement = _movement(touched, _splits(shape))
            searches += movement is None
        if movement is not None and movement.shape not in shapes:
            shapes.append(movement.shape)
        return movement

    for whole in sorted(wholes, key=lambda whole: -sum(map(len, wholes[whole].values()))):
        groups, movement = of_whole[whole], found(wholes[whole])
        alone = movement is None and len(groups) > 1
        for group in groups:
            words[group] = _touched(streams, group) if len(groups) > 1 else wholes[whole]
            movements[group] = found(words[group]) if alone else movement
    for group, movement in movements.items():
        if movement is None:
            movements[group] = _movement_of_others(words, movements, group)
    executed = np.array(sorted(streams), np.int64)
    accesses = np.array([len(streams[block].line) for block in executed.tolist()])
    blocks = np.arange(int(np.prod(shape))) if working is None else working
    like = _nearest(blocks, executed, accesses, sorted(shapes, key=len)[-1])
    same = _first_same(streams, executed, movements)
    same_as = same[np.searchsorted(executed, like)]
    return Placement(executed=executed, blocks=blocks, like=same_as, movements=movements)


def _global_groups(streams: Mapping[int, BlockStream]) -> list[int]:
    """The groups of instructions that touch global memory."""
    groups = [stream.group[stream.line < LOCAL_LINES] for stream in streams.values()]
    found: list[int] = np.unique(np.concatenate(groups)).tolist()
    return found


def _first_same(
    streams: Mapping[int, BlockStream], executed: Integers, movements: Mapping[int, Movement | None]
) -> Integers:
    """For each executed block the first one whose stream is its own, moved by whole lines."""
    if None in movements.values():
        return executed
    groups = np.array(sorted(movements), np.int64)
    words = np.zeros((len(executed), len(groups)), np.int64)
    for column, group in enumerate(groups.tolist()):
        movement = movements[group]
        if movement is not None:
            words[:, column] = movement.words(executed)
    first: dict[bytes, int] = {}
    same = []
    for number, block in enumerate(executed.tolist()):
        stream = streams[block]
        of_group = np.searchsorted(groups, stream.group) % max(len(groups), 1)
        by = np.where(stream.line < LOCAL_LINES, words[number][of_group], 0) if len(groups) else 0 * stream.line
        columns = (
            stream.group,
            stream.step,
            stream.kind,
            stream.line - by // LINE_WORDS,
            stream.words,
            by % LINE_WORDS,
        )
        same.append(first.setdefault(b"".join(column.tobytes() for column in columns), block))
    return np.array(same, np.int64)


def _nearest(blocks: Integers, executed: Integers, accesses: Integers, shape: tuple[int, ...]) -> Integers:
    """The executed block that is nearest to each of some blocks; an axis counts as far as accesses depend on it."""
    from scipy.spatial import KDTree

    at = positions(executed, shape)
    scale = np.array([_dependence(at[:, axis], accesses, extent) / extent for axis, extent in enumerate(shape)])
    _, nearest = KDTree(at * scale).query(positions(blocks, shape) * scale)
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
