"""The result of every prediction, whatever its fidelity: one frozen record that becomes JSON or a table row."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from ..compiler.resources import Resources
from ..core.counts import Counts
from ..core.json_aliases import with_former_names
from ..core.json_values import number, plain
from ..core.results import Bar, TimedResult
from ..core.units import interval_text, interval_us, microseconds, time_text
from ..profiles.kernel_profile import Fidelity
from ..time_model.combine import Terms


@dataclass(frozen=True, slots=True, kw_only=True)
class ResidentBlocks:
    """Occupancy of one launch, by the terms of Nsight Compute.

    Attributes:
        blocks_per_sm: Blocks of which an SM has room at once.
        warps_per_sm: Their warps.
        fraction: Theoretical occupancy: these over the warps that an SM can hold.
        limiter: What keeps further blocks away.
        waves_per_sm: Blocks of the grid over what all SMs hold at once; below 1 the grid limits occupancy.
        achieved_warps_per_sm: Warps on an SM, on average over the time in which it has any (an estimate).
        achieved_fraction: Achieved occupancy: these over the warps that an SM can hold.
    """

    blocks_per_sm: int
    warps_per_sm: int
    fraction: float
    limiter: str
    waves_per_sm: float
    achieved_warps_per_sm: float
    achieved_fraction: float

    def to_row(self) -> dict[str, Any]:
        """Columns of a row that holds more than occupancy."""
        return {
            "blocks_per_sm": self.blocks_per_sm,
            "warps_per_sm": self.warps_per_sm,
            "occupancy": self.fraction,
            "occupancy_limiter": self.limiter,
            "waves_per_sm": self.waves_per_sm,
            "achieved_warps_per_sm": self.achieved_warps_per_sm,
            "achieved_occupancy": self.achieved_fraction,
        }

    @property
    def limited_by_grid(self) -> bool:
        """Whether the grid has fewer blocks than the SMs have room for."""
        return self.waves_per_sm < 1.0

    @property
    def text(self) -> str:
        """One line."""
        grid = " (limited by grid)" if self.limited_by_grid else ""
        return (
            f"theoretical occupancy {self.fraction:.0%} ({self.blocks_per_sm} blocks and {self.warps_per_sm} warps per SM, "
            f"limited by {self.limiter.replace('_', ' ')}), {self.waves_per_sm:.2f} waves per SM{grid}, "
            f"achieved about {self.achieved_fraction:.0%} ({self.achieved_warps_per_sm:.1f} warps)"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TimePrediction:
    """Device time of one launch in seconds, its 90 % interval, what limits it and what backs the coefficients."""

    predicted_s: float
    interval_s: tuple[float, float] | None
    limiter: str
    calibration_status: str
    terms: Terms


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Prediction(TimedResult):
    """One configuration on one GPU: resources, occupancy, counts and time.

    ``exact`` says that the counts are what the hardware would count, and not estimates; ``notes`` say what a reader
    should know (estimated counts, disagreements, fallbacks).
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

    def to_json(self) -> dict[str, Any]:
        """The object of the JSON contract: fractions, bytes, microseconds where the name says so."""
        found = {
            "kernel": self.kernel,
            "gpu": self.gpu,
            "fidelity": self.fidelity.value,
            "exact": self.exact,
            "problem": plain(self.problem),
            "config": plain(self.configuration),
            "resources": asdict(self.resources),
            "occupancy": asdict(self.occupancy),
            "counts": {name: number(value) for name, value in self.counts.items()},
            "time": {
                "predicted_us": microseconds(self.time.predicted_s),
                "interval_us": interval_us(self.time.interval_s),
                "limiter": self.time.limiter,
                "calibration_status": self.time.calibration_status,
                "terms_us": {name: microseconds(value) for name, value in self.time.terms.items()},
            },
            "notes": list(self.notes),
        }
        return with_former_names(found)

    @property
    def headline(self) -> str:
        """Kernel, GPU, predicted time with its interval, and what limits it."""
        within = "" if self.time.interval_s is None else f" ({interval_text(self.time.interval_s)})"
        return (
            f"{self.kernel} on {self.gpu}: {time_text(self.time.predicted_s)}{within}, limited by {self.time.limiter}"
        )

    def to_row(self) -> dict[str, Any]:
        """One flat row: problem, configuration, seconds with their interval, terms, resources, occupancy, counts."""
        time = self.time
        low, high = time.interval_s or (None, None)
        row: dict[str, Any] = {"kernel": self.kernel, "gpu": self.gpu, "fidelity": self.fidelity.value}
        row |= plain(self.problem) | plain(self.configuration)
        row |= {"predicted_s": time.predicted_s, "interval_low_s": low, "interval_high_s": high}
        row |= {"time_limiter": time.limiter, "calibration_status": time.calibration_status, "exact": self.exact}
        row |= {f"{name}_s": float(value) for name, value in time.terms.items()}
        row |= asdict(self.resources) | self.occupancy.to_row()
        return row | {name: number(value) for name, value in self.counts.items()}

    def to_rows(self) -> list[dict[str, Any]]:
        """Its one row."""
        return [self.to_row()]

    def shown(self) -> list[dict[str, str]]:
        """The terms of the time."""
        total = self.time.predicted_s
        found = [(name, float(value)) for name, value in self.time.terms.items() if float(value) > 0]
        return [{"term": name, "time": time_text(s), "of total": f"{s / total:.0%}"} for name, s in found]

    def bars(self) -> list[Bar]:
        """The total, then the time of each resource if it were alone, the longest first."""
        terms = [(name, float(value)) for name, value in self.time.terms.items() if float(value) > 0]
        total = Bar(label="predicted", seconds=self.time.predicted_s, interval_s=self.time.interval_s)
        return [total, *(Bar(label=name, seconds=s) for name, s in sorted(terms, key=lambda term: -term[1]))]
