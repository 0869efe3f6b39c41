"""What a warp of a matrix product executes for each channel."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ....core.constants import FLOAT_BYTES, VECTOR_WORDS, WARP_SIZE
from ....gpus.gpu import Gpu
from ....memory.bank_conflicts import load_wavefronts
from ...lanes import over_unique
from ...matrix.counts import Floats, WarpWork
from ...matrix.estimates import matrix_estimates
from ...matrix.layer import position_vector
from ...matrix.tiles import Integers
from ..problem import PointwiseConv2d
from .tiling import ProductTiles


@lru_cache(maxsize=65536)
def _wavefronts(filter_threads: int, position_threads: int) -> tuple[int, int, int, int]:
    """Wavefronts of a warp's read of a vector of its filters, and of its positions, each with those without conflicts."""
    lane = np.arange(WARP_SIZE)
    position = lane // 2 % position_threads * VECTOR_WORDS
    row = (lane // 2 // position_threads * 2 + lane % 2) % filter_threads * VECTOR_WORDS
    everyone, width = np.ones((1, WARP_SIZE), np.bool_), FLOAT_BYTES * VECTOR_WORDS
    costs = [load_wavefronts((word[None] * FLOAT_BYTES).astype(np.uint64), everyone, width) for word in (row, position)]
    (of_filters, ideal_of_filters), (of_positions, ideal_of_positions) = costs
    return int(of_filters[0]), int(of_positions[0]), int(ideal_of_filters[0]), int(ideal_of_positions[0])


def _reads(tile: ProductTiles) -> tuple[Floats, Floats, Floats]:
    """Reads of a warp for one channel, their wavefronts, and those without conflicts."""

    def of_kinds(*kinds: Integers) -> tuple[Floats, ...]:
        return tuple(np.array([_wavefronts(*map(int, kind)) for kind in zip(*kinds, strict=True)], np.float64).T)

    found = over_unique(of_kinds, tile.filter_threads, tile.position_threads)
    of_filters, of_positions, ideal_of_filters, ideal_of_positions = found
    filters, positions = tile.filters_per_thread / VECTOR_WORDS, tile.positions_per_thread / VECTOR_WORDS
    return (
        filters + positions,
        filters * of_filters + positions * of_positions,
        filters * ideal_of_filters + positions * ideal_of_positions,
    )


def work_of(problem: PointwiseConv2d, tile: ProductTiles, gpu: Gpu) -> WarpWork:
    """Of n configurations."""
    reads, wavefronts, ideal = _reads(tile)
    lines = np.where(tile.slab_channels % WARP_SIZE == 0, 1, WARP_SIZE // problem.sector_elements)
    return WarpWork(
        arithmetic={"fp32_fma": tile.sums.astype(np.float64)},
        of_slab={},
        reads=reads,
        wavefronts=wavefronts,
        ideal=ideal,
        sums=tile.sums,
        registers=tile.registers(problem) + matrix_estimates().spare_registers,
        filters=tile.filter_tile * tile.grid(problem)[1],
        filter_copies=tile.filter_tile * tile.slab_channels / WARP_SIZE,
        input_copies=tile.slab_channels * tile.position_tile / position_vector(problem) / WARP_SIZE,
        input_elements=tile.position_tile,
        copied_lines=lines,
        copied_wavefronts=lines,
        unrolled_channels=tile.unrolled_channels,
    )
