"""Counts of blocks by classes: those that provably do what an executed block does are counted with it.

The block in the middle of the grid is executed first and stands for all others; those that would not do the same leave its
class (`BlockClasses`), and one of each kind of them is executed next.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...memory.access_counts import ClassCounts
from ...simulator.block_classes.classes import BlockClasses, NotFollowedError
from .block_runs import BlockRuns
from .first_stores import FirstStores
from .totals_of_blocks import BlockTotals

_LANES = 65_536
"""Lanes of the executed blocks of one run at most."""
_ROUNDS = 24
_OWN_KIND = 0.5
"""Blocks are left to be executed each where they are of more than so many kinds for each block."""
_MOST_LEAVE = 0.5
"""Where so large a part leaves the class of the first block, one stands for all of it again, with no other blocks beside it."""
_MIX = 0x9E3779B97F4A7C15


@dataclass(slots=True, kw_only=True)
class CountedClasses:
    """What classes of blocks do.

    ``rest`` are the blocks that are in no class, ``executed`` says how many blocks were, ``stores`` where each block of a class
    stores first.
    """

    totals: BlockTotals
    stores: FirstStores
    rest: NDArray[np.int64]
    executed: int


def counted_classes(runs: BlockRuns, blocks: int, places: int) -> CountedClasses | None:
    """Count the blocks of a launch by classes; None where that proves nothing.

    Args:
        runs: executes blocks.
        blocks: of the launch.
        places: of the code.
    """
    found = CountedClasses(
        totals=BlockTotals.of(places), stores=FirstStores(blocks), rest=np.arange(blocks), executed=0
    )
    keys = np.zeros(blocks, np.uint64)
    read: set[int] = set()
    written: set[int] = set()
    at_once = max(_LANES // int(runs.launch.threads_per_block), 1)
    # one block stands for all others; those that are wanted anyhow stand for themselves
    alone = np.setdiff1d(runs.unseen, [runs.watched.block])[: at_once - 1]
    for turn in range(_ROUNDS):
        kinds, executed, group = np.unique(keys, return_index=True, return_inverse=True)
        if not turn:
            group[alone] = 1 + np.arange(len(alone))
            executed = np.append(runs.watched.block, alone)
        elif turn == 1 and len(alone) and len(found.rest) > _MOST_LEAVE * blocks:
            # values of one class that cannot be followed make blocks leave the others, too
            group, executed = np.zeros(len(found.rest), np.int64), np.array([len(found.rest) // 2])
        elif len(kinds) > max(_OWN_KIND * len(found.rest), 1):
            break
        left: list[tuple[NDArray[np.int64], NDArray[np.uint64]]] = []
        for begin in range(0, len(executed), at_once):
            chosen = (group >= begin) & (group < begin + at_once)
            place = np.cumsum(chosen) - 1
            classes = BlockClasses(found.rest[chosen], group[chosen] - begin, place[executed[begin : begin + at_once]])
            try:
                _count(runs, classes, found)
            except NotFollowedError:
                return None
            read |= classes.read
            written |= classes.written
            left.append((classes.blocks[classes.left], classes.keys[classes.left] + np.uint64(begin * _MIX % 2**64)))
        found.rest = np.concatenate([part[0] for part in left])
        keys = np.concatenate([part[1] for part in left])
        if not len(found.rest):
            break
    # what decides may be what another block has written
    return None if read and (len(found.rest) or read & written) else found


def _count(runs: BlockRuns, classes: BlockClasses, found: CountedClasses) -> None:
    """Execute one block of each class, and count all that have stayed in them."""
    accesses = ClassCounts(classes)
    run = runs.run(classes.blocks[classes.executed], [accesses, found.stores], classes, check=True)
    assert run.visits_by_block is not None
    found.totals.visits += classes.sizes() @ run.visits_by_block
    for site, totals in accesses.totals():
        found.totals.add(site, totals)
    found.stores.note_classes(classes)
    found.executed += classes.count
