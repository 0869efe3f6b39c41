"""Predictions of single configurations, at any fidelity, out of the evaluation of arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .conditions import Conditions
from .errors import InfeasibleError, InputError
from .evaluation import Evaluation, evaluate
from .facts import Advance, Facts, estimated_resources, no_progress, refined_work
from .families.base import Batch, Family
from .families.registry import family_of
from .gather import Outcome, gather_facts
from .gpu import Gpu
from .prediction import Fidelity, Prediction, ResidentBlocks, TimePrediction
from .time.combine import LIMITER_NAMES, limiters

ESTIMATED_NOTE = "counts in closed form; instruction mix and registers are estimates (nothing was compiled)"


def evaluate_under(
    family: Family[Any, Any], problem: Any, batch: Batch[Any], under: Conditions, facts: Sequence[Facts] | None = None
) -> Evaluation:
    """Evaluate a batch under conditions, with the facts of each candidate where they are known."""
    work = family.work(problem, batch, under.gpu)
    registers = None
    if facts is not None:
        work, registers = refined_work(work, facts)
    return evaluate(family, problem, batch, under.gpu, under.calibration, work=under.apply(work), registers=registers)


def prediction_at(
    family: Family[Any, Any],
    problem: Any,
    found: Evaluation,
    index: int,
    under: Conditions,
    fidelity: Fidelity,
    facts: Facts | None,
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
        gpu=under.gpu.id,
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
            interval_s=under.calibration.interval_s(seconds),
            limiter=LIMITER_NAMES[int(limiters(terms)[0])],
            evidence=under.calibration.evidence.value,
            terms=terms,
        ),
        notes=(*notes, *family.notes(problem, configuration, under.gpu)),
    )


def facts_or_raise(outcomes: Sequence[Outcome]) -> list[Facts]:
    """Facts of all configurations; the first failure is raised."""
    for outcome in outcomes:
        if not isinstance(outcome, Facts):
            raise outcome
    return [outcome for outcome in outcomes if isinstance(outcome, Facts)]


def predict_all(
    problem: Any,
    configurations: Sequence[Any],
    under: Conditions,
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
    _require_feasible(evaluate_under(family, problem, batch, under), under.gpu)
    facts = None
    if fidelity is not Fidelity.ANALYTIC:
        facts = facts_or_raise(gather_facts(family, problem, batch, under.gpu, fidelity=fidelity, advance=advance))
    found = evaluate_under(family, problem, batch, under, facts)
    _require_feasible(found, under.gpu)
    return [
        prediction_at(family, problem, found, i, under, fidelity, None if facts is None else facts[i])
        for i in range(len(batch))
    ]


def _require_feasible(found: Evaluation, gpu: Gpu) -> None:
    for index in np.flatnonzero(np.isinf(found.seconds)).tolist():
        raise InfeasibleError(f"configuration {found.batch.configuration(index)}: {found.rejection(index, gpu)}")
