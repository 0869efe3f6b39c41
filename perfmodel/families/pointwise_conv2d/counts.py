"""Closed-form counts of a launch. Memory requests, sectors and wavefronts are exact; instruction classes are estimates.

Per block: S slabs, each fetched once and published once (one barrier); ⌈C / C_num⌉ groups of channels, each read once by each of
the four warps, which then issue Warp_H·T_num FMA. The reduction sends half of a lane's sums to its partner in each of log2(C_num) steps.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from ...counts import Counts
from ...definitions import FLOAT_BYTES, LINE_BYTES, SECTOR_BYTES, ceil_div
from ...gpu import Gpu
from .accesses import Geometry, Touched, filter_loads, input_loads, output_stores
from .blocking import WARPS_PER_BLOCK, Floats, Integers, Tiles
from .fetch import Fetch
from .kernel_constants import SharedLayout, operand_of, shared_layout
from .problem import PointwiseConv2d
from .shared_layout import read_wavefronts

PROLOGUE_INTEGER = 90
"""Integer and move instructions of a warp before its first slab: addresses, predicates, cleared sums."""
SLAB_INTEGER = 6
"""… in each slab beside one pointer step for each fetched run."""
STORE_INTEGER = 7
"""… for each stored output: its column, row, guards and address."""
SLAB_CONTROL = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """Shared-memory accesses of one configuration's whole launch."""

    load_requests: float
    load_wavefronts: float
    store_requests: float
    store_wavefronts: float
    conflicts: float


def slabs(problem: PointwiseConv2d, fetched: Fetch) -> Integers:
    """S: channel slabs that a block walks through."""
    return ceil_div(problem.in_channels, fetched.slab_channels)  # type: ignore[arg-type, return-value]


def groups(problem: PointwiseConv2d, tile: Tiles) -> Integers:
    """Groups of C_num channels that a warp walks through."""
    return ceil_div(problem.in_channels, tile.channel_lanes)  # type: ignore[arg-type, return-value]


def grid(problem: PointwiseConv2d, tile: Tiles) -> tuple[Integers, Integers]:
    """Blocks over the positions and over the filters; their product is M_B."""
    return ceil_div(problem.positions, tile.position_tile), ceil_div(problem.out_channels, tile.filter_tile)


def shuffle_steps(tile: Tiles) -> Integers:
    """Shuffles of one warp: ⌈live / 2⌉ in each step, which leaves as many sums alive.

    Where C_num divides the thread tile these are R_o·(1 − 1/C_num), against R_o·log2(C_num) without the halving.
    """
    live = np.asarray(tile.accumulators, np.int64).copy()
    total = np.zeros_like(live)
    step = 1
    while step < 32:
        halved = ceil_div(live, 2)  # type: ignore[arg-type]
        going = step < tile.channel_lanes
        total += np.where(going, halved, 0)
        live = np.where(going, halved, live)
        step *= 2
    return total


