"""Slabs, stages and shared memory of a batch of configurations, the launch, and the constants that a kernel is compiled with."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

import numpy as np
from numpy.typing import NDArray

from ...compiler.request import CompileRequest
from ...core.constants import FLOAT_BYTES, WARP_SIZE, ceil_div, round_up
from ...gpus.gpu import Gpu
from ...launch.launch import Launch
from ...memory.async_copy import SECTOR_WORDS
from ..base import Batch
from ..kernel_files import kernel_text
from .blocking.fetch import Fetch, fetch
from .blocking.shared_layout import Operand, pitches_of
from .blocking.tiles import (
    STAGES,
    THREADS_PER_BLOCK,
    Flags,
    Floats,
    Integers,
    Limits,
    Tiles,
    feasible,
    limits,
    planned_shared_bytes,
    tiles,
)
from .configuration import PointwiseConfiguration
from .launch_bounds import held_registers, resident_blocks
from .problem import PointwiseConv2d

KERNEL = "pointwise_conv2d"
MAX_SLAB_GROUPS = 8
MAX_SLAB_CHANNELS = 32
"""One 128-byte line of each filter."""
MAX_ASYNC_SLAB_CHANNELS = 256
MAX_ASYNC_SLAB_COPIES = 32
"""Copies of a thread for each slab: 16 KiB of a block by words, and as many instructions that stand before the sums."""
MAX_SLAB_FMA = 1024
"""FMA of one slab in the code of a thread, 16 KiB of instructions."""
PADDING_WORDS_PER_CHANNEL = 88
"""What both operands' pitches are taken to add to a channel where slabs pass through registers; what needs more is rejected."""
WANTED_STAGES = 3
"""Stages that asynchronous slabs must leave room for before they grow."""
MAX_STAGES = 8
LATENCIES_AHEAD = 2
"""Latencies of DRAM that copies run ahead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """Tiles, limits, fetch, stages and shared bytes of n configurations.

    ``planned`` says where the plan keeps its limits; the others cannot run, and nothing is searched for them: one group
    a slab, two stages, shared memory without padding. ``resident``: blocks of an SM that the launch bound asks for.
    """

    tile: Tiles
    limit: Limits
    planned: Flags
    fetched: Fetch
    stages: Integers
    resident: Integers
    shared_bytes: Integers


def candidates(problem: PointwiseConv2d, batch: Batch[PointwiseConfiguration], gpu: Gpu) -> Candidates:
    """Derive everything about a batch, arrays of shape ``(n,)``.

    >>> from perfmodel.gpus.catalogue import load_gpu
    >>> batch = Batch.of([PointwiseConfiguration(block_width_split=2)])
    >>> chosen = candidates(PointwiseConv2d(), batch, load_gpu("h200"))
    >>> chosen.planned, chosen.fetched.slab_groups, chosen.stages
    (array([ True]), array([8]), array([3]))
    """
    tile = tiles(problem, batch, gpu.sm_count)
    limit = limits(tile.blocks_per_sm, gpu)
    planned = feasible(tile, limit)
    if gpu.architecture.asynchronous_copies:
        fetched, stages, stage_bytes = _asynchronous(problem, tile, limit, planned, gpu)
    else:
        room = np.asarray(limit.shared_bytes_per_block, np.float64)
        groups = _slab_groups(problem, tile, limit, planned, room, gpu)
        fetched = fetch(problem, tile, groups, gpu)
        stages, stage_bytes = np.full_like(tile.channel_lanes, STAGES), _stage_bytes(tile, fetched, planned)
    resident = resident_blocks(problem, tile, fetched, gpu)
    return Candidates(
        tile=tile,
        limit=limit,
        planned=planned,
        fetched=fetched,
        stages=stages,
        resident=resident,
        shared_bytes=stages * stage_bytes,
    )


def _slab_groups(
    problem: PointwiseConv2d, tile: Tiles, limit: Limits, planned: Flags, shared_limit: Floats, gpu: Gpu
) -> Integers:
    """Groups of channels in a slab: as many as spare registers and shared memory hold, so that more loads are in flight."""
    asynchronous = gpu.architecture.asynchronous_copies
    most = MAX_ASYNC_SLAB_CHANNELS if asynchronous else MAX_SLAB_CHANNELS
    stages = WANTED_STAGES if asynchronous else STAGES
    chosen = np.ones_like(tile.channel_lanes)
    groups = 2
    while groups <= MAX_SLAB_GROUPS:
        channels = groups * tile.channel_lanes
        fits = planned & (channels <= most) & (channels < 2 * problem.in_channels)
        fits &= groups * tile.accumulators <= MAX_SLAB_FMA
        deeper = fetch(problem, tile, np.where(fits, groups, 1), gpu)
        fits &= deeper.row_vectors <= THREADS_PER_BLOCK
        if asynchronous:
            fits &= deeper.instructions <= MAX_ASYNC_SLAB_COPIES
            fits &= channels <= max(MAX_SLAB_CHANNELS, problem.in_channels // WANTED_STAGES)
        fits &= held_registers(problem, tile, deeper) <= limit.registers_per_thread
        padding = 0 if asynchronous else PADDING_WORDS_PER_CHANNEL
        channel_bytes = FLOAT_BYTES * (tile.block_width + tile.block_height + padding)
        fits &= stages * channels * channel_bytes <= shared_limit
        chosen = np.where(fits & (2 * chosen == groups), groups, chosen)
        groups *= 2
    return chosen


def _stage_bytes(tile: Tiles, fetched: Fetch, planned: Flags) -> Integers:
    """Bytes of one stage with the padding that its layout needs, without it where nothing is planned."""
    stage_bytes = planned_shared_bytes(tile) // STAGES
    indices = np.flatnonzero(planned)
    words = [
        [
            round_up(pitches_of(one).words(one.lines), SECTOR_WORDS)
            for one in operands_of(tile, fetched, indices, filters=own)
        ]
        for own in (True, False)
    ]
    stage_bytes[indices] = FLOAT_BYTES * np.sum(words, axis=0, dtype=np.int64)
    return stage_bytes


def _asynchronous(
    problem: PointwiseConv2d, tile: Tiles, limit: Limits, planned: Flags, gpu: Gpu
) -> tuple[Fetch, Integers, Integers]:
    """Fetch, stages and bytes of a stage; slabs are halved until as many stages as wanted have room with their padding.

    A block's shared memory must cost no resident block of the plan, or of all that registers and grid allow. Stages keep an
    SM's share of the L2's bandwidth busy for the latency of DRAM (Little's law); a block never needs more than a stage for
    each slab and one beside.
    """
    least = fetch(problem, tile, np.ones_like(tile.channel_lanes), gpu)
    resident = np.maximum(resident_blocks(problem, tile, least, gpu), 1)
    spread = gpu.shared_bytes_per_sm // resident - gpu.shared_reserved_bytes_per_block
    shared_limit = np.minimum(limit.shared_bytes_per_block, spread).astype(np.float64)
    groups = _slab_groups(problem, tile, limit, planned, shared_limit, gpu)
    while True:
        fetched = fetch(problem, tile, groups, gpu)
        stage_bytes = _stage_bytes(tile, fetched, planned)
        over = planned & (groups > 1) & (WANTED_STAGES * stage_bytes > shared_limit)
        if not over.any():
            break
        groups = np.where(over, groups // 2, groups)
    cycle_bytes = gpu.l2_read_bytes_per_s / gpu.boost_clock_hz / np.minimum(tile.blocks(problem), gpu.sm_count)
    in_flight = np.ceil(LATENCIES_AHEAD * gpu.dram_latency_cycles * cycle_bytes / stage_bytes)
    wanted = np.clip(1 + in_flight, WANTED_STAGES, MAX_STAGES)
    wanted = np.minimum(wanted, 1 + ceil_div(problem.in_channels, fetched.slab_channels))
    stages = np.maximum(np.minimum(wanted, shared_limit // stage_bytes), STAGES).astype(np.int64)
    return fetched, np.where(planned, stages, STAGES), stage_bytes


def operand_of(tile: Tiles, fetched: Fetch, index: int, *, filters: bool) -> Operand:
    """The filters or the input of the configuration at ``index``."""
    return operands_of(tile, fetched, [index], filters=filters)[0]


def operands_of(tile: Tiles, fetched: Fetch, indices: list[int] | NDArray[np.intp], *, filters: bool) -> list[Operand]:
    """The filters or the inputs of the configurations at the indices."""
    along_width = tile.filters_along_width == filters
    channels, extent = fetched.slab_channels, tile.filter_tile if filters else tile.position_tile
    columns = {
        "channel_lanes": tile.channel_lanes,
        "lines": extent if filters else channels,
        "words": channels if filters else extent,
        "read_words": np.where(along_width, tile.thread_width, tile.warp_height),
        "read_vector": np.ones_like(channels) if filters else fetched.read_vector,
        "spread": along_width,
        "fetch_vector": fetched.filter_vector if filters else fetched.input_vector,
        "store_lanes": fetched.row_vectors if filters else fetched.position_lanes,
    }
    rows = zip(*(np.asarray(column)[indices].tolist() for column in columns.values()), strict=True)
    return [
        Operand(filters=filters, asynchronous=fetched.asynchronous, **dict(zip(columns, row, strict=True)))
        for row in rows
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelConstants:
    """The macros of one compiled kernel, by their names in small letters; the properties are those that its source derives.

    Kernels that differ in nothing but their stages make the same accesses and are equal.
    """

    layout: int
    channel_lanes: int
    slab_groups: int
    async_copy: int
    stages: int = field(compare=False)
    thread_w: int
    warp_h: int
    filter_vector: int
    filter_cached: int
    filter_interleave: int
    filter_row: int
    input_vector: int
    read_vector: int
    store_vector: int
    input_interleave: int
    position_lanes: int
    input_pitch: int
    input_pad: int
    input_pad_every: int
    one_image: int
    channel_tail: int
    filter_tail: int

    @property
    def slab_channels(self) -> int:
        """Channels of a slab."""
        return self.slab_groups * self.channel_lanes

    @property
    def element_lanes(self) -> int:
        """Lanes of a warp that hold different outputs."""
        return WARP_SIZE // self.channel_lanes

    @property
    def filter_tile(self) -> int:
        """Filters of a block tile."""
        return 2 * (self.thread_w * self.element_lanes if self.layout == 1 else self.warp_h)

    @property
    def position_tile(self) -> int:
        """Positions of a block tile."""
        return 2 * (self.warp_h if self.layout == 1 else self.thread_w * self.element_lanes)

    @property
    def column_vector(self) -> int:
        """Outputs along the width that lie side by side in a thread."""
        return 1 if self.layout == 1 else self.read_vector


def constants_of(problem: PointwiseConv2d, chosen: Candidates, index: int) -> KernelConstants:
    """Constants of the configuration at ``index``; problems that agree in them share one compiled kernel."""
    tile, fetched = chosen.tile, chosen.fetched
    filters, inputs = (pitches_of(operand_of(tile, fetched, index, filters=filters)) for filters in (True, False))
    return KernelConstants(
        layout=1 if tile.filters_along_width[index] else 2,
        channel_lanes=int(tile.channel_lanes[index]),
        slab_groups=int(fetched.slab_groups[index]),
        async_copy=int(fetched.asynchronous),
        stages=int(chosen.stages[index]),
        thread_w=int(tile.thread_width[index]),
        warp_h=int(tile.warp_height[index]),
        filter_vector=int(fetched.filter_vector[index]),
        filter_cached=int(fetched.filter_cached[index]),
        filter_interleave=filters.accesses.interleave,
        filter_row=filters.pitch,
        input_vector=int(fetched.input_vector[index]),
        read_vector=inputs.accesses.read_vector,
        store_vector=inputs.accesses.store_vector,
        input_interleave=inputs.accesses.interleave,
        position_lanes=int(fetched.position_lanes[index]),
        input_pitch=inputs.pitch,
        input_pad=inputs.pad,
        input_pad_every=inputs.pad_every,
        one_image=int(problem.batch == 1),
        channel_tail=int(problem.in_channels % int(fetched.slab_channels[index]) != 0),
        filter_tail=int(problem.out_channels % int(tile.filter_tile[index]) != 0),
    )


def launch_of(problem: PointwiseConv2d, chosen: Candidates) -> Launch:
    """128 threads for each block tile; x over positions, y over filters."""
    across, down = chosen.tile.grid(problem)
    return Launch(grid_x=across, grid_y=down, block_x=THREADS_PER_BLOCK, dynamic_shared_bytes=chosen.shared_bytes)


def compile_request(problem: PointwiseConv2d, configuration: PointwiseConfiguration, gpu: Gpu) -> CompileRequest:
    """The kernel with its tile as compile-time constants; sizes are parameters, so layers with the same tile share it."""
    chosen = candidates(problem, Batch.of([configuration]), gpu)
    constants = constants_of(problem, chosen, 0)
    return CompileRequest(
        source=kernel_text(f"{KERNEL}.cu"),
        kernel=KERNEL,
        file_name=f"{KERNEL}.cu",
        defines=(
            *((macro.name.upper(), getattr(constants, macro.name)) for macro in fields(constants)),
            ("RESIDENT_BLOCKS", int(chosen.resident[0])),
        ),
        architecture_specific=chosen.fetched.asynchronous,
    )
