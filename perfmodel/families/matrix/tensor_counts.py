"""What a warp of a matrix product on tensor cores executes for each channel."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.constants import FLOAT_BYTES, WARP_SIZE
from ...gpus.gpu import Gpu
from ..precision import Precision
from .choices import TENSOR_FILTERS, TENSOR_POSITIONS
from .counts import Floats, WarpWork
from .estimates import matrix_estimates
from .layer import MatrixLayer
from .tensor_tiles import EXACT_PRODUCTS, TensorTiles, product_terms

OPERATIONS_OF_TERM = 2 * TENSOR_FILTERS * TENSOR_POSITIONS
"""Of one matrix instruction for each term; a multiplication and an addition are two."""
FACTORS = (4, 2)
"""Registers of a thread that hold its factors of one tile: filters and positions (PTX ISA, ``mma``)."""
SUMS = 4
"""Registers of a thread that hold its sums of one tile."""
MATRIX_WAVEFRONTS = 4
"""Of a read of 16 filters, eight words each (``ldmatrix.x4``)."""
STORED_RUN = 8
"""Neighbouring outputs that a store of a warp has of each filter."""


def tensor_work(
    layer: MatrixLayer,
    tile: TensorTiles,
    gpu: Gpu,
    *,
    products_of_channel: Any,
    input_copies: Floats,
    input_elements: Any,
    column_reads: Any,
    column_wavefronts: Any,
    column_conflicts: Any = 0.0,
    step_reads: int = 0,
    step_wavefronts: int = 0,
    step_integers: Any = 0,
) -> WarpWork:
    """Work of n configurations.

    Args:
        layer: What is multiplied.
        tile: Its tiles.
        gpu: That multiplies.
        products_of_channel: Products of a warp's tile for one channel, of all slices.
        input_copies: Copies of a warp of input for a slab of a block.
        input_elements: Elements that these copy of one channel.
        column_reads: Shared loads of a product for the positions of its tiles.
        column_wavefronts: What they need without bank conflicts.
        column_conflicts: And what they need beyond.
        step_reads: Shared loads of a product beside its factors.
        step_wavefronts: What these need.
        step_integers: Integer instructions of a product.
    """
    of_row, of_column = FACTORS
    factors = of_row * tile.rows + of_column * tile.columns
    exact = layer.precision is Precision.FLOAT32
    products = (EXACT_PRODUCTS if exact else 1) * tile.rows * tile.columns
    reads = tile.rows + column_reads + step_reads
    ideal = MATRIX_WAVEFRONTS * tile.rows + column_wavefronts + step_wavefronts
    wavefronts = ideal + column_conflicts
    half = layer.precision is Precision.FLOAT16
    vector = tile.filter_vector(layer)
    terms = tile.slab_channels * layer.filter_taps
    slab_products = tile.slab_channels * products_of_channel / tile.channel_slices
    rate = (
        (gpu.tensor_f16_f32_per_sm if half else gpu.tensor_tf32_per_sm) * gpu.tensor_warp_share / gpu.schedulers_per_sm
    )
    operations = OPERATIONS_OF_TERM * product_terms(layer)
    return WarpWork(
        arithmetic={
            "tensor": products * products_of_channel,
            "integer": ((not half) * factors + step_integers) * products_of_channel,
            "fp32_other": exact * factors * products_of_channel,
        },
        of_slab={"fp32_other": exact * SUMS * tile.rows * tile.columns},
        reads=reads * products_of_channel,
        wavefronts=wavefronts * products_of_channel,
        ideal=ideal * products_of_channel,
        sums=SUMS * tile.rows * tile.columns,
        registers=tile.registers(layer) - matrix_estimates().spared_registers,
        filters=layer.out_channels,
        filter_copies=tile.filter_tile * terms / vector / WARP_SIZE,
        input_copies=input_copies,
        input_elements=input_elements,
        copied_lines=(vector < layer.vector_elements) * np.ceil(WARP_SIZE * vector / terms),
        copied_wavefronts=np.maximum(vector * layer.element_bytes // FLOAT_BYTES, 1),
        unrolled_channels=np.where(slab_products % 2 == 0, 2, slab_products) / products_of_channel,
        tensor_cycles=products * operations / max(rate, 1.0) * products_of_channel,
        stored_run=STORED_RUN,
    )
