"""The family ``ssim`` behind the interface that all families share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...compiler.request import CompileRequest
from ...core.constants import MAX_GRID_YZ
from ...core.counts import COUNT_NAMES, Counts
from ...gpus.gpu import Gpu
from ...launch.launch import KernelCall, Launch
from ...profiles.kernel_profile import KernelProfile
from ..base import Batch, Check, Family, Space
from ..compiled_members import Traits, compiled_numbers, completed_profile
from . import configuration, launch, reference, traffic
from .configuration import BlockChannels, Design, SsimConfiguration, design_of
from .counts import closed_form
from .problem import Ssim
from .traits import traits

Inputs = Mapping[str, NDArray[np.float32]]


class SsimFamily(Family[Ssim, SsimConfiguration]):
    """Fused structural similarity with an 11-tap separable Gaussian window: nine kernels, one after the other."""

    name: ClassVar[str] = "ssim"
    designs: ClassVar[Mapping[str, int]] = {"ssim": 70}
    summary: ClassVar[str] = "structural similarity of two images with an 11-tap Gaussian window, nine fused kernels"
    problem_type = Ssim
    measurement_defaults: ClassVar[Mapping[str, Any]] = {"block_channels": BlockChannels.ALL, "tile_height": None}
    configuration_type = SsimConfiguration

    def default_problem(self) -> Ssim:
        """One 4K colour image, as in the published measurement."""
        return Ssim()

    def space(self, problem: Ssim, gpu: Gpu) -> Space[SsimConfiguration]:
        """All versions, with lower tiles and blocks of one channel."""
        return configuration.space(problem)

    def checks(self, problem: Ssim, batch: Batch[SsimConfiguration], gpu: Gpu) -> tuple[Check, ...]:
        """Limits of the grid in y and z."""
        designs = _designs(batch)
        rows = np.array([launch.grid(problem, design)[1] for design in designs])
        images = np.array([launch.images(problem, design) for design in designs])
        return (
            Check(reason="blocks in y", rejected=rows > MAX_GRID_YZ, value=rows, limit=MAX_GRID_YZ),
            Check(reason="images in a batch", rejected=images > MAX_GRID_YZ, value=images, limit=MAX_GRID_YZ),
        )

    def launch(self, problem: Ssim, batch: Batch[SsimConfiguration], gpu: Gpu) -> Launch:
        """One block for each tile and image of the batch, which walks through the channels, or each channel of it."""
        return launch.launch(problem, _designs(batch))

    def profile(self, problem: Ssim, batch: Batch[SsimConfiguration], gpu: Gpu) -> KernelProfile:
        """Memory accesses in closed form; registers, instructions and critical path interpolated."""
        designs = _designs(batch)
        geometry, known = launch.launch(problem, designs), _known(problem, designs, gpu)
        of_batch = traits(problem, _configurations(batch), geometry, known)
        numbers = compiled_numbers(self.name, of_batch, geometry, gpu)
        return completed_profile(
            known,
            numbers,
            geometry,
            global_round_trips=np.array([traffic.round_trips(problem, design, gpu) for design in designs]),
            read_only_share=np.array([traffic.read_only_share(design, gpu) for design in designs]),
        )

    def closed_counts(self, problem: Ssim, batch: Batch[SsimConfiguration], gpu: Gpu) -> Counts:
        """Memory accesses, arithmetic and barriers."""
        return _known(problem, _designs(batch), gpu)

    def design_traits(self, problem: Ssim, batch: Batch[SsimConfiguration], gpu: Gpu) -> tuple[str, Traits]:
        """The nine kernels as one design."""
        geometry, known = self.launch(problem, batch, gpu), self.closed_counts(problem, batch, gpu)
        return self.name, traits(problem, _configurations(batch), geometry, known)

    def compile_request(self, problem: Ssim, configuration: SsimConfiguration, gpu: Gpu) -> CompileRequest:
        """The kernel of the version."""
        return launch.compile_request(problem, configuration)

    def inputs(self, problem: Ssim, rng: np.random.Generator) -> Inputs:
        """Two images that are alike."""
        return reference.inputs(problem, rng)

    def call(self, problem: Ssim, configuration: SsimConfiguration, gpu: Gpu, inputs: Inputs) -> KernelCall:
        """Output maps, both images, channels, height, width."""
        return reference.call(problem, design_of(configuration), inputs)

    def reference(self, problem: Ssim, inputs: Inputs) -> Mapping[str, NDArray[np.float64]]:
        """The exact maps."""
        return reference.similarity(problem, inputs["image1"], inputs["image2"])

    def tolerance(self, problem: Ssim) -> float:
        """Sums of 22 rounded products, and variances as differences of numbers some times larger: 1e-5 of the largest value."""
        return 1e-5


def _configurations(batch: Batch[SsimConfiguration]) -> list[SsimConfiguration]:
    return [batch.configuration(index) for index in range(len(batch))]


def _designs(batch: Batch[SsimConfiguration]) -> list[Design]:
    return [design_of(configuration) for configuration in _configurations(batch)]


def _known(problem: Ssim, designs: Sequence[Design], gpu: Gpu) -> Counts:
    """Closed forms of the designs."""
    counts = [closed_form(problem, design, gpu) for design in designs]
    return Counts(**{name: np.array([getattr(one, name) for one in counts]) for name in COUNT_NAMES})


FAMILY = SsimFamily()
