"""The family ``pointwise_conv2d``: everything about it behind the interface that all families share."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ...compiler.request import CompileRequest
from ...core.constants import INSTRUCTION_BYTES, MAX_GRID_YZ
from ...gpus.gpu import Gpu
from ...launch.launch import Buffer, KernelCall, Launch
from ...profiles.work import Work
from ..base import Batch, Check, Family, Space
from .blocking import THREADS_PER_BLOCK, grid
from .candidates import Candidates, candidates
from .configuration import PointwiseConfiguration
from .counts import closed_form, slab_instructions, slabs
from .fetch import copies_asynchronously
from .kernel_constants import defines
from .plan import SOURCE_CONSTANT, planned_registers
from .problem import PointwiseConv2d
from .reference import convolve
from .registers import resident_blocks
from .spaces import full_space

Floats32 = NDArray[np.float32]

KERNEL = "pointwise_conv2d"


@cache
def kernel_source() -> str:
    """Text of the kernel's source file."""
    return resources.files("perfmodel.kernels").joinpath(f"{KERNEL}.cu").read_text(encoding="utf-8")


class PointwiseConv2dFamily(Family[PointwiseConv2d, PointwiseConfiguration]):
    """1×1 convolution by dynamic blocking of SM, block, warp and thread tiles."""

    name: ClassVar[str] = "pointwise_conv2d"
    summary: ClassVar[str] = "1x1 convolution, four levels of tiles sized to the layer and the GPU"
    problem_type = PointwiseConv2d
    configuration_type = PointwiseConfiguration

    def default_problem(self) -> PointwiseConv2d:
        """A layer from the middle of MobileNetV1: 256 → 256 channels at 28×28."""
        return PointwiseConv2d()

    def space(self, problem: PointwiseConv2d, gpu: Gpu) -> Space[PointwiseConfiguration]:
        """Every distinct tile of the source's choices with finer filter splits."""
        return full_space(problem)

    def checks(self, problem: PointwiseConv2d, batch: Batch[PointwiseConfiguration], gpu: Gpu) -> tuple[Check, ...]:
        """The plan must leave room for ``blocks_per_sm`` blocks, in registers and in shared memory."""
        found = candidates(problem, batch, gpu)
        planned = planned_registers(found.tile, SOURCE_CONSTANT).astype(np.int64)
        _, down = grid(problem, found.tile)
        return (
            Check(
                reason="planned registers per thread",
                rejected=planned > found.limit.registers_per_thread,
                value=planned,
                limit=found.limit.registers_per_thread,
            ),
            Check(
                reason="shared memory per block of the plan",
                rejected=found.shared_bytes > found.limit.shared_bytes_per_block,
                value=found.shared_bytes,
                limit=found.limit.shared_bytes_per_block,
            ),
            Check(reason="grid height", rejected=down > MAX_GRID_YZ, value=down, limit=MAX_GRID_YZ),
        )

    def launch(self, problem: PointwiseConv2d, batch: Batch[PointwiseConfiguration], gpu: Gpu) -> Launch:
        """128 threads for each block tile; x over positions, y over filters."""
        return self._launch(problem, candidates(problem, batch, gpu))

    def _launch(self, problem: PointwiseConv2d, found: Candidates) -> Launch:
        across, down = grid(problem, found.tile)
        return Launch(grid_x=across, grid_y=down, block_x=THREADS_PER_BLOCK, dynamic_shared_bytes=found.shared_bytes)

    def work(self, problem: PointwiseConv2d, batch: Batch[PointwiseConfiguration], gpu: Gpu) -> Work:
        """Counts and serial structure; memory accesses of candidates that break the plan are not enumerated and stay 0."""
        found = candidates(problem, batch, gpu)
        return Work(
            launch=self._launch(problem, found),
            counts=closed_form(problem, found, gpu),
            global_round_trips=np.ceil(slabs(problem, found.fetched) / found.slabs_in_flight),
            independent_chains=np.asarray(found.tile.accumulators, np.float64),
            loop_code_bytes=INSTRUCTION_BYTES * slab_instructions(problem, found),
            read_only_share=0.0 if copies_asynchronously(gpu) else 1.0,
        )

    def registers(self, problem: PointwiseConv2d, batch: Batch[PointwiseConfiguration], gpu: Gpu) -> NDArray[np.int32]:
        """Estimate from the thread tile and the slab, see ``registers``."""
        return candidates(problem, batch, gpu).registers

    def compile_request(
        self, problem: PointwiseConv2d, configuration: PointwiseConfiguration, gpu: Gpu
    ) -> CompileRequest:
        """The kernel with its tile as compile-time constants; sizes are parameters, so layers with the same tile share it."""
        found = candidates(problem, Batch.of([configuration]), gpu)
        resident = resident_blocks(problem, found.tile, found.fetched, gpu)
        return CompileRequest(
            source=kernel_source(),
            kernel=KERNEL,
            file_name=f"{KERNEL}.cu",
            defines=(
                *defines(problem, found.tile, found.fetched, found.stages, 0),
                ("RESIDENT_BLOCKS", int(resident[0])),
            ),
            architecture_specific=found.fetched.asynchronous,
        )

    def inputs(self, problem: PointwiseConv2d, rng: np.random.Generator) -> Mapping[str, Floats32]:
        """Images and filters, uniform in [−1, 1)."""
        image = (problem.batch, problem.in_channels, problem.height, problem.width)
        return {
            "input": rng.uniform(-1, 1, image).astype(np.float32),
            "filter": rng.uniform(-1, 1, (problem.out_channels, problem.in_channels)).astype(np.float32),
        }

    def call(
        self,
        problem: PointwiseConv2d,
        configuration: PointwiseConfiguration,
        gpu: Gpu,
        inputs: Mapping[str, Floats32],
    ) -> KernelCall:
        """Parameters ``(output, input, filter, batch, in_channels, out_channels, positions)``."""
        shape = (problem.batch, problem.out_channels, problem.height, problem.width)
        sizes = (problem.batch, problem.in_channels, problem.out_channels, problem.image_positions)
        return KernelCall(
            parameters=(
                Buffer(name="output", array=np.full(shape, np.nan, np.float32), output=True),
                Buffer(name="input", array=inputs["input"]),
                Buffer(name="filter", array=inputs["filter"]),
                *(np.uint32(size) for size in sizes),
            )
        )

    def reference(self, problem: PointwiseConv2d, inputs: Mapping[str, Floats32]) -> Mapping[str, NDArray[np.float64]]:
        """The exact output."""
        return {"output": convolve(problem, inputs["input"], inputs["filter"])}

    def tolerance(self, problem: PointwiseConv2d) -> float:
        """1e-5 of the largest output: rounding errors of C terms grow like √C · 2⁻²⁴, below that up to 10⁴ channels."""
        return max(1e-5, float(np.finfo(np.float32).eps * np.sqrt(problem.in_channels)))


FAMILY = PointwiseConv2dFamily()
