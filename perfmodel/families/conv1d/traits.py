"""What decides the machine code of the four kernels, and what of it follows from the algorithm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.constants import SHARED_BANKS, WARP_SIZE, ceil_div
from ...gpus.gpu import Gpu
from ...launch.launch import Launch
from ..code_estimates import code_estimates
from ..compiled_members import Traits
from .configuration import Conv1dConfiguration
from .counts import Tally, widest_vector
from .launch import Kernel, kernel_of, owners, tiling
from .problem import Conv1d


@dataclass(frozen=True, slots=True, kw_only=True)
class _Member:
    """Traits of one configuration, as numbers."""

    sizes: Mapping[str, int]
    choices: Mapping[str, bool]
    code_instructions: float


def _member(problem: Conv1d, configuration: Conv1dConfiguration, of_warp: float, gpu: Gpu) -> _Member:
    about = code_estimates()
    kernel, channels = kernel_of(problem, configuration, gpu), configuration.channels_per_thread
    tile, taps, chunks, code, block_owners = 1, 1, 1, of_warp, problem.in_channels
    if kernel is Kernel.NAIVE_ROLLED:
        code = about.conv1d_rolled_loop_instructions
    if channels is not None:
        block_owners = owners(problem, channels)
    if channels is not None and kernel is Kernel.TILED:
        cut = tiling(problem, channels)
        tile, taps, chunks = cut.tile, cut.taps, cut.chunks * len(cut.steps)
        code = cut.tile * cut.taps + 3 * (cut.tile + 2 * cut.taps) + about.prologue_instructions
    own = channels or 1
    row_words = problem.length * own
    return _Member(
        sizes={
            "channels_per_thread": own,
            "row_words": row_words,
            "weight_words": problem.filter_width * own,
            "outputs": problem.output_length,
            "used_taps": len(problem.used_taps),
            "owners": block_owners,
            "tile": tile,
            "taps": taps,
            "chunks": chunks,
            "row_vector": widest_vector(row_words),
            "weight_vector": widest_vector(problem.filter_width * own),
        },
        choices={
            "naive": kernel is Kernel.NAIVE,
            "rolled": kernel is Kernel.NAIVE_ROLLED,
            "tiled": kernel is Kernel.TILED,
            "splits_rows": kernel is Kernel.OPTIMIZED and row_words < SHARED_BANKS,
            "one_warp": block_owners <= WARP_SIZE,
            "pads": problem.padding > 0,
        },
        code_instructions=code,
    )


def traits(
    problem: Conv1d, configurations: Sequence[Conv1dConfiguration], tallies: Sequence[Tally], launch: Launch, gpu: Gpu
) -> Traits:
    """Of every configuration, with what each executes."""
    warps = np.atleast_1d(ceil_div(launch.threads_per_block, WARP_SIZE)).astype(np.float64)
    prologue = code_estimates().prologue_instructions
    blocks = np.array([done.blocks for done in tallies], np.float64)
    of_launch = blocks * [done.known_instructions for done in tallies] + [done.global_requests for done in tallies]
    of_warp = of_launch / (blocks * warps) + prologue
    members = [_member(problem, one, float(each), gpu) for one, each in zip(configurations, of_warp, strict=True)]

    def columns(records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        return {name: np.array([record[name] for record in records]) for name in records[0]}

    return Traits(
        sizes=columns([member.sizes for member in members]) | {"warps": warps},
        choices=columns([member.choices for member in members]),
        warp_instructions=of_warp,
        launch_instructions=of_launch,
        index_instructions=of_launch + blocks * warps * prologue,
        code_instructions=np.array([member.code_instructions for member in members]),
        round_trips=np.array([float(done.passes) for done in tallies]),
    )
