"""Slabs and stages of matrix products on tensor cores, and what is compiled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ....compiler.request import CompileRequest
from ....gpus.gpu import Gpu
from ...base import Batch, Check
from ...matrix.channels_last import ChannelsLastTiles, channels_last_checks, channels_last_request, channels_last_tiles
from ...matrix.choices import OF_TENSORS
from ...matrix.layer import MatrixLayer, filter_vector
from ...matrix.tensor_limits import tensor_checks
from ...matrix.tensor_tiles import TensorTiles, padded_pitch, shifted_pitch
from ...matrix.tiles import Integers, matrix_compile_request
from ..configuration import PointwiseConfiguration
from ..problem import PointwiseConv2d

KERNEL = "pointwise_tensor"
PRODUCT_OF_MATRICES = dict.fromkeys(("FILTER_HEIGHT", "FILTER_WIDTH", "STRIDE", "HEIGHT", "WIDTH"), 1) | {"PADDING": 0}
"""Sizes by which the kernel of convolutions with channels last knows that its patch is the tile's positions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PointwiseTensorTiles(TensorTiles):
    """Sizes of n configurations, arrays of shape ``(n,)``; macros of the kernel in small letters."""

    def filter_pitch(self, layer: MatrixLayer) -> Integers:
        """Elements from one filter to the next in a stage."""
        return padded_pitch(layer, self.slab_channels)

    @property
    def input_pitch(self) -> Integers:
        """Elements from one channel to the next: four of eight words hit all banks."""
        return shifted_pitch(self.position_tile)

    def stage_bytes(self, layer: MatrixLayer) -> Integers:
        """One slab of filters and input."""
        elements = self.filter_tile * self.filter_pitch(layer) + self.slab_channels * self.input_pitch
        return np.asarray(layer.element_bytes * elements, np.int64)

    def copies_of_slab(self, layer: MatrixLayer, slab: Integers) -> Integers:
        """Filters and input in vectors."""
        return slab * self.filter_tile // filter_vector(layer) + slab * self.position_tile // self.input_vector(layer)


def tiles(
    problem: PointwiseConv2d, batch: Batch[PointwiseConfiguration], gpu: Gpu
) -> PointwiseTensorTiles | ChannelsLastTiles:
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
    if problem.precision.channels_last:
        pixels = given["position_warps"] * given["warp_positions"]
        return channels_last_tiles(problem, batch, gpu, patch_rows=np.ones_like(pixels), copied_pixels=pixels)
    one = np.ones_like(given["channel_split"])
    return PointwiseTensorTiles(**given, slab_channels=one, stages=one, resident_blocks=one).fitted(problem, gpu)


def checks(problem: PointwiseConv2d, batch: Batch[PointwiseConfiguration], gpu: Gpu) -> tuple[Check, ...]:
    """Limits of configurations with ``layout=tensor``; all of the batch are such."""
    tile = tiles(problem, batch, gpu)
    if isinstance(tile, ChannelsLastTiles):
        return channels_last_checks(problem, tile, gpu, "layout=tensor")
    return tensor_checks(problem, tile, gpu, "layout=tensor")


def compile_request(problem: PointwiseConv2d, configuration: PointwiseConfiguration, gpu: Gpu) -> CompileRequest:
    """Source, kernel and macros."""
    tile = tiles(problem, Batch.of([configuration]), gpu)
    if isinstance(tile, ChannelsLastTiles):
        return channels_last_request(problem, tile, gpu, PRODUCT_OF_MATRICES)

    def macros(tile: PointwiseTensorTiles) -> dict[str, Any]:
        return {
            "FILTER_PITCH": tile.filter_pitch(problem),
            "INPUT_PITCH": tile.input_pitch,
            "SUMS_PITCH": tile.sums_pitch,
            "FILTER_VECTOR": filter_vector(problem),
        }

    return matrix_compile_request(KERNEL, tile, problem, gpu, macros)
