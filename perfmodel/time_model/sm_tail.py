"""What an SM still has to do where the budget of instructions has ended its run: its warps go on, and blocks follow blocks."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_ENDED = 1e-6
"""Instructions below which a warp has ended."""
_LONGER = (1e-3, 1e3)
"""Between what the time is sought by which resources take longer than their own cycles, in so many steps."""
_HALVINGS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How fast warps go on that share an SM, in cycles.

    Attributes:
        alone: From one instruction of a warp to its next one, where no other warp is in its way.
        scheduler: For each instruction of a scheduler's warps together: what only one scheduler uses.
        together: For each instruction of all warps together: what all schedulers use.
    """

    alone: float
    scheduler: float
    together: float

    @classmethod
    def of(cls, observed: float, alone: float, own: float, shared: float, homes: NDArray[np.int64]) -> Pace:
        """As fast as warps of such schedulers were observed to be together, in cycles for each of their instructions.

        Resources that are never quite busy take longer than their own cycles, all alike.

        Args:
            observed: cycles for each instruction of all of the warps.
            alone: as above.
            own: cycles for each instruction that the busiest resource of a scheduler takes.
            shared: the same of the busiest resource of all schedulers.
            homes: scheduler of each of the warps.

        >>> pace = Pace.of(0.5, 1.0, own=1.0, shared=0.1, homes=np.arange(8) % 4)
        >>> round(pace.scheduler, 3)  # for an instruction of a scheduler, as for four of the SM
        2.0
        """
        least, most = _LONGER
        for _ in range(_HALVINGS):
            longer = math.sqrt(least * most)
            pace = cls(alone=alone, scheduler=longer * own, together=longer * shared)
            if (1.0 / pace.cycles(homes)).sum() * observed < 1.0:
                most = longer
            else:
                least = longer
        return pace

    def cycles(self, homes: NDArray[np.int64]) -> Floats:
        """Cycles for each instruction of each warp, of those of such schedulers that share an SM."""
        sharing = np.bincount(homes)[homes]
        resources = np.maximum(sharing * self.scheduler, len(homes) * self.together)
        return np.asarray(np.maximum(resources, self.alone), np.float64)


def rest_cycles(
    left: Floats, homes: NDArray[np.int64], following: list[Floats], warps_at_once: int, pace: Pace
) -> float:
    """Cycles until all warps have ended, and blocks that have not begun.

    Args:
        left: instructions that each warp has before it, shape ``(places, warps of a block)``; 0 where it has ended.
        homes: scheduler of each, the same shape.
        following: instructions of the warps of each block that has not begun; it begins when a block has ended and its warps have
            room.
        warps_at_once: warps that the SM has room for.
        pace: how fast they go on.

    >>> lone = Pace(alone=2.0, scheduler=0.0, together=1.0)
    >>> one = np.zeros((1, 2), np.int64)
    >>> rest_cycles(np.array([[100.0, 100.0]]), one, [], 2, lone), rest_cycles(np.array([[100.0, 300.0]]), one, [], 2, lone)
    (200.0, 600.0)
    >>> rest_cycles(np.array([[100.0, 100.0]]), one, [np.array([50.0, 0.0])], 2, lone)
    300.0
    """
    left, waiting, passed = left.copy(), list(following), 0.0
    while True:
        for place in np.flatnonzero(~left.any(axis=1)).tolist():
            if waiting and np.count_nonzero(left) + len(waiting[0]) <= warps_at_once:
                left[place] = waiting.pop(0)
        active = left > 0.0
        if not active.any():
            return passed
        each = pace.cycles(homes[active])
        step = float((left[active] * each).min())
        passed += step
        left[active] -= step / each
        left[left < _ENDED] = 0.0
