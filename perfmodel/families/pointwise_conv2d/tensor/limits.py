"""Limits of configurations with `layout=tensor`: what tensor cores multiply, a warp may hold, the problem can fill."""

from __future__ import annotations

import numpy as np

from ....core.constants import WARP_SIZE
from ....gpus.gpu import Gpu
from ...base import Batch, Check, within_limits
from ..configuration import MOST_WARP_TILES, TENSOR_FILTERS, TENSOR_POSITIONS, PointwiseConfiguration
from ..matrix_tiles import matrix_checks
from ..problem import PointwiseConv2d
from .tiling import has_tensor_cores, tiles


def checks(problem: PointwiseConv2d, batch: Batch[PointwiseConfiguration], gpu: Gpu) -> tuple[Check, ...]:
    """Limits of matrix products on tensor cores; all of the batch are such."""
    tile = tiles(problem, batch, gpu)
    of_warp = tile.warp_filters * tile.warp_positions // (TENSOR_FILTERS * TENSOR_POSITIONS)
    unit = gpu.register_allocation_unit // WARP_SIZE
    registers = np.minimum(gpu.registers_per_block // tile.threads // unit * unit, gpu.max_registers_per_thread)
    lacking = np.full(len(batch), not has_tensor_cores(gpu))
    return (
        *within_limits(
            ("compute capability where layout=tensor", lacking, gpu.architecture.name, "sm_80 and newer"),
            ("filters of a warp", tile.warp_filters % TENSOR_FILTERS != 0, tile.warp_filters,
             f"multiples of {TENSOR_FILTERS}"),
            ("positions of a warp", tile.warp_positions % TENSOR_POSITIONS != 0, tile.warp_positions,
             f"multiples of {TENSOR_POSITIONS}"),
            ("registers of a thread", tile.registers > registers, tile.registers, registers),
            ("tiles of a warp", of_warp > MOST_WARP_TILES, of_warp, f"1 to {MOST_WARP_TILES}"),
        ),
        *matrix_checks(problem, tile, gpu, tile.warp_filters, tile.warp_positions),
    )  # fmt: skip
