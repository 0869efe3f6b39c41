"""Predictions of single configurations, at any fidelity, out of the evaluation of arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import InfeasibleError, InputError
from ..families.base import Batch, Family
from ..families.registry import family_of
from ..gpus.gpu import Gpu
from ..profiles.facts import Advance, Facts, estimated_resources, no_progress, refined_work
from ..profiles.gather import Outcome, gather_facts
from ..time_model.combine import LIMITER_NAMES, limiters
from .evaluation import Evaluation, evaluate
from .feasibility import FITS, Feasibility, feasibility
from .launch_features import Launches
from .prediction import Corrected, Fidelity, Prediction, ResidentBlocks, TimePrediction, plain
from .scenario import Scenario

ESTIMATED_NOTE = "counts in closed form; instruction mix and registers are estimates (nothing was compiled)"


def evaluate_scenario(
    family: Family[Any, Any], problem: Any, batch: Batch[Any], scenario: Scenario, facts: Sequence[Facts] | None = None
) -> Evaluation:
    """Evaluate a batch under conditions, with the facts of each candidate where they are known."""
    work = family.work(problem, batch, scenario.gpu)
    registers = None
    if facts is not None:
        work, registers = refined_work(work, facts)
    return evaluate(
        family, problem, batch, scenario.gpu, scenario.calibration, work=scenario.apply(work), registers=registers
    )


def prediction_at(
    family: Family[Any, Any],
    problem: Any,
    found: Evaluation,
    index: int,
    scenario: Scenario,
    fidelity: Fidelity,
    facts: Facts | None,
    residual: Corrected | None = None,
) -> Prediction:
    """The record of one candidate of an evaluation."""
    configuration = found.batch.configuration(index)
    seconds = float(found.seconds[index])
    launch = found.work.launch
    resources = estimated_resources(launch, int(found.registers[index]), index) if facts is None else facts.resources
    occupancy = found.occupancy.at(index)
    terms = found.terms.at(index)
    notes = (ESTIMATED_NOTE,) if facts is None else facts.notes
    return Prediction(
        kernel=family.name,
        gpu=scenario.gpu.id,
        fidelity=fidelity,
        exact=facts is not None and facts.exact,
        problem=problem,
        configuration=configuration,
        resources=resources,
        occupancy=ResidentBlocks(
            blocks_per_sm=int(occupancy.blocks_per_sm),
            warps_per_sm=int(occupancy.warps_per_sm),
            fraction=float(occupancy.fraction),
            limiter=", ".join(limiter.value for limiter in found.occupancy.limiters(index)),
        ),
        counts=found.work.counts.at(index),
        time=TimePrediction(
            predicted_s=seconds,
            interval_s=scenario.calibration.for_kernel(family.name).interval_s(seconds),
            limiter=LIMITER_NAMES[int(limiters(terms)[0])],
            calibration_status=scenario.calibration.calibration_status.value,
            terms=terms,
        ),
        notes=(*notes, *family.notes(problem, configuration, scenario.gpu)),
        residual=residual,
    )


def corrections(
    found: Evaluation, scenario: Scenario, fidelity: Fidelity, facts: Sequence[Facts] | None
) -> Sequence[Corrected | None]:
    """What the conditions' residual makes of each candidate; None without one, or short of the fidelity it was learned at."""
    residual = scenario.residual
    if residual is None or residual.origin.fidelity is not fidelity:
        return [None] * len(found)
    return residual.corrected(launches_of(found, scenario.gpu, facts), found.seconds)


def launches_of(found: Evaluation, gpu: Gpu, facts: Sequence[Facts] | None = None) -> Launches:
    """The candidates of an evaluation as launches with features; no code is known without facts."""
    code = [0] * len(found) if facts is None else [fact.resources.code_bytes for fact in facts]
    return Launches(
        gpu=gpu,
        work=found.work,
        blocks_per_sm=np.maximum(found.occupancy.blocks_per_sm, 1),
        registers=found.registers,
        code_bytes=np.array(code, np.int64),
    )


def require_residual(kernel: str, scenario: Scenario, fidelity: Fidelity) -> None:
    """``InputError`` where the conditions have a residual that was learned of something else."""
    if scenario.residual is not None:
        scenario.residual.origin.require(kernel, scenario.gpu, scenario.l2, fidelity)


def facts_or_raise(outcomes: Sequence[Outcome]) -> list[Facts]:
    """Facts of all configurations; the first failure is raised."""
    for outcome in outcomes:
        if not isinstance(outcome, Facts):
            raise outcome
    return [outcome for outcome in outcomes if isinstance(outcome, Facts)]


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
    require_residual(family.name, scenario, fidelity)
    if not configurations:
        return []
    batch: Batch[Any] = Batch.of(configurations)
    few = 1  # before anything is counted or compiled: the compiler may find ways with fewer registers than the estimate
    gpu = scenario.gpu
    _require_feasible(feasibility(family, problem, batch, gpu, family.launch(problem, batch, gpu), few), gpu)
    facts = None
    if fidelity is not Fidelity.ANALYTIC:
        facts = facts_or_raise(gather_facts(family, problem, batch, gpu, fidelity=fidelity, advance=advance))
    found = evaluate_scenario(family, problem, batch, scenario, facts)
    _require_feasible(found.feasibility, gpu)
    residuals = corrections(found, scenario, fidelity, facts)
    return [
        prediction_at(family, problem, found, i, scenario, fidelity, None if facts is None else facts[i], residuals[i])
        for i in range(len(batch))
    ]


def _require_feasible(found: Feasibility, gpu: Gpu) -> None:
    for index in np.flatnonzero(found.reason_codes != FITS).tolist():
        fields = plain(found.batch.configuration(index))
        text = " ".join(f"{name}={value}" for name, value in fields.items())
        raise InfeasibleError(f"configuration {text}: {found.rejection(index, gpu)}")
