"""Predictions set against measurements that others made: times, ranking and, where the file has them, counters."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..calibration.store_choice import RECORDED, stores_for
from ..core.counts import COUNT_NAMES, Counts
from ..errors import InputError
from ..families.base import Family
from ..memory.l2 import shared_l2_bytes, written_by_the_end
from ..prediction.predicting import evaluate_scenario
from ..prediction.prediction import Fidelity
from ..prediction.scenario import Scenario
from ..profiles.facts import Advance, Facts, no_progress
from ..profiles.gather import gather_facts
from ..records.measurements import Measurements
from ..time_model.combine import limiters
from .count_agreement import CountAgreement, count_agreement
from .counter_metrics import measured_counts
from .metrics import Accuracy, accuracy


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictedRows:
    """What the model says of every measured row: seconds (infinite where it cannot run), counts, registers, exactness.

    ``limiters`` are indices into ``LIMITER_NAMES``, of no meaning where a row cannot run.
    """

    seconds: NDArray[np.float64]
    limiters: NDArray[np.int64]
    counts: Counts
    registers: NDArray[np.int32]
    known: NDArray[np.bool_]
    """Where facts were found (always, at analytic fidelity)."""
    approximate: NDArray[np.bool_]
    """Where they are those of an equivalent configuration."""
    compiler: str | None = None
    """Whose stored counts were taken where the recorded registers are not the usual compiler's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """The result of ``validate``: accuracy over the rows that ran and were predicted, and agreement of counters."""

    kernel: str
    gpu: str
    fidelity: Fidelity
    rejected: int
    accuracy: Accuracy
    counts: tuple[CountAgreement, ...]
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """The object of the JSON contract."""
        counts = {c.count: {k: v for k, v in asdict(c).items() if k != "count"} for c in self.counts}
        head = {"kernel": self.kernel, "gpu": self.gpu, "fidelity": self.fidelity.value}
        result = head | {"n": self.accuracy.n, "rejected": self.rejected} | self.accuracy.to_json()
        return result | ({"counts": counts} if counts else {}) | {"notes": list(self.notes)}


def predict_rows(
    family: Family[Any, Any],
    measurements: Measurements,
    scenario: Scenario,
    fidelity: Fidelity,
    advance: Advance = no_progress,
    *,
    stored_only: bool = False,
) -> PredictedRows:
    """Predict every row of a file of measurements, problem by problem; with ``stored_only`` nothing is compiled."""
    count = len(measurements)
    limiter = np.zeros(count, np.int64)
    seconds, registers = np.full(count, np.inf), np.zeros(count, np.int32)
    known, approximate = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
    columns = {name: np.zeros(count) for name in COUNT_NAMES}
    stores = stores_for(family, measurements, scenario.gpu) if fidelity is Fidelity.COMPILED else ()
    for index, problem in enumerate(measurements.problems):
        rows = np.flatnonzero(measurements.problem_index == index)
        batch, facts = measurements.batch.take(rows), None
        if fidelity is not Fidelity.ANALYTIC:
            outcomes = gather_facts(
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
            found = np.array([isinstance(outcome, Facts) for outcome in outcomes])
            facts = [outcome for outcome in outcomes if isinstance(outcome, Facts)]
            rows, batch = rows[found], batch.take(found)
            approximate[rows] = [fact.approximate for fact in facts]
        if not len(rows):
            continue
        evaluation = evaluate_scenario(family, problem, batch, scenario, facts)
        seconds[rows], registers[rows], known[rows] = evaluation.seconds, evaluation.registers, True
        limiter[rows] = limiters(evaluation.terms)
        for name, column in columns.items():
            column[rows] = getattr(evaluation.work.counts, name)
    return PredictedRows(
        seconds=seconds,
        limiters=limiter,
        counts=Counts(**columns),
        registers=registers,
        known=known,
        approximate=approximate,
        compiler=stores[0].compiler if len(stores) > 1 else None,
    )


def validate_measurements(
    family: Family[Any, Any],
    measurements: Measurements,
    scenario: Scenario,
    fidelity: Fidelity = Fidelity.COMPILED,
    advance: Advance = no_progress,
) -> Validation:
    """Predict the rows of a file and set that against what was measured; ``InputError`` as in ``validation_of``."""
    return validation_of(
        measurements, predict_rows(family, measurements, scenario, fidelity, advance), scenario, fidelity
    )


def validation_of(
    measurements: Measurements, told: PredictedRows, scenario: Scenario, fidelity: Fidelity
) -> Validation:
    """Set predictions against measurements; at least two rows must have run and be predictable."""
    usable = measurements.ran & np.isfinite(told.seconds)
    if usable.sum() < 2:
        raise InputError(f"{measurements.path}: {int(usable.sum())} rows can be compared; at least 2 are needed")
    rejected = int((measurements.ran & ~np.isfinite(told.seconds)).sum())
    rows = np.flatnonzero(usable)
    counted = Counts(**{name: value[rows] for name, value in told.counts.items()})
    if fidelity is not Fidelity.SIMULATED:
        counted = written_by_the_end(counted, scenario.gpu)
    return Validation(
        kernel=measurements.family_name,
        gpu=scenario.gpu.id,
        fidelity=fidelity,
        rejected=rejected,
        accuracy=accuracy(told.seconds[rows], measurements.time_s[rows]),
        counts=count_agreement(
            counted, measured_counts(measurements.columns.iloc[rows]), shared_l2_bytes(scenario.gpu)
        ),
        notes=_notes(told, measurements),
    )


def _notes(told: PredictedRows, measurements: Measurements) -> tuple[str, ...]:
    notes = []
    lost = int((measurements.ran & ~told.known).sum())
    if lost:
        notes.append(f"{lost} rows left out: they do not compile within the time limit")
    unfit = int((measurements.ran & told.known & ~np.isfinite(told.seconds)).sum())
    if unfit:
        notes.append(f"{unfit} rows left out: the model says that they do not fit the GPU")
    if told.approximate.any():
        notes.append(
            f"{int(told.approximate.sum())} rows take the stored counts of an equivalent configuration "
            "(the same requests, instructions may differ by a few)"
        )
    if told.compiler is not None:
        notes.append(
            f"counts stored by {told.compiler}: of all stored compilers the one whose registers are recorded most"
        )
    if RECORDED in measurements.columns:
        same = measurements.columns[RECORDED].to_numpy() == told.registers
        notes.append(f"registers equal to the recorded ones in {same[told.known].mean():.1%} of rows")
    return tuple(notes)
