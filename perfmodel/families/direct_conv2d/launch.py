"""The launch: strips of outputs, which the kernel's work is counted in, grid and block, and what is compiled."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...compiler.request import CompileRequest
from ...core.constants import CONSTANT_BANK_BYTES, FLOAT_BYTES, WARP_SIZE, ceil_div
from ...launch.launch import Launch
from ..base import NONE_CODE, Batch
from ..kernel_files import kernel_text
from .configuration import OF_THREADS, Accumulators, DirectConv2dConfiguration, Exchange
from .exchange_plans import ExchangePlan, all_loaded, executed_plan
from .problem import Conv2d

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]

KERNEL = "direct_conv2d"
TAPS_IN_REGISTERS_LIMIT = 64
"""Most taps of a filter in global memory that a thread keeps in registers; a larger one is loaded again for each use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Strips:
    """Sizes of n configurations; arrays of shape ``(n,)``, numbers where only the problem decides.

    A *strip* is 32 neighbouring columns (a warp) by a thread's output rows. A *step* is the code between two turns of a
    thread's loop over rows: one output where rows are not shared, the whole strip where they are unrolled, ``stride`` input
    rows where they roll.
    """

    columns: Flags
    """Whether lanes exchange taps."""
    rotate: Flags
    dynamic_index: Flags
    selects: Flags
    rows: Flags
    """Whether the outputs of a thread share rows."""
    rolling: Flags
    unrolled: Flags
    rows_per_thread: Integers
    threads: Integers
    """Threads of a block."""

    across: int
    """Strips side by side in an output plane; each is one active warp."""
    window: int
    """Outputs of a thread that one input row reaches: partial sums that ``rolling`` keeps."""
    active_warps: Integers
    """Warps that have an output, in the whole launch."""
    shared_rows: Integers
    """Output rows whose input rows a thread loads once."""
    step_rows: Integers
    """Input rows that the code of one step reads, inside of the image or not."""
    steps: Integers
    """Passes of one warp through the code of one step, once for each input channel."""
    passes: Integers
    """Passes of all warps of the launch."""
    row_loads: Integers
    """Loads of a lane for one input row."""


def strips(problem: Conv2d, batch: Batch[DirectConv2dConfiguration]) -> Strips:
    """Sizes of every configuration of the batch.

    >>> from perfmodel.families.direct_conv2d import Reuse
    >>> configuration = DirectConv2dConfiguration(
    ...     reuse=Reuse.ROW, exchange=None, accumulators=Accumulators.UNROLLED, rows_per_thread=2, block_x=32, block_y=1)
    >>> problem = Conv2d(height=7, width=40, filter_height=3, filter_width=3)
    >>> sizes = strips(problem, Batch.of([configuration]))
    >>> sizes.across, sizes.active_warps, sizes.step_rows
    (2, array([6]), array([4]))
    """
    rows_per_thread = batch["rows_per_thread"].astype(np.int64)
    columns, rotate = batch["exchange"] != NONE_CODE, batch.equals("exchange", Exchange.ROTATE)
    rolling = batch.equals("accumulators", Accumulators.ROLLING)
    unrolled = batch.equals("accumulators", Accumulators.UNROLLED)
    rows, height, channels = rolling | unrolled, problem.output_height, problem.filter_channels
    across = ceil_div(problem.output_width, WARP_SIZE)
    down = ceil_div(height, rows_per_thread)
    window = ceil_div(problem.filter_height, problem.stride)
    strip_rows = (rows_per_thread - 1) * problem.stride + problem.filter_height
    adjacent = problem.filter_height >= problem.stride  # else no two outputs of a column need the same row
    of_plane = np.where(unrolled, down, np.where(rolling, height + down * (window - 1), height))
    of_warp = np.where(unrolled, 1, np.where(rolling, rows_per_thread + window - 1, rows_per_thread))
    exchanged = np.where(rotate, min(problem.filter_width, 2), executed_plan(problem.filter_width).loads)
    return Strips(
        columns=columns,
        rotate=rotate,
        dynamic_index=batch.equals("exchange", Exchange.DYNAMIC_INDEX),
        selects=batch.equals("exchange", Exchange.SELECT),
        rows=rows,
        rolling=rolling,
        unrolled=unrolled,
        rows_per_thread=rows_per_thread,
        threads=batch["block_x"].astype(np.int64) * batch["block_y"],
        across=across,
        window=window,
        active_warps=across * problem.output_planes * down,
        shared_rows=np.where(rows, rows_per_thread, 1) if adjacent else np.ones_like(rows_per_thread),
        step_rows=np.where(unrolled, strip_rows, np.where(rolling, problem.stride, problem.filter_height)),
        steps=of_warp * channels,
        passes=across * problem.output_planes * channels * of_plane,
        row_loads=np.where(columns, exchanged, problem.filter_width),
    )


