"""Limits of configurations with `layout=product`: what a thread and a block may hold, what the problem can fill."""

from __future__ import annotations

from ....core.constants import VECTOR_WORDS
from ....gpus.gpu import Gpu
from ...base import Batch, Check, within_limits
from ...matrix.tiles import matrix_checks
from ..configuration import PointwiseConfiguration
from ..problem import PointwiseConv2d
from .tiling import tiles

SUMS = (8, 64)
"""Fewest and most outputs of a thread."""


def checks(problem: PointwiseConv2d, batch: Batch[PointwiseConfiguration], gpu: Gpu) -> tuple[Check, ...]:
    """Limits of matrix products; all of the batch are such."""
    tile = tiles(problem, batch, gpu)
    few_sums, most_sums = SUMS
    return (
        *within_limits(
            ("outputs per thread where layout=product", (tile.sums < few_sums) | (tile.sums > most_sums), tile.sums,
             f"{few_sums} to {most_sums}"),
            ("filter_threads", tile.filter_threads % 2 != 0, tile.filter_threads, "even numbers"),
            ("filters per thread", tile.filters_per_thread % VECTOR_WORDS != 0, tile.filters_per_thread,
             f"multiples of {VECTOR_WORDS}"),
            ("positions per thread", tile.positions_per_thread % VECTOR_WORDS != 0, tile.positions_per_thread,
             f"multiples of {VECTOR_WORDS}"),
        ),
        *matrix_checks(problem, tile, gpu, 2 * tile.filters_per_thread, tile.positions_per_thread),
    )  # fmt: skip
