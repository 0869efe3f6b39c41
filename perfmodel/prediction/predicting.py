"""Predictions of configurations of a family, at any fidelity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.choices import one_of
from ..core.json_values import fields_text, plain
from ..core.progress import Advance, no_progress
from ..core.value_types import require_type
from ..errors import InfeasibleError, InputError, PerfmodelError
from ..families.base import Batch, Family
from ..families.profiling import Outcome, gather_profiles
from ..families.registry import family_of
from ..gpus.gpu import Gpu
from ..launch.launch import L2State
from ..profiles.kernel_profile import Fidelity, KernelProfile
from ..time_model.backing import Backing
from ..time_model.combine import LIMITER_NAMES, limiters
from ..time_model.sm_model import sm_backing
from .evaluation import Evaluation, evaluate_batch
from .feasibility import FITS, Feasibility, feasibility
from .grid_occupancy import achieved_blocks, waves_per_sm
from .prediction import Prediction, ResidentBlocks, TimePrediction
from .scenario import Scenario, scenario_of

ESTIMATED_NOTE = "counts in closed form; instruction mix and registers are estimates (nothing was compiled)"


def predict(
    problem: Any,
    configuration: Any,
    *,
    gpu: str | Gpu,
    fidelity: Fidelity | str = Fidelity.COMPILED,
    sm_clock_mhz: float | None = None,
    l2: L2State | str = L2State.COLD,
    calibration: str | None = None,
) -> Prediction:
    """One configuration predicted; arguments as for ``rank``.

    Raises:
        InfeasibleError: The configuration cannot run on the GPU; the text names the limit.

    >>> from perfmodel import TiledConv2d, TiledConv2dConfiguration
    >>> found = predict(TiledConv2d(), TiledConv2dConfiguration(), gpu="rtx-2080-ti", fidelity="analytic")
    >>> found.occupancy.blocks_per_sm
    8
    """
    return predict_many(
        problem,
        [configuration],
        gpu=gpu,
        fidelity=fidelity,
        sm_clock_mhz=sm_clock_mhz,
        l2=l2,
        calibration=calibration,
    )[0]


def predict_many(
    problem: Any,
    configurations: Sequence[Any],
    *,
    gpu: str | Gpu,
    fidelity: Fidelity | str = Fidelity.COMPILED,
    sm_clock_mhz: float | None = None,
    l2: L2State | str = L2State.COLD,
    calibration: str | None = None,
) -> list[Prediction]:
    """Several configurations of one problem, in order, compiled in parallel; arguments as for ``rank``.

    Raises:
        InfeasibleError: One of them cannot run on the GPU; the text names it and the limit.

    >>> from perfmodel import TiledConv2d, TiledConv2dConfiguration
    >>> two = [TiledConv2dConfiguration(block_size_x=size) for size in (32, 64)]
    >>> found = predict_many(TiledConv2d(), two, gpu="rtx-2080-ti", fidelity="analytic")
    >>> [one.occupancy.blocks_per_sm for one in found]
    [8, 4]
    """
    require_type(Sequence, "a list of them", configurations=configurations)
    scenario = scenario_of(gpu, sm_clock_mhz=sm_clock_mhz, l2=l2, calibration=calibration)
    return predict_all(problem, configurations, scenario, one_of(Fidelity, "fidelity", fidelity))


def predict_all(
    problem: Any,
    configurations: Sequence[Any],
    scenario: Scenario,
    fidelity: Fidelity = Fidelity.COMPILED,
    advance: Advance = no_progress,
) -> list[Prediction]:
    """Predict several configurations of one problem; raises ``InfeasibleError`` naming the limit that one breaks."""
    family = family_of(problem)
    for configuration in configurations:
        if not isinstance(configuration, family.configuration_type):
            kind = family.configuration_type.__name__
            raise InputError(f"{family.name} takes a {kind}, not {configuration!r}")
    if not configurations:
        return []
    batch: Batch[Any] = Batch.of(configurations)
    gpu = scenario.gpu
    # before anything is compiled: the compiler may need fewer registers than the estimate
    few, checks = np.ones(len(batch), np.int32), family.checks(problem, batch, gpu)
    _require_feasible(feasibility(family.launch(problem, batch, gpu), few, gpu, checks), batch, gpu)
    executed = None
    if fidelity is not Fidelity.ANALYTIC:
        outcomes = gather_profiles(family, problem, batch, gpu, fidelity=fidelity, stores=(), advance=advance)
        executed = profiles_or_raise(outcomes)
    found = evaluate_batch(family, problem, batch, scenario, executed)
    _require_feasible(found.feasibility, batch, gpu)
    return predictions_of(family, problem, batch, found, scenario, fidelity)


def profiles_or_raise(outcomes: Sequence[Outcome]) -> list[KernelProfile]:
    """Profiles of all configurations; the first failure is raised."""
    for outcome in outcomes:
        if isinstance(outcome, PerfmodelError):
            raise outcome
    return [outcome for outcome in outcomes if isinstance(outcome, KernelProfile)]


def _require_feasible(found: Feasibility, batch: Batch[Any], gpu: Gpu) -> None:
    for index in np.flatnonzero(found.reason_codes != FITS).tolist():
        text = fields_text(plain(batch.configuration(index)).items())
        raise InfeasibleError(f"configuration {text}: {found.rejection(index, gpu)}")


def predictions_of(
    family: Family[Any, Any],
    problem: Any,
    batch: Batch[Any],
    found: Evaluation,
    scenario: Scenario,
    fidelity: Fidelity,
    indices: Sequence[int] | None = None,
) -> list[Prediction]:
    """Predictions of the configurations of an evaluated batch, or of those at some indices."""
    predictions = []
    for index in range(len(batch)) if indices is None else indices:
        configuration = batch.configuration(index)
        prediction = prediction_at(
            found,
            index,
            scenario,
            fidelity,
            kernel=family.name,
            calibrated_kernel=family.name,
            problem=problem,
            configuration=configuration,
            notes=family.notes(problem, configuration, scenario.gpu),
        )
        predictions.append(prediction)
    return predictions


def prediction_at(
    found: Evaluation,
    index: int,
    scenario: Scenario,
    fidelity: Fidelity,
    *,
    kernel: str,
    calibrated_kernel: str | None,
    problem: Any,
    configuration: Any,
    notes: Sequence[str] = (),
) -> Prediction:
    """The record of one launch of an evaluation; ``calibrated_kernel`` names the kernel whose interval is taken."""
    seconds = float(found.seconds[index])
    profile, terms = found.profile.at(index), found.terms.at(index)
    backing = backing_of(calibrated_kernel, scenario, fidelity, followed=bool(found.followed[index]))
    own_notes = (ESTIMATED_NOTE,) if fidelity is Fidelity.ANALYTIC else str(profile.notes).splitlines()
    return Prediction(
        kernel=kernel,
        gpu=scenario.gpu.id,
        fidelity=fidelity,
        exact=bool(profile.exact),
        problem=problem,
        configuration=configuration,
        resources=profile.resources,
        occupancy=_resident_blocks(found, index, scenario.gpu),
        counts=found.counts.at(index),
        time=TimePrediction(
            predicted_s=seconds,
            interval_s=backing.interval_s(seconds),
            limiter=LIMITER_NAMES[int(limiters(terms)[0])],
            calibration_status=backing.status,
            terms=terms,
        ),
        notes=(*own_notes, *notes),
    )


def backing_of(kernel: str | None, scenario: Scenario, fidelity: Fidelity, *, followed: bool) -> Backing:
    """What backs the time of a kernel: the calibration, or the model of one SM where that has ``followed`` its warps."""
    return sm_backing(scenario.gpu, kernel) if followed else scenario.calibration.backing(kernel, fidelity)


def _resident_blocks(found: Evaluation, index: int, gpu: Gpu) -> ResidentBlocks:
    """Occupancy of one launch of an evaluation."""
    occupancy = found.occupancy.at(index)
    blocks, resident, warps = (
        int(np.broadcast_to(value, len(found))[index])
        for value in (found.profile.launch.blocks, occupancy.blocks_per_sm, found.profile.launch.warps_per_block)
    )
    achieved = warps * achieved_blocks(blocks, resident, float(found.seconds[index]), gpu)
    return ResidentBlocks(
        blocks_per_sm=resident,
        warps_per_sm=int(occupancy.warps_per_sm),
        fraction=float(occupancy.fraction),
        limiter=", ".join(limiter.value for limiter in found.occupancy.limiters(index)),
        waves_per_sm=float(waves_per_sm(blocks, resident, gpu)),
        achieved_warps_per_sm=achieved,
        achieved_fraction=achieved / gpu.max_warps_per_sm,
    )
