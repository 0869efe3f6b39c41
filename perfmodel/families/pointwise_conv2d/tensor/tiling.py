"""Tiles, slabs, stages and shared memory of matrix products on tensor cores, and what is compiled."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import Any

import numpy as np

from ....compiler.request import CompileRequest
from ....core.constants import FLOAT_BYTES, SHARED_BANKS, VECTOR_WORDS, WARP_SIZE
from ....gpus.gpu import Gpu
from ...base import Batch
from ..configuration import OF_TENSORS, TENSOR_FILTERS, TENSOR_POSITIONS, PointwiseConfiguration
from ..matrix_tiles import Integers, MatrixTiles, matrix_compile_request, position_vector
from ..problem import PointwiseConv2d

KERNEL = "pointwise_tensor"
TF32_PRODUCTS = 3
"""Products of TF32 numbers for one of FP32: each factor is the sum of two, and the product of both small ones is left out."""
DIRECT_VECTOR = 2
"""Neighbouring positions that a thread has the sums of."""
FILTER_PAD = 4
"""Words behind a filter in a stage."""
ROW_SHIFT = SHARED_BANKS // 4
"""Banks by which a row of positions is behind the one before it, so that four rows, eight words each, are on all banks."""
REGISTERS_BESIDE_OPERANDS = 40
"""Addresses and counters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorTiles(MatrixTiles):
    """Sizes of n configurations, arrays of shape ``(n,)``; macros of the kernel in small letters."""

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
    def filter_pitch(self) -> Integers:
        """Words from one filter to the next: rows of eight filters, four words each, are on all banks."""
        return self.slab_channels + FILTER_PAD

    @property
    def input_pitch(self) -> Integers:
        """Words from one channel of the input to the next: an odd multiple of `ROW_SHIFT`."""
        return self.position_tile + np.where(self.position_tile % (2 * ROW_SHIFT) == 0, ROW_SHIFT, 0)

    @property
    def sums_pitch(self) -> Integers:
        """Words from the sums of a filter to those of the next."""
        return self.input_pitch

    @property
    def stage_bytes(self) -> Integers:
        """One slab of filters and input."""
        return FLOAT_BYTES * (self.filter_tile * self.filter_pitch + self.slab_channels * self.input_pitch)

    @property
    def direct_vector(self) -> int:
        """Words that a thread stores side by side where sums do not pass through shared memory."""
        return DIRECT_VECTOR

    @property
    def registers(self) -> Integers:
        """About what a thread takes: sums of all slabs and of this one, factors of this group of channels and the next."""
        sums = 2 * 4 * self.rows * self.columns
        factors = 4 * self.rows + 2 * self.columns
        return np.asarray(sums + 2 * factors + factors // 2 + REGISTERS_BESIDE_OPERANDS, np.int64)

    def copies_of_slab(self, problem: PointwiseConv2d, slab: Integers) -> Integers:
        """Filters and input in vectors."""
        return slab * self.filter_tile // filter_vector(problem) + slab * self.position_tile // position_vector(problem)


def filter_vector(problem: PointwiseConv2d) -> int:
    """Words of a copy of a filter, which no filter's end cuts."""
    return gcd(VECTOR_WORDS, problem.in_channels)


def has_tensor_cores(gpu: Gpu) -> bool:
    """Whether the GPU multiplies TF32 numbers and copies to shared memory asynchronously: compute capability 8.0 and newer."""
    return gpu.tensor_tf32_per_sm > 0 and gpu.architecture.asynchronous_copies


def tiles(problem: PointwiseConv2d, batch: Batch[PointwiseConfiguration], gpu: Gpu) -> TensorTiles:
    """Sizes of a batch of configurations with ``layout=tensor``.

    >>> from perfmodel.families.pointwise_conv2d import Layout
    >>> from perfmodel.gpus.catalogue import load_gpu
    >>> chosen = PointwiseConfiguration(
    ...     layout=Layout.TENSOR, filter_split=None, block_width_split=None, blocks_per_sm=None, channel_lanes=None,
    ...     warp_filters=32, warp_positions=32, filter_warps=2, position_warps=2, channel_slices=1, channel_split=1)
    >>> tile = tiles(PointwiseConv2d(), Batch.of([chosen]), load_gpu("h200"))
    >>> tile.filter_tile, tile.slab_channels, tile.stages, tile.resident_blocks
    (array([64]), array([64]), array([4]), array([1]))
    """
    given = {name: batch[name].astype(np.int64) for name in OF_TENSORS}
    one = np.ones_like(given["channel_split"])
    return TensorTiles(**given, slab_channels=one, stages=one, resident_blocks=one).fitted(problem, gpu)


def compile_request(problem: PointwiseConv2d, configuration: PointwiseConfiguration, gpu: Gpu) -> CompileRequest:
    """Source, kernel and macros."""

    def macros(tile: TensorTiles) -> dict[str, Any]:
        return {
            "FILTER_PITCH": tile.filter_pitch,
            "INPUT_PITCH": tile.input_pitch,
            "SUMS_PITCH": tile.sums_pitch,
            "FILTER_VECTOR": filter_vector(problem),
            "TF32_PRODUCTS": TF32_PRODUCTS,
        }

    return matrix_compile_request(KERNEL, tiles(problem, Batch.of([configuration]), gpu), problem, gpu, macros)
