"""Closed-form counts of a launch. Memory requests, sectors and wavefronts are exact; instruction classes are estimates.

Per block: S slabs, each fetched once and published once (one barrier), or copied asynchronously once, which counts as an
asynchronous copy and neither as a load nor as a store; ⌈C / C_num⌉ groups of channels, each read once by
each of the four warps, which then issue Warp_H·T_num FMA. The reduction sends half of a lane's sums to its partner in each
of log2(C_num) steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...core.constants import FLOAT_BYTES, ceil_div
from ...core.counts import Counts
from ...gpus.gpu import Gpu
from .accesses import Geometry, filter_loads, input_loads, output_stores
from .blocking import WARPS_PER_BLOCK, Floats, Integers, Tiles, grid
from .candidates import Candidates
from .classes import Touched
from .fetch import Fetch
from .hierarchy import l2_read_sectors
from .kernel_constants import SharedLayout, operand_of, shared_layout
from .problem import PointwiseConv2d
from .shared_layout import read_wavefronts, store_accesses

PROLOGUE_INTEGER = 60
"""Integer and move instructions of a warp beside those below; all of these are means over 60 compiled kernels."""
CLEARED_SUM = 0.7
SLAB_INTEGER = 17
FETCH_INTEGER = 1.25
"""… for each fetch of a slab, and more where channels or filters end within one."""
CHANNEL_TAIL_INTEGER = 4.7
FILTER_TAIL_INTEGER = 3.3
STORE_INTEGER = 2.4
STORE_DIVISION_INTEGER = 26
"""… for each store where the position must be split into image and place."""
STORE_DIVISION_CONTROL = 5
STORE_DIVISION_CONVERSION = 2
PROLOGUE_CONTROL = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """Shared-memory accesses of one configuration's whole launch; copies are the asynchronous ones."""

    load_requests: float
    load_wavefronts: float
    store_requests: float
    store_wavefronts: float
    copy_requests: float
    copy_wavefronts: float
    conflicts: float


def slabs(problem: PointwiseConv2d, fetched: Fetch) -> Integers:
    """S: channel slabs that a block walks through."""
    count: Integers = ceil_div(problem.in_channels, fetched.slab_channels)
    return count


def groups(problem: PointwiseConv2d, tile: Tiles) -> Integers:
    """Groups of C_num channels that a warp walks through."""
    count: Integers = ceil_div(problem.in_channels, tile.channel_lanes)
    return count


def shuffle_steps(tile: Tiles) -> Integers:
    """Shuffles of one warp: ⌈live / 2⌉ in each step, which leaves as many sums alive.

    Where C_num divides the thread tile these are R_o·(1 − 1/C_num), against R_o·log2(C_num) without the halving.
    """
    live = np.asarray(tile.accumulators, np.int64).copy()
    total = np.zeros_like(live)
    step = 1
    while step < 32:
        halved = ceil_div(live, 2)
        going = step < tile.channel_lanes
        total += np.where(going, halved, 0)
        live = np.where(going, halved, live)
        step *= 2
    return total


