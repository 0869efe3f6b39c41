"""Three rules that choose among feasible candidates, side by side: the source's, its algorithm box's, and predicted time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError

Floats = NDArray[np.float64]

NEAR_TIE = 0.05
"""M_A within this fraction of the largest counts as "close enough"; the source gives no number."""


class Rule(Enum):
    """How a candidate is chosen."""

    INTENSITY = "intensity"
    """Largest M_A; among near-ties the smallest M_B (the source's text)."""
    REGISTERS = "registers"
    """Smallest register use (the source's algorithm box)."""
    PREDICTED_TIME = "predicted_time"
    """Shortest predicted time (this project)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Merits:
    """What the rules look at, arrays of shape ``(n,)``; ``predicted_s`` may be missing."""

    feasible: NDArray[np.bool_]
    intensity: Floats
    blocks: Floats
    registers: Floats
    predicted_s: Floats | None = None


def by_intensity(merits: Merits, near_tie: float = NEAR_TIE) -> int | None:
    """Index of the candidate with the largest M_A, or of the near-tie with the smallest M_B; None where none is feasible.

    Among equal M_B the larger M_A wins, then the first.

    >>> merits = Merits(feasible=np.array([True, True, True]), intensity=np.array([10.0, 9.8, 5.0]),
    ...                 blocks=np.array([200.0, 136.0, 60.0]), registers=np.array([90.0, 80.0, 40.0]))
    >>> by_intensity(merits), by_intensity(merits, near_tie=0.0)
    (1, 0)
    """
    if not merits.feasible.any():
        return None
    best = merits.intensity[merits.feasible].max()
    near = np.flatnonzero(merits.feasible & (merits.intensity >= best * (1 - near_tie)))
    return int(near[np.lexsort((-merits.intensity[near], merits.blocks[near]))[0]])


def by_registers(merits: Merits) -> int | None:
    """Index of the feasible candidate with the fewest registers, the first of equals; None where none is feasible."""
    if not merits.feasible.any():
        return None
    return int(np.where(merits.feasible, merits.registers, np.inf).argmin())


def by_predicted_time(merits: Merits) -> int | None:
    """Index of the feasible candidate with the shortest predicted time; None where none is feasible.

    Raises:
        InputError: the merits hold no predicted times.
    """
    if merits.predicted_s is None:
        raise InputError("rule predicted_time needs predicted times (predicted_s=None)")
    if not merits.feasible.any():
        return None
    return int(np.where(merits.feasible, merits.predicted_s, np.inf).argmin())


def select(rule: Rule, merits: Merits) -> int | None:
    """Index of the candidate that the rule chooses; None where none is feasible.

    >>> merits = Merits(feasible=np.array([True, True]), intensity=np.array([4.0, 8.0]), blocks=np.array([68.0, 68.0]),
    ...                 registers=np.array([40.0, 96.0]), predicted_s=np.array([3e-6, 2e-6]))
    >>> [select(rule, merits) for rule in Rule]
    [1, 0, 1]
    """
    if rule is Rule.INTENSITY:
        return by_intensity(merits)
    return by_registers(merits) if rule is Rule.REGISTERS else by_predicted_time(merits)


def regret(rule: Rule, merits: Merits, measured_s: Floats) -> float:
    """Measured time of the rule's choice over that of the fastest feasible candidate, at least 1; NaN where none is feasible.

    Candidates without a measurement are NaN and count as infeasible.

    >>> merits = Merits(feasible=np.array([True, True]), intensity=np.array([4.0, 8.0]), blocks=np.array([68.0, 68.0]),
    ...                 registers=np.array([40.0, 96.0]))
    >>> regret(Rule.REGISTERS, merits, np.array([3e-6, 2e-6]))
    1.5
    """
    known = replace(merits, feasible=merits.feasible & np.isfinite(measured_s))
    chosen = select(rule, known)
    return float("nan") if chosen is None else float(measured_s[chosen] / measured_s[known.feasible].min())
