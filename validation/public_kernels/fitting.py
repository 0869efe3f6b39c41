"""The fitted numbers of the model of one SM, from measured launches, and how far programs that a fit left out are off.

Vectors of numbers are drawn around the present ones, and each gives a time for every launch. The vector that fits all launches
best is written down. For the error of what was never seen, each program is predicted by the vector that fits the other programs
best.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
from numpy.typing import NDArray

from perfmodel.calibration.fit import conformal_quantile
from perfmodel.core.progress import Advance, no_progress
from perfmodel.gpus.gpu import Gpu
from perfmodel.gpus.occupancy import occupancy
from perfmodel.launch.launch import L2State
from perfmodel.prediction.scenario import Scenario
from perfmodel.profiles.kernel_profile import KernelProfile
from perfmodel.time_model.sm_time import SmModel, sm_model, sm_seconds
from perfmodel.time_model.terms import atomic_seconds

from .record import PublicRecord

FREE = (
    "latency_factor",
    "dram_efficiency",
    "loaded_latency",
    "block_start_cycles",
    "first_block_latencies",
    "barrier_cycles",
)
"""Numbers that are drawn; the others stay as they are."""
SPREAD = 0.13
"""Standard deviation of the logarithm of a drawn number."""
CAPPED_LOG_ERROR = 0.5
"""Error from which on a launch counts no more: what the model lacks altogether says nothing of its numbers."""
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredLaunch:
    """One launch to fit to."""

    id: str
    program: str
    profile: KernelProfile
    blocks_per_sm: int
    measured_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SmFit:
    """The best numbers of all launches, and log(measured / predicted) of each launch by numbers that its program had no part in.

    ``standard_errors``: of the logarithms of the free numbers, over fits that leave a program out.
    """

    model: SmModel
    left_out: Floats
    standard_errors: dict[str, float]

    def covered(self, programs: Sequence[str]) -> float:
        """Part of the launches within what 90 % of the launches of other programs are within."""
        names, sizes = np.array(programs), np.abs(self.left_out)
        limits = {name: conformal_quantile(sizes[names != name]) for name in set(programs)}
        return float(np.mean([size <= limits[name] for name, size in zip(programs, sizes.tolist(), strict=True)]))

    @property
    def log_error_90(self) -> float:
        """What 90 % of the left-out launches are within."""
        return conformal_quantile(np.abs(self.left_out))


def measured_launches(records: Sequence[PublicRecord], scenario: Scenario, l2: L2State) -> list[MeasuredLaunch]:
    """The launches that were timed in a state of L2 and whose warps were followed."""
    found = []
    for record in records:
        timing = record.timing(l2)
        if timing is None or not record.traces:
            continue
        profile = record.kernel_profile()
        found.append(
            MeasuredLaunch(
                id=record.launch.id,
                program=record.launch.program,
                profile=profile,
                blocks_per_sm=_resident(profile, scenario.gpu),
                measured_s=timing.median_s,
            )
        )
    return found


def _resident(profile: KernelProfile, gpu: Gpu) -> int:
    launch = profile.launch
    found = occupancy(
        gpu,
        threads_per_block=int(launch.threads_per_block),
        registers_per_thread=profile.resources.registers_per_thread,
        shared_bytes_per_block=int(launch.static_shared_bytes + launch.dynamic_shared_bytes),
        static_shared_bytes_per_block=int(launch.static_shared_bytes),
    )
    return int(found.blocks_per_sm)


def drawn_models(count: int, seed: int) -> list[SmModel]:
    """The present numbers, and ``count`` vectors drawn around them."""
    rng = np.random.default_rng(seed)
    present = sm_model()
    models = [present]
    for _ in range(count):
        factors = np.exp(SPREAD * rng.standard_normal(len(FREE)))
        drawn = {name: getattr(present, name) * factor for name, factor in zip(FREE, factors.tolist(), strict=True)}
        drawn["dram_efficiency"] = min(1.0, drawn["dram_efficiency"])
        models.append(replace(present, **drawn))
    return models


def log_errors(
    launches: Sequence[MeasuredLaunch], models: Sequence[SmModel], gpu: Gpu, l2: L2State, advance: Advance = no_progress
) -> Floats:
    """log(measured / predicted) of shape ``(models, launches)``; ``advance`` is called once a model."""
    found = np.zeros((len(models), len(launches)))
    for row, model in zip(found, models, strict=True):
        for index, one in enumerate(launches):
            predicted = sm_seconds(
                one.profile.traces,
                one.profile.launch,
                one.profile.counts,
                one.blocks_per_sm,
                gpu,
                warm=l2 is L2State.WARM,
                model=model,
            )
            atomics = float(atomic_seconds(one.profile.counts, gpu)) + gpu.empty_kernel_s
            row[index] = np.log(one.measured_s / max(predicted.seconds, atomics))
        advance()
    return found


def fit_sm(launches: Sequence[MeasuredLaunch], models: Sequence[SmModel], errors: Floats) -> SmFit:
    """The best of the models, and the errors of programs that were left out.

    Args:
        launches: what was measured.
        models: numbers to choose from.
        errors: log(measured / predicted) of shape ``(models, launches)``.
    """
    capped = np.minimum(np.abs(errors), CAPPED_LOG_ERROR)
    programs = np.array([one.program for one in launches])
    left_out = np.zeros(len(launches))
    chosen = []
    for program in np.unique(programs):
        own = programs == program
        best = int(capped[:, ~own].mean(axis=1).argmin())
        chosen.append(best)
        left_out[own] = errors[best, own]
    best = int(capped.mean(axis=1).argmin())
    logs = {name: np.log([asdict(models[index])[name] for index in chosen]) for name in FREE}
    scale = np.sqrt(len(chosen) - 1)  # of the jackknife
    return SmFit(
        model=models[best],
        left_out=left_out,
        standard_errors={name: float(values.std() * scale) for name, values in logs.items()},
    )


def fit_table(fit: SmFit, launches: Sequence[MeasuredLaunch]) -> str:
    """The numbers with their standard errors, and the errors of left-out programs, as Markdown."""
    present = sm_model()
    rows = ["| number | present | fitted | standard error |", "|---|---|---|---|"]
    for name in FREE:
        values = (getattr(model, name) for model in (present, fit.model))
        rows.append(
            f"| `{name}` | {' | '.join(f'{value:.4g}' for value in values)} | {fit.standard_errors[name]:.0%} |"
        )
    errors = np.abs(np.exp(-fit.left_out) - 1.0)
    programs = len({one.program for one in launches})
    rows += [
        "",
        f"{len(launches)} launches of {programs} programs, each program left out in turn: median error {np.median(errors):.1%}, "
        f"mean {errors.mean():.1%}, p90 {np.quantile(errors, 0.9):.1%}, within 15 % {np.mean(errors <= 0.15):.0%}, "
        f"within 2x {np.mean(np.abs(fit.left_out) <= np.log(2)):.0%}; left_out_log_error {fit.log_error_90:.3g}, "
        f"within that of other programs {fit.covered([one.program for one in launches]):.0%}",
    ]
    return "\n".join(rows) + "\n"
