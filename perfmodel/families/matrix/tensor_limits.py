"""Limits of configurations that multiply on tensor cores: what these multiply, a warp may hold, the problem can fill."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...gpus.gpu import Gpu
from ...gpus.occupancy import registers_left
from ..base import Check, within_limits
from .choices import MOST_WARP_TILES, TENSOR_FILTERS, TENSOR_POSITIONS
from .layer import MatrixLayer
from .tensor_tiles import TensorTiles, has_tensor_cores
from .tiles import matrix_checks


def tensor_checks(
    layer: MatrixLayer, tile: TensorTiles, gpu: Gpu, where: str, *, most_tiles: int = MOST_WARP_TILES
) -> tuple[Check, ...]:
    """Limits of n configurations; ``where`` is what they say that multiplies on tensor cores, for the messages."""
    of_warp = tile.warp_filters * tile.warp_positions // (TENSOR_FILTERS * TENSOR_POSITIONS)
    registers = registers_left(gpu, gpu.registers_per_block, tile.threads)
    needed = tile.registers(layer)
    lacking = np.full(tile.threads.shape, not has_tensor_cores(gpu))
    return (
        *within_limits(
            (f"compute capability where {where}", lacking, gpu.architecture.name, "sm_80 and newer"),
            ("filters of a warp", tile.warp_filters % TENSOR_FILTERS != 0, tile.warp_filters,
             f"multiples of {TENSOR_FILTERS}"),
            ("positions of a warp", tile.warp_positions % TENSOR_POSITIONS != 0, tile.warp_positions,
             f"multiples of {TENSOR_POSITIONS}"),
            ("registers of a thread", needed > registers, needed, registers),
            ("tiles of a warp", of_warp > most_tiles, of_warp, f"1 to {most_tiles}"),
        ),
        *matrix_checks(layer, tile, gpu, tile.warp_filters, tile.warp_positions),
    )  # fmt: skip


def precision_checks(layer: MatrixLayer, on_tensor_cores: NDArray[np.bool_], where: str) -> tuple[Check, ...]:
    """Half precision and TF32 are computed on tensor cores only; ``where`` names the other configurations, for the message."""
    lacking = ~on_tensor_cores & layer.precision.channels_last
    return within_limits((f"precision where {where}", lacking, layer.precision.value, "float32"))
