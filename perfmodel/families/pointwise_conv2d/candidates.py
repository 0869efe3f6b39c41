"""Everything that follows from a batch of configurations for one problem on one GPU, derived once and in order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...definitions import FLOAT_BYTES, ceil_div
from ...gpu import Gpu
from ..base import Batch
from .blocking import Floats, Integers, Tiles, tiles
from .configuration import PointwiseConfiguration
from .fetch import Fetch, copies_asynchronously, fetch
from .kernel_constants import shared_layout
from .plan import SOURCE_CONSTANT, STAGES, Limits, feasible, limits, planned_shared_bytes
from .problem import PointwiseConv2d
from .registers import estimate, natural_registers, resident_blocks

MAX_SLAB_GROUPS = 8
MAX_SLAB_CHANNELS = 32
"""A warp's fetch of filters spans at most 32 channels, one 128-byte line of each filter."""
MAX_ASYNC_SLAB_CHANNELS = 128
MAX_ASYNC_SLAB_COPIES = 32
"""Copies of a thread for each slab: 16 KiB of a block by words, and as many instructions that stand before the sums."""
MAX_SLAB_FMA = 1024
"""FMA of one slab in the code of a thread, 16 KiB of instructions."""
PADDING_WORDS_PER_CHANNEL = 88
"""Upper bound of what both operands' pitches add to a channel."""
WANTED_STAGES = 4
"""Stages that asynchronous slabs must leave room for before they grow."""
MAX_STAGES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """Tiles, limits, fetch, stages, estimated registers and shared bytes of n configurations.

    ``planned`` says where the plan keeps its limits; the others cannot run, and nothing is searched for them: one group
    a slab, two stages, shared memory without padding.
    """

    tile: Tiles
    limit: Limits
    planned: NDArray[np.bool_]
    fetched: Fetch
    stages: Integers
    registers: NDArray[np.int32]
    shared_bytes: Integers

    @property
    def slabs_in_flight(self) -> Integers:
        """Slabs that are fetched together before the first of them is waited for."""
        return self.stages - 1


def _slab_groups(
    problem: PointwiseConv2d, tile: Tiles, limit: Limits, planned: NDArray[np.bool_], shared_limit: Floats, gpu: Gpu
) -> Integers:
    """Groups of channels in a slab: as many as spare registers and shared memory hold, so that more loads are in flight.

    The source's slab is one group. On a GPU with hundreds of cycles of latency that leaves the pipes idle.
    """
    asynchronous = copies_asynchronously(gpu)
    most = MAX_ASYNC_SLAB_CHANNELS if asynchronous else MAX_SLAB_CHANNELS
    stages = WANTED_STAGES if asynchronous else STAGES
    chosen = np.ones_like(tile.channel_lanes)
    groups = 2
    while groups <= MAX_SLAB_GROUPS:
        wanted = np.full_like(chosen, groups)
        fits = planned & (groups * tile.channel_lanes <= most)
        fits &= groups * tile.channel_lanes < 2 * problem.in_channels
        fits &= groups * tile.accumulators <= MAX_SLAB_FMA
        deeper = fetch(problem, tile, np.where(fits, wanted, 1), asynchronous=asynchronous)
        if asynchronous:
            fits &= deeper.instructions <= MAX_ASYNC_SLAB_COPIES
        fits &= natural_registers(problem, tile, deeper) <= limit.registers_per_thread
        channel_bytes = FLOAT_BYTES * (tile.block_width + tile.block_height + PADDING_WORDS_PER_CHANNEL)
        fits &= stages * groups * tile.channel_lanes * channel_bytes <= shared_limit
        chosen = np.where(fits & (2 * chosen == groups), wanted, chosen)
        groups *= 2
    return chosen


def _shared_limit(problem: PointwiseConv2d, tile: Tiles, limit: Limits, gpu: Gpu) -> Floats:
    """Shared bytes of a block that cost no resident block: those of the plan, or of all that registers and grid allow."""
    least = fetch(problem, tile, np.ones_like(tile.channel_lanes), asynchronous=copies_asynchronously(gpu))
    blocks = ceil_div(problem.positions, tile.position_tile) * ceil_div(problem.out_channels, tile.filter_tile)
    resident = np.minimum(resident_blocks(problem, tile, least, gpu), ceil_div(blocks, gpu.sm_count))
    spread = gpu.shared_bytes_per_sm // np.maximum(resident, 1) - gpu.shared_reserved_bytes_per_block
    most: Floats = np.minimum(limit.shared_bytes_per_block, spread).astype(np.float64)
    return most


def _stages(
    problem: PointwiseConv2d, fetched: Fetch, stage_bytes: Integers, shared_limit: Floats, gpu: Gpu
) -> Integers:
    """Stages that keep an SM's share of the L2's bandwidth busy for the latency of DRAM, as far as shared memory holds them.

    Little's law for one block; a block never needs more than a stage for each slab and one beside.
    """
    cycle_bytes = gpu.l2_read_bytes_per_s / gpu.boost_clock_hz / gpu.sm_count
    in_flight = np.ceil(gpu.dram_latency_cycles * cycle_bytes / stage_bytes)
    wanted = np.clip(1 + in_flight, WANTED_STAGES, MAX_STAGES)
    wanted = np.minimum(wanted, 1 + ceil_div(problem.in_channels, fetched.slab_channels))
    stages: Integers = np.maximum(np.minimum(wanted, shared_limit // stage_bytes), STAGES).astype(np.int64)
    return stages


def candidates(problem: PointwiseConv2d, batch: Batch[PointwiseConfiguration], gpu: Gpu) -> Candidates:
    """Derive everything about a batch, arrays of shape ``(n,)``.

    >>> from perfmodel.gpus import load_gpu
    >>> found = candidates(PointwiseConv2d(), Batch.of([PointwiseConfiguration(block_width_split=2)]), load_gpu("h200"))
    >>> found.planned, found.fetched.slab_groups, found.stages
    (array([ True]), array([4]), array([4]))
    """
    tile = tiles(problem, batch, gpu.sm_count)
    limit = limits(tile.blocks_per_sm, gpu)
    planned = feasible(tile, limit, SOURCE_CONSTANT)
    asynchronous = copies_asynchronously(gpu)
    shared_limit = _shared_limit(problem, tile, limit, gpu) if asynchronous else limit.shared_bytes_per_block
    groups = _slab_groups(problem, tile, limit, planned, shared_limit, gpu)
    fetched = fetch(problem, tile, groups, asynchronous=asynchronous)
    stage_bytes = planned_shared_bytes(tile).astype(np.int64) // STAGES
    for index in np.flatnonzero(planned):
        stage_bytes[index] = shared_layout(tile, fetched, int(index)).stage_bytes
    stages = np.full_like(groups, STAGES)
    if asynchronous:
        stages = np.where(planned, _stages(problem, fetched, stage_bytes, shared_limit, gpu), STAGES)
    return Candidates(
        tile=tile,
        limit=limit,
        planned=planned,
        fetched=fetched,
        stages=stages,
        registers=estimate(problem, tile, fetched, gpu),
        shared_bytes=stages * stage_bytes,
    )
