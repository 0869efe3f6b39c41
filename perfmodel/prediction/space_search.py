"""The best configurations of a large space by executing some of them: a search on the predicted time, without a GPU."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from ..compiler.pool import compile_many
from ..core.axes import Floats
from ..core.progress import Advance, no_progress
from ..families.base import Batch
from ..families.profiling import Outcome, gather_profiles
from ..families.registry import family_of
from ..profiles.kernel_profile import Fidelity, KernelProfile
from .evaluation import evaluate_batch
from .feasibility import FITS, feasibility
from .guided_search import GuidedSearch
from .scenario import Scenario

_AT_ONCE = 4
"""Configurations that are executed side by side."""
_TRIED = 8
"""Configurations that are compiled at most for each that is executed."""


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

    NaN stands where a configuration was not executed, infinity where it cannot run; arguments as for ``search_space``.
    """
    return search_space(problem, Batch.of(configurations), scenario, executions, advance)[0]


def search_space(
    problem: Any, batch: Batch[Any], scenario: Scenario, executions: int, advance: Advance = no_progress
) -> tuple[Floats, dict[int, Outcome]]:
    """Predicted seconds of n configurations, shape ``(n,)``, and by its index the profile of each that was executed.

    The first are spread over the space, the others where the prediction may be fastest by those before. Machine code that
    several configurations have in common is executed once. NaN stands where nothing was executed, infinity where a
    configuration cannot run.

    Args:
        problem: a problem of a family, or a user's space.
        batch: configurations of the family's type.
        scenario: GPU, clock, state of the L2, calibration.
        executions: how many to execute at most.
        advance: called once for each.
    """
    family = family_of(problem)
    gpu = scenario.gpu
    launch = family.launch(problem, batch, gpu)
    fits = feasibility(launch, np.ones(len(batch), np.int32), gpu, family.checks(problem, batch, gpu))
    seconds = np.where(fits.reason_codes == FITS, np.nan, np.inf)
    configurations = [batch.configuration(index) for index in range(len(batch))]
    search = GuidedSearch(columns_of(configurations), np.where(np.isinf(seconds), np.inf, np.nan))
    known: dict[int, Outcome] = {}
    executed: dict[Hashable, int] = {}
    while len(executed) < executions and len(known) < _TRIED * executions:
        chosen = search.ask(_AT_ONCE)
        if not chosen:
            break
        compile_many([(family.compile_request(problem, configurations[i], gpu), gpu.architecture.name) for i in chosen])
        codes = [family.executed_identity(problem, configurations[index], gpu) or index for index in chosen]
        fresh = list(dict.fromkeys(code for code in codes if code not in executed))[: executions - len(executed)]
        executed |= {code: chosen[codes.index(code)] for code in fresh}
        first = [executed[code] for code in fresh]
        known |= zip(
            first,
            gather_profiles(family, problem, batch.take(first), gpu, fidelity=Fidelity.SIMULATED, advance=advance),
            strict=True,
        )
        for index, code in zip(chosen, codes, strict=True):
            if code not in executed:
                continue
            outcome = known[index] = known[executed[code]]
            seconds[index] = np.inf
            if isinstance(outcome, KernelProfile):
                found = evaluate_batch(family, problem, batch.take([index]), scenario, [outcome])
                seconds[index] = float(found.seconds[0])
            search.tell(index, float(seconds[index]) if np.isfinite(seconds[index]) else None)
    return seconds, known
