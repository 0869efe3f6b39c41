"""Counts of the whole launch in closed form: memory accesses exactly, integer instructions estimated."""

from __future__ import annotations

import numpy as np

from perfmodel.core.constants import FLOAT_BYTES, WARP_SIZE, ceil_div
from perfmodel.core.counts import Counts
from perfmodel.families.accesses import WORDS_PER_LINE, WORDS_PER_SECTOR
from perfmodel.families.base import Batch
from perfmodel.launch.launch import Launch

from .configuration import Stencil1dConfiguration
from .problem import Stencil1d


def closed_form(problem: Stencil1d, batch: Batch[Stencil1dConfiguration], launch: Launch) -> Counts:
    """Every full warp of outputs reads 32 words for each tap, shifted by the tap: 4 sectors, or 5 where it straddles."""
    warps = ceil_div(problem.length, WARP_SIZE)
    first = np.arange(warps)[:, None] * WARP_SIZE + np.arange(problem.taps)
    last = np.minimum(first + WARP_SIZE, problem.length + np.arange(problem.taps)) - 1
    sectors, lines = (int((last // words - first // words + 1).sum()) for words in (WORDS_PER_SECTOR, WORDS_PER_LINE))
    stored = ceil_div(problem.length, WORDS_PER_SECTOR)
    return Counts(
        global_load_requests=warps * problem.taps,
        global_load_sectors=sectors,
        global_load_lines=lines,
        global_store_requests=warps,
        global_store_sectors=stored,
        fp32_fma=warps * problem.taps,
        integer=launch.blocks * launch.warps_per_block * (4 + 2 * batch["per_thread"]),
        warp_instructions=2 * warps * problem.taps + warps * 10.0,
        l2_read_sectors=ceil_div(problem.input_length, WORDS_PER_SECTOR) + launch.blocks,
        l2_write_sectors=stored,
        dram_read_bytes=FLOAT_BYTES * problem.input_length,
        dram_write_bytes=FLOAT_BYTES * problem.length,
    )
