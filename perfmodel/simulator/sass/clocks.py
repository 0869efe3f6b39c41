"""When warps of a batch are, roughly, so that lanes that wait in a loop look at memory about as often as they would on a GPU.

A look takes a round trip to L2, longer by an atomic (``data/calibrations/warp_latencies.toml``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from ...core.constants import WARP_SIZE
from ...machine_code.instruction import MachineInstruction
from ...machine_code.operands import Register
from ...machine_code.schedule import fields, warp_latencies
from ..plan import Mask, rows_and_warps
from ..program import Unit

_LOADS, _ATOMICS = frozenset({"LD", "LDG"}), frozenset({"ATOM", "ATOMG"})


def asks_l2(instructions: Iterable[MachineInstruction]) -> bool:
    """Whether one of the instructions waits for what L2 has."""
    return _round_trip(instructions) > 0


def _round_trip(instructions: Iterable[MachineInstruction]) -> int:
    """Cycles until L2 has answered the slowest of some instructions, 0 where none asks it."""
    known, found = warp_latencies(), 0
    for i in instructions:
        if i.name in _LOADS and not i.never:
            found = max(found, known.l2)
        elif i.name in _ATOMICS and not i.never and _returns(i):
            found = max(found, known.l2_atomic)
    return found


def _returns(atomic: MachineInstruction) -> bool:
    """Whether an atomic gives its warp what it found."""
    return any(isinstance(o, Register) and o.file == "R" and o.index is not None for o in atomic.operands[:2])


def cycles_of_units(units: Sequence[Unit], instructions: Sequence[MachineInstruction]) -> NDArray[np.int64]:
    """Cycles that a warp alone takes for each unit: those of its control bits, and a round trip where it asks L2."""
    known, (stall, *_) = warp_latencies(), fields(instructions)
    ends = np.concatenate([[0], np.cumsum(np.maximum(stall, 1))])
    found = np.zeros(len(units), np.int64)
    for unit in units:
        own = instructions[unit.first : unit.first + len(unit.instructions)]
        waits = _round_trip(own)
        waits += known.fence * sum(i.name == "MEMBAR" for i in own)
        found[unit.index] = ends[unit.first + len(own)] - ends[unit.first] + waits
    return found


class Clocks:
    """Cycles that each warp of a batch has spent, shape ``(rows, warps)``."""

    def __init__(self, cycles: NDArray[np.int64], rows: int, threads: int) -> None:
        self._before = np.concatenate([[0], np.cumsum(cycles)])
        self._spent = np.zeros((rows, threads // WARP_SIZE), np.int64)
        self._threads = threads

    def spend(self, first: int, end: int, running: NDArray[np.bool_] | None) -> None:
        """Some warps, by row, or all of them, run units up to ``end``."""
        cycles = int(self._before[end] - self._before[first])
        if running is None:
            self._spent += cycles
        else:
            self._spent += cycles * running

    def meet(self, mask: Mask) -> None:
        """Warps of a block go on together when the last of them has come."""
        here = np.broadcast_to(rows_and_warps(mask, self._threads), self._spent.shape)
        last = np.where(here, self._spent, 0).max(axis=1, keepdims=True)
        self._spent = np.where(here, last, self._spent)

    def earliest(self, mask: Mask) -> int:
        """The clock of the warp that is furthest behind of those that have lanes in a mask, of which there are some."""
        here = np.broadcast_to(rows_and_warps(mask, self._threads), self._spent.shape)
        return int(self._spent[here].min())

    def until(self, mask: Mask, now: int) -> Mask:
        """The lanes of a mask whose warps are not further than ``now``."""
        due: Mask = mask & np.repeat(self._spent <= now, WARP_SIZE, axis=1)
        return due
