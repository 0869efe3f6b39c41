"""The family: everything about the kernel behind the interface that all families share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from perfmodel.compiler.request import CompileRequest
from perfmodel.families.base import Batch, Check, Family, Space
from perfmodel.gpus.gpu import Gpu
from perfmodel.launch.launch import KernelCall, Launch
from perfmodel.profiles.kernel_profile import KernelProfile, estimated_resources

from . import configuration, counts, launch, reference
from .configuration import Stencil1dConfiguration
from .problem import Stencil1d

Inputs = Mapping[str, NDArray[np.float32]]


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
        """The same for every problem."""
        return configuration.space()

    def checks(self, problem: Stencil1d, batch: Batch[Stencil1dConfiguration], gpu: Gpu) -> tuple[Check, ...]:
        """No limits but those of the GPU."""
        return ()

    def launch(self, problem: Stencil1d, batch: Batch[Stencil1dConfiguration], gpu: Gpu) -> Launch:
        """Blocks of consecutive outputs."""
        return launch.launch(problem, batch)

    def profile(self, problem: Stencil1d, batch: Batch[Stencil1dConfiguration], gpu: Gpu) -> KernelProfile:
        """Counts in closed form; registers for addresses, the sums and a few loads on their way."""
        geometry = launch.launch(problem, batch)
        registers = (12 + batch["per_thread"] + min(problem.taps, 8)).astype(np.int32)
        return KernelProfile(
            launch=geometry,
            resources=estimated_resources(geometry, registers),
            counts=counts.closed_form(problem, batch, geometry),
        )

    def compile_request(self, problem: Stencil1d, configuration: Stencil1dConfiguration, gpu: Gpu) -> CompileRequest:
        """The kernel with every size a constant."""
        return launch.compile_request(problem, configuration)

    def inputs(self, problem: Stencil1d, rng: np.random.Generator) -> Inputs:
        """Numbers in [−1, 1)."""
        return reference.inputs(problem, rng)

    def call(self, problem: Stencil1d, configuration: Stencil1dConfiguration, gpu: Gpu, inputs: Inputs) -> KernelCall:
        """Parameters ``(output, input)``."""
        return reference.call(problem, inputs)

    def reference(self, problem: Stencil1d, inputs: Inputs) -> Mapping[str, NDArray[np.float64]]:
        """The exact means."""
        return {"output": reference.means(problem, inputs["input"])}

    def tolerance(self, problem: Stencil1d) -> float:
        """A rounding for each tap."""
        return float(np.finfo(np.float32).eps * problem.taps)


FAMILY = Stencil1dFamily()
