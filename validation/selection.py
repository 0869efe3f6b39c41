"""Which configurations to measure: the predicted best, or some of all that fit, drawn at random."""

from __future__ import annotations

from typing import Any

import numpy as np

from perfmodel.errors import InfeasibleError
from perfmodel.families.base import Batch, Family
from perfmodel.prediction.evaluation import evaluate_batch
from perfmodel.prediction.scenario import Scenario

CANDIDATES_PER_DRAW = 16
"""Candidates that are looked at for each one that is wanted, at first."""
SHARE_GROWTH = 8.0


def predicted_best(family: Family[Any, Any], problem: Any, scenario: Scenario, count: int) -> list[tuple[Any, float]]:
    """The ``count`` configurations with the smallest analytically predicted time and that time, fastest first."""
    best: list[tuple[Any, float]] = []
    for chunk in family.space(problem, scenario.gpu).chunks():
        batch = chunk.take(np.flatnonzero(~family.redundant(problem, chunk, scenario.gpu)))
        if not len(batch):
            continue
        seconds = np.broadcast_to(evaluate_batch(family, problem, batch, scenario).seconds, len(batch))
        fastest = [int(index) for index in np.argsort(seconds, kind="stable")[:count] if np.isfinite(seconds[index])]
        best += [(batch.configuration(index), float(seconds[index])) for index in fastest]
        best = sorted(best, key=lambda pair: pair[1])[:count]
    return best


def drawn(
    family: Family[Any, Any],
    problem: Any,
    scenario: Scenario,
    count: int,
    rng: np.random.Generator,
    slowest_s: float = np.inf,
) -> list[Any]:
    """``count`` configurations drawn evenly from all that fit and whose predicted time is at most ``slowest_s``.

    A random part of the space is evaluated, a larger one where too few of it fit; fewer are given where fewer fit at all.
    """
    share = min(1.0, CANDIDATES_PER_DRAW * count / max(len(family.space(problem, scenario.gpu)), 1))
    while True:
        found = _drawn_from_part(family, problem, scenario, share, rng, slowest_s)
        if len(found) >= count or share == 1.0:
            order = rng.permutation(len(found))[:count]
            return [found[int(index)] for index in order]
        share = min(1.0, SHARE_GROWTH * share)


def _drawn_from_part(
    family: Family[Any, Any], problem: Any, scenario: Scenario, share: float, rng: np.random.Generator, slowest_s: float
) -> list[Any]:
    """All that fit among a random part of the space."""
    found: list[Any] = []
    for chunk in family.space(problem, scenario.gpu).chunks():
        part = chunk.take(np.flatnonzero(rng.random(len(chunk)) < share))
        found += _fitting(family, problem, part, scenario, slowest_s)
    return found


def _fitting(
    family: Family[Any, Any], problem: Any, candidates: Batch[Any], scenario: Scenario, slowest_s: float
) -> list[Any]:
    """The configurations of a batch that can run and are predicted to be fast enough, in order."""
    if not len(candidates):
        return []
    batch = candidates.take(np.flatnonzero(~family.redundant(problem, candidates, scenario.gpu)))
    if not len(batch):
        return []
    seconds = np.broadcast_to(evaluate_batch(family, problem, batch, scenario).seconds, len(batch))
    fits = np.flatnonzero(np.isfinite(seconds) & (seconds <= slowest_s))
    return [batch.configuration(int(index)) for index in fits]


def best_and_drawn(
    family: Family[Any, Any],
    problem: Any,
    scenario: Scenario,
    best: int,
    sample: int,
    rng: np.random.Generator,
    slowest_ratio: float = np.inf,
) -> list[Any]:
    """The predicted best and then drawn ones that are not among them.

    ``slowest_ratio``: how many times the best's predicted time a drawn one may be predicted to take.

    Raises:
        InfeasibleError: No configuration of the space fits the GPU.
    """
    top = predicted_best(family, problem, scenario, max(best, 1))
    if not top:
        raise InfeasibleError(f"no configuration of {family.name} for {problem} fits {scenario.gpu.id}")
    chosen = [configuration for configuration, _ in top[:best]]
    seen = set(chosen)
    others = drawn(family, problem, scenario, sample + best, rng, slowest_ratio * top[0][1]) if sample else []
    return chosen + [configuration for configuration in others if configuration not in seen][:sample]


def all_fitting(family: Family[Any, Any], problem: Any, scenario: Scenario) -> list[Any]:
    """Every configuration of the space that fits, in the order of the space."""
    found: list[Any] = []
    for chunk in family.space(problem, scenario.gpu).chunks():
        found += _fitting(family, problem, chunk, scenario, np.inf)
    return found
