"""Strips: the unit that the kernel's work is counted in, 32 neighbouring columns (a warp) by a thread's output rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...definitions import WARP_SIZE, ceil_div
from ...launch import Launch
from ..base import NONE_CODE, Batch
from .configuration import Accumulators, DirectConv2dConfiguration, Exchange
from .problem import Conv2d

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Strips:
    """Sizes of n configurations; arrays of shape ``(n,)``, numbers where only the problem decides."""

    columns: Flags
    """Whether lanes exchange taps."""
    rotate: Flags
    dynamic_index: Flags
    rows: Flags
    """Whether the outputs of a thread share rows."""
    rolling: Flags
    rows_per_thread: Integers

    across: int
    """Strips side by side in an output plane; each is one active warp."""
    down: Integers
    """Strips one below the other."""
    planes: int
    output_rows: int
    adjacent: bool
    """Whether the outputs of a column leave out no input row between them (a filter of one row at stride 2 does)."""
    window: int
    """Outputs of a thread that one input row reaches: partial sums that ``rolling`` keeps."""

    @property
    def active_warps(self) -> Integers:
        """Warps that have an output, in the whole launch."""
        return self.across * self.planes * self.down

    @property
    def shared_rows(self) -> Integers:
        """Output rows whose input rows a thread loads once; one where rows of neighbouring outputs are not adjacent."""
        return np.where(self.rows & self.adjacent, self.rows_per_thread, 1)

    @property
    def steps_down(self) -> Integers:
        """Passes of all strips of a column through the code of one step.

        A step is an output row, or all rows of a strip where its loop is unrolled, or one row of the rolling window.
        """
        rolling = self.output_rows + self.down * (self.window - 1)
        return np.where(self.rolling, rolling, np.where(self.rows, self.down, self.output_rows))


def strips(problem: Conv2d, batch: Batch[DirectConv2dConfiguration]) -> Strips:
    """Sizes of every configuration of the batch.

    >>> from perfmodel.families.direct_conv2d import Reuse
    >>> configuration = DirectConv2dConfiguration(
    ...     reuse=Reuse.ROW, exchange=None, accumulators=Accumulators.UNROLLED, rows_per_thread=2, block_x=32, block_y=1)
    >>> problem = Conv2d(height=7, width=40, filter_height=3, filter_width=3)
    >>> sizes = strips(problem, Batch.of([configuration]))
    >>> sizes.across, sizes.down
    (2, array([3]))
    """
    rows_per_thread = batch["rows_per_thread"].astype(np.int64)
    return Strips(
        columns=batch["exchange"] != NONE_CODE,
        rotate=batch.equals("exchange", Exchange.ROTATE),
        dynamic_index=batch.equals("exchange", Exchange.DYNAMIC_INDEX),
        rows=batch["accumulators"] != NONE_CODE,
        rolling=batch.equals("accumulators", Accumulators.ROLLING),
        rows_per_thread=rows_per_thread,
        across=ceil_div(problem.output_width, WARP_SIZE),
        down=ceil_div(problem.output_height, rows_per_thread),
        planes=problem.output_planes,
        output_rows=problem.output_height,
        adjacent=problem.filter_height >= problem.stride,
        window=ceil_div(problem.filter_height, problem.stride),
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
