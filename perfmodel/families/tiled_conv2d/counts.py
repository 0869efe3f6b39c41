"""Closed-form counts of the tiled convolution for the whole launch."""

from __future__ import annotations

import numpy as np

from ...core.batched import taken
from ...core.constants import FLOAT_BYTES, SECTOR_BYTES
from ...core.counts import Counts
from ..lanes import Floats, distinct_rows
from .fill import fill_totals
from .geometry import Geometry
from .problem import TiledConv2d
from .taps import direct_tap_segments, store_totals, tap_loads, tap_wavefronts

FILL_INTEGERS_PER_LOAD = 2.5
"""Address and loop arithmetic of the load phase per load, over the tiled kernels compiled for sm_75."""
THREAD_INTEGERS = 24.0
"""Index arithmetic of a thread outside its loops, likewise."""
STORE_INTEGERS = 1.0


def _patch_sectors(problem: TiledConv2d, sizes: Geometry) -> Floats:
    """Sectors that all blocks together read when each reads its patch once: what L1 passes on to L2."""
    step = np.gcd(sizes.outputs_x, np.gcd(problem.input_width, 8))
    per_row = (-(-sizes.patch_width // step) * step + 8 - step) / 8
    rows = (sizes.grid_y - 1) * sizes.patch_height + np.minimum(
        sizes.patch_height, problem.input_height - (sizes.grid_y - 1) * sizes.outputs_y
    )
    last_width = np.minimum(sizes.patch_width, problem.input_width - (sizes.grid_x - 1) * sizes.outputs_x)
    last = (-(-last_width // step) * step + 8 - step) / 8
    return np.asarray(rows * ((sizes.grid_x - 1) * per_row + last), np.float64)


def closed_form(problem: TiledConv2d, sizes: Geometry) -> Counts:
    """Counts of n configurations; requests and wavefronts are exact, sectors averaged over alignments.

    Instruction classes other than FMA are estimates; ``compiled`` fidelity replaces them by the compiler's. Configurations
    with the same sizes have the same counts, which are worked out once.
    """
    names = ("block_x", "block_y", "tile_x", "tile_y", "row_length", "use_shmem")
    first, inverse = distinct_rows(*(getattr(sizes, name).astype(np.int64) for name in names))
    return taken(_closed_form(problem, taken(sizes, first)), inverse)


def _closed_form(problem: TiledConv2d, sizes: Geometry) -> Counts:
    blocks = (sizes.grid_x * sizes.grid_y).astype(np.float64)
    warps = blocks * -(-sizes.block_x * sizes.block_y // 32)
    fill_requests, fill_sectors, fill_lines, fill_wavefronts = fill_totals(problem, sizes)
    taps = tap_loads(problem, sizes)
    tap_requests, shared = warps * taps, sizes.use_shmem
    sectors, lines = direct_tap_segments(sizes)
    store_requests, store_sectors = store_totals(problem, sizes)
    fma = warps * sizes.tile_x * sizes.tile_y * problem.filter_height * problem.filter_width
    loads = np.where(shared, fill_requests, tap_requests)
    shared_loads = np.where(shared, tap_requests, 0.0)
    shared_stores = np.where(shared, fill_requests, 0.0)
    load_wavefronts = np.where(shared, blocks * taps * tap_wavefronts(sizes), 0.0)
    store_wavefronts = np.where(shared, fill_wavefronts, 0.0)
    integer = warps * THREAD_INTEGERS + loads * FILL_INTEGERS_PER_LOAD + store_requests * STORE_INTEGERS
    barriers = np.where(shared, warps, 0.0)
    return Counts(
        global_load_requests=loads,
        global_load_sectors=np.where(shared, fill_sectors, blocks * taps * sectors),
        global_load_lines=np.where(shared, fill_lines, blocks * taps * lines),
        global_store_requests=store_requests,
        global_store_sectors=store_sectors,
        shared_load_requests=shared_loads,
        shared_store_requests=shared_stores,
        shared_load_wavefronts=load_wavefronts,
        shared_store_wavefronts=store_wavefronts,
        shared_bank_conflicts=load_wavefronts + store_wavefronts - shared_loads - shared_stores,
        warp_instructions=fma + integer + barriers + 2 * warps + loads + store_requests + shared_loads + shared_stores,
        fp32_fma=fma,
        integer=integer,
        control=2 * warps,
        barriers=barriers,
        l2_read_sectors=_patch_sectors(problem, sizes),
        l2_write_sectors=store_sectors,
        dram_read_bytes=np.full_like(blocks, FLOAT_BYTES * problem.input_height * problem.input_width),
        dram_write_bytes=np.full_like(blocks, SECTOR_BYTES * -(-problem.width // 8) * problem.height),
    )
