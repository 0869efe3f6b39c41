"""The family ``tiled_conv2d`` behind the interface that all families share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...compiler.request import CompileRequest
from ...core.constants import WARP_SIZE
from ...core.counts import Counts
from ...gpus.gpu import Gpu
from ...launch.launch import KernelCall, Launch
from ...profiles.kernel_profile import KernelProfile
from ..base import Batch, Check, Family, Space
from ..compiled_members import Traits, compiled_numbers, completed_profile
from . import configuration, counts, launch, reference, traffic
from .configuration import TiledConv2dConfiguration
from .problem import TiledConv2d
from .traits import traits

Inputs = Mapping[str, NDArray[np.float32]]


class TiledConv2dFamily(Family[TiledConv2d, TiledConv2dConfiguration]):
    """Shared-memory tiled convolution of one image, the convolution that auto-tuners use as a benchmark."""

    name: ClassVar[str] = "tiled_conv2d"
    designs: ClassVar[Mapping[str, int]] = {"tiled_conv2d": 400}
    summary: ClassVar[str] = "2-D convolution of one padded image through a shared-memory patch; sizes of the output"
    problem_type = TiledConv2d
    configuration_type = TiledConv2dConfiguration
    closed_critical_path: ClassVar[bool] = True
    measurement_defaults: ClassVar[Mapping[str, Any]] = {"use_shmem": 1}
    idle_fields: ClassVar[Mapping[str, tuple[str, Any]]] = {"use_padding": ("use_shmem", 0)}
    kernel_tuner_problem_size: ClassVar[tuple[str, ...]] = ("width", "height")

    def default_problem(self) -> TiledConv2d:
        """The auto-tuners' benchmark: 4096 × 4096 outputs, 15 × 15 taps."""
        return TiledConv2d()

    def space(self, problem: TiledConv2d, gpu: Gpu) -> Space[TiledConv2dConfiguration]:
        """The same for every problem."""
        return configuration.space()

    def checks(self, problem: TiledConv2d, batch: Batch[TiledConv2dConfiguration], gpu: Gpu) -> tuple[Check, ...]:
        """A block must have at least one whole warp."""
        threads = batch["block_size_x"].astype(np.int64) * batch["block_size_y"]
        few, limit = threads < WARP_SIZE, f"one warp ({WARP_SIZE})"
        return (Check(reason="threads per block", rejected=few, value=threads, limit=limit, relation="is below"),)

    def launch(self, problem: TiledConv2d, batch: Batch[TiledConv2dConfiguration], gpu: Gpu) -> Launch:
        """One block for each tile of outputs."""
        return launch.launch(launch.geometry(problem, batch))

    def profile(self, problem: TiledConv2d, batch: Batch[TiledConv2dConfiguration], gpu: Gpu) -> KernelProfile:
        """Memory accesses of the load phase and the compute phase in closed form; registers and instructions interpolated."""
        sizes = launch.geometry(problem, batch)
        geometry, known = launch.launch(sizes), counts.closed_form(problem, sizes)
        read_only = batch["read_only"].astype(np.float64)
        numbers = compiled_numbers(self.name, traits(problem, sizes, read_only, known), geometry, gpu)
        trips = traffic.round_trips(sizes, counts.tap_loads(problem, sizes))
        found = completed_profile(known, numbers, geometry, global_round_trips=trips, read_only_share=read_only)
        return replace(found, reloaded_lines=traffic.reloaded_lines(problem, sizes))

    def closed_counts(self, problem: TiledConv2d, batch: Batch[TiledConv2dConfiguration], gpu: Gpu) -> Counts:
        """Memory accesses and multiply-adds."""
        return counts.closed_form(problem, launch.geometry(problem, batch))

    def design_traits(
        self, problem: TiledConv2d, batch: Batch[TiledConv2dConfiguration], gpu: Gpu
    ) -> tuple[str, Traits]:
        """One design."""
        sizes = launch.geometry(problem, batch)
        return self.name, traits(problem, sizes, batch["read_only"], counts.closed_form(problem, sizes))

    def compile_request(
        self, problem: TiledConv2d, configuration: TiledConv2dConfiguration, gpu: Gpu
    ) -> CompileRequest:
        """The kernel with every size a constant."""
        return launch.compile_request(problem, configuration)

    def redundant(self, problem: TiledConv2d, batch: Batch[TiledConv2dConfiguration], gpu: Gpu) -> NDArray[np.bool_]:
        """Padding that adds no column gives the program without padding."""
        sizes = launch.geometry(problem, batch)
        return np.asarray((batch["use_padding"] == 1) & (sizes.row_length == sizes.patch_width))

    def equivalents(self, configuration: TiledConv2dConfiguration) -> tuple[TiledConv2dConfiguration, ...]:
        """The same without the read-only path, and without padding, which changes nothing but the row length."""
        plain = replace(configuration, read_only=0)
        unpadded = replace(plain, use_padding=0) if configuration.use_padding else plain
        return tuple(dict.fromkeys(other for other in (plain, unpadded) if other != configuration))

    def inputs(self, problem: TiledConv2d, rng: np.random.Generator) -> Inputs:
        """A padded image and a filter."""
        return reference.inputs(problem, rng)

    def call(
        self, problem: TiledConv2d, configuration: TiledConv2dConfiguration, gpu: Gpu, inputs: Inputs
    ) -> KernelCall:
        """Parameters ``(output, input)``."""
        return reference.call(problem, inputs)

    def reference(self, problem: TiledConv2d, inputs: Inputs) -> Mapping[str, NDArray[np.float64]]:
        """The exact output."""
        return {"output": reference.convolve(problem, inputs["input"], inputs["filter"])}

    def tolerance(self, problem: TiledConv2d) -> float:
        """Half a unit in the last place for each rounded sum of the chain of taps, relative to the largest output."""
        return float(np.finfo(np.float32).eps * (2 + np.sqrt(problem.filter_height * problem.filter_width)))


FAMILY = TiledConv2dFamily()
