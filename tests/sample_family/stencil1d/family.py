"""Problem, configuration and closed forms of the moving average."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from perfmodel.compiler.request import CompileRequest
from perfmodel.core.constants import FLOAT_BYTES, WARP_SIZE, ceil_div
from perfmodel.core.counts import Counts
from perfmodel.families.base import Batch, Check, Family, Product, Space
from perfmodel.families.sizes import require_integers
from perfmodel.gpus.gpu import Gpu
from perfmodel.launch.launch import Buffer, KernelCall, Launch
from perfmodel.profiles.kernel_profile import KernelProfile, estimated_resources


@dataclass(frozen=True, slots=True, kw_only=True)
class Stencil1d:
    """``length`` outputs, each the mean of ``2 * radius + 1`` inputs."""

    length: int = 1_000_000
    radius: int = 3

    def __post_init__(self) -> None:
        require_integers(1, length=self.length)
        require_integers(0, radius=self.radius)

    @property
    def taps(self) -> int:
        """Inputs of an output."""
        return 2 * self.radius + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Stencil1dConfiguration:
    """Threads of a block (a multiple of a warp) and outputs of a thread."""

    block_x: int = 256
    per_thread: int = 1


class Stencil1dFamily(Family[Stencil1d, Stencil1dConfiguration]):
    """The moving average."""

    name: ClassVar[str] = "stencil1d"
    summary: ClassVar[str] = "moving average in one dimension"
    problem_type = Stencil1d
    configuration_type = Stencil1dConfiguration

    def default_problem(self) -> Stencil1d:
        """A million outputs of seven neighbours."""
        return Stencil1d()

    def space(self, problem: Stencil1d, gpu: Gpu) -> Space[Stencil1dConfiguration]:
        """Block sizes up to more than any GPU takes, and a few outputs of a thread."""
        values = {"block_x": (32, 64, 128, 256, 512, 1024, 2048), "per_thread": (1, 2, 4, 8)}
        return Space((Product(Stencil1dConfiguration, values),))

    def checks(self, problem: Stencil1d, batch: Batch[Stencil1dConfiguration], gpu: Gpu) -> tuple[Check, ...]:
        """No limits but those of the GPU."""
        return ()

    def launch(self, problem: Stencil1d, batch: Batch[Stencil1dConfiguration], gpu: Gpu) -> Launch:
        """Blocks of consecutive outputs."""
        block_x = batch["block_x"].astype(np.int64)
        return Launch(grid_x=ceil_div(problem.length, block_x * batch["per_thread"]), block_x=block_x)

    def profile(self, problem: Stencil1d, batch: Batch[Stencil1dConfiguration], gpu: Gpu) -> KernelProfile:
        """Every full warp of outputs reads 32 words for each tap, shifted by the tap: 4 sectors, or 5 where it straddles."""
        launch = self.launch(problem, batch, gpu)
        active_warps = ceil_div(problem.length, WARP_SIZE)
        first = np.arange(active_warps)[:, None] * WARP_SIZE + np.arange(problem.taps)
        last = np.minimum(first + WARP_SIZE, problem.length + np.arange(problem.taps)) - 1
        sectors, lines = (int((last // words - first // words + 1).sum()) for words in (8, 32))
        stored = ceil_div(problem.length, 8)
        fetched = ceil_div(problem.length + 2 * problem.radius, 8)
        loads, multiplies = active_warps * problem.taps, active_warps * problem.taps
        counts = Counts(
            global_load_requests=loads,
            global_load_sectors=sectors,
            global_load_lines=lines,
            global_store_requests=active_warps,
            global_store_sectors=stored,
            fp32_fma=multiplies,
            integer=launch.blocks * launch.warps_per_block * (4 + 2 * batch["per_thread"]),
            warp_instructions=loads + multiplies + active_warps * 10.0,
            l2_read_sectors=fetched + launch.blocks,
            l2_write_sectors=stored,
            dram_read_bytes=FLOAT_BYTES * (problem.length + 2 * problem.radius),
            dram_write_bytes=FLOAT_BYTES * problem.length,
        )
        registers = (12 + batch["per_thread"] + min(problem.taps, 8)).astype(np.int32)
        return KernelProfile(launch=launch, resources=estimated_resources(launch, registers), counts=counts)

    def compile_request(self, problem: Stencil1d, configuration: Stencil1dConfiguration, gpu: Gpu) -> CompileRequest:
        """The kernel with every size a constant."""
        return CompileRequest(
            source=resources.files("stencil1d").joinpath("stencil1d.cu").read_text(encoding="utf-8"),
            kernel="stencil1d",
            file_name="stencil1d.cu",
            defines=(
                ("LENGTH", problem.length),
                ("RADIUS", problem.radius),
                ("BLOCK_X", configuration.block_x),
                ("PER_THREAD", configuration.per_thread),
            ),
        )

    def inputs(self, problem: Stencil1d, rng: np.random.Generator) -> Mapping[str, NDArray[np.float32]]:
        """Numbers in [−1, 1)."""
        return {"input": rng.uniform(-1, 1, problem.length + 2 * problem.radius).astype(np.float32)}

    def call(
        self,
        problem: Stencil1d,
        configuration: Stencil1dConfiguration,
        gpu: Gpu,
        inputs: Mapping[str, NDArray[np.float32]],
    ) -> KernelCall:
        """Parameters ``(output, input)``."""
        poisoned = np.full(problem.length, np.nan, np.float32)
        output = Buffer(name="output", array=poisoned, output=True)
        return KernelCall(parameters=(output, Buffer(name="input", array=inputs["input"])))

    def reference(
        self, problem: Stencil1d, inputs: Mapping[str, NDArray[np.float32]]
    ) -> Mapping[str, NDArray[np.float64]]:
        """Means of windows in float64."""
        windows = np.lib.stride_tricks.sliding_window_view(inputs["input"].astype(np.float64), problem.taps)
        return {"output": windows.mean(axis=1)}

    def tolerance(self, problem: Stencil1d) -> float:
        """A rounding for each tap."""
        return float(np.finfo(np.float32).eps * problem.taps)


FAMILY: Any = Stencil1dFamily()
