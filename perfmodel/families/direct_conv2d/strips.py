"""Strips: the unit that the kernel's work is counted in, 32 neighbouring columns (a warp) by a thread's output rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...core.constants import WARP_SIZE, ceil_div
from ...launch.launch import Launch
from ..base import NONE_CODE, Batch
from .configuration import Accumulators, DirectConv2dConfiguration, Exchange
from .problem import Conv2d

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Strips:
    """Sizes of n configurations; arrays of shape ``(n,)``, numbers where only the problem decides.

    A *step* is the code between two turns of a thread's loop over rows: one output where rows are not shared, the whole strip
    where they are unrolled, ``stride`` input rows where they roll.
    """

    columns: Flags
    """Whether lanes exchange taps."""
    rotate: Flags
    dynamic_index: Flags
    rows: Flags
    """Whether the outputs of a thread share rows."""
    rolling: Flags
    unrolled: Flags
    rows_per_thread: Integers

    across: int
    """Strips side by side in an output plane; each is one active warp."""
    down: Integers
    """Strips one below the other."""
    planes: int
    window: int
    """Outputs of a thread that one input row reaches: partial sums that ``rolling`` keeps."""
    shared_rows: Integers
    """Output rows whose input rows a thread loads once."""
    step_rows: Integers
    """Input rows that the code of one step reads, inside of the image or not."""
    passes: Integers
    """Passes of all warps of the launch through the code of one step, once for each input channel."""

    @property
    def active_warps(self) -> Integers:
        """Warps that have an output, in the whole launch."""
        return self.across * self.planes * self.down


def strips(problem: Conv2d, batch: Batch[DirectConv2dConfiguration]) -> Strips:
    """Sizes of every configuration of the batch.

    >>> from perfmodel.families.direct_conv2d import Reuse
    >>> configuration = DirectConv2dConfiguration(
    ...     reuse=Reuse.ROW, exchange=None, accumulators=Accumulators.UNROLLED, rows_per_thread=2, block_x=32, block_y=1)
    >>> problem = Conv2d(height=7, width=40, filter_height=3, filter_width=3)
    >>> sizes = strips(problem, Batch.of([configuration]))
    >>> sizes.across, sizes.down, sizes.step_rows
    (2, array([3]), array([4]))
    """
    rows_per_thread = batch["rows_per_thread"].astype(np.int64)
    rolling = batch.equals("accumulators", Accumulators.ROLLING)
    unrolled = batch.equals("accumulators", Accumulators.UNROLLED)
    across = ceil_div(problem.output_width, WARP_SIZE)
    down = ceil_div(problem.output_height, rows_per_thread)
    window = ceil_div(problem.filter_height, problem.stride)
    steps = np.where(
        unrolled, down, np.where(rolling, problem.output_height + down * (window - 1), problem.output_height)
    )
    strip_rows = (rows_per_thread - 1) * problem.stride + problem.filter_height
    rows = rolling | unrolled
    adjacent = problem.filter_height >= problem.stride  # else no two outputs of a column need the same row
    return Strips(
        columns=batch["exchange"] != NONE_CODE,
        rotate=batch.equals("exchange", Exchange.ROTATE),
        dynamic_index=batch.equals("exchange", Exchange.DYNAMIC_INDEX),
        rows=rows,
        rolling=rolling,
        unrolled=unrolled,
        rows_per_thread=rows_per_thread,
        across=across,
        down=down,
        planes=problem.output_planes,
        window=window,
        shared_rows=np.where(rows, rows_per_thread, 1) if adjacent else np.ones_like(rows_per_thread),
        step_rows=np.where(unrolled, strip_rows, np.where(rolling, problem.stride, problem.filter_height)),
        passes=across * problem.output_planes * problem.filter_channels * steps,
    )


def launch_geometry(problem: Conv2d, batch: Batch[DirectConv2dConfiguration]) -> Launch:
    """Grid (tiles of an output plane row by row, output channels, images) and block."""
    block_x, block_y = batch["block_x"].astype(np.int64), batch["block_y"].astype(np.int64)
    tiles_down = ceil_div(problem.output_height, block_y * batch["rows_per_thread"])
    return Launch(
        grid_x=tiles_per_row(problem, block_x) * tiles_down,
        grid_y=problem.out_channels,
        grid_z=problem.batch,
        block_x=block_x,
        block_y=block_y,
    )


def tiles_per_row(problem: Conv2d, block_x: Integers | int) -> Integers:
    """Tiles side by side in an output plane."""
    return np.asarray(ceil_div(problem.output_width, block_x), np.int64)


def reciprocal(divisor: int) -> tuple[int, int]:
    """Multiplier below 2³² and shift with ``n * multiplier >> shift == n // divisor`` for every n below 2³¹.

    With 2^s the power of two from the divisor d on, the multiplier is ⌈2^(31+s) / d⌉; its excess over the quotient is below
    1, so that the product's is below n ≤ 2³¹ ≤ 2^(31+s) / d and never reaches the next integer.

    >>> multiplier, shift = reciprocal(120)
    >>> 1199 * multiplier >> shift
    9
    """
    shift = 31 + (divisor - 1).bit_length()
    return ceil_div(1 << shift, divisor), shift
