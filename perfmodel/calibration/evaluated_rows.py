"""Rows of a file of measurements as the model evaluates them, with the counts of the compiler that built what was measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.progress import Advance, no_progress
from ..families.base import Batch, Family
from ..families.profiling import gather_profiles, stored_profiles
from ..gpus.gpu import Gpu
from ..prediction.evaluation import Evaluation, evaluate_batch
from ..prediction.scenario import Scenario
from ..profiles.counts_store import CountsStore, load_stores
from ..profiles.kernel_profile import Fidelity, KernelProfile
from ..records.measurements import Measurements

RECORDED = "registers_per_thread"
"""Column with the registers of the program that was measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatedRows:
    """Rows (indices) of a file that solve one of its problems, and their evaluation; what has no profile is left out."""

    problem_index: int
    rows: NDArray[np.intp]
    batch: Batch[Any]
    evaluation: Evaluation


def evaluated_rows(
    family: Family[Any, Any],
    measurements: Measurements,
    scenario: Scenario,
    fidelity: Fidelity,
    advance: Advance = no_progress,
    *,
    ran_only: bool = False,
    stored_only: bool = False,
    stores: tuple[CountsStore, ...] | None = None,
) -> Iterator[EvaluatedRows]:
    """The rows of a file, problem by problem.

    Args:
        family: what was measured.
        measurements: the file.
        scenario: GPU and the rest.
        fidelity: how deep each configuration is looked at.
        advance: called once for each row that is looked up, compiled or executed.
        ran_only: leave out rows without a time.
        stored_only: compile nothing.
        stores: where to look counts up; those of `stores_for` where None.

    Raises:
        PerfmodelError: no row of the only problem compiles and runs; it is the reason of the first.
    """
    if stores is None:
        stores = stores_for(family, measurements, scenario.gpu) if fidelity is Fidelity.COMPILED else ()
    for index, problem in enumerate(measurements.problems):
        chosen = measurements.problem_index == index
        rows = np.flatnonzero(chosen & measurements.ran if ran_only else chosen)
        batch, executed = measurements.batch.take(rows), None
        if len(rows) and fidelity is not Fidelity.ANALYTIC:
            outcomes = gather_profiles(
                family,
                problem,
                batch,
                scenario.gpu,
                fidelity=fidelity,
                equivalents=True,
                stored_only=stored_only,
                stores=stores,
                advance=advance,
            )
            known = np.array([isinstance(outcome, KernelProfile) for outcome in outcomes])
            if not (known.any() or stored_only) and len(measurements.problems) == 1:
                raise next(outcome for outcome in outcomes if not isinstance(outcome, KernelProfile))
            executed = [outcome for outcome in outcomes if isinstance(outcome, KernelProfile)]
            rows, batch = rows[known], batch.take(known)
        if len(rows):
            evaluation = evaluate_batch(family, problem, batch, scenario, executed)
            yield EvaluatedRows(problem_index=index, rows=rows, batch=batch, evaluation=evaluation)


def stores_for(family: Family[Any, Any], measurements: Measurements, gpu: Gpu) -> tuple[CountsStore, ...]:
    """Where to look profiles of these runs up, one store after the other; the last is that of the extra ``compile``.

    Compilers differ in the registers that they give a kernel, by a few or by a hundred, and with them in how many blocks
    share an SM. Where a file records registers, the store whose registers are the recorded ones in most runs comes first.
    """
    usual, *others = load_stores(family.name)
    if not others or RECORDED not in measurements.columns:
        return (usual,)
    best = max((usual, *others), key=lambda store: _agreement(store, family, measurements, gpu))
    return (usual,) if best is usual else (best, usual)


def _agreement(store: CountsStore, family: Family[Any, Any], measurements: Measurements, gpu: Gpu) -> int:
    """Runs whose stored registers are the recorded ones."""
    recorded = measurements.columns[RECORDED].to_numpy()
    equal = 0
    for index, problem in enumerate(measurements.problems):
        rows = (measurements.ran & (measurements.problem_index == index)).nonzero()[0].tolist()
        stored = stored_profiles(family, problem, [measurements.batch.configuration(i) for i in rows], gpu, store)
        equal += sum(
            profile is not None and profile.resources.registers_per_thread == recorded[i]
            for i, profile in zip(rows, stored, strict=True)
        )
    return equal
