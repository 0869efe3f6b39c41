"""The family ``conv1d``: everything about it behind the interface that all families share."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...compiler.request import CompileRequest
from ...core.counts import Counts
from ...gpus.gpu import Gpu
from ...gpus.occupancy import occupancy
from ...launch.launch import KernelCall, Launch
from ...profiles.kernel_profile import KernelProfile
from .. import blocked
from ..base import Batch, Check, Family, Space
from ..blocked import Blocking, Tiles, blocking_of
from ..compiled_members import Traits, compiled_numbers, completed_profile
from ..designs import by_design
from . import reference
from .configuration import OF_BLOCKED, OUT_CHANNELS_PER_THREAD, Conv1dConfiguration, Variant, conv1d_space
from .counts import Tally, tally
from .launch import compile_request, conv1d_launch
from .problem import Conv1d
from .reference import Floats32
from .traffic import Traffic, read_bytes, traffic
from .traits import traits


class Conv1dFamily(Family[Conv1d, Conv1dConfiguration]):
    """Dense 1-D convolution: blocks of one output row, whose threads share out the input channels, or implicit GEMM."""

    name: ClassVar[str] = "conv1d"
    summary: ClassVar[str] = "dense 1-D convolution: several input channels per thread for short rows, or blocked"
    problem_type = Conv1d
    configuration_type = Conv1dConfiguration
    measurement_defaults: ClassVar[Mapping[str, Any]] = dict.fromkeys(OF_BLOCKED)
    designs: ClassVar[Mapping[str, int]] = {"conv1d": 200, blocked.KERNEL: 50}

    def default_problem(self) -> Conv1d:
        """The shape whose hardware profile is published: 1,024 channels to 1,024 channels, rows of 4."""
        return Conv1d()

    def space(self, problem: Conv1d, gpu: Gpu) -> Space[Conv1dConfiguration]:
        """The naive kernel, the optimized one for every sensible number of channels per thread, and the blocked design."""
        return conv1d_space(problem)

    def checks(self, problem: Conv1d, batch: Batch[Conv1dConfiguration], gpu: Gpu) -> tuple[Check, ...]:
        """No thread is without a channel, no tile beyond the problem; everything else runs, by one kernel or another."""
        channels_per_thread = np.maximum(batch["channels_per_thread"], 1)
        return (
            Check(
                reason="channels_per_thread",
                rejected=channels_per_thread > problem.in_channels,
                value=channels_per_thread,
                limit=f"in_channels={problem.in_channels}",
            ),
            *blocked.checks(problem.layer, _blocking(batch), _blocks(batch), "variant=blocked"),
        )

    def launch(self, problem: Conv1d, batch: Batch[Conv1dConfiguration], gpu: Gpu) -> Launch:
        """One block for each output row or each of its tiles; if blocked, for tiles of several rows and channels."""
        return by_design(
            batch,
            _blocks(batch),
            lambda part: conv1d_launch(problem, part, gpu),
            lambda part: blocked.launch_of(problem.layer, _tiles(problem, part, gpu)),
        )

    def profile(self, problem: Conv1d, batch: Batch[Conv1dConfiguration], gpu: Gpu) -> KernelProfile:
        """Memory accesses in closed form; registers, instructions and critical path interpolated."""
        return by_design(
            batch,
            _blocks(batch),
            lambda part: _rows_profile(problem, part, gpu),
            lambda part: _blocks_profile(problem, part, gpu),
        )

    def closed_counts(self, problem: Conv1d, batch: Batch[Conv1dConfiguration], gpu: Gpu) -> Counts:
        """Memory accesses up to L1 and instructions that follow from the algorithm."""
        return by_design(
            batch,
            _blocks(batch),
            lambda part: _counts([tally(problem, configuration, gpu) for configuration in _configurations(part)]),
            lambda part: _blocks_closed_form(problem, part, gpu),
        )

    def counts_accesses(self, configuration: Conv1dConfiguration) -> bool:
        """All but the blocked design, whose accesses at the ends of rows are estimates."""
        return configuration.variant is not Variant.BLOCKED

    def design_traits(self, problem: Conv1d, batch: Batch[Conv1dConfiguration], gpu: Gpu) -> tuple[str, Traits]:
        """The four kernels of rows as one design, and the blocked design."""
        if _blocks(batch).all():
            tile, known = _tiles(problem, batch, gpu), _blocks_closed_form(problem, batch, gpu)
            return blocked.KERNEL, blocked.traits(
                problem.layer, tile, blocked.launch_of(problem.layer, tile), known, gpu
            )
        configurations = _configurations(batch)
        tallies = [tally(problem, configuration, gpu) for configuration in configurations]
        return self.name, traits(problem, configurations, tallies, conv1d_launch(problem, batch, gpu), gpu)

    def compile_request(self, problem: Conv1d, configuration: Conv1dConfiguration, gpu: Gpu) -> CompileRequest:
        """The kernel with every size a compile-time constant; of the blocked design, those of filter and tile."""
        if configuration.variant is Variant.BLOCKED:
            return blocked.compile_request(problem.layer, _blocking(Batch.of([configuration])), gpu)
        return compile_request(problem, configuration, gpu)

    def inputs(self, problem: Conv1d, rng: np.random.Generator) -> Mapping[str, Floats32]:
        """Uniform numbers in [−1, 1) for input, weights and bias."""
        return reference.inputs(problem, rng)

    def call(
        self, problem: Conv1d, configuration: Conv1dConfiguration, gpu: Gpu, inputs: Mapping[str, Floats32]
    ) -> KernelCall:
        """Poisoned output, the three inputs, and of the blocked design its sizes."""
        return reference.call(problem, configuration, inputs)

    def reference(self, problem: Conv1d, inputs: Mapping[str, Floats32]) -> Mapping[str, NDArray[np.float64]]:
        """The exact result by the name ``output``."""
        return {"output": reference.convolve(problem, inputs["input"], inputs["weights"], inputs["bias"])}

    def tolerance(self, problem: Conv1d) -> float:
        """1e-5, or what as many random roundings as there are products leave of a sum where those are more than 28,000."""
        return max(reference.RELATIVE_TOLERANCE, reference.UNIT_ROUNDOFF * math.sqrt(problem.weight_words))


def _blocks(batch: Batch[Conv1dConfiguration]) -> NDArray[np.bool_]:
    """Which configurations are blocked."""
    return batch.equals("variant", Variant.BLOCKED)


def _blocking(batch: Batch[Conv1dConfiguration]) -> Blocking:
    return blocking_of(batch, OUT_CHANNELS_PER_THREAD)


def _tiles(problem: Conv1d, batch: Batch[Conv1dConfiguration], gpu: Gpu) -> Tiles:
    return blocked.tiles(problem.layer, _blocking(batch), gpu)


def _blocks_profile(problem: Conv1d, batch: Batch[Conv1dConfiguration], gpu: Gpu) -> KernelProfile:
    """Configurations of the blocked design."""
    return blocked.profile(problem.layer, _tiles(problem, batch, gpu), gpu, float(read_bytes(problem)))


def _blocks_closed_form(problem: Conv1d, batch: Batch[Conv1dConfiguration], gpu: Gpu) -> Counts:
    tile = _tiles(problem, batch, gpu)
    launch = blocked.launch_of(problem.layer, tile)
    return blocked.closed_form(problem.layer, tile, launch, gpu, float(read_bytes(problem)))


def _rows_profile(problem: Conv1d, batch: Batch[Conv1dConfiguration], gpu: Gpu) -> KernelProfile:
    """Configurations whose blocks have one output row each."""
    launch, configurations = conv1d_launch(problem, batch, gpu), _configurations(batch)
    tallies = [tally(problem, configuration, gpu) for configuration in configurations]
    numbers = compiled_numbers(Conv1dFamily.name, traits(problem, configurations, tallies, launch, gpu), launch, gpu)
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
    behind_l1 = {field.name: np.array([getattr(one, field.name) for one in outer], float) for field in fields(Traffic)}
    return completed_profile(replace(_counts(tallies), **behind_l1), numbers, launch, read_only_share=1.0)


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
