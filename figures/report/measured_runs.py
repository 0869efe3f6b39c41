"""Measured runs of a file with what the model says of each of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfmodel.accuracy.metrics import Accuracy, accuracy
from perfmodel.accuracy.validating import PredictedRows
from perfmodel.errors import InputError
from perfmodel.families.base import Batch
from perfmodel.families.registry import family_of
from perfmodel.prediction.scenario import Scenario
from perfmodel.profiles.kernel_profile import Fidelity
from perfmodel.records.measurements import Measurements

Floats = NDArray[np.float64]

LOCAL_BYTES = "local_bytes_per_thread"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Runs of one GPU that the model can predict: arrays of shape ``(n,)`` in seconds, predictions not scaled.

    ``limiters`` are indices into ``LIMITER_NAMES``; ``covered`` says in words how many of the file's rows these are.
    """

    gpu: str
    scenario: Scenario
    measurements: Measurements
    predicted_s: Floats
    limiters: NDArray[np.int64]
    covered: str

    @property
    def measured_s(self) -> Floats:
        """Times of the file."""
        return self.measurements.time_s

    @property
    def batch(self) -> Batch[Any]:
        """The configurations."""
        return self.measurements.batch

    @property
    def log_error_90(self) -> float | None:
        """Half the width of the 90 % interval of compiled predictions of this kernel, as a logarithm; None without one."""
        kernel = family_of(self.measurements.problems[0]).name
        return self.scenario.calibration.log_error_90(kernel, Fidelity.COMPILED)

    @property
    def accuracy(self) -> Accuracy:
        """Agreement of these runs; its ``scale`` is the one factor for a clock that a file may not record."""
        return accuracy(self.predicted_s, self.measured_s, self.measurements.problem_index)

    @property
    def spilled(self) -> NDArray[np.bool_]:
        """Runs whose file records local memory; none where it records nothing of the kind."""
        columns = self.measurements.columns
        if LOCAL_BYTES not in columns:
            return np.zeros(len(self.measurements), np.bool_)
        return np.asarray(columns[LOCAL_BYTES].to_numpy(np.float64) > 0)

    @property
    def scaled_s(self) -> Floats:
        """Predictions after that one factor."""
        return self.predicted_s * float(np.median(self.measured_s / self.predicted_s))


def comparison(
    measurements: Measurements, predicted: PredictedRows, scenario: Scenario, rows_of_file: int
) -> Comparison:
    """The rows that ran and were predicted, in the file's order.

    Raises:
        InputError: fewer than two rows can be compared.
    """
    usable = np.flatnonzero(measurements.ran & np.isfinite(predicted.seconds))
    if len(usable) < 2:
        raise InputError(f"{measurements.path}: {len(usable)} rows can be compared; at least 2 are needed")
    return Comparison(
        gpu=scenario.gpu.id,
        scenario=scenario,
        measurements=measurements.take(usable),
        predicted_s=predicted.seconds[usable],
        limiters=predicted.limiters[usable],
        covered=f"{len(usable):,} of {rows_of_file:,} runs",
    )
