"""The design for small depthwise images, whose lanes run on over rows and planes: launch, counts, what is compiled."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...compiler.request import CompileRequest
from ...core.constants import WARP_SIZE, ceil_div
from ...core.counts import Counts
from ...gpus.gpu import Gpu
from ...launch.launch import Launch
from ...profiles.kernel_profile import KernelProfile
from ..accesses import WORDS_PER_SECTOR
from ..base import Batch
from ..compiled_members import Traits, compiled_numbers, completed_profile
from ..kernel_files import kernel_text
from .configuration import DirectConv2dConfiguration
from .launch import filter_macros, reciprocal
from .problem import Conv2d
from .traffic import compulsory_bytes

Integers = NDArray[np.int64]

KERNEL = "flat_conv2d"
_OF_PROLOGUE = 55
"""Instructions of a thread before it loads, about."""
_OF_ROW, _OF_OUTPUT = 6, 4
"""Integer instructions for each row that is read and each output, about."""
ESTIMATED = (
    "global_load_requests",
    "global_load_sectors",
    "global_load_lines",
    "global_store_requests",
    "global_store_sectors",
)
"""Counts that depend on where rows and planes end within warps."""


def strips(problem: Conv2d, rows_per_thread: Integers) -> Integers:
    """Threads with outputs in the whole launch."""
    down = ceil_div(problem.output_height, rows_per_thread)
    return np.asarray(problem.output_planes * problem.output_width * down, np.int64)


def launch_of(problem: Conv2d, batch: Batch[DirectConv2dConfiguration]) -> Launch:
    """One thread for each strip."""
    block_x = batch["block_x"].astype(np.int64)
    return Launch(grid_x=ceil_div(strips(problem, batch["rows_per_thread"].astype(np.int64)), block_x), block_x=block_x)


def _strip_rows(problem: Conv2d, rows: Integers) -> Integers:
    """Input rows that a thread reads."""
    return np.asarray((rows - 1) * problem.stride + problem.filter_height, np.int64)


def _warps(problem: Conv2d, rows: Integers) -> NDArray[np.float64]:
    """Warps with outputs in the whole launch."""
    return np.asarray(ceil_div(strips(problem, rows), WARP_SIZE), np.float64)


def closed_form(problem: Conv2d, batch: Batch[DirectConv2dConfiguration]) -> Counts:
    """Counts of n configurations: multiply-adds exactly, memory accesses and traffic estimated from the strips."""
    rows, launch = batch["rows_per_thread"].astype(np.int64), launch_of(problem, batch)
    warps, elements = _warps(problem, rows), _strip_rows(problem, rows) * problem.filter_width
    outputs_per_sector = WORDS_PER_SECTOR / problem.stride
    turns = 1 + WARP_SIZE / problem.output_width  # ends of rows in a warp, each with a sector of its own
    sectors = elements * (WARP_SIZE / outputs_per_sector + turns)
    taps = problem.filter_taps * (1 + WARP_SIZE / (problem.output_width * ceil_div(problem.output_height, rows)))
    stored = rows * (WARP_SIZE / WORDS_PER_SECTOR + turns / 2)
    read, written = compulsory_bytes(problem)
    return Counts(
        global_load_requests=warps * (elements + problem.filter_taps),
        global_load_sectors=warps * (sectors + taps),
        global_load_lines=warps * (elements * turns + problem.filter_taps),
        global_store_requests=warps * rows,
        global_store_sectors=warps * stored,
        fp32_fma=warps * rows * problem.filter_taps,
        l2_read_sectors=_patch_sectors(problem, launch, rows),
        l2_write_sectors=warps * stored,
        dram_read_bytes=np.full_like(warps, read),
        dram_write_bytes=np.full_like(warps, written),
    )


def traits(problem: Conv2d, batch: Batch[DirectConv2dConfiguration], known: Counts) -> Traits:
    """What decides the machine code; ``known`` are the counts that follow from the strips."""
    rows, block_x = batch["rows_per_thread"].astype(np.int64), batch["block_x"].astype(np.int64)
    strip_rows, warps = _strip_rows(problem, rows), _warps(problem, rows)
    elements = strip_rows * problem.filter_width
    multiply_adds, accesses = rows * problem.filter_taps, elements + problem.filter_taps + rows
    index = _OF_PROLOGUE + _OF_ROW * strip_rows + _OF_OUTPUT * rows + elements * (1 + (problem.padding > 0))
    return Traits(
        sizes={
            "rows_per_thread": rows,
            "multiply_adds": multiply_adds,
            "elements": elements,
            "filter_height": problem.filter_height,
            "filter_width": problem.filter_width,
            "padding": 1 + problem.padding,
            "output_width": problem.output_width,
            "strips_down": ceil_div(problem.output_height, rows),
            "warps_per_block": ceil_div(block_x, WARP_SIZE),
        },
        choices={
            "strides": problem.stride > 1,
            "one_image": problem.batch == 1,
            "rows_end_within_strip": problem.output_height % rows != 0,
        },
        warp_instructions=multiply_adds + accesses + index,
        launch_instructions=known.fp32_fma + known.global_load_requests + known.global_store_requests,
        index_instructions=warps * index,
        code_instructions=multiply_adds + accesses + index,
        estimates={name: getattr(known, name) for name in ESTIMATED},
    )


def profile(problem: Conv2d, batch: Batch[DirectConv2dConfiguration], gpu: Gpu) -> KernelProfile:
    """Counts, registers and critical path of n configurations."""
    launch, known = launch_of(problem, batch), closed_form(problem, batch)
    numbers = compiled_numbers(KERNEL, traits(problem, batch, known), launch, gpu)
    return completed_profile(known, numbers, launch, read_only_share=1.0)


def _patch_sectors(problem: Conv2d, launch: Launch, rows: Integers) -> NDArray[np.float64]:
    """Sectors read from L2: those of each plane and its taps once, and where a block ends within a plane once more.

    What ends within a plane is one row of strips, which both blocks read.
    """
    strip_rows = _strip_rows(problem, rows)
    taps = problem.filter_taps / WORDS_PER_SECTOR + 1
    once = problem.output_planes * (problem.height * problem.width / WORDS_PER_SECTOR + taps)
    return np.asarray(once + launch.blocks * (strip_rows * problem.width / WORDS_PER_SECTOR + taps), np.float64)


def compile_request(problem: Conv2d, configuration: DirectConv2dConfiguration) -> CompileRequest:
    """Source, kernel and macros; sizes are parameters, so that one compile serves all images and channels."""
    return CompileRequest(
        source=kernel_text(f"{KERNEL}.cu"),
        kernel=KERNEL,
        file_name=f"{KERNEL}.cu",
        defines=(
            *filter_macros(problem),
            ("ONE_IMAGE", int(problem.batch == 1)),
            ("ROWS_PER_THREAD", configuration.rows_per_thread),
            ("BLOCK_X", configuration.block_x),
        ),
    )


def parameters(problem: Conv2d, configuration: DirectConv2dConfiguration) -> tuple[np.generic, ...]:
    """What follows output, input and filter: sizes, and divisors as multiplier and shift."""
    down = ceil_div(problem.output_height, configuration.rows_per_thread)
    count = int(strips(problem, np.array(configuration.rows_per_thread)))
    sizes = (problem.in_channels, problem.height, problem.width, problem.output_height, problem.output_width, down)
    divisors = (reciprocal(divisor) for divisor in (problem.output_width, down, problem.in_channels))
    split = [value for multiplier, shift in divisors for value in (np.uint32(multiplier), np.int32(shift))]
    return (np.uint32(count), *map(np.int32, sizes), *split)
