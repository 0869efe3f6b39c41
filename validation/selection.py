"""Configurations of a space that fit a GPU: all of them, or some drawn at random."""

from __future__ import annotations

from typing import Any

import numpy as np

from perfmodel.families.base import Batch, Family
from perfmodel.prediction.evaluation import evaluate_batch
from perfmodel.prediction.scenario import Scenario

CANDIDATES_PER_DRAW = 16
"""Candidates that are looked at for each one that is wanted, at first."""
SHARE_GROWTH = 8.0


def drawn(
    family: Family[Any, Any],
    problem: Any,
    scenario: Scenario,
    count: int,
    rng: np.random.Generator,
) -> list[Any]:
    """``count`` configurations drawn evenly from all that fit.

    A random part of the space is evaluated, a larger one where too few of it fit; fewer are given where fewer fit at all.
    """
    share = min(1.0, CANDIDATES_PER_DRAW * count / max(len(family.space(problem, scenario.gpu)), 1))
    while True:
        found = _drawn_from_part(family, problem, scenario, share, rng)
        if len(found) >= count or share == 1.0:
            order = rng.permutation(len(found))[:count]
            return [found[int(index)] for index in order]
        share = min(1.0, SHARE_GROWTH * share)


def _drawn_from_part(
    family: Family[Any, Any], problem: Any, scenario: Scenario, share: float, rng: np.random.Generator
) -> list[Any]:
    """All that fit among a random part of the space."""
    found: list[Any] = []
    for chunk in family.space(problem, scenario.gpu).chunks():
        part = chunk.take(np.flatnonzero(rng.random(len(chunk)) < share))
        found += _fitting(family, problem, part, scenario)
    return found


def _fitting(family: Family[Any, Any], problem: Any, candidates: Batch[Any], scenario: Scenario) -> list[Any]:
    """The configurations of a batch that can run, in order."""
    if not len(candidates):
        return []
    batch = candidates.take(np.flatnonzero(~family.redundant(problem, candidates, scenario.gpu)))
    if not len(batch):
        return []
    seconds = np.broadcast_to(evaluate_batch(family, problem, batch, scenario).seconds, len(batch))
    fits = np.flatnonzero(np.isfinite(seconds))
    return [batch.configuration(int(index)) for index in fits]


def all_fitting(family: Family[Any, Any], problem: Any, scenario: Scenario) -> list[Any]:
    """Every configuration of the space that fits, in the order of the space."""
    found: list[Any] = []
    for chunk in family.space(problem, scenario.gpu).chunks():
        found += _fitting(family, problem, chunk, scenario)
    return found
