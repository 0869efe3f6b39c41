"""Published measurements of the tiled convolution with what the model says of each of them."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfmodel.accuracy import Accuracy, accuracy
from perfmodel.conditions import Conditions, conditions
from perfmodel.errors import InputError
from perfmodel.evaluation import Evaluation
from perfmodel.families.base import Batch
from perfmodel.families.registry import family
from perfmodel.gather import stored_facts
from perfmodel.predicting import evaluate_under
from perfmodel.prediction import Fidelity
from perfmodel.records import Measurements, read_measurements
from perfmodel.store import load_store
from perfmodel.time.combine import limiters

Floats = NDArray[np.float64]

FAMILY = "tiled_conv2d"
FILES = {
    "rtx-2080-ti": "rtx-2080-ti.counters.csv",
    "rtx-3090": "rtx-3090.csv",
    "a100-pcie-40gb": "a100-pcie-40gb.csv",
}
"""File of each GPU in the folder of the family."""
LOCAL_BYTES = "local_bytes_per_thread"
UNROLLED = "tile_size_x * tile_size_y < 24"
"""Where the compiler unrolls the whole tile, as the closed forms suppose; larger tiles need executed counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Runs of one GPU that the model can predict: arrays of shape ``(n,)`` in seconds, predictions not scaled.

    ``limiters`` are indices into ``LIMITER_NAMES``; ``covered`` says in words how many of the file's rows these are.
    """

    gpu: str
    under: Conditions
    measurements: Measurements
    predicted_s: Floats
    limiters: NDArray[np.int64]
    covered: str

    @property
    def measured_s(self) -> Floats:
        """Published times."""
        return self.measurements.time_s

    @property
    def batch(self) -> Batch[Any]:
        """The configurations."""
        return self.measurements.batch

    @property
    def accuracy(self) -> Accuracy:
        """Agreement of these runs; its ``scale`` is the one factor for a clock that the files do not record."""
        return accuracy(self.predicted_s, self.measured_s)

    @property
    def spilled(self) -> NDArray[np.bool_]:
        """Runs whose file records local memory; none where it records nothing of the kind."""
        columns = self.measurements.columns
        if LOCAL_BYTES not in columns:
            return np.zeros(len(self.measurements), np.bool_)
        return np.asarray(columns[LOCAL_BYTES].to_numpy(np.float64) > 0)

    @property
    def accuracy_unspilled(self) -> Accuracy | None:
        """Agreement without the runs that spilled, whose number depends on the compiler's version; None if there are none."""
        spilled = self.spilled
        return accuracy(self.predicted_s[~spilled], self.measured_s[~spilled]) if spilled.any() else None

    @property
    def scaled_s(self) -> Floats:
        """Predictions after that one factor."""
        return self.predicted_s * float(np.median(self.measured_s / self.predicted_s))


def comparison(gpu: str, measurements: Measurements, fidelity: Fidelity) -> Comparison:
    """Predict the rows of one GPU; those that failed, or that the model cannot run, are left out.

    ``compiled`` fidelity takes what the shipped counts store holds and compiles nothing: a figure is drawn in seconds.

    Raises:
        InputError: fewer than two rows can be compared.
    """
    under = conditions(gpu)
    known = measurements.where(UNROLLED) if fidelity is Fidelity.ANALYTIC else measurements
    predicted, limiter = np.full(len(known), np.inf), np.zeros(len(known), np.int64)
    for index in range(len(known.problems)):
        rows = np.flatnonzero(known.problem_index == index)
        rows, found = _evaluated(known, index, rows, under, fidelity)
        if found is not None:
            predicted[rows], limiter[rows] = found.seconds, limiters(found.terms)
    usable = np.flatnonzero(known.ran & np.isfinite(predicted))
    if len(usable) < 2:
        raise InputError(f"{measurements.path}: {len(usable)} rows can be compared at {fidelity.value} fidelity")
    return Comparison(
        gpu=gpu,
        under=under,
        measurements=known.take(usable),
        predicted_s=predicted[usable],
        limiters=limiter[usable],
        covered=f"{len(usable):,} of {len(measurements):,} runs",
    )


def _evaluated(
    measurements: Measurements, index: int, rows: NDArray[np.intp], under: Conditions, fidelity: Fidelity
) -> tuple[NDArray[np.intp], Evaluation | None]:
    """Rows of one problem whose counts are known at this fidelity, and their evaluation (None where there are none)."""
    chosen, problem = family(measurements.family_name), measurements.problems[index]
    if fidelity is Fidelity.ANALYTIC:
        return rows, evaluate_under(chosen, problem, measurements.batch.take(rows), under)
    configurations = [measurements.batch.configuration(row) for row in rows.tolist()]
    store = load_store(chosen.name)
    stored = stored_facts(chosen, problem, configurations, under.gpu, store, equivalents=True)
    rows = rows[[fact is not None for fact in stored]]
    facts = [fact for fact in stored if fact is not None]
    return rows, evaluate_under(chosen, problem, measurements.batch.take(rows), under, facts) if facts else None


@functools.cache
def compared(folder: Path, gpu: str, fidelity: Fidelity) -> Comparison:
    """The published runs of one GPU below ``folder``, predicted once however many figures ask."""
    path = folder / FAMILY / FILES[gpu]
    return comparison(gpu, read_measurements(path, family(FAMILY)), fidelity)


def all_compared(folder: Path, fidelity: Fidelity) -> list[Comparison]:
    """The published runs of every GPU."""
    return [compared(folder, gpu, fidelity) for gpu in FILES]