def launch(problem: Conv2d, batch: Batch[DirectConv2dConfiguration]) -> Launch:
    """Grid (tiles of an output plane row by row, output channels, images) and block."""
    block_x, block_y = batch["block_x"].astype(np.int64), batch["block_y"].astype(np.int64)
    tiles_down = ceil_div(problem.output_height, block_y * batch["rows_per_thread"])
    return Launch(
        grid_x=ceil_div(problem.output_width, block_x) * tiles_down,
        grid_y=problem.out_channels,
        grid_z=problem.batch,
        block_x=block_x,
        block_y=block_y,
    )


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


def filter_in_constant(problem: Conv2d) -> bool:
    """Whether all filters fit constant memory.

    >>> sizes = {"height": 9, "width": 9, "filter_height": 3, "filter_width": 3, "in_channels": 64}
    >>> [filter_in_constant(Conv2d(**sizes, out_channels=channels)) for channels in (28, 29)]
    [True, False]
    """
    return problem.filter_elements * FLOAT_BYTES <= CONSTANT_BANK_BYTES


def tap_plan(problem: Conv2d, exchange: Exchange | None) -> ExchangePlan | None:
    """Which taps a lane loads and which it gets by exchange; None for ``rotate``, which follows no plan."""
    if exchange is Exchange.ROTATE:
        return None
    return all_loaded(problem.filter_width) if exchange is None else executed_plan(problem.filter_width)


def filter_macros(problem: Conv2d) -> tuple[tuple[str, int], ...]:
    """What both kernels of warps know of the filter when they are compiled."""
    return (
        ("FILTER_HEIGHT", problem.filter_height),
        ("FILTER_WIDTH", problem.filter_width),
        ("STRIDE", problem.stride),
        ("PADDING", problem.padding),
    )


def compile_request(problem: Conv2d, configuration: DirectConv2dConfiguration) -> CompileRequest:
    """Source, kernel and macros; sizes of the image are parameters of the kernel, so that one compile serves all."""
    plan = tap_plan(problem, configuration.exchange)
    loads, steps = (plan.load_offsets, plan.steps) if plan else ((), ())
    choices = {name: getattr(configuration, name) for name in ("reuse", "exchange", "accumulators")}
    return CompileRequest(
        source=kernel_text(f"{KERNEL}.cu"),
        kernel=KERNEL,
        file_name=f"{KERNEL}.cu",
        defines=(
            ("IN_CHANNELS", problem.in_channels),
            ("OUT_CHANNELS", problem.out_channels),
            *filter_macros(problem),
            ("DEPTHWISE", int(problem.depthwise)),
            ("FILTER_IN_CONSTANT", int(filter_in_constant(problem))),
            ("TAPS_IN_REGISTERS_LIMIT", TAPS_IN_REGISTERS_LIMIT),
            *((name.upper(), "NONE" if one is None else one.value.upper()) for name, one in choices.items()),
            *((name.upper(), getattr(configuration, name)) for name in OF_THREADS),
            ("TAP_COUNT", plan.tap_count if plan else problem.filter_width),
            ("PLAN_LOADS", " ".join(f"LOAD({offset})" for offset in loads)),
            ("PLAN_STEPS", " ".join(f"STEP({step.tap},{step.mask})" for step in steps)),
        ),
    )
