"""The best configurations of a space: analytic over all of it, compiled for the best few dozen, simulated for the last."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .conditions import Conditions
from .errors import InfeasibleError, InputError
from .evaluation import Evaluation
from .facts import Advance, Facts, no_progress
from .families.base import Batch, Family
from .families.registry import family_of
from .gather import gather_facts
from .predicting import evaluate_under, prediction_at
from .prediction import Fidelity, Prediction, plain

COMPILED_CANDIDATES = 24
"""How many of the analytic best are compiled."""
SIMULATED_CANDIDATES = 8
"""How many of the compiled best are simulated with caches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """The space's size, why candidates were rejected, and the best ones, fastest first."""

    kernel: str
    gpu: str
    problem: Any
    fidelity: Fidelity
    candidates: int
    rejected: Mapping[str, int]
    top: tuple[Prediction, ...]
    notes: tuple[str, ...] = ()

    @property
    def best(self) -> Prediction:
        """The predicted fastest configuration."""
        return self.top[0]

    def to_json(self) -> dict[str, Any]:
        """The object of the JSON contract."""
        return {
            "kernel": self.kernel,
            "gpu": self.gpu,
            "problem": plain(self.problem),
            "fidelity": self.fidelity.value,
            "candidates": self.candidates,
            "rejected": dict(self.rejected),
            "top": [prediction.to_json() for prediction in self.top],
            "notes": list(self.notes),
        }


@dataclass(slots=True)
class _Survey:
    """The analytic pass over a whole space, chunk by chunk, keeping only the best."""

    candidates: int
    rejected: Counter[str]
    example: str
    best: Batch[Any] | None
    seconds: Any


def _merge(first: Batch[Any] | None, second: Batch[Any]) -> Batch[Any]:
    if first is None:
        return second
    return Batch(
        second.configuration_type,
        {name: np.concatenate([first[name], second[name]]) for name in second.columns},
    )


def survey(family: Family[Any, Any], problem: Any, under: Conditions, keep: int) -> _Survey:
    """Evaluate every candidate analytically; memory stays bounded whatever the space's size."""
    found = _Survey(0, Counter(), "", None, np.zeros(0))
    for every in family.space(problem, under.gpu).chunks():
        chunk = every.take(~family.redundant(problem, every, under.gpu))
        if not len(chunk):
            continue
        evaluation = evaluate_under(family, problem, chunk, under)
        found.candidates += len(chunk)
        found.rejected.update(evaluation.rejected())
        if not found.example and np.isinf(evaluation.seconds).any():
            found.example = str(evaluation.rejection(int(np.isinf(evaluation.seconds).argmax()), under.gpu))
        order = np.argsort(evaluation.seconds, kind="stable")[:keep]
        order = order[np.isfinite(evaluation.seconds[order])]
        seconds = np.concatenate([found.seconds, evaluation.seconds[order]])
        merged = _merge(found.best, chunk.take(order))
        best = np.argsort(seconds, kind="stable")[:keep]
        found.best, found.seconds = merged.take(best), seconds[best]
    return found


def rank_under(
    problem: Any,
    under: Conditions,
    fidelity: Fidelity = Fidelity.COMPILED,
    top: int = 10,
    advance: Advance = no_progress,
) -> Ranking:
    """Rank the whole space of the problem's family.

    ``advance`` is called once for each candidate that is compiled or simulated. Raises ``InfeasibleError`` where no
    candidate can run at all.
    """
    if top < 1:
        raise InputError(f"top={top} must be at least 1")
    family = family_of(problem)
    found = survey(family, problem, under, max(top, COMPILED_CANDIDATES))
    if found.best is None or not len(found.best):
        raise InfeasibleError(
            f"none of the {found.candidates} configurations of {family.name} fits {under.gpu.id}: {found.example}"
        )
    notes: list[str] = []
    if fidelity is Fidelity.ANALYTIC:
        evaluation = evaluate_under(family, problem, found.best, under)
        predictions = _predictions(family, problem, evaluation, under, fidelity, None)
    else:
        predictions = _refined(family, problem, found.best, under, Fidelity.COMPILED, advance, notes)
    if fidelity is Fidelity.SIMULATED:
        finalists = Batch.of([p.configuration for p in predictions[: max(top, SIMULATED_CANDIDATES)]])
        predictions = _refined(family, problem, finalists, under, fidelity, advance, notes)
    if not predictions:
        raise InfeasibleError(
            f"none of the best {len(found.best)} configurations of {family.name} compiles: {notes[0]}"
        )
    return Ranking(
        kernel=family.name,
        gpu=under.gpu.id,
        problem=problem,
        fidelity=fidelity,
        candidates=found.candidates,
        rejected=dict(found.rejected.most_common()),
        top=tuple(predictions[:top]),
        notes=tuple(notes),
    )


def _refined(
    family: Family[Any, Any],
    problem: Any,
    batch: Batch[Any],
    under: Conditions,
    fidelity: Fidelity,
    advance: Advance,
    notes: list[str],
) -> list[Prediction]:
    """Predictions with facts, fastest first; configurations without facts are left out and noted."""
    outcomes = gather_facts(family, problem, batch, under.gpu, fidelity=fidelity, advance=advance)
    kept = [i for i, outcome in enumerate(outcomes) if isinstance(outcome, Facts)]
    notes += [
        f"{plain(batch.configuration(i))} left out: {outcome}"
        for i, outcome in enumerate(outcomes)
        if not isinstance(outcome, Facts)
    ]
    if not kept:
        return []
    facts = [outcome for outcome in outcomes if isinstance(outcome, Facts)]
    evaluation = evaluate_under(family, problem, batch.take(kept), under, facts)
    return _predictions(family, problem, evaluation, under, fidelity, facts)


def _predictions(
    family: Family[Any, Any],
    problem: Any,
    evaluation: Evaluation,
    under: Conditions,
    fidelity: Fidelity,
    facts: list[Facts] | None,
) -> list[Prediction]:
    order = np.argsort(evaluation.seconds, kind="stable")
    return [
        prediction_at(family, problem, evaluation, i, under, fidelity, None if facts is None else facts[i])
        for i in order.tolist()
        if np.isfinite(evaluation.seconds[i])
    ]
