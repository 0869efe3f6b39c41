"""What the warps of a block do with ``mbarrier`` objects and bulk copies, in order: who ends which phase, who waits for it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

KEPT_EVENTS = 1 << 15
"""Events of a block that are kept."""
CUT = -1
"""In place of an instruction: what a warp does from here on was not kept."""


class Phase(NamedTuple):
    """A phase of an object: the place of its word in the block's shared memory, and how many phases were over before."""

    word: int
    number: int


class PhaseEvent(NamedTuple):
    """What one execution of an instruction by a warp does.

    ``phase`` is None where it names no object of its own block, or no lane takes part. ``ends``: it takes part in the end of the
    phase, by an arrival or by bytes that a copy brings; else it waits for this end. ``sectors`` are those of global memory that a
    bulk copy reads or writes.
    """

    instruction: int
    phase: Phase | None
    ends: bool
    sectors: tuple[int, ...] = ()


@dataclass(slots=True)
class PhaseLog:
    """Events of one block by warp.

    >>> log = PhaseLog()
    >>> log.add(1, 7, log.current(0), ends=True)
    >>> log.over([0])
    >>> log.add(0, 9, log.before(0), ends=False)
    >>> log.events[0][0].phase == log.events[1][0].phase
    True
    """

    events: dict[int, list[PhaseEvent]] = field(default_factory=dict)
    _over: dict[int, int] = field(default_factory=dict)
    """By word, how many phases are over."""
    _kept: int = 0

    def current(self, word: int) -> Phase:
        """The phase that an object is in."""
        return Phase(word, self._over.get(word, 0))

    def before(self, word: int) -> Phase:
        """The phase that was over last."""
        return Phase(word, self._over.get(word, 0) - 1)

    def over(self, words: Iterable[int]) -> None:
        """A phase of each of these objects is over."""
        for word in words:
            self._over[word] = self._over.get(word, 0) + 1

    def initialise(self, words: Iterable[int]) -> None:
        """These objects are made anew: nobody takes part in the phase before the first."""
        for word in words:
            self._over[word] = self._over.get(word, 0) + 2

    def add(self, warp: int, instruction: int, phase: Phase | None, *, ends: bool, sectors: Sequence[int] = ()) -> None:
        """Take note of what a warp does; where too much is done, that something is missing."""
        own = self.events.setdefault(warp, [])
        if self._kept < KEPT_EVENTS:
            own.append(PhaseEvent(instruction, phase, ends, tuple(sectors)))
            self._kept += 1
        elif not own or own[-1].instruction != CUT:
            own.append(PhaseEvent(CUT, None, False))
