"""Every row of a file of measurements beside its prediction and what limits it."""

from __future__ import annotations

from typing import Any

import numpy as np

from perfmodel.conditions import Conditions
from perfmodel.facts import Facts
from perfmodel.families.base import Family
from perfmodel.gather import gather_facts
from perfmodel.predicting import evaluate_under
from perfmodel.prediction import Fidelity
from perfmodel.records import Measurements
from perfmodel.time.combine import limiters

from ..published import Comparison


def compared_runs(
    family: Family[Any, Any], measurements: Measurements, under: Conditions, fidelity: Fidelity
) -> Comparison:
    """The rows that ran and can be predicted, in the file's order; the others are left out.

    Unlike the figures of published runs this compiles what the counts store lacks, as ``validate`` does.
    """
    predicted, limiter = np.full(len(measurements), np.inf), np.zeros(len(measurements), np.int64)
    for index, problem in enumerate(measurements.problems):
        rows, facts = np.flatnonzero(measurements.problem_index == index), None
        if fidelity is not Fidelity.ANALYTIC:
            batch = measurements.batch.take(rows)
            outcomes = gather_facts(family, problem, batch, under.gpu, fidelity=fidelity, equivalents=True)
            facts = [outcome for outcome in outcomes if isinstance(outcome, Facts)]
            rows = rows[[isinstance(outcome, Facts) for outcome in outcomes]]
        if len(rows):
            found = evaluate_under(family, problem, measurements.batch.take(rows), under, facts)
            predicted[rows], limiter[rows] = found.seconds, limiters(found.terms)
    usable = np.flatnonzero(measurements.ran & np.isfinite(predicted))
    return Comparison(
        gpu=under.gpu.id,
        under=under,
        measurements=measurements.take(usable),
        predicted_s=predicted[usable],
        limiters=limiter[usable],
        covered=f"{len(usable):,} of {len(measurements):,} runs",
    )
