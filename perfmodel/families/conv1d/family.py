"""The family ``conv1d``: everything about it behind the interface that all families share."""

from __future__ import annotations

import math
from collections.abc import Mapping
from importlib import resources
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ...compiler.request import CompileRequest
from ...core.constants import FLOAT_BYTES
from ...gpus.gpu import Gpu
from ...launch.launch import Buffer, KernelCall, Launch
from ...profiles.facts import Facts, take_launch
from ...profiles.work import Work
from ..base import Batch, Check, Family, Space
from .configuration import Conv1dConfiguration, Variant, conv1d_space
from .geometry import naive_threads, owners, staging_words, threads_per_block, tree_width, warp_sum_words
from .kernels import Kernel, kernel_of
from .long_rows import long_row_facts
from .overflow import overrun_floats
from .problem import Conv1d
from .published import published_choice
from .reference import conv1d_reference
from .registers import estimated_registers
from .tiling import tiling
from .work import conv1d_work

Floats32 = NDArray[np.float32]

RELATIVE_TOLERANCE = 1e-5
UNIT_ROUNDOFF = 2.0**-24


class Conv1dFamily(Family[Conv1d, Conv1dConfiguration]):
    """Dense 1-D convolution, one block for each output channel of each batch element."""

    name: ClassVar[str] = "conv1d"
    summary: ClassVar[str] = "dense 1-D convolution of short rows, several input channels per thread"
    problem_type = Conv1d
    configuration_type = Conv1dConfiguration

    def default_problem(self) -> Conv1d:
        """The shape whose hardware profile is published: 1,024 channels to 1,024 channels, rows of 4."""
        return Conv1d()

    def space(self, problem: Conv1d, gpu: Gpu) -> Space[Conv1dConfiguration]:
        """The naive kernel, and the optimized one for every sensible number of channels per thread."""
        return conv1d_space(problem)

    def checks(self, problem: Conv1d, batch: Batch[Conv1dConfiguration], gpu: Gpu) -> tuple[Check, ...]:
        """No thread is without a channel; everything else runs, by one kernel or another."""
        channels_per_thread = np.where(batch.equals("variant", Variant.NAIVE), 1, batch["channels_per_thread"])
        return (
            Check(
                reason="channels_per_thread",
                rejected=channels_per_thread > problem.in_channels,
                value=channels_per_thread,
                limit=f"in_channels={problem.in_channels}",
            ),
        )

    def launch(self, problem: Conv1d, batch: Batch[Conv1dConfiguration], gpu: Gpu) -> Launch:
        """One block for each output row, or for each of its tiles; all but the naive kernels stage in dynamic shared memory."""
        geometry = np.array(
            [_block_geometry(problem, batch.configuration(i), gpu) for i in range(len(batch))], np.int64
        )
        blocks, threads, static_words, dynamic_words = geometry.reshape(-1, 4).T
        return Launch(
            grid_x=blocks,
            block_x=threads,
            static_shared_bytes=FLOAT_BYTES * static_words,
            dynamic_shared_bytes=FLOAT_BYTES * dynamic_words,
        )

    def work(self, problem: Conv1d, batch: Batch[Conv1dConfiguration], gpu: Gpu) -> Work:
        """Counts of the phases one by one; see ``counts_naive``, ``counts_optimized`` and the counts of their other kernels."""
        configurations = [batch.configuration(i) for i in range(len(batch))]
        return conv1d_work(problem, configurations, self.launch(problem, batch, gpu), gpu)

    def registers(self, problem: Conv1d, batch: Batch[Conv1dConfiguration], gpu: Gpu) -> NDArray[np.int32]:
        """Estimate of registers per thread, see ``registers``."""
        configurations = (batch.configuration(i) for i in range(len(batch)))
        return np.array([estimated_registers(problem, c, gpu) for c in configurations], np.int32)

    def compile_request(self, problem: Conv1d, configuration: Conv1dConfiguration, gpu: Gpu) -> CompileRequest:
        """The kernel with every size a compile-time constant."""
        return _request(problem, configuration, kernel_of(problem, configuration, gpu))

    def inputs(self, problem: Conv1d, rng: np.random.Generator) -> Mapping[str, Floats32]:
        """Uniform numbers in [−1, 1) for input, weights and bias."""
        shapes = {
            "input": (problem.batch, problem.in_channels, problem.length),
            "weights": (problem.out_channels, problem.in_channels, problem.filter_width),
            "bias": (problem.out_channels,),
        }
        return {name: rng.uniform(-1, 1, shape).astype(np.float32) for name, shape in shapes.items()}

    def call(
        self, problem: Conv1d, configuration: Conv1dConfiguration, gpu: Gpu, inputs: Mapping[str, Floats32]
    ) -> KernelCall:
        """Poisoned output, then the three inputs."""
        shape = (problem.batch, problem.out_channels, problem.output_length)
        output = Buffer(name="output", array=np.full(shape, np.nan, np.float32), output=True)
        return KernelCall(parameters=(output, *(Buffer(name=name, array=array) for name, array in inputs.items())))

    def reference(self, problem: Conv1d, inputs: Mapping[str, Floats32]) -> Mapping[str, NDArray[np.float64]]:
        """The exact result by the name ``output``."""
        return {"output": conv1d_reference(problem, inputs["input"], inputs["weights"], inputs["bias"])}

    def tolerance(self, problem: Conv1d) -> float:
        """1e-5, or what as many random roundings as there are products leave of a sum where those are more than 28,000."""
        return max(RELATIVE_TOLERANCE, UNIT_ROUNDOFF * math.sqrt(problem.weight_words))

    def facts(self, problem: Conv1d, configuration: Conv1dConfiguration, gpu: Gpu) -> Facts | None:
        """Those of the rolled naive kernel on long rows, see ``long_rows``; None for every other launch."""
        if kernel_of(problem, configuration, gpu) is not Kernel.NAIVE_ROLLED:
            return None

        def arguments(shorter: Conv1d) -> tuple[Launch, KernelCall]:
            launch = take_launch(self.launch(shorter, Batch.of([configuration]), gpu), 0)
            return launch, self.call(shorter, configuration, gpu, self.inputs(shorter, np.random.default_rng(0)))

        return long_row_facts(
            problem, gpu, lambda shorter: _request(shorter, configuration, Kernel.NAIVE_ROLLED), arguments
        )

    def notes(self, problem: Conv1d, configuration: Conv1dConfiguration, gpu: Gpu) -> tuple[str, ...]:
        """The author's choice for this shape, and where the published kernel would corrupt memory, by how much.

        >>> from perfmodel.gpus.catalogue import load_gpu
        >>> problem = Conv1d(in_channels=256, out_channels=256, length=8)
        >>> for note in Conv1dFamily().notes(problem, Conv1dConfiguration(channels_per_thread=2), load_gpu("h200")):
        ...     print(note)
        the published choice for this shape is channels_per_thread=2
        the published kernel would write 63 floats beyond its shared memory here; this one reserves them
        """
        choice, overrun = published_choice(problem), overrun_floats(problem, configuration)
        notes = []
        if choice is not None:
            notes.append(f"the published choice for this shape is channels_per_thread={choice}")
        if overrun:
            notes.append(
                f"the published kernel would write {overrun} floats beyond its shared memory here; this one reserves them"
            )
        return tuple(notes)


