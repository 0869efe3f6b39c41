"""Slabs and stages of matrix products of warpgroups, their limits, and what is compiled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ....compiler.request import CompileRequest
from ....gpus.gpu import Gpu
from ...base import Batch, Check
from ...matrix.layer import MatrixLayer, filter_vector
from ...matrix.tensor_limits import tensor_checks
from ...matrix.tensor_tiles import product_terms
from ...matrix.tiles import Integers, matrix_compile_request
from ...matrix.warpgroups import OF_WARPGROUPS, WarpgroupSizes, batch_of, warpgroup_checks, warpgroup_sizes
from ..configuration import PointwiseConfiguration
from ..problem import PointwiseConv2d
from ..tensor.tiling import PointwiseTensorTiles

KERNEL = "pointwise_warpgroup"


@dataclass(frozen=True, slots=True, kw_only=True)
class PointwiseWarpgroupTiles(WarpgroupSizes, PointwiseTensorTiles):
    """Sizes of n configurations, arrays of shape ``(n,)``; macros of the kernel in small letters."""

    def slab_products(self, layer: MatrixLayer) -> Integers:
        """Products of a slab, whose channels are whole products."""
        return np.asarray(self.slab_channels // product_terms(layer), np.int64)

    def stage_bytes(self, layer: MatrixLayer) -> Integers:
        """One slab of filters and input."""
        of_input = layer.element_bytes * self.slab_channels * self.input_pitch
        return np.asarray(self.filter_bytes(layer) + of_input, np.int64)


def tiles(problem: PointwiseConv2d, batch: Batch[PointwiseConfiguration], gpu: Gpu) -> PointwiseWarpgroupTiles:
    """Sizes of a batch of configurations with ``layout=warpgroup``."""
    given = {name: batch[name].astype(np.int64) for name in OF_WARPGROUPS}
    return PointwiseWarpgroupTiles(**warpgroup_sizes(given)).fitted(problem, gpu)


def checks(problem: PointwiseConv2d, batch: Batch[PointwiseConfiguration], gpu: Gpu) -> tuple[Check, ...]:
    """Limits of configurations with ``layout=warpgroup``; all of the batch are such."""
    tile, where = tiles(problem, batch, gpu), "layout=warpgroup"
    return (*warpgroup_checks(problem, tile, gpu, where), *tensor_checks(problem, tile, gpu, where))


def compile_request(problem: PointwiseConv2d, configuration: PointwiseConfiguration, gpu: Gpu) -> CompileRequest:
    """Source, kernel and macros."""

    def macros(tile: PointwiseWarpgroupTiles) -> dict[str, Any]:
        products = tile.slab_products(problem)
        return {
            "FILTER_TILE": tile.filter_tile,
            "CHUNK_PITCH": tile.chunk_pitch,
            "INPUT_PITCH": tile.input_pitch,
            "SUMS_PITCH": tile.sums_pitch,
            "FILTER_VECTOR": filter_vector(problem),
            "SLAB_PRODUCTS": products,
            "BATCH": batch_of(np.asarray(products)),
        }

    return matrix_compile_request(KERNEL, tiles(problem, Batch.of([configuration]), gpu), problem, gpu, macros)
