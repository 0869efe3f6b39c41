"""What a warp of a matrix product on tensor cores executes for each channel."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.constants import VECTOR_WORDS, WARP_SIZE
from ...gpus.gpu import Gpu
from .choices import TENSOR_FILTERS, TENSOR_POSITIONS, TENSOR_TERMS
from .counts import Floats, WarpWork
from .layer import MatrixLayer
from .tensor_tiles import TF32_PRODUCTS, TensorTiles

OPERATIONS = 2 * TENSOR_FILTERS * TENSOR_POSITIONS * TENSOR_TERMS
"""Of one matrix instruction; a multiplication and an addition are two."""
FACTORS = (4, 2)
"""Registers of a thread that hold its factors of one tile: filters and positions (PTX ISA, ``mma.m16n8k8``)."""
SUMS = 4
"""Registers of a thread that hold its sums of one tile."""
SPARED_REGISTERS = 8
"""What the compiler does without, of those that blocks are planned with."""
MATRIX_WAVEFRONTS = 4
"""Of a read of 16 filters, eight words each (``ldmatrix.x4``)."""


def tensor_work(
    layer: MatrixLayer,
    tile: TensorTiles,
    gpu: Gpu,
    *,
    products_of_channel: Any,
    input_copies: Floats,
    input_words: Any,
    column_wavefronts: Any = 1.0,
    step_reads: int = 0,
    step_integers: Any = 0,
) -> WarpWork:
    """Work of n configurations.

    Args:
        layer: What is multiplied.
        tile: Its tiles.
        gpu: That multiplies.
        products_of_channel: Products of a warp's tile for one channel, of all slices.
        input_copies: Copies of a warp of input for a slab of a block.
        input_words: Words that these copy of one channel.
        column_wavefronts: Of a read of the positions of a tile.
        step_reads: Shared loads of a product beside its factors.
        step_integers: Integer instructions of a product.
    """
    of_row, of_column = FACTORS
    factors = of_row * tile.rows + of_column * tile.columns
    of_one = TF32_PRODUCTS[layer.precision]
    products, exact = of_one * tile.rows * tile.columns, of_one > 1
    reads = tile.rows + of_column * tile.columns + step_reads
    ideal = MATRIX_WAVEFRONTS * tile.rows + of_column * tile.columns + step_reads
    wavefronts = ideal + of_column * tile.columns * (column_wavefronts - 1.0)
    vector = tile.filter_vector(layer)
    terms = tile.slab_channels * layer.filter_taps
    slab_products = tile.slab_channels * products_of_channel / tile.channel_slices
    rate = gpu.tensor_tf32_per_sm * gpu.tensor_warp_share / gpu.schedulers_per_sm
    return WarpWork(
        arithmetic={
            "tensor": products * products_of_channel,
            "integer": (factors + step_integers) * products_of_channel,
            "fp32_other": exact * factors * products_of_channel,
        },
        of_slab={"fp32_other": exact * SUMS * tile.rows * tile.columns},
        reads=reads * products_of_channel,
        wavefronts=wavefronts * products_of_channel,
        ideal=ideal * products_of_channel,
        sums=SUMS * tile.rows * tile.columns,
        registers=tile.registers(layer) - SPARED_REGISTERS,
        filters=layer.out_channels,
        filter_copies=tile.filter_tile * terms / vector / WARP_SIZE,
        input_copies=input_copies,
        input_words=input_words,
        copied_lines=(vector < VECTOR_WORDS) * np.ceil(WARP_SIZE * vector / terms),
        copied_wavefronts=vector,
        unrolled_channels=np.where(slab_products % 2 == 0, 2, slab_products) / products_of_channel,
        tensor_cycles=products * OPERATIONS / max(rate, 1.0) * products_of_channel,
    )
