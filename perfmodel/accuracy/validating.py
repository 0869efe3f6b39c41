"""Predictions set against measurements that others made: times, ranking and, where the file has them, counters."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..calibration.measured_runs import RECORDED, evaluated_rows, stores_for
from ..core.choices import one_of
from ..core.counts import COUNT_NAMES, Counts
from ..core.progress import Advance, no_progress
from ..core.results import Result, new_axes
from ..core.units import MICROSECONDS
from ..core.value_types import require_type
from ..errors import InputError, PerfmodelError
from ..families.base import Family
from ..families.profiling import fidelity_of
from ..families.user.family import source_family
from ..gpus.gpu import Gpu
from ..launch.launch import L2State
from ..memory.l2 import shared_l2_bytes
from ..prediction.scenario import Scenario, scenario_of
from ..profiles.kernel_profile import Fidelity
from ..records.measurements import Measurements, read_measurements
from ..time_model.combine import limiters
from .counter_metrics import CountAgreement, count_agreement, measured_counts
from .metrics import Accuracy, accuracy


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictedRows:
    """What the model predicts for every measured row: seconds (infinite where it cannot run), counts, registers, exactness.

    ``limiters`` are indices into ``LIMITER_NAMES``, of no meaning where a row cannot run.
    """

    seconds: NDArray[np.float64]
    limiters: NDArray[np.int64]
    counts: Counts
    registers: NDArray[np.int32]
    known: NDArray[np.bool_]
    """Where there is a profile (always, at analytic fidelity)."""
    approximate: NDArray[np.bool_]
    """Where it is that of an equivalent configuration."""
    failures: tuple[PerfmodelError, ...] = ()
    """Why rows have no profile: one for each that does not compile or is not executed."""
    compiler: str | None = None
    """Whose stored counts were taken where the recorded registers are not the usual compiler's."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Validation(Result):
    """The result of ``validate``: accuracy over the rows that ran and were predicted, and agreement of counters."""

    kernel: str
    gpu: str
    fidelity: Fidelity
    rejected: int
    accuracy: Accuracy
    counts: tuple[CountAgreement, ...]
    notes: tuple[str, ...]
    measured_s: NDArray[np.float64] = field(compare=False)
    """Of the rows that were compared, shape ``(n,)``."""
    predicted_s: NDArray[np.float64] = field(compare=False)
    """Likewise."""

    @property
    def headline(self) -> str:
        """Kernel, GPU, number of rows, and the error after one factor."""
        found = self.accuracy
        errors = f"MAPE {found.mape_scaled:.1%} after one factor, tau {found.kendall_tau:.3f}"
        return f"{self.kernel} on {self.gpu}: {found.n:,} runs, {errors}"

    def to_rows(self) -> list[dict[str, Any]]:
        """Its one row: the metrics, as fractions."""
        head = {"kernel": self.kernel, "gpu": self.gpu, "fidelity": self.fidelity.value, "rejected": self.rejected}
        metrics = self.accuracy.to_json()
        within = metrics.pop("within_problems") or {}
        return [head | metrics | {f"within_problems_{name}": value for name, value in within.items()}]

    def shown(self) -> list[dict[str, str]]:
        """One metric a row."""
        found = self.accuracy.to_json()
        metrics = found | (found["within_problems"] or {})
        return [
            {"metric": name, "value": f"{value:.4g}"}
            for name, value in metrics.items()
            if isinstance(value, int | float)
        ]

    def plot(self, ax: Any = None) -> Any:
        """Draw the predicted against the measured time of every run, both axes logarithmic; `Result.plot`."""
        ax = new_axes(5, 5) if ax is None else ax
        measured, predicted = MICROSECONDS * self.measured_s, MICROSECONDS * self.predicted_s
        ends = [min(measured.min(), predicted.min()), max(measured.max(), predicted.max())]
        ax.loglog(measured, predicted, ".", alpha=0.5)
        ax.loglog(ends, ends, color="gray", linewidth=0.8)
        ax.set_xlabel("measured time (µs)")
        ax.set_ylabel("predicted time (µs)")
        ax.set_title(self.headline, fontsize="medium")
        return ax

    def to_json(self) -> dict[str, Any]:
        """The object of the JSON contract."""
        counts = {c.count: {k: v for k, v in asdict(c).items() if k != "count"} for c in self.counts}
        head = {"kernel": self.kernel, "gpu": self.gpu, "fidelity": self.fidelity.value}
        result = head | {"n": self.accuracy.n, "rejected": self.rejected} | self.accuracy.to_json()
        return result | ({"counts": counts} if counts else {}) | {"notes": list(self.notes)}


