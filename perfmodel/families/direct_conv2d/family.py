"""The family ``direct_conv2d``: everything about it behind the interface that all families share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...compiler.request import CompileRequest
from ...core.batched import taken
from ...core.constants import FLOAT_BYTES, MAX_GRID_YZ
from ...gpus.gpu import Gpu
from ...launch.launch import Buffer, KernelCall, Launch
from ...profiles.work import Work
from ..base import Batch, Check, Family, Product, Space
from .configuration import Accumulators, DirectConv2dConfiguration, Exchange, Reuse
from .counts import closed_form
from .distinct import distinct
from .notes import notes
from .problem import Conv2d
from .reference import convolve
from .registers import estimate
from .serial import global_round_trips, independent_chains, loop_code_bytes
from .source import compile_request, filter_in_constant
from .strips import launch_geometry, reciprocal, strips, tiles_per_row

Floats32 = NDArray[np.float32]

BLOCK_SIZES_X = (32, 64, 128, 256)
BLOCK_SIZES_Y = (1, 2, 4, 8, 16)
LOOPED_ROWS = (1, 2, 4, 8)
UNROLLED_ROWS = (2, 4, 8, 16)
ROLLING_ROWS = (4, 8, 16, 32, 64, 128)

UNROLLED_MULTIPLY_ADDS_LIMIT = 2048
"""Longest straight-line code: 1,936 multiply-adds (11 × 11, 16 rows) were unrolled by NVRTC 12.9, of 3,600 it kept a loop."""


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
        """Reuse modes with their methods, rows and blocks; exchanges only for filters wide enough to need one.

        Sharing rows begins with two outputs of a thread: with one it is the code without.
        """
        exchanges = tuple(Exchange) if problem.filter_width > 2 else ()
        products = [self._product(Reuse.NONE, (None,), (None,), LOOPED_ROWS)]
        if exchanges:
            products.append(self._product(Reuse.COLUMN, exchanges, (None,), LOOPED_ROWS))
        for accumulators, rows in ((Accumulators.UNROLLED, UNROLLED_ROWS), (Accumulators.ROLLING, ROLLING_ROWS)):
            products.append(self._product(Reuse.ROW, (None,), (accumulators,), rows))
            if exchanges:
                products.append(self._product(Reuse.COLUMN_ROW, exchanges, (accumulators,), rows))
        return Space(tuple(products))

    @staticmethod
    def _product(
        reuse: Reuse,
        exchanges: tuple[Exchange | None, ...],
        accumulators: tuple[Accumulators | None, ...],
        rows_per_thread: tuple[int, ...],
    ) -> Product[DirectConv2dConfiguration]:
        values: dict[str, tuple[Any, ...]] = {
            "reuse": (reuse,),
            "exchange": exchanges,
            "accumulators": accumulators,
            "rows_per_thread": rows_per_thread,
            "block_x": BLOCK_SIZES_X,
            "block_y": BLOCK_SIZES_Y,
        }
        return Product(DirectConv2dConfiguration, values)

    def checks(self, problem: Conv2d, batch: Batch[DirectConv2dConfiguration], gpu: Gpu) -> tuple[Check, ...]:
        """Stride of column reuse, rows and code that no image or cache can use, and the grid's limits."""
        sizes = strips(problem, batch)
        useful_rows = 1 << (problem.output_height - 1).bit_length()
        straight_rows = np.where(sizes.unrolled, sizes.rows_per_thread, 1)
        code = straight_rows * problem.filter_taps
        never = np.zeros(len(batch), np.bool_)
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
            Check(
                reason="output channels in the grid's y",
                rejected=never | (problem.out_channels > MAX_GRID_YZ),
                value=problem.out_channels,
                limit=MAX_GRID_YZ,
            ),
            Check(
                reason="images in the grid's z",
                rejected=never | (problem.batch > MAX_GRID_YZ),
                value=problem.batch,
                limit=MAX_GRID_YZ,
            ),
        )

    def launch(self, problem: Conv2d, batch: Batch[DirectConv2dConfiguration], gpu: Gpu) -> Launch:
        """One block for each tile of an output plane."""
        return launch_geometry(problem, batch)

    def work(self, problem: Conv2d, batch: Batch[DirectConv2dConfiguration], gpu: Gpu) -> Work:
        """Counts and serial structure; see ``counts`` and ``serial``."""
        found = distinct(batch)
        if found is not None:
            return taken(self._work(problem, found[0], gpu), found[1])
        return self._work(problem, batch, gpu)

    @staticmethod
    def _work(problem: Conv2d, batch: Batch[DirectConv2dConfiguration], gpu: Gpu) -> Work:
        sizes, launch = strips(problem, batch), launch_geometry(problem, batch)
        return Work(
            launch=launch,
            counts=closed_form(problem, sizes, launch, gpu),
            global_round_trips=global_round_trips(problem, sizes, estimate(problem, batch, gpu)),
            independent_chains=independent_chains(sizes),
            loop_code_bytes=loop_code_bytes(problem, sizes),
            constant_bytes=float(FLOAT_BYTES * problem.filter_elements),
            read_only_share=1.0,
        )

    def registers(self, problem: Conv2d, batch: Batch[DirectConv2dConfiguration], gpu: Gpu) -> NDArray[np.int32]:
        """Estimate of registers per thread, see ``registers``."""
        found = distinct(batch)
        if found is not None:
            return estimate(problem, found[0], gpu)[found[1]]
        return estimate(problem, batch, gpu)

    def compile_request(self, problem: Conv2d, configuration: DirectConv2dConfiguration, gpu: Gpu) -> CompileRequest:
        """The kernel; one compile serves all image sizes and batches."""
        return compile_request(problem, configuration)

    def inputs(self, problem: Conv2d, rng: np.random.Generator) -> Mapping[str, Floats32]:
        """Images and filters, uniform in [0.5, 1.5): sums without cancellation, so that errors stay relative to them."""
        image = (problem.batch, problem.in_channels, problem.height, problem.width)
        weights = (problem.out_channels, problem.filter_channels, problem.filter_height, problem.filter_width)
        return {
            name: rng.uniform(0.5, 1.5, shape).astype(np.float32)
            for name, shape in (("input", image), ("filter", weights))
        }

    def call(
        self,
        problem: Conv2d,
        configuration: DirectConv2dConfiguration,
        gpu: Gpu,
        inputs: Mapping[str, Floats32],
    ) -> KernelCall:
        """Parameters ``(output, input, [filter,] height, width, tiles of a row, its reciprocal and shift)``."""
        shape = (problem.batch, problem.out_channels, problem.output_height, problem.output_width)
        output = Buffer(name="output", array=np.full(shape, np.nan, np.float32), output=True)
        weights = Buffer(name="filter", array=inputs["filter"])
        across = int(tiles_per_row(problem, configuration.block_x))
        multiplier, shift = reciprocal(across)
        in_constant = filter_in_constant(problem)
        return KernelCall(
            parameters=(
                output,
                Buffer(name="input", array=inputs["input"]),
                *(() if in_constant else (weights,)),
                np.int32(problem.height),
                np.int32(problem.width),
                np.int32(across),
                np.uint32(multiplier),
                np.int32(shift),
            ),
            constants=(weights,) if in_constant else (),
        )

    def reference(self, problem: Conv2d, inputs: Mapping[str, Floats32]) -> Mapping[str, NDArray[np.float64]]:
        """The exact output."""
        return {"output": convolve(problem, inputs["input"], inputs["filter"])}

    def tolerance(self, problem: Conv2d) -> float:
        """Bound for a chain of n rounded sums of positive terms: n + 1 halves of a unit in the last place."""
        terms = problem.filter_channels * problem.filter_taps
        return float((terms + 1) * np.finfo(np.float32).eps / 2)

    def notes(self, problem: Conv2d, configuration: DirectConv2dConfiguration, gpu: Gpu) -> tuple[str, ...]:
        """Idle lanes, where the filter lies, over-reading, register arrays in local memory; see ``notes``."""
        return notes(problem, configuration, gpu)


FAMILY = DirectConv2dFamily()
