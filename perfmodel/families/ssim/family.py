"""The family ``ssim``: everything about it behind the interface that all families share."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...compiler.request import CompileRequest
from ...core.constants import MAX_GRID_YZ
from ...core.counts import COUNT_NAMES, Counts
from ...gpus.gpu import Gpu
from ...launch.launch import Buffer, KernelCall, Launch
from ...profiles.work import Work
from ..base import Batch, Check, Family, Product, Space
from .compiled_facts import code_facts
from .configuration import SsimConfiguration, Version
from .counts import closed_form, copies_asynchronously
from .design import DESIGNS, MAPS, Copy, Design
from .notes import explain
from .problem import Ssim
from .reference import similarity
from .tiling import tiling

Floats32 = NDArray[np.float32]

OUTPUTS = ("map", "dm_dmu1", "dm_dsigma1_sq", "dm_dsigma12")


def _versions(batch: Batch[SsimConfiguration]) -> list[Version]:
    members = list(Version)
    return [members[code] for code in batch["version"]]


def _designs(batch: Batch[SsimConfiguration]) -> list[Design]:
    return [DESIGNS[version] for version in _versions(batch)]


class SsimFamily(Family[Ssim, SsimConfiguration]):
    """Fused structural similarity with an 11-tap separable Gaussian window: nine kernels, one after the other."""

    name: ClassVar[str] = "ssim"
    summary: ClassVar[str] = "structural similarity of two images with an 11-tap Gaussian window, nine fused kernels"
    problem_type = Ssim
    configuration_type = SsimConfiguration

    def default_problem(self) -> Ssim:
        """One 4K colour image, as in the published measurement."""
        return Ssim()

    def space(self, problem: Ssim, gpu: Gpu) -> Space[SsimConfiguration]:
        """All versions."""
        return Space((Product(SsimConfiguration, {"version": tuple(Version)}),))

    def checks(self, problem: Ssim, batch: Batch[SsimConfiguration], gpu: Gpu) -> tuple[Check, ...]:
        """Limits of the grid in y and z."""
        rows = np.array([tiling(problem, design).grid_y for design in _designs(batch)])
        images = np.full(len(batch), problem.batch)
        return (
            Check(reason="blocks in y", rejected=rows > MAX_GRID_YZ, value=rows, limit=MAX_GRID_YZ),
            Check(reason="images in a batch", rejected=images > MAX_GRID_YZ, value=images, limit=MAX_GRID_YZ),
        )

    def launch(self, problem: Ssim, batch: Batch[SsimConfiguration], gpu: Gpu) -> Launch:
        """One block for each tile and image of the batch; it walks through the channels."""
        designs = _designs(batch)
        tilings = [tiling(problem, design) for design in designs]
        return Launch(
            grid_x=np.array([tiles.grid_x for tiles in tilings]),
            grid_y=np.array([tiles.grid_y for tiles in tilings]),
            grid_z=problem.batch,
            block_x=32,
            block_y=np.array([design.warps for design in designs]),
            static_shared_bytes=np.array([design.shared_bytes for design in designs]),
        )

    def work(self, problem: Ssim, batch: Batch[SsimConfiguration], gpu: Gpu) -> Work:
        """Counts in closed form, and how often a warp waits for global memory."""
        versions = _versions(batch)
        facts = [code_facts(problem, version) for version in versions]
        columns = [
            closed_form(problem, DESIGNS[version], known, gpu) for version, known in zip(versions, facts, strict=True)
        ]
        return Work(
            launch=self.launch(problem, batch, gpu),
            counts=Counts(**{name: np.array([getattr(column, name) for column in columns]) for name in COUNT_NAMES}),
            global_round_trips=np.array([float(_round_trips(problem, DESIGNS[v], gpu)) for v in versions]),
            independent_chains=np.array([float(_chains(DESIGNS[version])) for version in versions]),
            loop_code_bytes=np.array([float(known.loop_bytes) for known in facts]),
            local_bytes_per_thread=np.array([float(DESIGNS[version].stack_bytes) for version in versions]),
            read_only_share=np.array([_read_only_share(DESIGNS[version], gpu) for version in versions]),
        )

    def registers(self, problem: Ssim, batch: Batch[SsimConfiguration], gpu: Gpu) -> NDArray[np.int32]:
        """Registers that the compiler used when the table of ``compiled_facts`` was read."""
        return np.array([code_facts(problem, version).registers for version in _versions(batch)], np.int32)

    def compile_request(self, problem: Ssim, configuration: SsimConfiguration, gpu: Gpu) -> CompileRequest:
        """The kernel for tiles of its design; image size, batch and channels are run-time parameters."""
        kernel, design = f"ssim_{configuration.version.value}", DESIGNS[configuration.version]
        folder = resources.files("perfmodel.kernels").joinpath("ssim")
        return CompileRequest(
            source=folder.joinpath(f"{kernel}.cu").read_text(encoding="utf-8"),
            kernel=kernel,
            file_name=f"{kernel}.cu",
            defines=(
                ("TILE_WIDTH", design.tile_width),
                ("TILE_HEIGHT", design.tile_height),
                ("GRADIENTS", int(problem.gradients)),
            ),
            include_directories=(str(folder),),
        )

    def inputs(self, problem: Ssim, rng: np.random.Generator) -> Mapping[str, Floats32]:
        """Two images within [0, 1), the second half the first and half noise, so that the similarity is neither 0 nor 1."""
        shape = (problem.batch, problem.channels, problem.height, problem.width)
        image1 = rng.random(shape, np.float32)
        return {"image1": image1, "image2": (image1 + rng.random(shape, np.float32)) / np.float32(2)}

    def call(
        self, problem: Ssim, configuration: SsimConfiguration, gpu: Gpu, inputs: Mapping[str, Floats32]
    ) -> KernelCall:
        """Parameters: output maps, both images, channels, height, width."""
        outputs = OUTPUTS[: problem.output_maps]
        poisoned = [np.full(inputs["image1"].shape, np.nan, np.float32) for _ in outputs]
        buffers: list[Buffer | np.generic[Any]] = [
            Buffer(name=name, array=array, output=True) for name, array in zip(outputs, poisoned, strict=True)
        ]
        buffers += [Buffer(name=name, array=inputs[name]) for name in ("image1", "image2")]
        sizes = [np.int32(size) for size in (problem.channels, problem.height, problem.width)]
        return KernelCall(parameters=(*buffers, *sizes))

    def reference(self, problem: Ssim, inputs: Mapping[str, Floats32]) -> Mapping[str, NDArray[np.float64]]:
        """The exact maps."""
        return similarity(problem, inputs["image1"], inputs["image2"])

    def tolerance(self, problem: Ssim) -> float:
        """Sums of 22 rounded products, and variances as differences of numbers some times larger: 1e-5 of the largest value."""
        return 1e-5

    def notes(self, problem: Ssim, configuration: SsimConfiguration, gpu: Gpu) -> tuple[str, ...]:
        """Why this version is as fast or slow as it is, from its counts."""
        return explain(problem, configuration.version, gpu)


def _round_trips(problem: Ssim, design: Design, gpu: Gpu) -> int:
    """Waits of a warp: once a channel, as loads of a patch or copies of rows run ahead together, else once a row."""
    ahead = design.copy is Copy.LOAD or copies_asynchronously(gpu)
    return problem.channels * (1 if ahead else design.patch_height)


def _read_only_share(design: Design, gpu: Gpu) -> float:
    """All loads of C++ are by the read-only path; copies that fill with zeros have assembler text of their own."""
    loaded = design.copy is Copy.LOAD or (design.copy is Copy.GUARDED and not copies_asynchronously(gpu))
    return float(loaded)


def _chains(design: Design) -> int:
    """Sums of a thread that grow independently: one for a map at a time, or all maps of its columns at once."""
    return design.columns * (MAPS if design.stages else 1)


FAMILY = SsimFamily()
