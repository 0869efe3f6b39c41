"""Where each block of a launch stores first: an observer of runs, of single blocks or of classes of blocks."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
from numpy.typing import NDArray

from ...ir.instruction import Space
from ...simulator.access import WarpAccess
from ...simulator.block_classes.classes import BlockClasses, RowSteps

_NONE = np.iinfo(np.int64).max


class FirstStores:
    """The lowest address in global memory that each block stores to."""

    def __init__(self, blocks: int) -> None:
        self.complete = True
        """Whether every block that was counted is known."""
        self._lowest = np.full(blocks, _NONE, np.int64)
        self._of_run: dict[Hashable, tuple[RowSteps, NDArray[np.int64]]] = {}

    def access(self, access: WarpAccess) -> None:
        """Keep the lowest address of a store in each executed block, for each way in which it is shifted in others."""
        if not access.writes or access.site.space is not Space.GLOBAL:
            return
        plan, steps = access.plan, access.plan.steps_of_rows
        key = tuple((id(function), c.tobytes()) for function, c in steps)
        shape = np.broadcast_shapes(plan.base.shape, () if plan.mask is None else plan.mask.shape)
        addresses = np.broadcast_to(plan.base.view(np.int64) + access.offset, shape)
        lowest = np.where(True if plan.mask is None else plan.mask, addresses, _NONE).min(axis=1)
        _, before = self._of_run.get(key, (steps, np.zeros(0, np.int64)))
        size = max(int(access.positions.max()) + 1, len(before))
        grown = np.append(before, np.full(size - len(before), _NONE, np.int64))
        grown[access.positions] = np.minimum(grown[access.positions], lowest)
        self._of_run[key] = (steps, grown)

    def note(self, blocks: NDArray[np.int64]) -> None:
        """Take over what a run of these blocks showed."""
        for _, lowest in self._of_run.values():
            known = blocks[: len(lowest)]
            self._lowest[known] = np.minimum(self._lowest[known], lowest)
        self._of_run.clear()

    def note_classes(self, classes: BlockClasses) -> None:
        """Take over what a run of classes showed, for all blocks that have stayed in them."""
        blocks = classes.of_members(classes.blocks)
        for steps, lowest in self._of_run.values():
            full = np.append(lowest, np.full(classes.count - len(lowest), _NONE, np.int64))[classes.rows]
            shifted = np.where(full == _NONE, _NONE, full + classes.shift(steps))
            self._lowest[blocks] = np.minimum(self._lowest[blocks], shifted)
        self._of_run.clear()

    def forget(self) -> None:
        """Forget what a run showed that did not come to its end."""
        self._of_run.clear()

    def incomplete(self) -> None:
        """Note that some blocks are only estimated."""
        self.complete = False

    def of(self, blocks: NDArray[np.int64]) -> NDArray[np.int64]:
        """Lowest addresses of blocks, -1 for those that store nothing."""
        found = self._lowest[blocks]
        return np.where(found == _NONE, -1, found)
