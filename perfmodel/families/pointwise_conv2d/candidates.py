"""Everything that follows from a batch of configurations for one problem on one GPU, derived once and in order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...core.constants import FLOAT_BYTES, ceil_div
from ...gpus.gpu import Gpu
from ..base import Batch
from .blocking import THREADS_PER_BLOCK, Floats, Integers, Tiles, tiles
from .configuration import PointwiseConfiguration
from .fetch import Fetch, copies_asynchronously, fetch
from .kernel_constants import shared_layout
from .plan import SOURCE_CONSTANT, STAGES, Limits, feasible, limits, planned_shared_bytes
from .problem import PointwiseConv2d
from .registers import estimate, held_registers, resident_blocks

MAX_SLAB_GROUPS = 8
MAX_SLAB_CHANNELS = 32
"""One 128-byte line of each filter."""
MAX_ASYNC_SLAB_CHANNELS = 256
MAX_ASYNC_SLAB_COPIES = 32
"""Copies of a thread for each slab: 16 KiB of a block by words, and as many instructions that stand before the sums."""
MAX_SLAB_FMA = 1024
"""FMA of one slab in the code of a thread, 16 KiB of instructions."""
PADDING_WORDS_PER_CHANNEL = 88
"""What both operands' pitches are taken to add to a channel where slabs pass through registers. Rows of many filters may need
more: on an RTX 2080 Ti 3 of 415 tuples, of four layers, then exceed their limit and are rejected."""
WANTED_STAGES = 3
"""Stages that asynchronous slabs must leave room for before they grow."""
MAX_STAGES = 8
LATENCIES_AHEAD = 2
"""Latencies of DRAM that copies run ahead. With a cold L2 an H200 took 0.64 µs for each slab that a kernel waited for (1152
→ 192 channels at 7×7, 36 slabs in 23.1 µs), twice the latency of a lone access."""


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
        deeper = fetch(problem, tile, np.where(fits, wanted, 1), gpu.sm_count, asynchronous=asynchronous)
        fits &= deeper.row_vectors <= THREADS_PER_BLOCK
        if asynchronous:
            fits &= deeper.instructions <= MAX_ASYNC_SLAB_COPIES
            fits &= groups * tile.channel_lanes <= max(MAX_SLAB_CHANNELS, problem.in_channels // WANTED_STAGES)
        fits &= held_registers(problem, tile, deeper) <= limit.registers_per_thread
        padding = 0 if asynchronous else PADDING_WORDS_PER_CHANNEL
        channel_bytes = FLOAT_BYTES * (tile.block_width + tile.block_height + padding)
        fits &= stages * groups * tile.channel_lanes * channel_bytes <= shared_limit
        chosen = np.where(fits & (2 * chosen == groups), wanted, chosen)
        groups *= 2
    return chosen


def _shared_limit(problem: PointwiseConv2d, tile: Tiles, limit: Limits, gpu: Gpu) -> Floats:
    """Shared bytes of a block that cost no resident block: those of the plan, or of all that registers and grid allow."""
    least = fetch(
        problem, tile, np.ones_like(tile.channel_lanes), gpu.sm_count, asynchronous=copies_asynchronously(gpu)
    )
    resident = resident_blocks(problem, tile, least, gpu)
    spread = gpu.shared_bytes_per_sm // np.maximum(resident, 1) - gpu.shared_reserved_bytes_per_block
    most: Floats = np.minimum(limit.shared_bytes_per_block, spread).astype(np.float64)
    return most


def _stages(
    problem: PointwiseConv2d, tile: Tiles, fetched: Fetch, stage_bytes: Integers, shared_limit: Floats, gpu: Gpu
) -> Integers:
    """Stages that keep an SM's share of the L2's bandwidth busy for the latency of DRAM, as far as shared memory holds them.

    Little's law for one block, the bandwidth shared by the SMs that have one; a block never needs more than a stage for
    each slab and one beside.
    """
    sharing = np.minimum(tile.blocks(problem), gpu.sm_count)
    cycle_bytes = gpu.l2_read_bytes_per_s / gpu.boost_clock_hz / sharing
    in_flight = np.ceil(LATENCIES_AHEAD * gpu.dram_latency_cycles * cycle_bytes / stage_bytes)
    wanted = np.clip(1 + in_flight, WANTED_STAGES, MAX_STAGES)
    wanted = np.minimum(wanted, 1 + ceil_div(problem.in_channels, fetched.slab_channels))
    stages: Integers = np.maximum(np.minimum(wanted, shared_limit // stage_bytes), STAGES).astype(np.int64)
    return stages


def _stage_bytes(tile: Tiles, fetched: Fetch, planned: NDArray[np.bool_]) -> Integers:
    """Bytes of one stage with the padding that its layout needs, without it where nothing is planned."""
    found: Integers = planned_shared_bytes(tile).astype(np.int64) // STAGES
    for index in np.flatnonzero(planned):
        found[index] = shared_layout(tile, fetched, int(index)).stage_bytes
    return found


def _asynchronous(
    problem: PointwiseConv2d, tile: Tiles, limit: Limits, planned: NDArray[np.bool_], gpu: Gpu
) -> tuple[Fetch, Integers, Integers]:
    """Fetch, stages and bytes of a stage; slabs are halved until as many stages as wanted have room with their padding."""
    shared_limit = _shared_limit(problem, tile, limit, gpu)
    groups = _slab_groups(problem, tile, limit, planned, shared_limit, gpu)
    while True:
        fetched = fetch(problem, tile, groups, gpu.sm_count, asynchronous=True)
        stage_bytes = _stage_bytes(tile, fetched, planned)
        over = planned & (groups > 1) & (WANTED_STAGES * stage_bytes > shared_limit)
        if not over.any():
            break
        groups = np.where(over, groups // 2, groups)
    stages = _stages(problem, tile, fetched, stage_bytes, shared_limit, gpu)
    return fetched, np.where(planned, stages, STAGES), stage_bytes


def candidates(problem: PointwiseConv2d, batch: Batch[PointwiseConfiguration], gpu: Gpu) -> Candidates:
    """Derive everything about a batch, arrays of shape ``(n,)``.

    >>> from perfmodel.gpus.catalogue import load_gpu
    >>> found = candidates(PointwiseConv2d(), Batch.of([PointwiseConfiguration(block_width_split=2)]), load_gpu("h200"))
    >>> found.planned, found.fetched.slab_groups, found.stages
    (array([ True]), array([8]), array([3]))
    """
    tile = tiles(problem, batch, gpu.sm_count)
    limit = limits(tile.blocks_per_sm, gpu)
    planned = feasible(tile, limit, SOURCE_CONSTANT)
    if copies_asynchronously(gpu):
        fetched, stages, stage_bytes = _asynchronous(problem, tile, limit, planned, gpu)
    else:
        room = np.asarray(limit.shared_bytes_per_block, np.float64)
        groups = _slab_groups(problem, tile, limit, planned, room, gpu)
        fetched = fetch(problem, tile, groups, gpu.sm_count, asynchronous=False)
        stages, stage_bytes = np.full_like(tile.channel_lanes, STAGES), _stage_bytes(tile, fetched, planned)
    return Candidates(
        tile=tile,
        limit=limit,
        planned=planned,
        fetched=fetched,
        stages=stages,
        registers=estimate(problem, tile, fetched, gpu),
        shared_bytes=stages * stage_bytes,
    )
