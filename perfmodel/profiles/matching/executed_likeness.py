"""How alike two regions are by the kinds of work that PTX and machine code share: accesses, multiply-adds, barriers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def distance(machine: tuple[int, ...], ptx: tuple[int, ...]) -> float:
    """How differently two regions work, from 0, where every kind is equal, to nearly 1."""
    different = sum(abs(a - b) for a, b in zip(machine, ptx, strict=True))
    return different / (1.0 + sum(max(a, b) for a, b in zip(machine, ptx, strict=True)))


def multiple(machine: tuple[int, ...], body: tuple[int, ...]) -> int:
    """How many copies of a loop's body a region holds, 0 where it is no whole number of them.

    Most kinds of work must say the same number, and no kind more of it: what two iterations have in common is done once.

    >>> multiple((8, 64, 8), (2, 16, 2)), multiple((8, 40, 8), (2, 16, 2)), multiple((3, 0), (2, 0))
    (4, 4, 0)
    """
    pairs = [(a, b) for a, b in zip(machine, body, strict=True) if a or b]
    whole = [a // b for a, b in pairs if b and a and a % b == 0]
    if not whole or any(not b for _, b in pairs):
        return 0
    multiple = max(whole, key=lambda one: (whole.count(one), one))
    if 2 * whole.count(multiple) <= len(pairs) or any(a > multiple * b for a, b in pairs):
        return 0
    return multiple


def numbers(values: NDArray[np.int64]) -> tuple[int, ...]:
    """Features as plain integers, which compare and hash fast."""
    return tuple(int(value) for value in values)
