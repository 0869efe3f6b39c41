"""The axes that a kernel gives to its grid: block indices that it splits by division are axes of their own.

A kernel may number its tiles along one axis and compute the tile's row and column by division. It shows in where it stores:
the first address that a block writes moves by a fixed distance from block to block until a row of tiles ends. The number of
blocks until then is the extent of an inner axis; the rest is looked at in the same way.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

_PROBES = 16
"""Blocks that are looked at in one step of the search for the end of a row."""
_CHECKS = 6
"""Blocks drawn at random that must store where the axes say."""
_LONG = 4
"""Axes of fewer blocks are left as they are."""
FirstStores = Callable[[NDArray[np.int64]], NDArray[np.int64]]
"""First addresses that blocks store to, by linear index; negative for a block that stores nothing."""


def launch_shape(grid: tuple[int, int, int], first_stores: FirstStores, rng: np.random.Generator) -> tuple[int, ...]:
    """Extents of the grid's axes, x first, with a flattened axis split; axes of one block are left out.

    Args:
        grid: blocks along x, y, z.
        first_stores: where blocks store first.
        rng: draws the blocks that the axes are checked on; where they do not hold the grid stays as it is.

    >>> rows_of_five = lambda blocks: blocks % 5 * 128 + blocks // 5 * 4000
    >>> launch_shape((50, 1, 1), rows_of_five, np.random.default_rng(0))
    (5, 10)
    """
    shape: list[int] = []
    stride = 1
    for extent in grid:
        shape += _split_axis(extent, stride, first_stores, rng) if extent >= _LONG else [extent]
        stride *= extent
    return tuple(extent for extent in shape if extent > 1) or (1,)


def _doubling(extent: int) -> NDArray[np.int64]:
    return np.unique(np.minimum(2 ** np.arange(1, max(extent - 1, 2).bit_length() + 1), extent - 1))


def _split_axis(extent: int, stride: int, first_stores: FirstStores, rng: np.random.Generator) -> list[int]:
    """Extents that one axis is made of; ``stride`` is the linear distance of its neighbours."""
    inner: list[int] = []
    rest, step = extent, stride
    while rest > 1:
        period = _first_break(rest, step, first_stores)
        if period >= rest or rest % period:
            break
        inner.append(period)
        rest, step = rest // period, step * period
    axes = [*inner, rest]
    return axes if len(axes) > 1 and _holds(axes, extent, stride, first_stores, rng) else [extent]


def _first_break(extent: int, step: int, first_stores: FirstStores) -> int:
    """Smallest index whose first store is not where its distance from block 0 says; the extent where there is none."""

    def breaks(indices: NDArray[np.int64]) -> NDArray[np.bool_]:
        stores = first_stores(np.concatenate([[0, 1], indices]) * step)
        result: NDArray[np.bool_] = stores[2:] != stores[0] + indices * (stores[1] - stores[0])
        return result

    doubling = _doubling(extent)
    broken = np.flatnonzero(breaks(doubling))
    if not len(broken):
        return extent
    high = int(doubling[broken[0]])
    low = int(doubling[broken[0] - 1]) if broken[0] else 1
    while high - low > 1:
        inner = np.unique(np.linspace(low, high, min(_PROBES, high - low + 1)).astype(np.int64))
        change = int(np.flatnonzero(breaks(inner))[0])
        low, high = int(inner[change - 1]), int(inner[change])
    return high


def _holds(shape: list[int], extent: int, stride: int, first_stores: FirstStores, rng: np.random.Generator) -> bool:
    """Whether blocks drawn at random store where the axes say."""
    strides = [stride * int(np.prod(shape[:axis], dtype=np.int64)) for axis in range(len(shape))]
    chosen = rng.integers(0, extent, _CHECKS)
    stores = first_stores(np.concatenate([[0], strides, chosen * stride]))
    steps = stores[1 : len(shape) + 1] - stores[0]
    indices = np.stack(np.unravel_index(chosen, shape[::-1]), axis=1)[:, ::-1]
    return bool((stores[len(shape) + 1 :] == stores[0] + indices @ steps).all())
