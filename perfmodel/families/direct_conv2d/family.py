"""The family ``direct_conv2d`` behind the interface that all families share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ...compiler.request import CompileRequest
from ...core.batched import taken
from ...core.constants import MAX_GRID_YZ, WARP_SIZE
from ...gpus.gpu import Gpu
from ...launch.launch import KernelCall, Launch
from ...profiles.kernel_profile import KernelProfile, estimated_resources
from ..base import Batch, Check, Family, Space
from ..lanes import distinct_rows
from . import configuration, launch, reference, registers, traffic
from .configuration import DirectConv2dConfiguration
from .counts import closed_form
from .problem import Conv2d

Inputs = Mapping[str, NDArray[np.float32]]

UNROLLED_MULTIPLY_ADDS_LIMIT = 2048
"""Longest straight-line code: 1,936 multiply-adds (11 × 11, 16 rows) were unrolled by NVRTC 12.9, of 3,600 it kept a loop."""
NOTABLE_IDLE_SHARE = 0.1
"""Share of lanes without an output from which on a note names them."""


class DirectConv2dFamily(Family[Conv2d, DirectConv2dConfiguration]):
    """Direct convolution whose lanes exchange what they loaded, whose threads keep the rows that they loaded, or both."""

    name: ClassVar[str] = "direct_conv2d"
    summary: ClassVar[str] = "2-D convolution, dense or depthwise, with column reuse, row reuse or both"
    problem_type = Conv2d
    configuration_type = DirectConv2dConfiguration

    def default_problem(self) -> Conv2d:
        """One 3840 × 2160 image and a 5 × 5 filter."""
        return Conv2d(height=2160, width=3840, filter_height=5, filter_width=5)

    def space(self, problem: Conv2d, gpu: Gpu) -> Space[DirectConv2dConfiguration]:
        """Reuse modes with their methods, rows and blocks."""
        return configuration.space(problem)

    def checks(self, problem: Conv2d, batch: Batch[DirectConv2dConfiguration], gpu: Gpu) -> tuple[Check, ...]:
        """Stride of column reuse, rows and code that no image or cache can use, and the grid's limits."""
        sizes = launch.strips(problem, batch)
        useful_rows = 1 << (problem.output_height - 1).bit_length()
        code = np.where(sizes.unrolled, sizes.rows_per_thread, 1) * problem.filter_taps
        grid = (("output channels in the grid's y", problem.out_channels), ("images in the grid's z", problem.batch))
        return (
            Check(
                reason="column reuse needs stride 1",
                rejected=sizes.columns & (problem.stride > 1),
                value=problem.stride,
                limit=1,
            ),
            Check(
                reason="rows per thread",
                rejected=sizes.rows_per_thread > useful_rows,
                value=sizes.rows_per_thread,
                limit=f"{useful_rows} (output height {problem.output_height} rounded up to a power of two)",
            ),
            Check(
                reason="unrolled multiply-adds",
                rejected=code > UNROLLED_MULTIPLY_ADDS_LIMIT,
                value=code,
                limit=UNROLLED_MULTIPLY_ADDS_LIMIT,
            ),
            *(
                Check(reason=reason, rejected=np.full(len(batch), value > MAX_GRID_YZ), value=value, limit=MAX_GRID_YZ)
                for reason, value in grid
            ),
        )

    def launch(self, problem: Conv2d, batch: Batch[DirectConv2dConfiguration], gpu: Gpu) -> Launch:
        """One block for each tile of an output plane."""
        return launch.launch(problem, batch)

    def profile(self, problem: Conv2d, batch: Batch[DirectConv2dConfiguration], gpu: Gpu) -> KernelProfile:
        """Counts, registers and critical path, worked out once for configurations that are equal."""
        first, inverse = distinct_rows(*(column.astype(np.int64) + 1 for column in batch.columns.values()))
        batch = batch.take(first)
        sizes, geometry = launch.strips(problem, batch), launch.launch(problem, batch)
        profile = KernelProfile(
            launch=geometry,
            resources=estimated_resources(geometry, registers.estimate(problem, sizes, gpu)),
            counts=closed_form(problem, sizes, geometry, gpu),
            global_round_trips=traffic.round_trips(problem, sizes, gpu),
            loop_code_bytes=traffic.loop_code_bytes(problem, sizes),
            read_only_share=1.0,
        )
        return taken(profile, inverse)

    def compile_request(self, problem: Conv2d, configuration: DirectConv2dConfiguration, gpu: Gpu) -> CompileRequest:
        """The kernel; one compile serves all image sizes and batches."""
        return launch.compile_request(problem, configuration)

    def inputs(self, problem: Conv2d, rng: np.random.Generator) -> Inputs:
        """Images and filters."""
        return reference.inputs(problem, rng)

    def call(self, problem: Conv2d, configuration: DirectConv2dConfiguration, gpu: Gpu, inputs: Inputs) -> KernelCall:
        """Output, input, filter where it is no constant, sizes."""
        return reference.call(problem, configuration, inputs)

    def reference(self, problem: Conv2d, inputs: Inputs) -> Mapping[str, NDArray[np.float64]]:
        """The exact output."""
        return {"output": reference.convolve(problem, inputs["input"], inputs["filter"])}

    def tolerance(self, problem: Conv2d) -> float:
        """Bound for a chain of n rounded sums of positive terms: n + 1 halves of a unit in the last place."""
        terms = problem.filter_channels * problem.filter_taps
        return float((terms + 1) * np.finfo(np.float32).eps / 2)

    def notes(self, problem: Conv2d, configuration: DirectConv2dConfiguration, gpu: Gpu) -> tuple[str, ...]:
        """Idle lanes, filters in global memory and register arrays in local memory.

        >>> from perfmodel.families.direct_conv2d import Reuse
        >>> from perfmodel.gpus.catalogue import load_gpu
        >>> plain = DirectConv2dConfiguration(
        ...     reuse=Reuse.NONE, exchange=None, accumulators=None, rows_per_thread=1, block_x=32, block_y=8)
        >>> problem = Conv2d(height=14, width=14, filter_height=3, filter_width=3, padding=1)
        >>> FAMILY.notes(problem, plain, load_gpu("h200"))
        ('56 % of the lanes have no output: 14 columns are computed by warps of 32',)
        """
        sizes = launch.strips(problem, Batch.of([configuration]))
        width, notes = problem.output_width, []
        idle = 1 - width / (sizes.across * WARP_SIZE)
        if idle > NOTABLE_IDLE_SHARE:
            lanes = f"{100 * idle:.0f} % of the lanes have no output"
            notes.append(f"{lanes}: {width} columns are computed by warps of {WARP_SIZE}")
        if not launch.filter_in_constant(problem):
            kept = problem.filter_taps <= launch.TAPS_IN_REGISTERS_LIMIT
            when = "once for a channel" if kept else "at each use"
            notes.append(f"the filters exceed constant memory and are loaded from global memory {when}")
        if registers.in_local_memory(problem, sizes, gpu).any():
            notes.append("the compiler is expected to keep the dynamically indexed taps in local memory")
        return tuple(notes)


FAMILY = DirectConv2dFamily()
