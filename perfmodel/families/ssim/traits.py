"""What decides the machine code of the nine kernels, and what of it follows from the algorithm."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...core.constants import WARP_SIZE
from ...core.counts import Counts
from ...launch.launch import Launch
from ..code_estimates import code_estimates
from ..compiled_members import Traits, requests_of
from .configuration import Rows, SsimConfiguration, Version, design_of
from .problem import Ssim


def traits(problem: Ssim, configurations: Sequence[SsimConfiguration], launch: Launch, known: Counts) -> Traits:
    """Of every configuration; ``known`` are the counts that closed forms give.

    Rows of straight-line code are all of a patch, or those that are in shared memory at once where sums flow from register to
    register: there a loop walks down, so that tiles of all heights have the same code.
    """
    prologue = code_estimates().prologue_instructions
    of_launch = known.fp32_fma + known.fp32_other + known.special_function + known.barriers + requests_of(known)
    warps = np.asarray(launch.blocks * launch.threads_per_block / WARP_SIZE, np.float64)
    of_warp = of_launch / warps + prologue
    designs = [design_of(configuration) for configuration in configurations]
    channels = np.array([design.channels_of_block(problem) for design in designs])
    patch_height = np.array([design.patch_height for design in designs])
    straight = np.array([design.stages if design.rows is Rows.FLOW else design.patch_height for design in designs])
    return Traits(
        sizes={"channels": channels},
        choices={"gradients": problem.gradients}
        | {version.value: [version is one.version for one in configurations] for version in Version},
        warp_instructions=of_warp,
        launch_instructions=of_launch,
        index_instructions=of_launch + warps * prologue,
        code_instructions=of_warp / channels * straight / patch_height,
        round_trips=np.asarray(channels * patch_height, np.float64),
    )
