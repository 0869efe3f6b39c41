"""Registers per thread and where ``dynamic_index`` lies: estimates from ``perfmodel/data/registers/direct_conv2d.toml``."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...core.constants import WARP_SIZE, ceil_div
from ...gpus.gpu import Gpu
from ..fitted_numbers import register_coefficients, weighted
from .launch import TAPS_IN_REGISTERS_LIMIT, Flags, Integers, Strips
from .problem import Conv2d

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Coefficients:
    """Fitted numbers; the data file says what each one means."""

    fewest: int
    most_loads_ahead: int
    beside_loads: int
    widest_selection: int
    widest_selection_of_shared_rows: int
    wanted: dict[str, float]
    necessary: dict[str, float]
    selecting: dict[str, float]


def coefficients() -> Coefficients:
    """The numbers of the data file."""
    return register_coefficients("direct_conv2d", Coefficients)


def in_local_memory(problem: Conv2d, sizes: Strips, gpu: Gpu) -> Flags:
    """Where the register array of ``dynamic_index`` is expected on the stack instead of selections among registers."""
    fit = coefficients()
    if gpu.architecture.compiler_stacks_small_arrays:
        return sizes.dynamic_index & (problem.filter_width > 2)
    widest = np.where(sizes.rows, fit.widest_selection_of_shared_rows, fit.widest_selection)
    return sizes.dynamic_index & (problem.filter_width > widest)


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


def _wanted(fit: Coefficients, problem: Conv2d, sizes: Strips) -> Floats:
    """Registers with which all loads of a step stand in front of their uses."""
    several = problem.out_channels * problem.filter_channels > 1
    loads = np.minimum(sizes.row_loads * sizes.step_rows, fit.most_loads_ahead)
    features = {
        "constant": 1,
        "accumulators": sizes.rows_per_thread * sizes.unrolled,
        "rows_of_window": sizes.window * (sizes.rolling | (sizes.columns & ~sizes.rows)),
        "loads": loads * ~sizes.columns,
        "exchanging_loads": loads * sizes.columns,
        "filter_taps": problem.filter_taps if several and problem.filter_taps <= TAPS_IN_REGISTERS_LIMIT else 0,
        "rotated_taps": problem.filter_width * sizes.rotate,
        "indexed_taps": problem.filter_width * sizes.dynamic_index,
        "padding": problem.padding > 0,
        "channel_loop": problem.filter_channels > 1,
    }
    return weighted(fit.wanted, features)


def _necessary(fit: Coefficients, problem: Conv2d, sizes: Strips, gpu: Gpu) -> Floats:
    """Registers without which values would have to leave them."""
    sums = np.where(sizes.rolling, sizes.window, np.where(sizes.rows, sizes.rows_per_thread, 1))
    exchanging, rotated = sizes.columns & sizes.unrolled, sizes.rotate & sizes.unrolled
    features = {
        "constant": 1,
        "descriptor": gpu.architecture.loads_name_descriptors,
        "accumulators": sums * ~exchanging,
        "exchanging_accumulators": sums * exchanging,
        "shared_taps": problem.filter_width * (sizes.rows & ~rotated),
        "rotated_taps": problem.filter_width * (sizes.rotate & ~sizes.rows),
        "rotated_shared_taps": problem.filter_width * rotated,
        "channel_loop": problem.filter_channels > 1,
    }
    of_selections = {
        "constant": 1,
        "taps": problem.filter_width,
        "accumulators": sums * sizes.unrolled,
        "channel_loop": problem.filter_channels > 1,
    }
    selects = sizes.dynamic_index & ~sizes.rolling & ~in_local_memory(problem, sizes, gpu)
    return np.where(selects, weighted(fit.selecting, of_selections), weighted(fit.necessary, features))


def estimate(problem: Conv2d, sizes: Strips, gpu: Gpu) -> NDArray[np.int32]:
    """Registers per thread of each configuration; at most what a block of its size can have."""
    fit = coefficients()
    necessary = _necessary(fit, problem, sizes, gpu)
    free = np.maximum(free_registers(gpu, sizes.threads), necessary)
    most = np.clip(gpu.registers_per_block // sizes.threads // 8 * 8, fit.fewest, gpu.max_registers_per_thread)
    wanted = np.maximum(_wanted(fit, problem, sizes), necessary)
    return np.clip(np.rint(np.minimum(wanted, free)), fit.fewest, most).astype(np.int32)
