"""The launch: sizes that follow from a configuration, grid and block, and what is compiled."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...compiler.request import CompileRequest
from ...core.constants import FLOAT_BYTES, SHARED_BANKS, ceil_div
from ...launch.launch import Launch
from ..base import Batch
from ..kernel_files import kernel_text
from .configuration import TiledConv2dConfiguration
from .problem import TiledConv2d

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Geometry:
    """Sizes of n configurations, arrays of shape ``(n,)``: block, outputs of a thread and of a block, patch, grid."""

    block_x: Integers
    block_y: Integers
    tile_x: Integers
    tile_y: Integers
    use_shmem: Flags
    outputs_x: Integers
    outputs_y: Integers
    patch_width: Integers
    patch_height: Integers
    row_length: Integers
    """Words between rows of the patch in shared memory; with padding, rows of threads begin on neighbouring banks."""
    grid_x: Integers
    grid_y: Integers
    guarded: Flags
    """Where the tiles do not divide the image, loads and stores are tested against its edge."""


def geometry(problem: TiledConv2d, batch: Batch[TiledConv2dConfiguration]) -> Geometry:
    """Sizes of every configuration of the batch."""
    names = ("block_size_x", "block_size_y", "tile_size_x", "tile_size_y")
    block_x, block_y, tile_x, tile_y = (batch[name].astype(np.int64) for name in names)
    outputs_x, outputs_y = block_x * tile_x, block_y * tile_y
    patch_width = outputs_x + problem.filter_width - 1
    beyond = (patch_width - block_x) % SHARED_BANKS
    padded = (batch["use_padding"] == 1) & (block_x % SHARED_BANKS != 0) & (beyond != 0)
    return Geometry(
        block_x=block_x,
        block_y=block_y,
        tile_x=tile_x,
        tile_y=tile_y,
        use_shmem=batch["use_shmem"] == 1,
        outputs_x=outputs_x,
        outputs_y=outputs_y,
        patch_width=patch_width,
        patch_height=outputs_y + problem.filter_height - 1,
        row_length=np.where(padded, patch_width + SHARED_BANKS - beyond, patch_width),
        grid_x=ceil_div(problem.width, outputs_x),
        grid_y=ceil_div(problem.height, outputs_y),
        guarded=(problem.width % outputs_x != 0) | (problem.height % outputs_y != 0),
    )


def launch(sizes: Geometry) -> Launch:
    """One block for each tile of outputs; the patch is its shared memory."""
    return Launch(
        grid_x=sizes.grid_x,
        grid_y=sizes.grid_y,
        block_x=sizes.block_x,
        block_y=sizes.block_y,
        static_shared_bytes=np.where(sizes.use_shmem, FLOAT_BYTES * sizes.row_length * sizes.patch_height, 0),
    )


def compile_request(problem: TiledConv2d, configuration: TiledConv2dConfiguration) -> CompileRequest:
    """The kernel with every size a compile-time constant, as auto-tuners build it."""
    return CompileRequest(
        source=kernel_text("tiled_conv2d.cu"),
        kernel="tiled_conv2d",
        file_name="tiled_conv2d.cu",
        defines=(
            ("IMAGE_WIDTH", problem.width),
            ("IMAGE_HEIGHT", problem.height),
            ("FILTER_WIDTH", problem.filter_width),
            ("FILTER_HEIGHT", problem.filter_height),
            ("BLOCK_SIZE_X", configuration.block_size_x),
            ("BLOCK_SIZE_Y", configuration.block_size_y),
            ("TILE_SIZE_X", configuration.tile_size_x),
            ("TILE_SIZE_Y", configuration.tile_size_y),
            ("ROW_LENGTH", int(geometry(problem, Batch.of([configuration])).row_length[0])),
            ("READ_ONLY", configuration.read_only),
            ("USE_SHMEM", configuration.use_shmem),
        ),
    )
