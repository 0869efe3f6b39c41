"""The result of every prediction, whatever its fidelity: one frozen record that becomes JSON or a table row."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from enum import Enum
from typing import Any

import numpy as np

from ..compiler.resources import Resources
from ..core.counts import Counts
from ..time_model.combine import Terms


class Fidelity(Enum):
    """Where counts and registers come from; see the manual."""

    ANALYTIC = "analytic"
    COMPILED = "compiled"
    SIMULATED = "simulated"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResidentBlocks:
    """Occupancy of one launch: blocks and warps resident on an SM, and what keeps further blocks away."""

    blocks_per_sm: int
    warps_per_sm: int
    fraction: float
    limiter: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TimePrediction:
    """Device time of one launch in seconds, its 90 % interval, what limits it and what backs the coefficients."""

    predicted_s: float
    interval_s: tuple[float, float] | None
    limiter: str
    calibration_status: str
    terms: Terms


@dataclass(frozen=True, slots=True, kw_only=True)
class Corrected:
    """What a learned residual makes of a prediction, beside it: seconds, and the factor between the two.

    ``similarity`` (0 … 1) is the correlation, by what was learned, of this launch's error with that of the nearest run
    that was learned from; ``interval_s`` is the 90 % interval of launches held out, None where none of those runs is near.
    """

    factor: float
    corrected_s: float
    interval_s: tuple[float, float] | None
    similarity: float
    calibration_status: str

    def to_json(self) -> dict[str, Any]:
        """Names and numbers, microseconds where the name says so."""
        interval = self.interval_s
        return {
            "factor": self.factor,
            "corrected_us": self.corrected_s * 1e6,
            "interval_us": None if interval is None else [bound * 1e6 for bound in interval],
            "similarity": self.similarity,
            "calibration_status": self.calibration_status,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """One configuration on one GPU: resources, occupancy, counts and time.

    ``exact`` says that the counts are what the hardware would count, and not estimates; ``notes`` say what a reader
    should know (estimated counts, disagreements, fallbacks). ``residual`` is there where one was asked for; ``time`` is the
    model's own in any case.
    """

    kernel: str
    gpu: str
    fidelity: Fidelity
    exact: bool
    problem: Any
    configuration: Any
    resources: Resources
    occupancy: ResidentBlocks
    counts: Counts
    time: TimePrediction
    notes: tuple[str, ...] = ()
    residual: Corrected | None = None

    def to_json(self) -> dict[str, Any]:
        """The object of the JSON contract: fractions, bytes, microseconds where the name says so."""
        interval = self.time.interval_s
        told = {
            "kernel": self.kernel,
            "gpu": self.gpu,
            "fidelity": self.fidelity.value,
            "exact": self.exact,
            "problem": plain(self.problem),
            "config": plain(self.configuration),
            "resources": asdict(self.resources),
            "occupancy": asdict(self.occupancy),
            "counts": {name: _number(value) for name, value in self.counts.items()},
            "time": {
                "predicted_us": self.time.predicted_s * 1e6,
                "interval_us": None if interval is None else [bound * 1e6 for bound in interval],
                "limiter": self.time.limiter,
                "calibration_status": self.time.calibration_status,
                "terms_us": {name: float(value) * 1e6 for name, value in self.time.terms.items()},
            },
            "notes": list(self.notes),
        }
        return told if self.residual is None else told | {"residual": self.residual.to_json()}

    def to_row(self) -> dict[str, Any]:
        """One flat row, for a pandas DataFrame: ``pd.DataFrame(p.to_row() for p in predictions)``."""
        row: dict[str, Any] = {"kernel": self.kernel, "gpu": self.gpu, "fidelity": self.fidelity.value}
        row |= plain(self.problem) | plain(self.configuration) | asdict(self.resources) | asdict(self.occupancy)
        row |= {name: _number(value) for name, value in self.counts.items()}
        row |= {"predicted_s": self.time.predicted_s, "time_limiter": self.time.limiter}
        return row if self.residual is None else row | {"corrected_s": self.residual.corrected_s}


def plain(record: Any) -> dict[str, Any]:
    """A problem or configuration as names and JSON values; Enum members by value, no effect as ``"none"``."""
    values = {field.name: getattr(record, field.name) for field in fields(record)}
    return {
        name: "none" if value is None else value.value if isinstance(value, Enum) else value
        for name, value in values.items()
    }


def _number(value: Any) -> int | float:
    number = float(np.asarray(value))
    return int(number) if number.is_integer() else number
