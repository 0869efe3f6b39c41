"""An observer's view of some blocks of a run that executes others too, or executes them in several parts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..ir.instruction import Space
from .access import Observer, WarpAccess
from .plan import Plan


class ChosenBlocks:
    """Gives accesses of some blocks to an observer, as if the run executed just these.

    >>> from perfmodel.ir.instruction import Instruction
    >>> from perfmodel.simulator.access import Action, Site
    >>> seen = []
    >>> observer = type("Seen", (), {"access": lambda self, access: seen.append(access)})()
    >>> site = Site(0, 0, Instruction("ld", (), None, False, 1, None), Action.LOAD, Space.GLOBAL, 4)
    >>> plan = Plan(np.arange(64, dtype=np.uint64).reshape(2, 32), None, rows=2, threads=32)
    >>> access = WarpAccess(site, plan, 0, blocks=np.array([4, 7]), positions=np.array([0, 1]))
    >>> ChosenBlocks(observer, np.array([1, 7])).access(access)
    >>> [(one.blocks.tolist(), one.positions.tolist(), int(one.plan.base[0, 0])) for one in seen]
    [([7], [1], 32)]

    Args:
        observer: what gets the accesses; their positions are places among the chosen blocks.
        blocks: linear indices of the blocks, in ascending order.
        spaces: state spaces whose accesses it looks at; all when None.
    """

    def __init__(self, observer: Observer, blocks: NDArray[np.int64], spaces: tuple[Space, ...] | None = None) -> None:
        self.observer = observer
        self.blocks = blocks
        self._spaces = spaces
        self._taken = blocks
        self._of: NDArray[np.int64] | None = None
        self._rows: NDArray[np.int64] = np.zeros(0, np.int64)
        self._chosen = self._positions = self._rows

    def take(self, blocks: NDArray[np.int64]) -> None:
        """Pass on only what these of the chosen blocks do, from now on: the others have been seen."""
        self._taken = np.intersect1d(self.blocks, blocks)
        self._of = None

    def access(self, access: WarpAccess) -> None:
        """Pass on what the chosen blocks do."""
        if self._spaces is not None and access.site.space not in self._spaces:
            return
        if access.blocks is not self._of:
            self._of = access.blocks
            self._rows = np.flatnonzero(np.isin(access.blocks, self._taken))
            self._chosen = access.blocks[self._rows]
            self._positions = np.searchsorted(self.blocks, self._chosen)
        if not len(self._rows):
            return
        plan, target = access.plan, access.target
        if len(self._rows) < len(access.blocks):
            plan = self._plan(plan)
            if plan.empty:
                return
            target = None if target is None else (self._plan(target[0]), target[1])
        barriers = None if access.barriers is None else access.barriers[self._rows]
        self.observer.access(
            WarpAccess(access.site, plan, access.offset, self._chosen, self._positions, target, barriers)
        )

    def _plan(self, plan: Plan) -> Plan:
        """The plan of the chosen rows, made once for all plans that are shifts of one."""
        root = plan.root
        held = root.cache.get((ChosenBlocks, id(self._rows)))
        if held is None:
            # the rows are kept with it, so that their identity stays theirs
            held = root.cache[ChosenBlocks, id(self._rows)] = (self._rows, root.of_rows(self._rows))
        chosen: Plan = held[1]
        return chosen if root is plan else plan.of_rows(self._rows).placed(chosen, plan.shift)
