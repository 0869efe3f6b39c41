"""What a warp of a matrix product on tensor cores executes for each channel."""

from __future__ import annotations

import numpy as np

from ....core.constants import VECTOR_WORDS, WARP_SIZE
from ....gpus.gpu import Gpu
from ....profiles.kernel_profile import KernelProfile
from ..configuration import TENSOR_CHANNELS, TENSOR_FILTERS, TENSOR_POSITIONS
from ..matrix_counts import WarpWork, matrix_profile
from ..problem import PointwiseConv2d
from .tiling import TF32_PRODUCTS, TensorTiles, filter_vector

OPERATIONS = 2 * TENSOR_FILTERS * TENSOR_POSITIONS * TENSOR_CHANNELS
"""Of one matrix instruction; a multiplication and an addition are two."""
FACTORS = (4, 2)
"""Registers of a thread that hold its factors of one tile: filters and positions (PTX ISA, ``mma.m16n8k8``)."""
SUMS = 4
"""Registers of a thread that hold its sums of one tile."""
SPARED_REGISTERS = 8
"""What the compiler does without, of those that blocks are planned with."""
MATRIX_WAVEFRONTS = 4
"""Of a read of 16 filters, eight words each (``ldmatrix.x4``)."""


def profile(problem: PointwiseConv2d, tile: TensorTiles, gpu: Gpu) -> KernelProfile:
    """Counts, registers and critical path of n configurations."""
    of_row, of_column = FACTORS
    factors = of_row * tile.rows + of_column * tile.columns
    products = TF32_PRODUCTS * tile.rows * tile.columns
    reads = (tile.rows + of_column * tile.columns) / TENSOR_CHANNELS
    wavefronts = (MATRIX_WAVEFRONTS * tile.rows + of_column * tile.columns) / TENSOR_CHANNELS
    vector, channels = filter_vector(problem), tile.slab_channels // tile.channel_slices
    rate = gpu.tensor_tf32_per_sm * gpu.tensor_warp_share / gpu.schedulers_per_sm
    work = WarpWork(
        arithmetic={
            "tensor": products / TENSOR_CHANNELS,
            "integer": factors / TENSOR_CHANNELS,
            "fp32_other": factors / TENSOR_CHANNELS,
        },
        of_slab={"fp32_other": SUMS * tile.rows * tile.columns},
        reads=reads,
        wavefronts=wavefronts,
        ideal=wavefronts,
        sums=SUMS * tile.rows * tile.columns,
        registers=tile.registers - SPARED_REGISTERS,
        filter_copies=tile.filter_tile * tile.slab_channels / vector / WARP_SIZE,
        copied_lines=(vector < VECTOR_WORDS) * np.ceil(WARP_SIZE * vector / tile.slab_channels),
        copied_wavefronts=vector,
        unrolled_channels=np.where(channels % (2 * TENSOR_CHANNELS) == 0, 2 * TENSOR_CHANNELS, channels),
        tensor_cycles=products * OPERATIONS / max(rate, 1.0) / TENSOR_CHANNELS,
    )
    return matrix_profile(problem, tile, work, gpu)