def validate(
    family_name: str,
    *,
    gpu: str | Gpu,
    measurements: str | Path,
    space: str | Path | None = None,
    fidelity: Fidelity | str = Fidelity.COMPILED,
    where: str | None = None,
    l2: L2State | str = L2State.COLD,
    sm_clock_mhz: float | None = None,
    calibration: str | None = None,
) -> Validation:
    """Predictions against the measurements of a file (CSV, Kernel Tuner cache, own records), as ``perfmodel validate``.

    Args:
        family_name: a family, a CUDA file with its ``space``, or a Kernel Tuner script.
        gpu: id, file or record of the GPU.
        measurements: CSV, Kernel Tuner cache or own records.
        space: the tuning space of a CUDA file.
        fidelity: where counts and registers come from.
        where: a query on the columns, which keeps rows.
        l2: what the L2 held when the kernels started.
        sm_clock_mhz: SM clock; the boost clock where None.
        calibration: file with coefficients of the user's own.

    Raises:
        InputError: an argument does not fit, or fewer than two rows can be compared; the message says why.

    >>> found = validate("direct_conv2d", gpu="h200", measurements="examples/h200.jsonl.gz", fidelity="analytic")
    >>> found.measured_s.shape, found.accuracy.n, found.accuracy.mape_scaled < 0.2
    ((72,), 72, True)
    """
    require_type((str, PathLike), "the path of a file", measurements=measurements)
    chosen = source_family(family_name, space)
    scenario = scenario_of(gpu, sm_clock_mhz=sm_clock_mhz, l2=l2, calibration=calibration)
    rows = read_measurements(Path(measurements), chosen, scenario.l2)
    rows = rows if where is None else rows.where(where)
    return validate_measurements(chosen, rows, scenario, fidelity_of(chosen, one_of(Fidelity, "fidelity", fidelity)))


def predict_rows(
    family: Family[Any, Any],
    measurements: Measurements,
    scenario: Scenario,
    fidelity: Fidelity,
    advance: Advance = no_progress,
) -> PredictedRows:
    """Predict the rows of a file of measurements that have a time, problem by problem."""
    count = len(measurements)
    limiter = np.zeros(count, np.int64)
    seconds, registers = np.full(count, np.inf), np.zeros(count, np.int32)
    known, approximate = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
    columns = {name: np.zeros(count) for name in COUNT_NAMES}
    stores = stores_for(family, measurements, scenario.gpu) if fidelity is Fidelity.COMPILED else ()
    failures: list[PerfmodelError] = []
    for part in evaluated_rows(
        family,
        measurements,
        scenario,
        fidelity,
        advance,
        stores=stores,
        failed=failures.append,
    ):
        rows, found = part.rows, part.evaluation
        seconds[rows], registers[rows], known[rows] = found.seconds, found.profile.registers, True
        approximate[rows], limiter[rows] = found.profile.approximate, limiters(found.terms)
        for name, column in columns.items():
            column[rows] = getattr(found.counts, name)
    return PredictedRows(
        seconds=seconds,
        limiters=limiter,
        counts=Counts(**columns),
        registers=registers,
        known=known,
        approximate=approximate,
        failures=tuple(failures),
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
    measurements: Measurements, predicted: PredictedRows, scenario: Scenario, fidelity: Fidelity
) -> Validation:
    """Set predictions against measurements; at least two rows must have run and be predictable."""
    usable = measurements.ran & np.isfinite(predicted.seconds)
    if usable.sum() < 2:
        failed = int((~measurements.ran).sum())
        failures = [f"{failed} rows left out: their runs failed"] if failed else []
        reasons = "; ".join([*failures, *_left_out(predicted, measurements)])
        few = f"{measurements.path}: {int(usable.sum())} of {len(measurements)} rows can be compared; at least 2 are needed"
        raise InputError(few + (f" ({reasons})" if reasons else ""))
    rejected = int((measurements.ran & ~np.isfinite(predicted.seconds)).sum())
    rows = np.flatnonzero(usable)
    counted = Counts(**{name: value[rows] for name, value in predicted.counts.items()})
    return Validation(
        kernel=measurements.family_name,
        gpu=scenario.gpu.id,
        fidelity=fidelity,
        rejected=rejected,
        accuracy=accuracy(predicted.seconds[rows], measurements.time_s[rows], measurements.problem_index[rows]),
        counts=count_agreement(
            counted, measured_counts(measurements.columns.iloc[rows]), shared_l2_bytes(scenario.gpu)
        ),
        notes=_notes(predicted, measurements, scenario.gpu),
        measured_s=measurements.time_s[rows],
        predicted_s=predicted.seconds[rows],
    )


def _left_out(predicted: PredictedRows, measurements: Measurements) -> list[str]:
    """How many rows are not compared, and why."""
    notes = []
    lost = int((measurements.ran & ~predicted.known).sum())
    if lost:
        reason = f", for example {predicted.failures[0]}" if predicted.failures else ""
        notes.append(f"{lost} rows left out: they are not compiled or not executed{reason}")
    unfit = int((measurements.ran & predicted.known & ~np.isfinite(predicted.seconds)).sum())
    if unfit:
        notes.append(f"{unfit} rows left out: the model says that they do not fit the GPU")
    return notes


def _notes(predicted: PredictedRows, measurements: Measurements, gpu: Gpu) -> tuple[str, ...]:
    doubt = measurements.doubt_about(gpu)
    notes = ([] if doubt is None else [doubt]) + _left_out(predicted, measurements)
    if predicted.approximate.any():
        notes.append(
            f"{int(predicted.approximate.sum())} rows take the stored counts of an equivalent configuration "
            "(the same requests, instructions may differ by a few)"
        )
    if predicted.compiler is not None:
        notes.append(
            f"counts stored by {predicted.compiler}: of all stored compilers the one whose registers are recorded most"
        )
    if RECORDED in measurements.columns:
        same = measurements.columns[RECORDED].to_numpy() == predicted.registers
        notes.append(f"registers equal to the recorded ones in {same[predicted.known].mean():.1%} of rows")
    return tuple(notes)
