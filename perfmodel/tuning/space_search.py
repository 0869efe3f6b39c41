"""The best configurations of a large space by executing some of them: a search on the predicted time, without a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from ..core.axes import Floats
from ..core.progress import Advance, no_progress
from ..families.base import Batch
from ..families.profiling import gather_profiles
from ..families.registry import family_of
from ..prediction.evaluation import evaluate_batch
from ..prediction.feasibility import FITS, feasibility
from ..prediction.scenario import Scenario
from ..profiles.kernel_profile import Fidelity, KernelProfile
from .guided_search import GuidedSearch

_AT_ONCE = 4
"""Configurations that are executed side by side."""


def columns_of(configurations: Sequence[Any]) -> dict[str, list[Any]]:
    """For each field of records of one type its value in every one."""
    return {field.name: [getattr(one, field.name) for one in configurations] for field in fields(configurations[0])}


def executed_seconds(
    problem: Any,
    configurations: Sequence[Any],
    scenario: Scenario,
    executions: int,
    advance: Advance = no_progress,
) -> Floats:
    """Predicted seconds of n configurations of which at most ``executions`` are compiled and executed, shape ``(n,)``.

    The first are chosen at random, the others where the prediction may be fastest by those before. NaN stands where a
    configuration was not executed, infinity where it cannot run.

    Args:
        problem: a problem of a family, or a user's space.
        configurations: records of the family's type.
        scenario: GPU, clock, state of the L2, calibration.
        executions: how many to execute.
        advance: called once for each.
    """
    family = family_of(problem)
    batch: Batch[Any] = Batch.of(configurations)
    gpu = scenario.gpu
    launch = family.launch(problem, batch, gpu)
    fits = feasibility(launch, np.ones(len(batch), np.int32), gpu, family.checks(problem, batch, gpu))
    seconds = np.where(fits.reason_codes == FITS, np.nan, np.inf)
    search = GuidedSearch(columns_of(configurations), np.where(np.isinf(seconds), np.inf, np.nan))
    executed = 0
    while executed < executions:
        chosen = search.ask(_AT_ONCE)[: executions - executed]
        if not chosen:
            break
        outcomes = gather_profiles(
            family, problem, batch.take(chosen), gpu, fidelity=Fidelity.SIMULATED, advance=advance
        )
        executed += len(chosen)
        for index, outcome in zip(chosen, outcomes, strict=True):
            seconds[index] = np.inf
            if isinstance(outcome, KernelProfile):
                found = evaluate_batch(family, problem, batch.take([index]), scenario, [outcome])
                seconds[index] = float(found.seconds[0])
            search.tell(index, float(seconds[index]) if np.isfinite(seconds[index]) else None)
    return seconds
