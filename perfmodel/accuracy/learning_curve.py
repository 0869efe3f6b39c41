"""How many runs on a GPU the model needs: error on launches of other shapes, by the number of runs that it saw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..calibration.fit import log_ratios
from ..calibration.fitting import fit
from ..calibration.measured_runs import MeasuredRuns, taken, taken_runs
from ..calibration.prior import prior
from ..calibration.residual_learning import LEAST_RUNS, corrected_s, launches_of, learn
from ..calibration.spreading import spread
from ..core.progress import Advance, no_progress
from ..errors import InputError
from ..prediction.launch_features import features
from ..prediction.residual import LEAST_SIMILARITY, Residual
from ..time_model.coefficients import COEFFICIENT_NAMES
from .held_out import Coverage
from .metrics import Accuracy, accuracy

NUMBERS = (5, 10, 20, 40, 80, 160, 320, 640)
DRAWS = 5
MOST_LEARNED = 320
"""Runs up to which the curve of the residual learner goes: its cost is cubic in them."""


class Design(Enum):
    """How the runs to learn from are chosen."""

    DRAWN = "drawn"
    """At random."""
    SPREAD = "spread"
    """Far from one another, as ``perfmodel measure --spread`` does; the first at random."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """Agreement on the launches of other shapes than the ``runs`` runs that were chosen, once for each seed.

    By the physical model alone, or with a residual learned from the same runs; then ``coverages`` has, for each draw,
    those of the launches with an interval, None where none had one.
    """

    name: str
    gpu: str
    runs: int
    residual: bool
    design: Design
    draws: tuple[Accuracy, ...]
    coverages: tuple[Coverage | None, ...] = ()

    def values(self, figure: str) -> NDArray[np.float64]:
        """One figure of ``Accuracy`` by draw."""
        return np.array([getattr(one, figure) for one in self.draws])

    def median(self, figure: str) -> float:
        """The median over the draws of one figure of ``Accuracy``."""
        return float(np.median(self.values(figure)))

    def to_json(self) -> dict[str, Any]:
        """Medians, and every draw."""
        head = {"name": self.name, "gpu": self.gpu, "runs": self.runs, "residual": self.residual}
        medians = {figure: self.median(figure) for figure in ("mape", "kendall_tau", "regret_top1", "regret_top5")}
        draws = {"design": self.design.value, "median": medians, "draws": [one.to_json() for one in self.draws]}
        covered = [None if one is None else one.to_json() for one in self.coverages]
        return head | draws | ({"coverage_90": covered} if self.residual else {})


def chosen_runs(
    data: MeasuredRuns, number: int, seed: int, design: Design = Design.DRAWN
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Indices of ``number`` runs, and of all runs of launch shapes that none of these has.

    Those that are spread are chosen by what the model says of them before anything is measured: with its priors.
    """
    rng = np.random.default_rng(seed)
    chosen = (
        spread(launches_of(data), prior().coefficients, number, rng)
        if design is Design.SPREAD
        else rng.permutation(len(data))[:number]
    )
    return np.sort(chosen), np.flatnonzero(~np.isin(data.groups, data.groups[chosen]))


def learned(
    data: MeasuredRuns, number: int, seeds: Sequence[int], residual: bool, design: Design = Design.DRAWN
) -> Learned:
    """Fit to ``number`` runs of this data set alone, once for each seed, and predict the launches of other shapes.

    Raises:
        InputError: ``number`` runs leave fewer than two to be predicted.
    """
    draws: list[Accuracy] = []
    coverages: list[Coverage | None] = []
    for seed in seeds:
        train, test = chosen_runs(data, number, seed, design)
        if len(test) < 2:
            raise InputError(
                f"{data.runs.name}: {number} of {len(data)} runs leave no launch of another shape to predict"
            )
        trained = fit([taken_runs(data.runs, train)], COEFFICIENT_NAMES)
        measured = data.runs.seconds[test]
        if residual:
            unseen, correction = taken(data, test), learn(taken(data, train), trained)
            predicted = corrected_s(unseen, correction)
            coverages.append(_coverage(unseen, correction, predicted))
        else:
            predicted = measured * np.exp(-log_ratios(taken_runs(data.runs, test), trained))
        draws.append(accuracy(predicted, measured))
    return Learned(
        name=data.runs.name,
        gpu=data.runs.gpu.id,
        runs=number,
        residual=residual,
        design=design,
        draws=tuple(draws),
        coverages=tuple(coverages),
    )


def _coverage(unseen: MeasuredRuns, correction: Residual, predicted_s: NDArray[np.float64]) -> Coverage | None:
    """Of the launches that are near enough to a run that was learned from to have an interval."""
    near = correction.similarity(features(launches_of(unseen), correction.coefficients)) >= LEAST_SIMILARITY
    within = np.abs(np.log(unseen.runs.seconds / predicted_s)) <= correction.log_error_90
    if not near.any():
        return None
    factor = float(np.exp(correction.log_error_90))
    return Coverage(n=int(near.sum()), covered=int((near & within).sum()), median_factor=factor)


def learning_curve(
    data: Sequence[MeasuredRuns], seed: int = 0, residual: bool = False, advance: Advance = no_progress
) -> list[Learned]:
    """The curve of every data set, up to half of its runs; with ``residual`` also with a residual from the same runs."""
    curve = []
    for one in data:
        numbers = [number for number in NUMBERS if number <= len(one) // 2]
        points = [(number, False) for number in numbers]
        points += [(number, True) for number in numbers if residual and LEAST_RUNS <= number <= MOST_LEARNED]
        for number, with_residual in points:
            curve.append(learned(one, number, range(seed, seed + DRAWS), with_residual))
            advance()
    return curve


def design_comparison(
    data: Sequence[MeasuredRuns], number: int, seed: int = 0, advance: Advance = no_progress
) -> list[Learned]:
    """Both designs, without and with a residual, from ``number`` runs of each data set."""
    compared = []
    for one in data:
        for design in Design:
            for residual in (False, True):
                compared.append(learned(one, number, range(seed, seed + DRAWS), residual, design))
                advance()
    return compared
