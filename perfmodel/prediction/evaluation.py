"""From kernel profiles to times: which launches can run, what they do, how long they take. The one path of all commands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.counts import Counts
from ..families.base import Batch, Check, Family
from ..gpus.gpu import Gpu
from ..gpus.occupancy import Occupancy, l1_cache_bytes
from ..launch.launch import L2State
from ..memory.l1 import pushed_out_sectors
from ..memory.l2 import written_by_the_end
from ..profiles.kernel_profile import KernelProfile, completed_by, stacked
from ..time_model.combine import Terms, launch_seconds
from ..time_model.sm_time import WAITED, sm_seconds
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
        followed: Where the time is that of the model of one SM.
    """

    feasibility: Feasibility
    profile: KernelProfile
    counts: Counts
    seconds: NDArray[np.float64]
    terms: Terms
    followed: NDArray[np.bool_]

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
    can_run = feasibility(profile.launch, profile.registers, gpu, checks)
    resident = can_run.occupancy
    cold = _with_pushed_out(profile, resident, gpu)
    profile = scenario.apply(cold)
    seconds, terms = launch_seconds(
        profile, np.maximum(resident.blocks_per_sm, 1), gpu, scenario.calibration.coefficients
    )
    seconds, terms, followed = _followed(cold, resident, scenario, seconds, terms)
    by_the_end = written_by_the_end(profile.counts, gpu).dram_write_bytes
    reached = np.where(profile.caches_simulated, profile.counts.dram_write_bytes, by_the_end)
    return Evaluation(
        feasibility=can_run,
        profile=profile,
        counts=replace(profile.counts, dram_write_bytes=reached),
        seconds=np.where(can_run.reason_codes == FITS, seconds, np.inf),
        terms=terms,
        followed=followed,
    )


def _with_pushed_out(profile: KernelProfile, resident: Occupancy, gpu: Gpu) -> KernelProfile:
    """The profile with what L2 gives again because L1 does not hold the lines of all blocks of an SM."""
    if not np.any(profile.reloaded_lines):
        return profile
    counts = profile.counts
    blocks = np.minimum(resident.blocks_per_sm, np.ceil(np.divide(profile.launch.blocks, gpu.sm_count)))
    again = np.maximum(counts.global_load_sectors - counts.l2_read_sectors, 0.0)
    l1_bytes = l1_cache_bytes(gpu, resident.shared_bytes_per_sm)
    pushed_out = pushed_out_sectors(again, profile.reloaded_lines, blocks, l1_bytes)
    counts = replace(counts, l2_read_sectors=counts.l2_read_sectors + pushed_out)
    return replace(profile, counts=counts, reloaded_lines=np.zeros_like(profile.reloaded_lines))


def _followed(
    profile: KernelProfile,
    occupancy: Occupancy,
    scenario: Scenario,
    seconds: NDArray[np.float64],
    terms: Terms,
) -> tuple[NDArray[np.float64], Terms, NDArray[np.bool_]]:
    """Times by the model of one SM where the warps of a launch were followed, and what they waited for.

    Code that the SM's instruction cache does not hold takes no less than by the closed form where a scheduler has several warps:
    those that are followed keep step and share what they fetch, while others go apart.

    No launch is faster than its atomics, which queue in L2, where one SM does not see those of the others.

    Args:
        profile: Of n launches.
        occupancy: What of them is resident on an SM.
        scenario: GPU, clock, state of the L2.
        seconds: Times by the closed form, shape ``(n,)``.
        terms: Its terms.
    """
    traces = np.broadcast_to(np.asarray(profile.traces, object), (len(seconds),))
    blocks_per_sm = np.broadcast_to(occupancy.blocks_per_sm, len(seconds))
    known = (
        np.array([one is not None for one in traces], np.bool_) & (blocks_per_sm > 0) & (not scenario.own_coefficients)
    )
    fetched = np.broadcast_to(profile.resources.code_bytes, len(seconds)) > scenario.gpu.instruction_cache_l1_bytes
    fetched = fetched & (_most_warps_of_an_sm(profile, blocks_per_sm, scenario.gpu) > scenario.gpu.schedulers_per_sm)
    if not known.any():
        return seconds, terms, known
    seconds, touched = seconds.copy(), np.broadcast_to(profile.touched_bytes, len(seconds))
    waits = {name: np.array(np.broadcast_to(getattr(terms, name), len(seconds)), np.float64) for name in WAITED}
    for index in np.flatnonzero(known).tolist():
        found = sm_seconds(
            traces[index],
            profile.launch.at(index),
            profile.counts.at(index),
            occupancy.at(index),
            scenario.gpu,
            warm=scenario.l2 is L2State.WARM,
            touched_bytes=float(touched[index]),
        )
        queued = float(np.broadcast_to(terms.atomics, len(seconds))[index]) + scenario.gpu.empty_kernel_s
        seconds[index] = max(found.seconds, queued, seconds[index] if fetched[index] else 0.0)
        for name, share in found.waits().items():
            waits[name][index] = share * found.seconds
    return seconds, replace(terms, **waits), known


def _most_warps_of_an_sm(profile: KernelProfile, blocks_per_sm: NDArray[np.int64], gpu: Gpu) -> NDArray[np.float64]:
    """Warps that share an SM at most, shape ``(n,)``."""
    launch = profile.launch
    blocks = np.minimum(np.ceil(launch.blocks / gpu.sm_count), blocks_per_sm)
    return np.asarray(blocks * launch.warps_per_block, np.float64)


def evaluate_batch(
    family: Family[Any, Any],
    problem: Any,
    batch: Batch[Any],
    scenario: Scenario,
    executed: Sequence[KernelProfile] | None = None,
) -> Evaluation:
    """Evaluate configurations of a family by its closed forms, or by the executed profile of each where they are given.

    Times of executed profiles are those of the model of one SM, unless the closed form was fitted nearer by.
    """
    profile = family.profile(problem, batch, scenario.gpu)
    if executed is not None and scenario.closed_form_is_nearer(family.name):
        executed = [replace(one, traces=None) for one in executed]
    if executed is not None:
        profile = completed_by(profile, stacked(executed))
    return evaluate(profile, scenario, family.checks(problem, batch, scenario.gpu))
