"""Slabs and stages of convolutions by products of warpgroups, their limits, and what is compiled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ....compiler.request import CompileRequest
from ....core.constants import round_up
from ....gpus.gpu import Gpu
from ...base import Batch, Check
from ...matrix.layer import MatrixLayer
from ...matrix.tensor_limits import tensor_checks
from ...matrix.tiles import Integers, matrix_compile_request
from ...matrix.warpgroups import OF_WARPGROUPS, WarpgroupSizes, batch_of, warpgroup_checks, warpgroup_sizes
from ..configuration import DirectConv2dConfiguration
from ..launch import filter_macros
from ..problem import Conv2d
from ..tensor.tiling import ConvolutionTiles, patch_checks, patch_macros, patch_rows, row_pitch

KERNEL = "warpgroup_convolution"


@dataclass(frozen=True, slots=True, kw_only=True)
class WarpgroupTiles(WarpgroupSizes, ConvolutionTiles):
    """Sizes of n configurations, arrays of shape ``(n,)``; macros of the kernel in small letters."""

    def stage_bytes(self, layer: MatrixLayer) -> Integers:
        """One slab of filters and patch."""
        patch = layer.element_bytes * self.slab_channels * self.channel_pitch(layer)
        return np.asarray(self.filter_bytes(layer) + patch, np.int64)


def tiles(problem: Conv2d, batch: Batch[DirectConv2dConfiguration], gpu: Gpu) -> WarpgroupTiles:
    """Sizes of a batch of configurations with ``reuse=warpgroup``.

    >>> from perfmodel.families.direct_conv2d import Reuse
    >>> from perfmodel.families.precision import Precision
    >>> from perfmodel.gpus.catalogue import load_gpu
    >>> chosen = DirectConv2dConfiguration(reuse=Reuse.WARPGROUP, warp_filters=128, position_warps=12)
    >>> layer = Conv2d(batch=32, in_channels=128, out_channels=128, height=28, width=28, filter_height=3, filter_width=3,
    ...                padding=1, precision=Precision.TF32)
    >>> tile = tiles(layer, Batch.of([chosen]), load_gpu("h200"))
    >>> tile.position_tile, tile.slab_channels, tile.slab_products(layer), tile.stages
    (array([192]), array([16]), array([18]), array([2]))
    """
    sizes = warpgroup_sizes({name: batch[name].astype(np.int64) for name in OF_WARPGROUPS})
    one = np.ones_like(sizes["position_warps"])
    return WarpgroupTiles(
        **sizes,
        patch_rows=patch_rows(problem, sizes["position_warps"] * sizes["warp_positions"]),
        patch_lead=round_up(max(problem.padding, 1), problem.vector_elements) * one,
        row_pitch=row_pitch(problem) * one,
    ).fitted(problem, gpu)


def checks(problem: Conv2d, batch: Batch[DirectConv2dConfiguration], gpu: Gpu) -> tuple[Check, ...]:
    """Limits of configurations with ``reuse=warpgroup``; all of the batch are such."""
    tile, where = tiles(problem, batch, gpu), "reuse=warpgroup"
    return (
        *warpgroup_checks(problem, tile, gpu, where),
        *patch_checks(problem, tile, where),
        *tensor_checks(problem, tile, gpu, where),
    )


def compile_request(problem: Conv2d, configuration: DirectConv2dConfiguration, gpu: Gpu) -> CompileRequest:
    """Source, kernel and macros."""

    def macros(tile: WarpgroupTiles) -> dict[str, Any]:
        products = tile.slab_products(problem)
        return {
            **dict(filter_macros(problem)),
            **patch_macros(problem, tile),
            "FILTER_TILE": tile.filter_tile,
            "CHUNK_PITCH": tile.chunk_pitch,
            "SLAB_PRODUCTS": products,
            "BATCH": batch_of(np.asarray(products)),
        }

    return matrix_compile_request(KERNEL, tiles(problem, Batch.of([configuration]), gpu), problem, gpu, macros)