def _request(problem: Conv1d, configuration: Conv1dConfiguration, chosen: Kernel) -> CompileRequest:
    kernel = chosen.value
    return CompileRequest(
        source=resources.files("perfmodel.kernels").joinpath(f"{kernel}.cu").read_text(encoding="utf-8"),
        kernel=kernel,
        file_name=f"{kernel}.cu",
        defines=(
            ("BATCH", problem.batch),
            ("IN_CHANNELS", problem.in_channels),
            ("OUT_CHANNELS", problem.out_channels),
            ("LENGTH", problem.length),
            ("FILTER_WIDTH", problem.filter_width),
            ("PADDING", problem.padding),
            ("OUTPUT_LENGTH", problem.output_length),
            *_own_constants(problem, configuration, chosen),
        ),
    )


def _own_constants(problem: Conv1d, configuration: Conv1dConfiguration, chosen: Kernel) -> tuple[tuple[str, int], ...]:
    """Constants beside the problem's of the kernel that runs a configuration."""
    if configuration.channels_per_thread is None:
        threads = naive_threads(problem)
        tree = ("TREE_WIDTH", tree_width(threads))
        return (tree,) if chosen is Kernel.NAIVE else (tree, ("THREADS", threads))
    if chosen is Kernel.TILED:
        cut = tiling(problem, configuration.channels_per_thread)
        return (
            ("FIRST_TAP", problem.used_taps.start),
            ("USED_TAPS", cut.used_taps),
            ("OWNERS", cut.owners),
            ("THREADS", cut.threads),
            ("TILE", cut.tile),
            ("TAPS", cut.taps),
            ("STAGED_PER_THREAD", cut.staged_per_thread),
        )
    return (
        ("CHANNELS_PER_THREAD", configuration.channels_per_thread),
        ("OWNERS", owners(problem, configuration.channels_per_thread)),
        ("THREADS", threads_per_block(problem, configuration.channels_per_thread)),
    )


def _block_geometry(problem: Conv1d, configuration: Conv1dConfiguration, gpu: Gpu) -> tuple[int, int, int, int]:
    """Blocks, and the threads, static and dynamic shared words of one."""
    if configuration.channels_per_thread is None:
        threads = naive_threads(problem)
        return problem.blocks, threads, threads, 0
    channels_per_thread = configuration.channels_per_thread
    if kernel_of(problem, configuration, gpu) is Kernel.TILED:
        cut = tiling(problem, channels_per_thread)
        return problem.blocks * cut.tiles, cut.threads, cut.warp_sum_words, cut.staging_words
    return (
        problem.blocks,
        threads_per_block(problem, channels_per_thread),
        warp_sum_words(problem, channels_per_thread),
        staging_words(problem, channels_per_thread),
    )
