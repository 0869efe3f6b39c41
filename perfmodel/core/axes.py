"""Configurations as places on axes, one for each parameter: how far two values of a parameter are from each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_OTHER = 1.5
"""How far apart two values without an order are, where the deviation of a number is 1."""
_VARIANTS = 4
"""Up to so many numbers of which one is 0 name variants: 0, 1, 2, 3 are no amounts. So many texts or objects do, too."""


@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    """One parameter of n configurations.

    Attributes:
        codes: Which of the v different values each configuration has, shape ``(n,)``.
        distances: Between the values, shape ``(v, v)``.
        logarithms: Of the values, shape ``(v,)``, where they are amounts; None for others.
        names_variants: Whether the values have no order and are few.
    """

    codes: NDArray[np.intp]
    distances: Floats
    logarithms: Floats | None = None
    names_variants: bool = False

    def row(self, index: int) -> Floats:
        """Distances of all configurations from one, shape ``(n,)``."""
        return np.asarray(self.distances[self.codes[index]][self.codes], np.float64)


def axes_of(values: Mapping[str, Sequence[Any]]) -> tuple[Axis, ...]:
    """The axes of n configurations: what is the same in all of them has none, but for one axis where all is.

    Positive numbers stand by their logarithm, since twice the block size is one step wherever one starts, other numbers as they
    are, all in units of their deviation; texts, other objects and numbers of variants are all equally far from one another.

    Args:
        values: for each parameter its value in every configuration.

    >>> block, kind = axes_of({"block": [32, 64, 128], "type": ["half", "float", "half"], "same": [1, 1, 1]})
    >>> block.row(0).round(2).tolist(), kind.row(0).tolist()
    ([0.0, 1.22, 2.45], [0.0, 1.5, 0.0])
    """
    columns = [list(column) for column in values.values()]
    several = tuple(_axis(column) for column in columns if len(set(column)) > 1)
    return several or (_variants(np.zeros(len(columns[0]), np.intp), 1),)


def _axis(column: list[Any]) -> Axis:
    if not all(isinstance(value, int | float | np.number) for value in column):
        numbered = {value: code for code, value in enumerate(dict.fromkeys(column))}
        return _variants(np.array([numbered[value] for value in column]), len(numbered))
    distinct, codes = np.unique(np.array(column, np.float64), return_inverse=True)
    if len(distinct) == 2 or (len(distinct) <= _VARIANTS and 0.0 in distinct):
        return _variants(codes, len(distinct))
    logarithms = np.log2(distinct) if distinct[0] > 0 else None
    steps = distinct if logarithms is None else logarithms
    return Axis(codes, np.abs(steps[:, None] - steps[None]) / steps[codes].std(), logarithms)


def _variants(codes: NDArray[np.intp], count: int) -> Axis:
    return Axis(codes, _OTHER * (1.0 - np.eye(count)), names_variants=count <= _VARIANTS)


def product_axes(axes: Sequence[Axis]) -> tuple[Axis, ...]:
    """The axis of the product of every two amounts: threads of a block, outputs of a thread, bytes of a tile are products.

    >>> x, y = axes_of({"x": [16, 32, 64, 128], "y": [8, 4, 2, 8]})
    >>> product_axes([x, y])[0].codes.tolist()
    [0, 0, 0, 1]
    """
    amounts = [axis.logarithms[axis.codes] for axis in axes if axis.logarithms is not None]
    sums = (np.round(one + other, 9) for one, other in combinations(amounts, 2))
    return tuple(_axis_of_numbers(numbers) for numbers in sums if np.ptp(numbers))


def _axis_of_numbers(numbers: Floats) -> Axis:
    distinct, codes = np.unique(numbers, return_inverse=True)
    return Axis(codes, np.abs(distinct[:, None] - distinct[None]) / numbers.std())


def number_axis(numbers: Floats, most_values: int = 64) -> Axis:
    """The axis of a number that every configuration has, rounded to ``most_values`` values that are equally frequent.

    >>> number_axis(np.array([1.0, 3.0, 2.0]), 3).row(0).round(2).tolist()
    [0.0, 2.45, 1.22]
    """
    ranks = np.argsort(np.argsort(numbers, kind="stable"), kind="stable")
    groups = ranks * min(most_values, len(numbers)) // len(numbers)
    means = np.bincount(groups, numbers) / np.bincount(groups)
    return _axis_of_numbers(means[groups])
