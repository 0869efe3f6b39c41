"""Sizes that follow from a configuration: patch, row with padding, grid."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...core.constants import SHARED_BANKS, ceil_div
from ..base import Batch
from .problem import TiledConv2d, TiledConv2dConfiguration

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiling:
    """How n configurations share out the outputs, arrays of shape ``(n,)``: threads of a block, outputs of a thread."""

    block_x: Integers
    block_y: Integers
    tile_x: Integers
    tile_y: Integers


@dataclass(frozen=True, slots=True, kw_only=True)
class Geometry(Tiling):
    """All sizes of n configurations, arrays of shape ``(n,)``: with the tiling, the patch of inputs and the grid."""

    use_shmem: NDArray[np.bool_]
    outputs_x: Integers
    outputs_y: Integers
    patch_width: Integers
    patch_height: Integers
    row_length: Integers
    grid_x: Integers
    grid_y: Integers
    guarded: NDArray[np.bool_]
    """Where the tiles do not divide the image, loads and stores are tested against its edge."""


def padded_row(block_x: Integers, patch_width: Integers, use_padding: NDArray[np.bool_]) -> Integers:
    """Row length of the patch in shared memory (SPEC section 5, ``use_padding``).

    >>> padded_row(np.array([16]), np.array([30]), np.array([True]))
    array([48])
    """
    beyond = (patch_width - block_x) % SHARED_BANKS
    useful = use_padding & (block_x % SHARED_BANKS != 0) & (beyond != 0)
    return np.where(useful, patch_width + (SHARED_BANKS - beyond), patch_width)


def tiling(batch: Batch[TiledConv2dConfiguration]) -> Tiling:
    """Threads of a block and outputs of a thread of every configuration of the batch."""
    return Tiling(
        block_x=batch["block_size_x"].astype(np.int64),
        block_y=batch["block_size_y"].astype(np.int64),
        tile_x=batch["tile_size_x"].astype(np.int64),
        tile_y=batch["tile_size_y"].astype(np.int64),
    )


def geometry(problem: TiledConv2d, batch: Batch[TiledConv2dConfiguration]) -> Geometry:
    """Sizes of every configuration of the batch."""
    of = tiling(batch)
    outputs_x, outputs_y = of.block_x * of.tile_x, of.block_y * of.tile_y
    patch_width = outputs_x + problem.filter_width - 1
    return Geometry(
        block_x=of.block_x,
        block_y=of.block_y,
        tile_x=of.tile_x,
        tile_y=of.tile_y,
        use_shmem=batch["use_shmem"] == 1,
        outputs_x=outputs_x,
        outputs_y=outputs_y,
        patch_width=patch_width,
        patch_height=outputs_y + problem.filter_height - 1,
        row_length=padded_row(of.block_x, patch_width, batch["use_padding"] == 1),
        grid_x=ceil_div(problem.width, outputs_x),
        grid_y=ceil_div(problem.height, outputs_y),
        guarded=(problem.width % outputs_x != 0) | (problem.height % outputs_y != 0),
    )