def _shared(problem: PointwiseConv2d, tile: Tiles, fetched: Fetch, index: int, blocks: int) -> Shared:
    layout: SharedLayout = shared_layout(tile, fetched, index)
    lanes = int(tile.channel_lanes[index])
    slab_count = -(-problem.in_channels // int(fetched.slab_channels[index]))
    count = -(-problem.in_channels // lanes)
    left = problem.in_channels - (count - 1) * lanes
    load_requests = load_wavefronts = store_requests = store_wavefronts = conflicts = 0
    for found, along_width in ((layout.width, True), (layout.height, False)):
        last, last_ideal = read_wavefronts(operand_of(tile, fetched, index, along_width=along_width), found, left)
        load_requests += WARPS_PER_BLOCK * count * found.read_requests
        load_wavefronts += WARPS_PER_BLOCK * ((count - 1) * found.read_wavefronts + last)
        store_requests += slab_count * found.store_requests
        store_wavefronts += slab_count * found.store_wavefronts
        conflicts += WARPS_PER_BLOCK * ((count - 1) * found.read_conflicts + last - last_ideal)
        conflicts += slab_count * found.store_conflicts
    return Shared(
        load_requests=float(blocks * load_requests),
        load_wavefronts=float(blocks * load_wavefronts),
        store_requests=float(blocks * store_requests),
        store_wavefronts=float(blocks * store_wavefronts),
        conflicts=float(blocks * conflicts),
    )


def _geometry(tile: Tiles, fetched: Fetch, index: int) -> Geometry:
    values = {field.name: int(_column(tile, fetched, field.name)[index]) for field in fields(Geometry)[1:]}
    return Geometry(filters_along_width=bool(tile.filters_along_width[index]), **values)


def _column(tile: Tiles, fetched: Fetch, name: str) -> NDArray[np.int64]:
    column: NDArray[np.int64] = getattr(tile if hasattr(tile, name) else fetched, name)
    return column


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """All memory accesses of one configuration's launch."""

    filters: Touched
    inputs: Touched
    outputs: Touched
    shared: Shared


def memory(problem: PointwiseConv2d, tile: Tiles, fetched: Fetch) -> list[Memory]:
    """Memory accesses of every configuration; those with the same tile are enumerated once."""
    across, down = grid(problem, tile)
    known: dict[tuple[Geometry, int], Memory] = {}
    found = []
    for index in range(len(tile.channel_lanes)):
        geometry = _geometry(tile, fetched, index)
        key = (geometry, int(fetched.height_vector[index]))
        if key not in known:
            known[key] = Memory(
                filters=filter_loads(problem, geometry),
                inputs=input_loads(problem, geometry),
                outputs=output_stores(problem, geometry),
                shared=_shared(problem, tile, fetched, index, int(across[index] * down[index])),
            )
        found.append(known[key])
    return found


def l2_read_sectors(problem: PointwiseConv2d, tile: Tiles, gpu: Gpu, accesses: list[Memory]) -> Floats:
    """Estimate of the sectors that miss L1: everything, but a filter's sector only once where L1 holds it between slabs.

    Below eight channels a slab takes a part of each 32-byte sector of a filter; the rest is used by the next slabs, if the
    lines of the resident blocks' filters fit what shared memory leaves of L1.
    """
    across, _ = grid(problem, tile)
    once = across * ceil_div(problem.out_channels * problem.in_channels * FLOAT_BYTES, SECTOR_BYTES)
    resident = tile.filter_tile * LINE_BYTES * tile.blocks_per_sm
    kept = resident <= gpu.l1_bytes_per_sm / 2
    filters = np.array([entry.filters.sectors for entry in accesses])
    inputs = np.array([entry.inputs.sectors for entry in accesses])
    total: Floats = np.where(kept, np.minimum(filters, once), filters) + inputs
    return total


def closed_form(problem: PointwiseConv2d, tile: Tiles, fetched: Fetch, gpu: Gpu) -> Counts:
    """Counts of every configuration's launch, arrays of shape ``(n,)``."""
    accesses = memory(problem, tile, fetched)
    across, down = grid(problem, tile)
    warps = (across * down * WARPS_PER_BLOCK).astype(np.float64)
    slab, group = slabs(problem, fetched), groups(problem, tile)
    shuffles = shuffle_steps(tile)
    stores = ceil_div(tile.accumulators, tile.channel_lanes)
    loads = fetched.filter_passes + fetched.channel_passes * fetched.position_passes
    classes = {
        "fp32_fma": warps * group * tile.accumulators,
        "fp32_other": warps * 3 * shuffles,
        "shuffles": warps * shuffles,
        "barriers": warps * slab,
        "integer": warps * (PROLOGUE_INTEGER + tile.accumulators + slab * (SLAB_INTEGER + loads) + STORE_INTEGER * stores),
        "control": warps * (1 + SLAB_CONTROL * slab),
    }
    requests = {
        "global_load_requests": np.array([a.filters.requests + a.inputs.requests for a in accesses], np.float64),
        "global_store_requests": np.array([a.outputs.requests for a in accesses], np.float64),
        "shared_load_requests": np.array([a.shared.load_requests for a in accesses]),
        "shared_store_requests": np.array([a.shared.store_requests for a in accesses]),
    }
    stored_sectors = np.array([a.outputs.sectors for a in accesses])
    return Counts(
        **requests,
        **classes,
        global_load_sectors=np.array([a.filters.sectors + a.inputs.sectors for a in accesses]),
        global_load_lines=np.array([a.filters.lines + a.inputs.lines for a in accesses]),
        global_store_sectors=stored_sectors,
        shared_load_wavefronts=np.array([a.shared.load_wavefronts for a in accesses]),
        shared_store_wavefronts=np.array([a.shared.store_wavefronts for a in accesses]),
        shared_bank_conflicts=np.array([a.shared.conflicts for a in accesses]),
        warp_instructions=sum(requests.values()) + sum(classes.values()),
        l2_read_sectors=l2_read_sectors(problem, tile, gpu, accesses),
        l2_write_sectors=stored_sectors,
        dram_read_bytes=np.full(len(warps), float(FLOAT_BYTES * _elements_read(problem))),
        dram_write_bytes=np.full(len(warps), float(FLOAT_BYTES * problem.outputs)),
    )


def _elements_read(problem: PointwiseConv2d) -> int:
    """Compulsory reads: every input and every filter once."""
    return problem.positions * problem.in_channels + problem.out_channels * problem.in_channels
