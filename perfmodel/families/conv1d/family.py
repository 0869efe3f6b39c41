"""The family ``conv1d``: everything about it behind the interface that all families share."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ...compiler.request import CompileRequest
from ...definitions import FLOAT_BYTES, MAX_THREADS_PER_BLOCK
from ...gpu import Gpu
from ...launch import Buffer, KernelCall, Launch
from ...work import Work
from ..base import Batch, Check, Family, Space
from .configuration import Conv1dConfiguration, Variant, conv1d_space
from .geometry import owners, staging_words, threads_per_block, tree_width, warp_sum_words
from .overflow import overrun_floats
from .problem import Conv1d
from .published import published_choice
from .reference import conv1d_reference
from .registers import estimated_registers
from .work import conv1d_work

Floats32 = NDArray[np.float32]

MAX_UNROLLED_INSTRUCTIONS = 12_000
"""Code of one thread, all unrolled: beyond this the compiler takes minutes and the code leaves every cache."""
INSTRUCTIONS_PER_SUM = 20
"""Additions, shuffles or barriers that bring one output's sums together."""

RELATIVE_TOLERANCE = 1e-5


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
        """The naive kernel has a thread for each channel, no thread is idle, and the unrolled code must stay compilable."""
        naive = batch.equals("variant", Variant.NAIVE)
        channels_per_thread = np.where(naive, 1, batch["channels_per_thread"])
        unrolled = channels_per_thread * problem.products_per_channel + INSTRUCTIONS_PER_SUM * problem.output_length
        return (
            Check(
                reason="threads of the naive variant, one for each input channel",
                rejected=naive & (problem.in_channels > MAX_THREADS_PER_BLOCK),
                value=problem.in_channels,
                limit=MAX_THREADS_PER_BLOCK,
            ),
            Check(
                reason="channels_per_thread",
                rejected=channels_per_thread > problem.in_channels,
                value=channels_per_thread,
                limit=f"in_channels={problem.in_channels}",
            ),
            Check(
                reason="unrolled instructions per thread",
                rejected=unrolled > MAX_UNROLLED_INSTRUCTIONS,
                value=unrolled,
                limit=MAX_UNROLLED_INSTRUCTIONS,
            ),
        )

    def launch(self, problem: Conv1d, batch: Batch[Conv1dConfiguration], gpu: Gpu) -> Launch:
        """One block for each output row; the optimized kernel stages in dynamic shared memory."""
        geometry = np.array([_block_geometry(problem, batch.configuration(i)) for i in range(len(batch))], np.int64)
        threads, static_words, dynamic_words = geometry.reshape(-1, 3).T
        return Launch(
            grid_x=np.full(len(batch), problem.blocks, np.int64),
            block_x=threads,
            static_shared_bytes=FLOAT_BYTES * static_words,
            dynamic_shared_bytes=FLOAT_BYTES * dynamic_words,
        )

    def work(self, problem: Conv1d, batch: Batch[Conv1dConfiguration], gpu: Gpu) -> Work:
        """Counts of the phases one by one; see ``counts_naive`` and ``counts_optimized``."""
        configurations = [batch.configuration(i) for i in range(len(batch))]
        return conv1d_work(problem, configurations, self.launch(problem, batch, gpu), gpu)

    def registers(self, problem: Conv1d, batch: Batch[Conv1dConfiguration], gpu: Gpu) -> NDArray[np.int32]:
        """Estimate of registers per thread, see ``registers``."""
        configurations = (batch.configuration(i) for i in range(len(batch)))
        return np.array([estimated_registers(problem, c, gpu) for c in configurations], np.int32)

    def compile_request(self, problem: Conv1d, configuration: Conv1dConfiguration, gpu: Gpu) -> CompileRequest:
        """The kernel with every size a compile-time constant."""
        kernel = f"conv1d_{configuration.variant.value}"
        if configuration.channels_per_thread is None:
            own: tuple[tuple[str, int], ...] = (("TREE_WIDTH", tree_width(problem)),)
        else:
            own = (
                ("CHANNELS_PER_THREAD", configuration.channels_per_thread),
                ("OWNERS", owners(problem, configuration.channels_per_thread)),
                ("THREADS", threads_per_block(problem, configuration.channels_per_thread)),
            )
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
                *own,
            ),
        )

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
        """1e-5: sums of in_channels · filter_width products of magnitude 1, of which a thread adds a short run in sequence."""
        return RELATIVE_TOLERANCE

    def notes(self, problem: Conv1d, configuration: Conv1dConfiguration, gpu: Gpu) -> tuple[str, ...]:
        """The author's choice for this shape, and where the published kernel would corrupt memory, by how much.

        >>> from perfmodel.gpus import load_gpu
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


def _block_geometry(problem: Conv1d, configuration: Conv1dConfiguration) -> tuple[int, int, int]:
    """Threads, static and dynamic shared words of a block."""
    if configuration.channels_per_thread is None:
        return problem.in_channels, problem.in_channels, 0
    channels_per_thread = configuration.channels_per_thread
    return (
        threads_per_block(problem, channels_per_thread),
        warp_sum_words(problem, channels_per_thread),
        staging_words(problem, channels_per_thread),
    )
