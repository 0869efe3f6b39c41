"""Counts of blocks by classes: those that provably do what an executed block does are counted with it.

The block in the middle of the grid is executed first and stands for all others; those that would not do the same leave its
class (`BlockClasses`), and one of each kind of them is executed next.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...memory.access_counts import ClassCounts
from ...simulator.block_classes.classes import BlockClasses, NotFollowedError
from .block_runs import BlockRuns
from .first_stores import FirstStores
from .totals_of_blocks import BlockTotals, idle_blocks

_LANES = 65_536
"""Lanes of the executed blocks of one run at most."""
_ROUNDS = 24
_OWN_KIND = 0.5
"""Blocks are left to be executed each where they are of more than so many kinds for each block."""
_MOST_LEAVE = 0.5
"""Where so large a part leaves the class of the first block, one stands for all of it again, with no other blocks beside it."""
_IDLE_KINDS = 32
"""Kinds of blocks up to which those that end at once are looked for where others cannot be followed."""
_MIX = 0x9E3779B97F4A7C15


@dataclass(slots=True, kw_only=True)
class CountedClasses:
    """What classes of blocks do.

    ``rest`` are the blocks that are in no class, ``executed`` says how many blocks were, ``stores`` where each block of a class
    stores first. ``idle`` are blocks that access no memory, ``idle_visits`` how often their warps come to each place.
    """

    totals: BlockTotals
    stores: FirstStores
    rest: NDArray[np.int64]
    executed: int
    idle: list[NDArray[np.int64]] = field(default_factory=list)
    idle_visits: Any = 0


def counted_classes(runs: BlockRuns, blocks: int, places: int, *, idle: bool = False) -> CountedClasses | None:
    """Count the blocks of a launch by classes; None where that proves nothing.

    Args:
        runs: executes blocks.
        blocks: of the launch.
        places: of the code.
        idle: count only blocks that neither store nor read what decides, whatever the others do.
    """
    found = CountedClasses(
        totals=BlockTotals.of(places), stores=FirstStores(blocks), rest=np.arange(blocks), executed=0
    )
    at_once = max(_LANES // int(runs.launch.threads_per_block), 1)
    # one block stands for all others; those that are wanted anyhow stand for themselves
    alone = np.setdiff1d(runs.unseen, [runs.watched.block])[: 0 if idle else at_once - 1]
    tried = _Tried(runs, found, apart=idle)
    left = _first_class(tried, alone)
    if left is None:
        return None
    found.rest, keys = _all_left(left)
    for turn in range(1, _ROUNDS):
        if not len(found.rest):
            break
        kinds, executed, group = np.unique(keys, return_index=True, return_inverse=True)
        if turn == 1 and len(alone) and len(found.rest) > _MOST_LEAVE * blocks:
            # values of one class that cannot be followed make blocks leave the others, too
            group, executed = np.zeros(len(found.rest), np.int64), np.array([len(found.rest) // 2])
        elif len(kinds) > (_IDLE_KINDS if idle else max(_OWN_KIND * len(found.rest), 1)):
            break
        left = ()
        for begin in range(0, len(executed), at_once):
            left += tried.each(group, executed, begin, min(begin + at_once, len(executed)))
        found.rest, keys = _all_left(left)
    found.rest = np.sort(np.concatenate([found.rest, *tried.unknown]))
    read, written = tried.read, tried.written
    if tried.unknown and (read or written):
        return None
    # what decides may be what another block has written
    return None if read and (len(found.rest) or read & written) else found


_Left = tuple[NDArray[np.int64], NDArray[np.uint64]]
"""Blocks that left their classes, and keys of how they would have decided."""


def _all_left(left: tuple[_Left, ...]) -> _Left:
    blocks = np.concatenate([np.zeros(0, np.int64), *(one[0] for one in left)])
    return blocks, np.concatenate([np.zeros(0, np.uint64), *(one[1] for one in left)])


class _Tried:
    """Counts classes as far as they can be followed; ``unknown`` are the blocks of those that cannot.

    ``read`` and ``written`` are the buffers of the classes that were counted. ``apart`` is as for `BlockClasses`.
    """

    def __init__(self, runs: BlockRuns, found: CountedClasses, *, apart: bool) -> None:
        self.runs, self.found, self.apart = runs, found, apart
        self.read: set[int] = set()
        self.written: set[int] = set()
        self.unknown: list[NDArray[np.int64]] = []

    def together(
        self, group: NDArray[np.int64], executed: NDArray[np.int64], begin: int, end: int
    ) -> tuple[_Left, ...] | None:
        """Count the classes from one number to another in one run.

        Where one of several cannot be followed, nothing is counted, and None comes back. If it is the only one, the blocks that
        are left in it are unknown; those that left it before have shown how they differ.
        """
        chosen = (group >= begin) & (group < end)
        place = np.cumsum(chosen) - 1
        # what unknown blocks write and read is not known either
        classes = BlockClasses(
            self.found.rest[chosen],
            group[chosen] - begin,
            place[executed[begin:end]],
            apart=self.apart or len(self.unknown) > 0,
        )
        try:
            _count(self.runs, classes, self.found)
        except NotFollowedError:
            self.runs.restart()
            self.found.stores.forget()
            if end - begin > 1:
                return None
            self.unknown.append(classes.blocks[~classes.left])
        else:
            self.read |= classes.read
            self.written |= classes.written
        return ((classes.blocks[classes.left], classes.keys[classes.left] + np.uint64(begin * _MIX % 2**64)),)

    def each(self, group: NDArray[np.int64], executed: NDArray[np.int64], begin: int, end: int) -> tuple[_Left, ...]:
        """The same, where each half of them is tried by itself if one of several cannot be followed."""
        left = self.together(group, executed, begin, end)
        if left is not None:
            return left
        middle = (begin + end) // 2
        return self.each(group, executed, begin, middle) + self.each(group, executed, middle, end)


def _first_class(tried: _Tried, alone: NDArray[np.int64]) -> tuple[_Left, ...] | None:
    """Count the class of the block in the middle, beside blocks that stand for themselves if all of these can be followed.

    None where all blocks stay in that class and it cannot be followed.
    """
    blocks, middle = len(tried.found.rest), tried.runs.watched.block
    for others in (alone, alone[:0]) if len(alone) else (alone,):
        group = np.zeros(blocks, np.int64)
        group[others] = 1 + np.arange(len(others))
        left = tried.together(group, np.append(middle, others), 0, 1 + len(others))
        if left is not None:
            break
    return left if (left and len(left[0][0])) or not tried.unknown else None


def _count(runs: BlockRuns, classes: BlockClasses, found: CountedClasses) -> None:
    """Execute one block of each class, and count all that have stayed in them."""
    accesses = ClassCounts(classes)
    run = runs.run(classes.blocks[classes.executed], [accesses, found.stores], classes, check=True)
    assert run.visits_by_block is not None
    found.totals.visits += classes.sizes() @ run.visits_by_block
    totals = list(accesses.totals())
    for site, of_site in totals:
        found.totals.add(site, of_site)
    idle = idle_blocks(runs.lengths, run.visits_by_block, [site for site, _ in totals])
    found.idle.append(classes.blocks[classes.members[idle[classes.rows]]])
    found.idle_visits = found.idle_visits + (classes.sizes() * idle) @ run.visits_by_block
    found.stores.note_classes(classes)
    found.executed += classes.count
