"""The design for small depthwise images, whose lanes run on over rows and planes: launch, counts, what is compiled."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...compiler.request import CompileRequest
from ...core.constants import WARP_SIZE, ceil_div
from ...core.counts import Counts
from ...gpus.gpu import Gpu
from ...launch.launch import Launch
from ...profiles.kernel_profile import KernelProfile, estimated_resources
from ..accesses import WORDS_PER_SECTOR
from ..base import Batch
from ..kernel_files import kernel_text
from .configuration import DirectConv2dConfiguration
from .launch import filter_macros, reciprocal
from .problem import Conv2d
from .traffic import compulsory_bytes

Integers = NDArray[np.int64]

KERNEL = "flat_conv2d"
PROLOGUE_INSTRUCTIONS = 55
REGISTERS_BESIDE_VALUES = 20
MOST_VALUES = 20
"""Elements and taps that are on their way at once; the compiler takes no more registers, 29 to 43 in all."""


def strips(problem: Conv2d, rows_per_thread: Integers) -> Integers:
    """Threads with outputs in the whole launch."""
    down = ceil_div(problem.output_height, rows_per_thread)
    return np.asarray(problem.output_planes * problem.output_width * down, np.int64)


def launch_of(problem: Conv2d, batch: Batch[DirectConv2dConfiguration]) -> Launch:
    """One thread for each strip."""
    block_x = batch["block_x"].astype(np.int64)
    return Launch(grid_x=ceil_div(strips(problem, batch["rows_per_thread"].astype(np.int64)), block_x), block_x=block_x)


def profile(problem: Conv2d, batch: Batch[DirectConv2dConfiguration], gpu: Gpu) -> KernelProfile:
    """Counts, registers and critical path of n configurations, estimated from their strips.

    Multiply-adds are exact; at compiled fidelity one block is executed, which counts all but the traffic behind L1.
    """
    rows, launch = batch["rows_per_thread"].astype(np.int64), launch_of(problem, batch)
    warps = np.asarray(ceil_div(strips(problem, rows), WARP_SIZE), np.float64)
    strip_rows = (rows - 1) * problem.stride + problem.filter_height
    elements = strip_rows * problem.filter_width
    outputs_per_sector = WORDS_PER_SECTOR / problem.stride
    turns = 1 + WARP_SIZE / problem.output_width  # ends of rows in a warp, each with a sector of its own
    sectors = elements * (WARP_SIZE / outputs_per_sector + turns)
    taps = problem.filter_taps * (1 + WARP_SIZE / (problem.output_width * ceil_div(problem.output_height, rows)))
    stored = rows * (WARP_SIZE / WORDS_PER_SECTOR + turns / 2)
    classes = {
        "fp32_fma": warps * rows * problem.filter_taps,
        "integer": warps * (PROLOGUE_INSTRUCTIONS + 6 * strip_rows + 4 * rows + elements * (1 + (problem.padding > 0))),
        "control": warps * (2 + rows),
    }
    read, written = compulsory_bytes(problem)
    values = elements + problem.filter_taps
    return KernelProfile(
        launch=launch,
        resources=estimated_resources(
            launch, (REGISTERS_BESIDE_VALUES + rows + np.minimum(values, MOST_VALUES)).astype(np.int32)
        ),
        counts=Counts(
            global_load_requests=warps * (elements + problem.filter_taps),
            global_load_sectors=warps * (sectors + taps),
            global_load_lines=warps * (elements * turns + problem.filter_taps),
            global_store_requests=warps * rows,
            global_store_sectors=warps * stored,
            warp_instructions=warps * (elements + problem.filter_taps + rows) + sum(classes.values()),
            l2_read_sectors=_patch_sectors(problem, launch, rows),
            l2_write_sectors=warps * stored,
            dram_read_bytes=np.full_like(warps, read),
            dram_write_bytes=np.full_like(warps, written),
            **classes,
        ),
        global_round_trips=np.maximum(values / MOST_VALUES, 1.0),
        loop_code_bytes=np.zeros_like(warps),
        read_only_share=1.0,
    )


def _patch_sectors(problem: Conv2d, launch: Launch, rows: Integers) -> NDArray[np.float64]:
    """Sectors read from L2: those of each plane and its taps once, and where a block ends within a plane once more.

    What ends within a plane is one row of strips, which both blocks read.
    """
    strip_rows = (rows - 1) * problem.stride + problem.filter_height
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
