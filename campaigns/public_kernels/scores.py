"""Predictions for measured launches beside their times: launch by launch, by program, and in one line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from perfmodel.core.units import microseconds
from perfmodel.launch.launch import L2State
from perfmodel.prediction.analyze import prediction_of_launch
from perfmodel.prediction.prediction import Prediction
from perfmodel.prediction.scenario import Scenario

from .record import PublicRecord

NEAR = 0.15
"""Relative error up to which a prediction counts as near."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """One launch in one state of L2: what it took and what was predicted."""

    record: PublicRecord
    measured_s: float
    prediction: Prediction

    @property
    def ratio(self) -> float:
        """Predicted over measured: above 1 the model is too slow."""
        return self.prediction.time.predicted_s / self.measured_s

    @property
    def error(self) -> float:
        """Distance from the measured time, as its fraction."""
        return abs(self.ratio - 1.0)

    @property
    def covered(self) -> bool:
        """Whether the measured time lies in the predicted 90 % interval."""
        interval = self.prediction.time.interval_s
        return interval is not None and interval[0] <= self.measured_s <= interval[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Scores of some launches together; all but the number are fractions, of errors or of launches."""

    launches: int
    median: float
    mean: float
    p90: float
    near: float
    within_2x: float
    covered: float

    @classmethod
    def of(cls, scores: Sequence[Score]) -> Summary:
        """Of at least one score."""
        errors = np.array([score.error for score in scores])
        ratios = np.array([score.ratio for score in scores])
        return cls(
            launches=len(scores),
            median=float(np.median(errors)),
            mean=float(np.mean(errors)),
            p90=float(np.quantile(errors, 0.9)),
            near=float(np.mean(errors <= NEAR)),
            within_2x=float(np.mean((ratios >= 0.5) & (ratios <= 2.0))),
            covered=float(np.mean([score.covered for score in scores])),
        )


def scored(records: Sequence[PublicRecord], scenario: Scenario, l2: L2State) -> list[Score]:
    """Every launch that has been executed and timed in that state of L2."""
    found = []
    for record in records:
        timing = record.timing(l2)
        if timing is None or not record.profile:
            continue
        prediction = prediction_of_launch(
            record.launch.kernel, record.launch.configuration, record.kernel_profile(), replace(scenario, l2=l2)
        )
        found.append(Score(record=record, measured_s=timing.median_s, prediction=prediction))
    return found


def summary_table(groups: Sequence[tuple[str, Sequence[Score]]]) -> str:
    """One line for each group of scores, as Markdown."""
    lines = [
        "| launches | number | median error | mean | p90 | within 15 % | within 2× | in the 90 % interval |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, scores in groups:
        if scores:
            of = Summary.of(scores)
            shares = " | ".join(f"{share:.0%}" for share in (of.near, of.within_2x, of.covered))
            lines.append(f"| {name} | {of.launches} | {of.median:.1%} | {of.mean:.1%} | {of.p90:.1%} | {shares} |")
    return "\n".join(lines) + "\n"


def worst_table(scores: Sequence[Score], number: int) -> str:
    """The launches that are off most, by the factor between predicted and measured."""
    far = sorted(scores, key=lambda score: -abs(np.log(score.ratio)))[:number]
    return launch_table(far)


def launch_table(scores: Sequence[Score]) -> str:
    """Every launch with its limiter, as Markdown."""
    lines = [
        "| launch | program | measured µs | predicted µs | ratio | in interval | limiter |",
        "|---|---|---|---|---|---|---|",
        *(_row(score) for score in scores),
    ]
    return "\n".join(lines) + "\n"


def _row(score: Score) -> str:
    launch, time = score.record.launch, score.prediction.time
    cells = (
        launch.id,
        launch.program,
        f"{microseconds(score.measured_s):.2f}",
        f"{microseconds(time.predicted_s):.2f}",
        f"{score.ratio:.2f}",
        "yes" if score.covered else "no",
        time.limiter,
    )
    return f"| {' | '.join(cells)} |"


def program_groups(scores: Sequence[Score]) -> Iterator[tuple[str, list[Score]]]:
    """Scores of each program, in the order of the file."""
    for program in dict.fromkeys(score.record.launch.program for score in scores):
        yield program, [score for score in scores if score.record.launch.program == program]
