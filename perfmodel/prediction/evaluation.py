"""From kernel profiles to times: which launches can run, what they do, how long they take. The one path of all commands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.counts import Counts
from ..families.base import Batch, Check, Family
from ..gpus.occupancy import Occupancy
from ..memory.l2 import written_by_the_end
from ..profiles.kernel_profile import KernelProfile, completed_by, stacked
from ..time_model.combine import Terms, launch_seconds
from .feasibility import FITS, Feasibility, feasibility
from .scenario import Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """n launches on one GPU; arrays have shape ``(n,)``.

    Attributes:
        feasibility: Which can run, and what of them is resident on an SM.
        profile: What the time model took; ``dram_write_bytes`` of closed forms is all that is written.
        counts: What the launches do, by the names and meanings of counters.
        seconds: Device time, infinite where a launch cannot run.
        terms: Time of every resource.
    """

    feasibility: Feasibility
    profile: KernelProfile
    counts: Counts
    seconds: NDArray[np.float64]
    terms: Terms

    def __len__(self) -> int:
        return len(self.seconds)

    @property
    def occupancy(self) -> Occupancy:
        """What of each launch is resident on an SM."""
        return self.feasibility.occupancy


def evaluate(profile: KernelProfile, scenario: Scenario, checks: Sequence[Check] = ()) -> Evaluation:
    """Evaluate n launches, whatever their profiles come from.

    Args:
        profile: Of n launches, nothing unknown but the slowest warp; registers of shape ``(n,)``.
        scenario: GPU, clock, state of the L2, calibration.
        checks: Limits beside those of the GPU.
    """
    gpu = scenario.gpu
    profile = scenario.apply(profile)
    can_run = feasibility(profile.launch, profile.registers, gpu, checks)
    resident = can_run.occupancy
    seconds, terms = launch_seconds(
        profile, np.maximum(resident.blocks_per_sm, 1), gpu, scenario.calibration.coefficients
    )
    by_the_end = written_by_the_end(profile.counts, gpu).dram_write_bytes
    reached = np.where(profile.caches_simulated, profile.counts.dram_write_bytes, by_the_end)
    return Evaluation(
        feasibility=can_run,
        profile=profile,
        counts=replace(profile.counts, dram_write_bytes=reached),
        seconds=np.where(can_run.reason_codes == FITS, seconds, np.inf),
        terms=terms,
    )


def evaluate_batch(
    family: Family[Any, Any],
    problem: Any,
    batch: Batch[Any],
    scenario: Scenario,
    executed: Sequence[KernelProfile] | None = None,
) -> Evaluation:
    """Evaluate configurations of a family by its closed forms, or by the executed profile of each where they are given."""
    profile = family.profile(problem, batch, scenario.gpu)
    if executed is not None:
        profile = completed_by(profile, stacked(executed))
    return evaluate(profile, scenario, family.checks(problem, batch, scenario.gpu))
