"""Configurations as points of a space in which close ones take similar times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def coordinates(values: Mapping[str, Sequence[Any]]) -> Floats:
    """Coordinates of n configurations, shape ``(n, k)``, each axis with mean 0 and deviation 1.

    Positive numbers stand by their logarithm, since twice the block size is one step wherever one starts; other numbers as
    they are; texts and other objects by one axis for each value. What is the same in all configurations has no axis.

    Args:
        values: for each parameter its value in every configuration.

    >>> coordinates({"block": [32, 64, 128], "type": ["half", "float", "half"], "same": [1, 1, 1]}).round(2).tolist()
    [[-1.22, -0.71, 0.71], [0.0, 1.41, -1.41], [1.22, -0.71, 0.71]]
    """
    axes: list[Floats] = []
    for column in values.values():
        distinct = list(dict.fromkeys(column))
        if len(distinct) < 2:
            continue
        if all(isinstance(value, int | float | np.number) for value in distinct):
            numbers = np.array(column, np.float64)
            axes.append(np.log2(numbers) if numbers.min() > 0 else numbers)
        else:
            axes += [np.array([value == one for value in column], np.float64) for one in sorted(distinct, key=str)]
    found = np.array(axes, np.float64).reshape(len(axes), -1).T
    return np.asarray((found - found.mean(axis=0)) / np.maximum(found.std(axis=0), 1e-12), np.float64)
