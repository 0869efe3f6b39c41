"""The family ``conv1d``: everything about it behind the interface that all families share."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ...compiler.request import CompileRequest
from ...core.counts import Counts
from ...gpus.gpu import Gpu
from ...gpus.occupancy import occupancy
from ...launch.launch import KernelCall, Launch
from ...profiles.kernel_profile import KernelProfile
from ..base import Batch, Check, Family, Space
from ..compiled_members import Traits, compiled_numbers, completed_profile
from . import reference
from .configuration import Conv1dConfiguration, Variant, conv1d_space
from .counts import Tally, tally
from .launch import compile_request, conv1d_launch
from .problem import Conv1d, drawn_problem
from .reference import Floats32
from .traffic import Traffic, traffic
from .traits import traits


class Conv1dFamily(Family[Conv1d, Conv1dConfiguration]):
    """Dense 1-D convolution, one block for each output channel of each batch element."""

    name: ClassVar[str] = "conv1d"
    summary: ClassVar[str] = "dense 1-D convolution of short rows, several input channels per thread"
    problem_type = Conv1d
    configuration_type = Conv1dConfiguration

    def default_problem(self) -> Conv1d:
        """The shape whose hardware profile is published: 1,024 channels to 1,024 channels, rows of 4."""
        return Conv1d()

    def drawn_problem(self, rng: np.random.Generator) -> Conv1d:
        """Short rows of many channels, and long ones."""
        return drawn_problem(rng)

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
        return conv1d_launch(problem, batch, gpu)

    def profile(self, problem: Conv1d, batch: Batch[Conv1dConfiguration], gpu: Gpu) -> KernelProfile:
        """Memory accesses in closed form; registers, instructions and critical path interpolated."""
        launch, configurations = conv1d_launch(problem, batch, gpu), _configurations(batch)
        tallies = [tally(problem, configuration, gpu) for configuration in configurations]
        numbers = compiled_numbers(self.name, traits(problem, configurations, tallies, launch, gpu), launch, gpu)
        shared_bytes = np.asarray(launch.static_shared_bytes) + np.asarray(launch.dynamic_shared_bytes)
        resident = occupancy(
            gpu,
            threads_per_block=launch.threads_per_block,
            registers_per_thread=numbers.registers_per_thread,
            shared_bytes_per_block=shared_bytes,
        ).blocks_per_sm
        outer = [
            traffic(problem, one, gpu, done, resident_blocks=max(1, int(blocks)), shared_bytes=int(of_block))
            for one, done, blocks, of_block in zip(configurations, tallies, resident, shared_bytes, strict=True)
        ]
        behind_l1 = {
            field.name: np.array([getattr(one, field.name) for one in outer], float) for field in fields(Traffic)
        }
        return completed_profile(replace(_counts(tallies), **behind_l1), numbers, launch, read_only_share=1.0)

    def closed_counts(self, problem: Conv1d, batch: Batch[Conv1dConfiguration], gpu: Gpu) -> Counts:
        """Memory accesses up to L1 and instructions that follow from the algorithm."""
        return _counts([tally(problem, configuration, gpu) for configuration in _configurations(batch)])

    def design_traits(self, problem: Conv1d, batch: Batch[Conv1dConfiguration], gpu: Gpu) -> tuple[str, Traits]:
        """The four kernels as one design."""
        configurations = _configurations(batch)
        tallies = [tally(problem, configuration, gpu) for configuration in configurations]
        return self.name, traits(problem, configurations, tallies, conv1d_launch(problem, batch, gpu), gpu)

    def compile_request(self, problem: Conv1d, configuration: Conv1dConfiguration, gpu: Gpu) -> CompileRequest:
        """The kernel with every size a compile-time constant."""
        return compile_request(problem, configuration, gpu)

    def inputs(self, problem: Conv1d, rng: np.random.Generator) -> Mapping[str, Floats32]:
        """Uniform numbers in [−1, 1) for input, weights and bias."""
        return reference.inputs(problem, rng)

    def call(
        self, problem: Conv1d, configuration: Conv1dConfiguration, gpu: Gpu, inputs: Mapping[str, Floats32]
    ) -> KernelCall:
        """Poisoned output, then the three inputs."""
        return reference.call(problem, inputs)

    def reference(self, problem: Conv1d, inputs: Mapping[str, Floats32]) -> Mapping[str, NDArray[np.float64]]:
        """The exact result by the name ``output``."""
        return {"output": reference.convolve(problem, inputs["input"], inputs["weights"], inputs["bias"])}

    def tolerance(self, problem: Conv1d) -> float:
        """1e-5, or what as many random roundings as there are products leave of a sum where those are more than 28,000."""
        return max(reference.RELATIVE_TOLERANCE, reference.UNIT_ROUNDOFF * math.sqrt(problem.weight_words))


def _configurations(batch: Batch[Conv1dConfiguration]) -> list[Conv1dConfiguration]:
    return [batch.configuration(i) for i in range(len(batch))]


def _counts(tallies: Sequence[Tally]) -> Counts:
    """Counts of the whole launch of each configuration, arrays of shape ``(n,)``."""
    rows = [_counts_of(done) for done in tallies]
    names = dict.fromkeys(name for row in rows for name in row)
    return Counts(**{name: np.array([row.get(name, 0) for row in rows], np.float64) for name in names})


def _counts_of(done: Tally) -> dict[str, int]:
    loads = done.input_loads + done.weight_loads + done.bias_loads
    shared_loads, shared_stores = done.shared_loads * done.blocks, done.shared_stores * done.blocks
    shared = shared_loads + shared_stores
    return {
        "global_load_requests": loads.requests,
        "global_load_sectors": loads.sectors,
        "global_load_lines": loads.lines,
        "global_store_requests": done.stores.requests,
        "global_store_sectors": done.stores.sectors,
        "shared_load_requests": shared_loads.requests,
        "shared_store_requests": shared_stores.requests,
        "shared_load_wavefronts": shared_loads.wavefronts,
        "shared_store_wavefronts": shared_stores.wavefronts,
        "shared_bank_conflicts": shared.wavefronts - shared.ideal,
        **{name: done.blocks * count for name, count in done.instructions.items()},
    }
