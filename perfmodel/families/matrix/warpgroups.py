"""What designs share whose warpgroups multiply matrices on tensor cores: sizes, limits, what a warp executes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.constants import FLOAT_BYTES, VECTOR_BYTES, WARP_SIZE, ceil_div
from ...gpus.gpu import Gpu
from ..base import Check, within_limits
from ..precision import Precision
from .counts import Floats, WarpWork
from .layer import MatrixLayer
from .tensor_counts import STORED_RUN, tensor_rate
from .tensor_tiles import TensorTiles, product_terms
from .tiles import Integers

OF_WARPGROUPS = ("warp_filters", "position_warps")
"""Fields of a configuration."""
WARPGROUP_FILTERS = (32, 64, 96, 128)
WARPGROUP_WARPS = (4, 8, 12, 16)
WARPGROUP_POSITIONS = 16
"""Filters of a block of warpgroups, its warps, positions of each: a quarter of the rows of a product (PTX ISA, ``wgmma``)."""
WARPS = 4
"""Of a warpgroup."""
MOST_BATCH, MOST_LONE_BATCH = 6, 8
"""Products whose factors of positions are read together: of two batches or more, and of one that makes up a slab."""
FEWEST_BATCH = 3
"""Fewer in a slab of more products are filled up by one more."""
REGISTERS_BESIDE_SUMS = 60
"""Factors of two batches, addresses and counters."""
FACTORS = 4
"""Registers of a thread that hold its factors of positions of one product."""


class WarpgroupSizes:
    """What tiles of warpgroups have beside those of warps; for classes of tiles to inherit from before these."""

    __slots__ = ()

    @property
    def direct_vector(self) -> int:
        """Neighbouring positions that a thread has the sums of."""
        return 1

    @property
    def chunk_pitch(self: Any) -> Any:
        """Bytes from a chunk of all filters, 16 bytes each, in a stage to the next: neighbouring chunks begin on other banks."""
        return VECTOR_BYTES * (self.filter_tile + 1)

    def slab_products(self: Any, layer: MatrixLayer) -> Integers:
        """Products of a slab, filled up so that they are batches of equal size."""
        products = ceil_div(self.slab_channels * layer.filter_taps, product_terms(layer))
        lonely = (products > MOST_LONE_BATCH) & (batch_of(products) < FEWEST_BATCH)
        return np.asarray(products + lonely, np.int64)

    def filter_bytes(self: Any, layer: MatrixLayer) -> Any:
        """Those of a slab."""
        return 2 * self.slab_products(layer) * self.chunk_pitch

    def registers(self: Any, layer: MatrixLayer) -> Integers:
        """About what a thread takes."""
        return np.asarray(self.filter_tile * WARPGROUP_POSITIONS // WARP_SIZE + REGISTERS_BESIDE_SUMS, np.int64)


def batch_of(products: Integers) -> Integers:
    """The largest divisor up to `MOST_BATCH`, all where they are few.

    >>> batch_of(np.array([9, 18, 5, 7, 11]))
    array([3, 6, 5, 7, 1])
    """
    found = np.ones_like(products)
    for size in range(2, MOST_BATCH + 1):
        found = np.where(products % size == 0, size, found)
    return np.asarray(np.where(products <= MOST_LONE_BATCH, products, found), np.int64)


def warpgroup_choices(filters: int, positions: int) -> dict[str, tuple[int, ...]]:
    """Values of the fields `OF_WARPGROUPS`: none with more filters or positions than the next smaller would hold.

    >>> warpgroup_choices(64, 100)
    {'warp_filters': (32, 64), 'position_warps': (4, 8)}
    """
    warps = ceil_div(positions, WARPGROUP_POSITIONS)
    return {
        "warp_filters": tuple(n for n in WARPGROUP_FILTERS if n < filters + min(WARPGROUP_FILTERS)),
        "position_warps": tuple(n for n in WARPGROUP_WARPS if n < warps + min(WARPGROUP_WARPS)),
    }


def warpgroup_checks(layer: MatrixLayer, tile: TensorTiles, gpu: Gpu, where: str) -> tuple[Check, ...]:
    """Limits of n configurations; ``where`` is what they say that multiplies by warpgroups, for the messages."""
    everyone = np.ones(tile.threads.shape, np.bool_)
    exact, lacking = layer.precision is Precision.FLOAT32, not gpu.architecture.has_warpgroup_products
    known = np.isin(tile.warp_filters, WARPGROUP_FILTERS)
    return within_limits(
        (f"precision where {where}", everyone & exact, layer.precision.value, "tf32 and float16"),
        (f"compute capability where {where}", everyone & lacking, gpu.architecture.name, "sm_90"),
        ("filters of a product", ~known, tile.warp_filters, ", ".join(map(str, WARPGROUP_FILTERS))),
        ("warps of a block", tile.position_warps % WARPS != 0, tile.position_warps, f"multiples of {WARPS}"),
    )


def warpgroup_sizes(given: dict[str, Integers]) -> dict[str, Integers]:
    """Fields of tiles of a batch of configurations, those that warps on tensor cores have beside `OF_WARPGROUPS` included."""
    one = np.ones_like(given["position_warps"])
    fixed = ("filter_warps", "channel_slices", "channel_split", "slab_channels", "stages", "resident_blocks")
    return {**given, "warp_positions": WARPGROUP_POSITIONS * one, **dict.fromkeys(fixed, one)}


def warpgroup_work(
    layer: MatrixLayer,
    tile: Any,
    gpu: Gpu,
    *,
    reads: int,
    wavefronts: Floats,
    ideal: int,
    integers: int,
    input_copies: Floats,
    input_elements: Any,
) -> WarpWork:
    """Work of n configurations.

    Args:
        layer: What is multiplied.
        tile: Its tiles.
        gpu: That multiplies.
        reads: Shared loads of a product.
        wavefronts: What they need.
        ideal: What they would need without bank conflicts.
        integers: Integer instructions of a product.
        input_copies: Copies of a warp of input for a slab of a block.
        input_elements: Elements that these copy of one channel.
    """
    of_channel = tile.slab_products(layer) / tile.slab_channels
    vector = tile.filter_vector(layer)
    terms = tile.slab_channels * layer.filter_taps
    operations = 2 * WARPGROUP_POSITIONS * tile.filter_tile * product_terms(layer)
    return WarpWork(
        arithmetic={"tensor": of_channel, "integer": integers * of_channel},
        of_slab={},
        reads=reads * of_channel,
        wavefronts=wavefronts * of_channel,
        ideal=ideal * of_channel,
        sums=tile.filter_tile * WARPGROUP_POSITIONS // WARP_SIZE,
        registers=tile.registers(layer),
        filters=layer.out_channels,
        filter_copies=tile.filter_tile * terms / vector / WARP_SIZE,
        input_copies=input_copies,
        input_elements=input_elements,
        copied_lines=(vector < layer.vector_elements) * np.ceil(WARP_SIZE * vector / terms),
        copied_wavefronts=np.maximum(vector * layer.element_bytes // FLOAT_BYTES, 1),
        unrolled_channels=tile.slab_channels,
        tensor_cycles=operations / tensor_rate(layer, gpu) * of_channel,
        stored_run=STORED_RUN,
    )
