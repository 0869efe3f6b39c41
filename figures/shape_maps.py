"""Matrices and axes of heat maps over the block and tile shapes of the tiled convolution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfmodel.families.base import Batch

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeMap:
    """Fastest time of every pair of shapes, shape ``(blocks, tiles)``, NaN where nothing runs; shapes are (x, y) pairs."""

    seconds: Floats
    blocks: tuple[tuple[int, int], ...]
    tiles: tuple[tuple[int, int], ...]


def best_by_shape(batch: Batch[Any], seconds: Floats) -> ShapeMap:
    """Fastest of all configurations of each block and tile shape; both in the order of their areas.

    >>> from perfmodel.families.tiled_conv2d import TiledConv2dConfiguration as Configuration
    >>> batch = Batch.of([Configuration(tile_size_y=1), Configuration(tile_size_y=1, read_only=1), Configuration()])
    >>> found = best_by_shape(batch, np.array([3.0, 2.0, 5.0]))
    >>> found.blocks, found.tiles, found.seconds.tolist()
    (((32, 4),), ((2, 1), (2, 2)), [[2.0, 5.0]])
    """
    blocks, row = _shapes(batch["block_size_x"], batch["block_size_y"])
    tiles, column = _shapes(batch["tile_size_x"], batch["tile_size_y"])
    matrix = np.full((len(blocks), len(tiles)), np.inf)
    np.minimum.at(matrix, (row, column), seconds)
    matrix[~np.isfinite(matrix)] = np.nan
    return ShapeMap(seconds=matrix, blocks=blocks, tiles=tiles)


def _shapes(x: Any, y: Any) -> tuple[tuple[tuple[int, int], ...], NDArray[np.intp]]:
    """Distinct shapes by area and width, and which one each candidate has."""
    found, index = np.unique(np.stack([x.astype(np.int64) * y, x, y], axis=1), axis=0, return_inverse=True)
    return tuple((width, height) for _, width, height in found.tolist()), index.ravel()


def label_shapes(axes: Any, found: ShapeMap, *, rows: bool = True) -> None:
    """Name every second row and every third column; ``rows`` is false where a neighbour names them already."""
    if rows:
        _name(axes.yaxis, found.blocks, 2)
        axes.set_ylabel("block: threads in x × y")
    _name(axes.xaxis, found.tiles, 3)
    axes.tick_params(axis="x", labelrotation=90)
    axes.tick_params(labelsize=6, length=2)
    axes.set_xlabel("tile: outputs of a thread in x × y")
    axes.set_facecolor("0.85")


def _name(axis: Any, shapes: tuple[tuple[int, int], ...], step: int) -> None:
    axis.set_ticks(range(0, len(shapes), step), [f"{x}×{y}" for x, y in shapes[::step]])