def _shared(problem: PointwiseConv2d, tile: Tiles, fetched: Fetch, index: int, blocks: int) -> Shared:
    layout = shared_layout(tile, fetched, index)
    lanes, slab_channels = int(tile.channel_lanes[index]), int(fetched.slab_channels[index])
    slab_count = -(-problem.in_channels // slab_channels)
    count = -(-problem.in_channels // lanes)
    left = problem.in_channels - (count - 1) * lanes
    load_requests = load_wavefronts = store_requests = store_wavefronts = conflicts = 0
    copy_requests = copy_wavefronts = 0
    for found, filters in ((layout.filters, True), (layout.inputs, False)):
        operand = operand_of(tile, fetched, index, filters=filters)
        last, last_ideal = read_wavefronts(operand, found, left)
        load_requests += WARPS_PER_BLOCK * count * found.read_requests
        load_wavefronts += WARPS_PER_BLOCK * ((count - 1) * found.read_wavefronts + last)
        conflicts += WARPS_PER_BLOCK * ((count - 1) * found.read_conflicts + last - last_ideal)
        if fetched.asynchronous:
            cut = store_accesses(operand, found, problem.in_channels - (slab_count - 1) * slab_channels)
            copy_requests += (slab_count - 1) * found.store_requests + cut[0]
            copy_wavefronts += (slab_count - 1) * found.store_wavefronts + cut[1]
        else:
            store_requests += slab_count * found.store_requests
            store_wavefronts += slab_count * found.store_wavefronts
            conflicts += slab_count * found.store_conflicts
    return Shared(
        load_requests=float(blocks * load_requests),
        load_wavefronts=float(blocks * load_wavefronts),
        store_requests=float(blocks * store_requests),
        store_wavefronts=float(blocks * store_wavefronts),
        copy_requests=float(blocks * copy_requests),
        copy_wavefronts=float(blocks * copy_wavefronts),
        conflicts=float(blocks * conflicts),
    )


def _geometry(tile: Tiles, fetched: Fetch, layout: SharedLayout, index: int) -> Geometry:
    filters_along_width = bool(tile.filters_along_width[index])
    return Geometry(
        asynchronous=fetched.asynchronous,
        filters_along_width=filters_along_width,
        channel_lanes=int(tile.channel_lanes[index]),
        slab_channels=int(fetched.slab_channels[index]),
        thread_width=int(tile.thread_width[index]),
        warp_height=int(tile.warp_height[index]),
        filter_tile=int(tile.filter_tile[index]),
        position_tile=int(tile.position_tile[index]),
        column_vector=1 if filters_along_width else layout.inputs.accesses.read_vector,
        filter_vector=int(fetched.filter_vector[index]),
        filter_cached=bool(fetched.filter_cached[index]),
        filter_interleave=layout.filters.accesses.interleave,
        input_vector=int(fetched.input_vector[index]),
        position_lanes=int(fetched.position_lanes[index]),
        input_interleave=layout.inputs.accesses.interleave,
        filter_pitch=layout.filters.pitch,
        input_pitch=layout.inputs.pitch,
        input_pad=layout.inputs.pad,
        input_pad_every=layout.inputs.pad_every,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """All memory accesses of one configuration's launch."""

    filters: Touched
    inputs: Touched
    outputs: Touched
    shared: Shared


_NOTHING = Touched(requests=0, sectors=0.0, lines=0.0)
_UNCOUNTED = Memory(
    filters=_NOTHING,
    inputs=_NOTHING,
    outputs=_NOTHING,
    shared=Shared(
        load_requests=0.0,
        load_wavefronts=0.0,
        store_requests=0.0,
        store_wavefronts=0.0,
        copy_requests=0.0,
        copy_wavefronts=0.0,
        conflicts=0.0,
    ),
)


def memory(problem: PointwiseConv2d, found: Candidates) -> list[Memory]:
    """Memory accesses of every candidate that the plan allows, none for the others; equal tiles are enumerated once."""
    tile, fetched = found.tile, found.fetched
    across, down = grid(problem, tile)
    known: dict[tuple[Geometry, SharedLayout], Memory] = {}
    entries = []
    for index in range(len(tile.channel_lanes)):
        if not found.planned[index]:
            entries.append(_UNCOUNTED)
            continue
        layout = shared_layout(tile, fetched, index)
        geometry = _geometry(tile, fetched, layout, index)
        key = (geometry, layout)
        if key not in known:
            known[key] = Memory(
                filters=filter_loads(problem, geometry),
                inputs=input_loads(problem, geometry),
                outputs=output_stores(problem, geometry),
                shared=_shared(problem, tile, fetched, index, int(across[index] * down[index])),
            )
        entries.append(known[key])
    return entries


def _slab_integer(problem: PointwiseConv2d, found: Candidates) -> Floats:
    """Integer instructions of a warp in each slab: addresses, guards, the loop."""
    fetched = found.fetched
    loads = fetched.instructions
    channel_tail = problem.in_channels % fetched.slab_channels != 0
    filter_tail = problem.out_channels % found.tile.filter_tile != 0
    each: Floats = (FETCH_INTEGER + CHANNEL_TAIL_INTEGER * channel_tail) * loads
    total: Floats = SLAB_INTEGER + each + FILTER_TAIL_INTEGER * filter_tail * fetched.filter_passes
    return total


def slab_instructions(problem: PointwiseConv2d, found: Candidates) -> Floats:
    """Estimate of the instructions of the loop's body, one slab: reads, FMA, loads, stores and their addresses."""
    tile, fetched = found.tile, found.fetched
    reads = tile.thread_filters + tile.thread_positions // fetched.read_vector
    loads = fetched.instructions
    body: Floats = fetched.slab_groups * (tile.accumulators + reads) + loads + fetched.words
    return body + _slab_integer(problem, found) + 2


def _classes(problem: PointwiseConv2d, found: Candidates) -> dict[str, Floats]:
    """Executed warp instructions that are not memory requests, by class."""
    tile, fetched = found.tile, found.fetched
    across, down = grid(problem, tile)
    warps = (across * down * WARPS_PER_BLOCK).astype(np.float64)
    slab = slabs(problem, fetched)
    shuffles = shuffle_steps(tile)
    stores = ceil_div(tile.accumulators, tile.channel_lanes)
    divided = stores * (problem.batch > 1)
    integer = PROLOGUE_INTEGER + CLEARED_SUM * tile.accumulators + slab * _slab_integer(problem, found)
    return {
        "fp32_fma": warps * groups(problem, tile) * tile.accumulators,
        "fp32_other": warps * 3 * shuffles,
        "shuffles": warps * shuffles,
        "barriers": warps * slab,
        "integer": warps * (integer + STORE_INTEGER * stores + STORE_DIVISION_INTEGER * divided),
        "control": warps * (PROLOGUE_CONTROL + slab + STORE_DIVISION_CONTROL * divided),
        "conversion": warps * STORE_DIVISION_CONVERSION * divided,
    }


def closed_form(problem: PointwiseConv2d, found: Candidates, gpu: Gpu) -> Counts:
    """Counts of every candidate's launch, arrays of shape ``(n,)``."""
    entries = memory(problem, found)
    loaded = 0.0 if found.fetched.asynchronous else 1.0
    classes = _classes(problem, found)
    requests = {
        "global_load_requests": loaded * np.array([e.filters.requests + e.inputs.requests for e in entries]),
        "global_store_requests": np.array([e.outputs.requests for e in entries], np.float64),
        "shared_load_requests": np.array([e.shared.load_requests for e in entries]),
        "shared_store_requests": np.array([e.shared.store_requests for e in entries]),
        "async_copy_requests": np.array([e.shared.copy_requests for e in entries]),
    }
    across, down = grid(problem, found.tile)
    issued = across * down * slabs(problem, found.fetched) * WARPS_PER_BLOCK * found.fetched.instructions
    stored_sectors = np.array([e.outputs.sectors for e in entries])
    read = problem.positions * problem.in_channels + problem.out_channels * problem.in_channels
    return Counts(
        **requests,
        **classes,
        global_load_sectors=loaded * np.array([e.filters.sectors + e.inputs.sectors for e in entries]),
        global_load_lines=loaded * np.array([e.filters.lines + e.inputs.lines for e in entries]),
        global_store_sectors=stored_sectors,
        shared_load_wavefronts=np.array([e.shared.load_wavefronts for e in entries]),
        shared_store_wavefronts=np.array([e.shared.store_wavefronts for e in entries]),
        async_copy_read_requests=(1 - loaded) * np.array([e.filters.requests + e.inputs.requests for e in entries]),
        async_copy_read_sectors=(1 - loaded) * np.array([e.filters.sectors + e.inputs.sectors for e in entries]),
        async_copy_read_wavefronts=(1 - loaded)
        * np.array([e.filters.wavefronts + e.inputs.wavefronts for e in entries]),
        async_copy_wavefronts=np.array([e.shared.copy_wavefronts for e in entries]),
        async_copy_predicated_off=np.where(found.planned, (1 - loaded) * issued - requests["async_copy_requests"], 0.0),
        shared_bank_conflicts=np.array([e.shared.conflicts for e in entries]),
        warp_instructions=sum(requests.values()) + sum(classes.values()),
        l2_read_sectors=l2_read_sectors(problem, found, gpu, [e.filters for e in entries], [e.inputs for e in entries]),
        l2_write_sectors=stored_sectors,
        dram_read_bytes=np.full(len(entries), float(FLOAT_BYTES * read)),
        dram_write_bytes=np.full(len(entries), float(FLOAT_BYTES * problem.outputs)),
    )
