"""The family ``tiled_conv2d``: everything about it behind the interface that all families share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib import resources
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...compiler.request import CompileRequest
from ...core.constants import INSTRUCTION_BYTES
from ...gpus.gpu import Gpu
from ...launch.launch import Buffer, KernelCall, Launch
from ...profiles.work import Work
from ..base import Batch, Check, Family, Product, Space
from .counts import closed_form
from .fill import round_trips
from .geometry import Geometry, geometry, tiling
from .problem import TiledConv2d, TiledConv2dConfiguration
from .reference import convolve
from .registers import estimate
from .taps import keeps_row_loop, tap_loads

Floats32 = NDArray[np.float32]

BLOCK_SIZES_X = (1, 2, 4, 8, 16, 32, 48, 64, 80, 96, 112, 128)
BLOCK_SIZES_Y = (1, 2, 4, 8, 16, 32)
TILE_SIZES = (1, 2, 3, 4, 5, 6, 7, 8)


class TiledConv2dFamily(Family[TiledConv2d, TiledConv2dConfiguration]):
    """Shared-memory tiled convolution of one image, the convolution that auto-tuners use as a benchmark."""

    name: ClassVar[str] = "tiled_conv2d"
    summary: ClassVar[str] = (
        "2-D convolution of one padded image through a shared-memory patch; height and width of the output"
    )
    problem_type = TiledConv2d
    configuration_type = TiledConv2dConfiguration
    serial_closed_forms: ClassVar[bool] = True
    measurement_defaults: ClassVar[Mapping[str, Any]] = {"use_shmem": 1}
    kernel_tuner_problem_size: ClassVar[tuple[str, ...]] = ("width", "height")

    def default_problem(self) -> TiledConv2d:
        """The auto-tuners' benchmark: 4096 × 4096 outputs, 15 × 15 taps."""
        return TiledConv2d()

    def space(self, problem: TiledConv2d, gpu: Gpu) -> Space[TiledConv2dConfiguration]:
        """Block and tile sizes with padding and read-only loads, and without a shared patch."""
        sizes: dict[str, tuple[Any, ...]] = {
            "block_size_x": BLOCK_SIZES_X,
            "block_size_y": BLOCK_SIZES_Y,
            "tile_size_x": TILE_SIZES,
            "tile_size_y": TILE_SIZES,
        }
        patch = Product(
            TiledConv2dConfiguration, sizes | {"use_padding": (0, 1), "read_only": (0, 1), "use_shmem": (1,)}
        )
        direct = Product(
            TiledConv2dConfiguration, sizes | {"use_padding": (None,), "read_only": (0, 1), "use_shmem": (0,)}
        )
        return Space((patch, direct))

    def checks(self, problem: TiledConv2d, batch: Batch[TiledConv2dConfiguration], gpu: Gpu) -> tuple[Check, ...]:
        """A block must have at least one whole warp."""
        threads = batch["block_size_x"].astype(np.int64) * batch["block_size_y"]
        return (
            Check(
                reason="threads per block",
                rejected=threads < 32,
                value=threads,
                limit="one warp (32)",
                relation="is below",
            ),
        )

    def launch(self, problem: TiledConv2d, batch: Batch[TiledConv2dConfiguration], gpu: Gpu) -> Launch:
        """One block for each tile of outputs."""
        return _launch(geometry(problem, batch))

    def work(self, problem: TiledConv2d, batch: Batch[TiledConv2dConfiguration], gpu: Gpu) -> Work:
        """Counts of the load phase and the compute phase; see ``fill`` and ``taps``."""
        sizes = geometry(problem, batch)
        outputs = sizes.tile_x * sizes.tile_y
        taps = tap_loads(problem, sizes)
        looped = keeps_row_loop(problem, sizes)
        straight = outputs * problem.filter_height * problem.filter_width + taps
        return Work(
            launch=_launch(sizes),
            counts=closed_form(problem, sizes),
            global_round_trips=np.where(sizes.use_shmem, round_trips(sizes), 1 + taps / 16),
            independent_chains=outputs.astype(np.float64),
            loop_code_bytes=np.where(looped, INSTRUCTION_BYTES * straight / problem.filter_height, 0.0),
            code_bytes=np.where(looped, 0.0, INSTRUCTION_BYTES * straight),
            read_only_share=batch["read_only"].astype(np.float64),
        )

    def registers(self, problem: TiledConv2d, batch: Batch[TiledConv2dConfiguration], gpu: Gpu) -> NDArray[np.int32]:
        """Estimate of registers per thread, see ``registers``."""
        return estimate(problem, tiling(batch), gpu)

    def compile_request(
        self, problem: TiledConv2d, configuration: TiledConv2dConfiguration, gpu: Gpu
    ) -> CompileRequest:
        """The kernel with every size a compile-time constant, as auto-tuners build it."""
        sizes = geometry(problem, Batch.of([configuration]))
        return CompileRequest(
            source=resources.files("perfmodel.kernels").joinpath("tiled_conv2d.cu").read_text(encoding="utf-8"),
            kernel="tiled_conv2d",
            file_name="tiled_conv2d.cu",
            defines=(
                ("IMAGE_WIDTH", problem.width),
                ("IMAGE_HEIGHT", problem.height),
                ("FILTER_WIDTH", problem.filter_width),
                ("FILTER_HEIGHT", problem.filter_height),
                ("BLOCK_SIZE_X", configuration.block_size_x),
                ("BLOCK_SIZE_Y", configuration.block_size_y),
                ("TILE_SIZE_X", configuration.tile_size_x),
                ("TILE_SIZE_Y", configuration.tile_size_y),
                ("ROW_LENGTH", int(sizes.row_length[0])),
                ("READ_ONLY", configuration.read_only),
                ("USE_SHMEM", configuration.use_shmem),
            ),
        )

    def redundant(self, problem: TiledConv2d, batch: Batch[TiledConv2dConfiguration], gpu: Gpu) -> NDArray[np.bool_]:
        """Padding that adds no column gives the program without padding."""
        sizes = geometry(problem, batch)
        return np.asarray((batch["use_padding"] == 1) & (sizes.row_length == sizes.patch_width))

    def equivalents(self, configuration: TiledConv2dConfiguration) -> tuple[TiledConv2dConfiguration, ...]:
        """The same without the read-only path, and without padding, which changes nothing but the row length."""
        plain = replace(configuration, read_only=0)
        unpadded = replace(plain, use_padding=0) if configuration.use_padding else plain
        return tuple(dict.fromkeys(other for other in (plain, unpadded) if other != configuration))

    def inputs(self, problem: TiledConv2d, rng: np.random.Generator) -> Mapping[str, Floats32]:
        """A padded image and a filter, uniform in [−1, 1)."""
        return {
            "input": rng.uniform(-1, 1, (problem.input_height, problem.input_width)).astype(np.float32),
            "filter": rng.uniform(-1, 1, (problem.filter_height, problem.filter_width)).astype(np.float32),
        }

    def call(
        self,
        problem: TiledConv2d,
        configuration: TiledConv2dConfiguration,
        gpu: Gpu,
        inputs: Mapping[str, Floats32],
    ) -> KernelCall:
        """Parameters ``(output, input)``; the filter lies in constant memory."""
        poisoned = np.full((problem.height, problem.width), np.nan, np.float32)
        return KernelCall(
            parameters=(
                Buffer(name="output", array=poisoned, output=True),
                Buffer(name="input", array=inputs["input"]),
            ),
            constants=(Buffer(name="filter", array=inputs["filter"]),),
        )

    def reference(self, problem: TiledConv2d, inputs: Mapping[str, Floats32]) -> Mapping[str, NDArray[np.float64]]:
        """The exact output."""
        return {"output": convolve(problem, inputs["input"], inputs["filter"])}

    def tolerance(self, problem: TiledConv2d) -> float:
        """Half a unit in the last place for each rounded sum of the chain of taps, relative to the largest output."""
        return float(np.finfo(np.float32).eps * (2 + np.sqrt(problem.filter_height * problem.filter_width)))


def _launch(sizes: Geometry) -> Launch:
    return Launch(
        grid_x=sizes.grid_x,
        grid_y=sizes.grid_y,
        block_x=sizes.block_x,
        block_y=sizes.block_y,
        static_shared_bytes=np.where(sizes.use_shmem, 4 * sizes.row_length * sizes.patch_height, 0),
    )


FAMILY = TiledConv2dFamily()
