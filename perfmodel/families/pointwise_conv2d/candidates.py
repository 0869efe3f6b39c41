"""Everything that follows from a batch of configurations for one problem on one GPU, derived once and in order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...gpu import Gpu
from ..base import Batch
from .blocking import Integers, Tiles, tiles
from .configuration import PointwiseConfiguration
from .fetch import Fetch, fetch
from .kernel_constants import shared_layout
from .plan import SOURCE_CONSTANT, Limits, feasible, limits, planned_shared_bytes
from .problem import PointwiseConv2d
from .registers import estimate, natural_registers

MAX_SLAB_GROUPS = 8
MAX_SLAB_CHANNELS = 32
"""A warp's fetch of filters spans at most 32 channels, one 128-byte line of each filter."""
MAX_SLAB_FMA = 1024
"""FMA of one slab in the code of a thread, 16 KiB of instructions."""
PADDING_WORDS_PER_CHANNEL = 88
"""Upper bound of what both operands' pitches add to a channel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """Tiles, limits, fetch, estimated registers and shared bytes of n configurations.

    ``planned`` says where the plan keeps its limits; the others cannot run, and nothing is searched for them: one group
    a slab, shared memory without padding.
    """

    tile: Tiles
    limit: Limits
    planned: NDArray[np.bool_]
    fetched: Fetch
    registers: NDArray[np.int32]
    shared_bytes: Integers


def _slab_groups(problem: PointwiseConv2d, tile: Tiles, limit: Limits, planned: NDArray[np.bool_]) -> Integers:
    """Groups of channels in a slab: as many as spare registers and shared memory hold, so that more loads are in flight.

    The source's slab is one group. On a GPU with hundreds of cycles of latency that leaves the pipes idle.
    """
    chosen = np.ones_like(tile.channel_lanes)
    groups = 2
    while groups <= MAX_SLAB_GROUPS:
        wanted = np.full_like(chosen, groups)
        fits = planned & (groups * tile.channel_lanes <= MAX_SLAB_CHANNELS)
        fits &= groups * tile.channel_lanes < 2 * problem.in_channels
        fits &= groups * tile.accumulators <= MAX_SLAB_FMA
        deeper = fetch(problem, tile, np.where(fits, wanted, 1))
        fits &= natural_registers(problem, tile, deeper) <= limit.registers_per_thread
        padded = planned_shared_bytes(tile) / (tile.block_width + tile.block_height)
        padded = groups * padded * (tile.block_width + tile.block_height + PADDING_WORDS_PER_CHANNEL)
        fits &= padded <= limit.shared_bytes_per_block
        chosen = np.where(fits & (2 * chosen == groups), wanted, chosen)
        groups *= 2
    return chosen


def candidates(problem: PointwiseConv2d, batch: Batch[PointwiseConfiguration], gpu: Gpu) -> Candidates:
    """Derive everything about a batch, arrays of shape ``(n,)``.

    >>> from perfmodel.gpus import load_gpu
    >>> found = candidates(PointwiseConv2d(), Batch.of([PointwiseConfiguration(block_width_split=2)]), load_gpu("h200"))
    >>> found.planned, found.fetched.slab_groups
    (array([ True]), array([4]))
    """
    tile = tiles(problem, batch, gpu.sm_count)
    limit = limits(tile.blocks_per_sm, gpu)
    planned = feasible(tile, limit, SOURCE_CONSTANT)
    fetched = fetch(problem, tile, _slab_groups(problem, tile, limit, planned))
    shared_bytes = planned_shared_bytes(tile).astype(np.int64)
    for index in np.flatnonzero(planned):
        shared_bytes[index] = shared_layout(tile, fetched, int(index)).shared_bytes
    return Candidates(
        tile=tile,
        limit=limit,
        planned=planned,
        fetched=fetched,
        registers=estimate(problem, tile, fetched, gpu),
        shared_bytes=shared_bytes,
    )
