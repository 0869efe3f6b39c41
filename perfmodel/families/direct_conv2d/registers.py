"""How many registers the compiler will use for the direct kernel: an estimate for where nothing is compiled.

Seen in 2,385 compiled configurations (NVRTC 12.9; sm_75, sm_80, sm_90): the assembler moves loads ahead as long as registers
do not cost resident blocks, and beyond that takes only what the code cannot do without. So the estimate is the larger of two
sums, *necessary* and what of *wanted* is free. The constants are fitted to those configurations (they stand beside the
tests): 86 % to 97 % of them then have the blocks per SM that they have compiled.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...core.constants import WARP_SIZE, ceil_div
from ...gpus.gpu import Gpu
from ..base import Batch
from .configuration import DirectConv2dConfiguration
from .instructions import loads_of_row
from .problem import Conv2d
from .source import TAPS_IN_REGISTERS_LIMIT
from .stack_array import in_local_memory
from .strips import Strips, strips

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

WANTED_REGISTERS = 15.0
"""Addresses, limits and indices of a thread."""
WANTED_PER_ACCUMULATOR = 0.8
WANTED_PER_ROW_OF_WINDOW = 1.8
"""Of the rows in flight in a loop over rows that rolls its sums or exchanges taps."""
WANTED_PER_LOAD = 1.0
WANTED_PER_EXCHANGING_LOAD = 1.2
"""With what becomes of it by exchange."""
WANTED_LOADS = 48
"""Loads that the assembler moves ahead at most."""
WANTED_PER_FILTER_TAP = 0.2
"""Of taps that are fetched into registers, because several channels' filters exist."""
WANTED_PER_ROTATED_TAP = 1.2
WANTED_PER_INDEXED_TAP = 0.8
WANTED_FOR_PADDING = 3.0
WANTED_FOR_CHANNEL_LOOP = 15.0

NECESSARY_REGISTERS = 11.55
NECESSARY_FROM_SM_90 = 2.6
"""Beyond it from compute capability 9.0 on, whose loads also name a descriptor."""
NECESSARY_PER_ACCUMULATOR = 0.75
NECESSARY_PER_EXCHANGING_ACCUMULATOR = 0.35
"""Beyond it where rows are unrolled and taps exchanged."""
NECESSARY_PER_SHARED_TAP = 0.95
"""Of the taps of a row that several outputs share, so that none can be dropped at its first use."""
NECESSARY_PER_ROTATED_TAP = 2.5
NECESSARY_PER_ROTATED_TAP_UNROLLED = 1.4
NECESSARY_FOR_CHANNEL_LOOP = 9.85
SELECTION_REGISTERS = -19.7
"""``dynamic_index`` by selections among registers: the assembler starts many rows at once, the more the wider they are."""
SELECTED_PER_TAP = 9.8
SELECTED_PER_ACCUMULATOR = 5.5
FEWEST_REGISTERS = 16


def accumulators(sizes: Strips) -> Integers:
    """Partial sums that a thread holds at once."""
    return np.where(sizes.rolling, sizes.window, np.where(sizes.rows, sizes.rows_per_thread, 1))


def free_registers(gpu: Gpu, threads_per_block: Integers) -> Integers:
    """Registers per thread up to which they do not reduce the blocks that an SM holds.

    >>> from perfmodel.gpus.catalogue import load_gpu
    >>> free_registers(load_gpu("h200"), np.array([32, 256])), free_registers(load_gpu("rtx-2080-ti"), np.array([256]))
    (array([64, 32]), array([64]))
    """
    warps = ceil_div(threads_per_block, WARP_SIZE)
    blocks = np.minimum(gpu.max_warps_per_sm // warps, gpu.max_blocks_per_sm)
    warps_of_partition = ceil_div(np.maximum(blocks, 1) * warps, gpu.sub_partitions_per_sm)
    of_warp = gpu.registers_per_sm // gpu.sub_partitions_per_sm // warps_of_partition
    whole_units = of_warp // gpu.register_allocation_unit * gpu.register_allocation_unit
    return np.asarray(np.minimum(whole_units // WARP_SIZE, gpu.max_registers_per_thread), np.int64)


def _wanted(problem: Conv2d, sizes: Strips) -> Floats:
    """Registers with which all loads of a step stand in front of their uses."""
    loads = np.minimum(loads_of_row(problem, sizes) * sizes.step_rows, WANTED_LOADS)
    several = problem.out_channels * problem.filter_channels > 1
    fetched = problem.filter_taps if several and problem.filter_taps <= TAPS_IN_REGISTERS_LIMIT else 0
    return np.asarray(
        WANTED_REGISTERS
        + WANTED_PER_ACCUMULATOR * sizes.rows_per_thread * (sizes.unrolled)
        + WANTED_PER_ROW_OF_WINDOW * sizes.window * (sizes.rolling | (sizes.columns & ~sizes.rows))
        + np.where(sizes.columns, WANTED_PER_EXCHANGING_LOAD, WANTED_PER_LOAD) * loads
        + WANTED_PER_FILTER_TAP * fetched
        + WANTED_PER_ROTATED_TAP * problem.filter_width * sizes.rotate
        + WANTED_PER_INDEXED_TAP * problem.filter_width * sizes.dynamic_index
        + WANTED_FOR_PADDING * (problem.padding > 0)
        + WANTED_FOR_CHANNEL_LOOP * (problem.filter_channels > 1)
    )


def _necessary(problem: Conv2d, sizes: Strips, gpu: Gpu) -> Floats:
    """Registers without which values would have to leave them."""
    unrolled = sizes.unrolled
    per_tap = (
        NECESSARY_PER_SHARED_TAP * sizes.rows
        + NECESSARY_PER_ROTATED_TAP * (sizes.rotate & ~sizes.rows)
        + NECESSARY_PER_ROTATED_TAP_UNROLLED * (sizes.rotate & unrolled)
    )
    base = NECESSARY_REGISTERS + NECESSARY_FROM_SM_90 * (gpu.compute_capability >= (9, 0))
    per_accumulator = NECESSARY_PER_ACCUMULATOR + NECESSARY_PER_EXCHANGING_ACCUMULATOR * (sizes.columns & unrolled)
    plain = base + per_accumulator * accumulators(sizes) + per_tap * problem.filter_width
    chains = SELECTION_REGISTERS + SELECTED_PER_TAP * problem.filter_width
    selections = chains + SELECTED_PER_ACCUMULATOR * accumulators(sizes) * unrolled
    selected = sizes.dynamic_index & ~sizes.rolling & ~in_local_memory(problem, sizes, gpu)
    loop = NECESSARY_FOR_CHANNEL_LOOP * (problem.filter_channels > 1)
    return np.asarray(np.where(selected, selections, plain) + loop)


def estimate(problem: Conv2d, batch: Batch[DirectConv2dConfiguration], gpu: Gpu) -> NDArray[np.int32]:
    """Registers per thread of each configuration; at most what a block of its size can have."""
    sizes = strips(problem, batch)
    threads = batch["block_x"].astype(np.int64) * batch["block_y"]
    necessary = _necessary(problem, sizes, gpu)
    free = np.maximum(free_registers(gpu, threads), necessary)
    most = np.clip(gpu.registers_per_block // threads // 8 * 8, FEWEST_REGISTERS, gpu.max_registers_per_thread)
    wanted = np.maximum(_wanted(problem, sizes), necessary)
    return np.clip(np.rint(np.minimum(wanted, free)), FEWEST_REGISTERS, most).astype(np.int32)
