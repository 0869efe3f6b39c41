"""Registers per thread and which loops stay: estimates from ``perfmodel/data/registers/tiled_conv2d.toml``."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...core.constants import WARP_SIZE
from ...gpus.gpu import Gpu
from ..fitted_numbers import register_coefficients
from .launch import Flags, Geometry, Integers
from .problem import TiledConv2d


@dataclass(frozen=True, slots=True, kw_only=True)
class Coefficients:
    """Fitted numbers; the data file says what each one means."""

    fewest: int
    plain_constant: int
    plain_per_output: int
    plain_most: int
    shared_rows: int
    shared_rows_one_column: int
    tightest: int
    reordered_outputs: float
    reorders_again: int
    kept_constant: int
    one_column_taps: int
    looped: int
    looped_one_row: int
    long_loop_outputs: int
    rolled_multiply_adds: int


def coefficients() -> Coefficients:
    """The numbers of the data file."""
    return register_coefficients("tiled_conv2d", Coefficients)


def distinct_offsets(block: Integers, tile: Integers, taps: int) -> Integers:
    """Size of the union of the intervals [t·block, t·block + taps), t < tile: distinct rows or columns of a thread.

    >>> distinct_offsets(np.array([4, 32]), np.array([3, 3]), 5)
    array([13, 15])
    """
    return np.asarray((tile - 1) * np.minimum(block, taps) + taps, np.int64)


def keeps_row_loop(problem: TiledConv2d, sizes: Geometry) -> Flags:
    """Where the compiler is expected to keep the loop over filter rows, so that rows are loaded anew for each."""
    work = sizes.tile_x * sizes.tile_y * problem.filter_height * problem.filter_width
    return np.asarray(work >= coefficients().rolled_multiply_adds)


def full_occupancy_registers(gpu: Gpu) -> int:
    """Registers per thread with which the SM can be full of threads, in units of 8.

    >>> from perfmodel.gpus.catalogue import load_gpu
    >>> [full_occupancy_registers(load_gpu(name)) for name in ("rtx-2080-ti", "rtx-3090", "h200")]
    [64, 40, 32]
    """
    return gpu.registers_per_sm // (WARP_SIZE * gpu.max_warps_per_sm) // 8 * 8


def estimate(problem: TiledConv2d, sizes: Geometry, gpu: Gpu) -> NDArray[np.int32]:
    """Registers per thread of each configuration, shape ``(n,)``."""
    fit = coefficients()
    outputs, target, most = sizes.tile_x * sizes.tile_y, full_occupancy_registers(gpu), gpu.max_registers_per_thread
    shares_rows = (sizes.block_y < problem.filter_height) & (sizes.tile_y > 1)
    looped = keeps_row_loop(problem, sizes)
    keeps_taps = gpu.architecture.compiler_keeps_reused_values
    registers = _reordered(fit, sizes, shares_rows, target)
    if keeps_taps:
        columns = distinct_offsets(sizes.block_x, sizes.tile_x, problem.filter_width)
        kept = (sizes.tile_y - 1) * sizes.block_y * columns
        kept = np.where((sizes.block_y == 1) & (sizes.tile_x == 1), np.minimum(kept, fit.one_column_taps), kept)
        kept = kept + np.where(sizes.tile_x > 1, outputs, 0) + fit.kept_constant
        registers = np.where(shares_rows, np.maximum(registers, kept), registers)
    else:
        gives_up = shares_rows & (outputs >= fit.reordered_outputs - sizes.block_y / 2)
        if target >= 64:
            gives_up &= (outputs < fit.reorders_again) | (sizes.block_y >= 8)
        registers = np.where(gives_up, most, registers)
    of_loop = np.maximum(target, fit.looped)
    one_row = most if keeps_taps else np.where(outputs < fit.long_loop_outputs, fit.looped_one_row, most)
    low = np.where(sizes.block_y == 1, one_row, most)  # rows of low blocks overlap, and their taps are held over
    of_loop = np.where((sizes.tile_y > 1) & (sizes.block_y <= 2), low, of_loop)
    return np.clip(np.where(looped, of_loop, registers), fit.fewest, most).astype(np.int32)


def _reordered(fit: Coefficients, sizes: Geometry, shares_rows: Flags, target: int) -> Integers:
    """Registers of unrolled code whose taps are used at once."""
    outputs = sizes.tile_x * sizes.tile_y
    plain = np.minimum(fit.plain_most, fit.plain_constant + fit.plain_per_output * outputs)
    shared = np.where(sizes.tile_x == 1, fit.shared_rows_one_column, fit.shared_rows)
    wanted = np.minimum(np.where(shares_rows, shared, plain), target)
    return np.asarray(np.maximum(wanted, outputs + fit.tightest), np.int64)
