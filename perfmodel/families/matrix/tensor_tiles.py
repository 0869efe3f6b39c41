"""Tiles of matrix products on tensor cores: what warps, products and sums decide."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...core.constants import SHARED_BANKS, WARP_SIZE
from ...gpus.gpu import Gpu
from .choices import TENSOR_FILTERS, TENSOR_POSITIONS, TENSOR_TERM_BYTES
from .layer import MatrixLayer, filter_vector
from .tiles import Integers, MatrixTiles

EXACT_PRODUCTS = 3
"""Products of tensor cores for one of FP32: a factor is the sum of two TF32 numbers, and that of the small ones is left out."""
DIRECT_VECTOR = 2
"""Neighbouring positions that a thread has the sums of."""
ROW_SHIFT = SHARED_BANKS // 4
"""Banks by which a row of positions is behind the one before it, so that four rows, eight words each, are on all banks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorTiles(MatrixTiles):
    """Sizes of n configurations, arrays of shape ``(n,)``; macros of the kernel in small letters."""

    registers_beside_factors: ClassVar[int] = 40
    """Addresses and counters."""
    registers_of_column: ClassVar[int] = 0
    """Beside the sums and factors of a tile of positions."""

    warp_filters: Integers
    warp_positions: Integers
    filter_warps: Integers
    position_warps: Integers

    @property
    def threads(self) -> Integers:
        """Threads of a block."""
        return WARP_SIZE * self.filter_warps * self.position_warps * self.channel_slices

    @property
    def rows(self) -> Integers:
        """Tiles of the tensor cores along the filters of a warp."""
        return self.warp_filters // TENSOR_FILTERS

    @property
    def columns(self) -> Integers:
        """Tiles of the tensor cores along the positions of a warp."""
        return self.warp_positions // TENSOR_POSITIONS

    @property
    def filter_tile(self) -> Integers:
        """Filters of a block."""
        return self.filter_warps * self.warp_filters

    @property
    def position_tile(self) -> Integers:
        """Positions of a block."""
        return self.position_warps * self.warp_positions

    @property
    def shape(self) -> Mapping[str, Integers]:
        """Tiles of tensor cores of a warp, and the warps of a slice."""
        return {name: getattr(self, name) for name in ("rows", "columns", "filter_warps", "position_warps")}

    @property
    def sums_pitch(self) -> Integers:
        """Words from the sums of a filter to those of the next."""
        return shifted_pitch(self.position_tile)

    @property
    def direct_vector(self) -> int:
        """Words that a thread stores side by side where sums do not pass through shared memory."""
        return DIRECT_VECTOR

    def registers(self, layer: MatrixLayer) -> Integers:
        """About what a thread takes: sums of all slabs and of this one, factors of this product and the next."""
        sums = 2 * 4 * self.rows * self.columns
        factors = 4 * self.rows + 2 * self.columns
        beside = self.registers_beside_factors + self.registers_of_column * self.columns
        return np.asarray(sums + 2 * factors + factors // 2 + beside, np.int64)

    def filter_vector(self, layer: MatrixLayer) -> Any:
        """Elements of a copy of a filter, which no filter's end cuts."""
        return filter_vector(layer)


def product_terms(layer: MatrixLayer) -> int:
    """Terms of one product of tensor cores."""
    return TENSOR_TERM_BYTES // layer.element_bytes


def padded_pitch(layer: MatrixLayer, terms: Integers) -> Integers:
    """Elements from a filter of so many terms in a stage to the next: eight filters, four words each, are on all banks."""
    return terms + layer.vector_elements


def shifted_pitch(words: Integers) -> Integers:
    """Words from a row of so many to the next: an odd multiple of `ROW_SHIFT`, where they are a multiple.

    >>> shifted_pitch(np.array([32, 40, 36]))
    array([40, 40, 36])
    """
    return words + np.where(words % (2 * ROW_SHIFT) == 0, ROW_SHIFT, 0)


def has_tensor_cores(gpu: Gpu) -> bool:
    """Whether the GPU multiplies TF32 numbers and copies to shared memory asynchronously: compute capability 8.0 and newer."""
    return gpu.tensor_tf32_per_sm > 0 and gpu.architecture.asynchronous_copies
