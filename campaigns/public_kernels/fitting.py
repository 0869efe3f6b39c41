"""The fitted numbers of the model of one SM, from measured launches, and how far programs are off that a fit left out.

Least squares on log(measured / predicted), with a loss that forgives outliers. What a fit without one program would give, and how
far its launches are off by that, follows from the derivatives at the solution.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from perfmodel.calibration.fit import conformal_quantile
from perfmodel.core.progress import Advance, no_progress
from perfmodel.gpus.gpu import Gpu
from perfmodel.gpus.occupancy import Occupancy
from perfmodel.launch.launch import L2State
from perfmodel.prediction.feasibility import launch_occupancy
from perfmodel.prediction.scenario import Scenario
from perfmodel.profiles.kernel_profile import KernelProfile
from perfmodel.time_model.sm_model import SmModel, sm_model
from perfmodel.time_model.sm_time import sm_seconds
from perfmodel.time_model.terms import atomic_seconds

from .record import PublicRecord

FREE = ("dram_latency_factor", "drift", "first_block_latencies")
"""Numbers that are fitted; the others stay as they are."""
OUTLIER_LOG_ERROR = 0.1
"""Error from which on a launch counts as an outlier: what the model lacks says little of its numbers."""
STEP = 0.08
"""Part of a number by which it is changed for derivatives: what a simulation gives is a step function of it."""
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredLaunch:
    """One launch to fit to."""

    id: str
    program: str
    profile: KernelProfile
    occupancy: Occupancy
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
                occupancy=launch_occupancy(profile.launch, profile.resources.registers_per_thread, scenario.gpu),
                measured_s=timing.median_s,
            )
        )
    return found


def _model(factors: Floats) -> SmModel:
    """The present numbers times these factors."""
    present = sm_model()
    return replace(
        present, **{name: getattr(present, name) * factor for name, factor in zip(FREE, factors.tolist(), strict=True)}
    )


def log_errors(launches: Sequence[MeasuredLaunch], model: SmModel, gpu: Gpu, l2: L2State) -> Floats:
    """log(measured / predicted) of each launch."""
    found = np.zeros(len(launches))
    for index, one in enumerate(launches):
        predicted = sm_seconds(
            one.profile.traces,
            one.profile.launch,
            one.profile.counts,
            one.occupancy,
            gpu,
            warm=l2 is L2State.WARM,
            touched_bytes=float(one.profile.touched_bytes),
            model=model,
        )
        atomics = float(atomic_seconds(one.profile.counts, gpu)) + gpu.empty_kernel_s
        found[index] = np.log(one.measured_s / max(predicted.seconds, atomics))
    return found


def fit_sm(
    launches: Sequence[MeasuredLaunch], gpu: Gpu, l2: L2State, steps: int, advance: Advance = no_progress
) -> SmFit:
    """The numbers that fit best, and errors of programs left out; ``advance`` is called for each simulation of all launches."""
    from scipy.optimize import least_squares

    def errors(factors: Floats) -> Floats:
        advance()
        return log_errors(launches, _model(factors), gpu, l2)

    found = least_squares(
        errors,
        np.ones(len(FREE)),
        loss="soft_l1",
        f_scale=OUTLIER_LOG_ERROR,
        diff_step=[STEP] * len(FREE),
        max_nfev=steps,
    )
    at = errors(found.x)
    columns = [(errors(found.x * factor) - at) / STEP for factor in 1.0 + STEP * np.eye(len(FREE))]
    left_out, moved = left_out_errors(np.stack(columns, axis=1), at, [one.program for one in launches])
    return SmFit(
        model=_model(found.x),
        left_out=left_out,
        standard_errors=dict(zip(FREE, np.sqrt((moved**2).sum(axis=0)).tolist(), strict=True)),
    )


def left_out_errors(jacobian: Floats, errors: Floats, programs: Sequence[str]) -> tuple[Floats, Floats]:
    """Errors of each program's launches by a fit without it, and by how much each such fit moves the numbers.

    To first order: without the rows J of a program the solution moves by (A - JᵀJ)⁻¹ Jᵀ r, where A is the normal matrix of all
    rows and r are the program's errors, outliers at what they count.

    Args:
        jacobian: derivatives of the errors, shape ``(launches, numbers)``.
        errors: log(measured / predicted), shape ``(launches,)``.
        programs: of each launch.

    Returns:
        Errors of shape ``(launches,)`` and moves of shape ``(programs, numbers)``.

    >>> small = 1e-3 * np.array([1.0, 2.0, 6.0])  # of a single number that is added to all: their mean is 3e-3
    >>> errors, _ = left_out_errors(-np.ones((3, 1)), small - small.mean(), ["a", "b", "c"])
    >>> (1e3 * errors).round(2).tolist()  # 1 - (2 + 6) / 2, and so on
    [-3.0, -1.5, 4.5]
    """
    weights = (1.0 + (errors / OUTLIER_LOG_ERROR) ** 2) ** -0.5
    normal = (jacobian * weights[:, None]).T @ jacobian
    found, moves = errors.copy(), []
    names = np.array(programs)
    for program in dict.fromkeys(programs):
        own = names == program
        weighted = jacobian[own] * weights[own][:, None]
        move = np.linalg.solve(normal - weighted.T @ jacobian[own], weighted.T @ errors[own])
        found[own] += jacobian[own] @ move
        moves.append(move)
    return found, np.array(moves)


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
