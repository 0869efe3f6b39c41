"""Predictions of runs that the coefficients did not see: without their launch shape, their GPU or their architecture."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...calibration.fit import FOLDS, conformal_quantile, fold_of_runs, log_ratios
from ...calibration.fitting import Fit, fit
from ...calibration.measured_runs import MeasuredRuns, taken, taken_runs
from ...errors import InputError
from ...profiles.facts import Advance, no_progress
from ...time_model.coefficients import COEFFICIENT_NAMES
from ..metrics import Accuracy, accuracy
from .sensitivity import WhatIfRates, sign_rates

Floats = NDArray[np.float64]
Folds = Sequence[NDArray[np.intp]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """How many held-out runs lay in the 90 % interval that their training data gave, and its median width as a factor."""

    n: int
    covered: int
    median_factor: float

    @property
    def fraction(self) -> float:
        """The part that was covered."""
        return self.covered / self.n

    def to_json(self) -> dict[str, Any]:
        """Names and numbers."""
        return {"n": self.n, "covered": self.covered, "fraction": self.fraction, "median_factor": self.median_factor}


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOut:
    """One data set as told by coefficients that did not see what was held out, over one pooled ranking.

    ``predicted_s`` (shape ``(n,)``) goes with the runs of ``data``; after the scale that other runs of the data set gave,
    raw where all of its runs were held out. ``coverage`` is None where no interval was to be had.
    """

    data: MeasuredRuns
    predicted_s: Floats
    coverage: Coverage | None = None

    @property
    def accuracy(self) -> Accuracy:
        """Agreement over all held-out runs."""
        return accuracy(self.predicted_s, self.data.runs.seconds)

    @property
    def sensitivity(self) -> WhatIfRates:
        """Whether one-step changes go the predicted way."""
        return sign_rates(self.data.batch, self.data.problem_index, self.predicted_s, self.data.runs.seconds)

    def to_json(self) -> dict[str, Any]:
        """The result for one data set."""
        head = {"name": self.data.runs.name, "gpu": self.data.runs.gpu.id, "groups": len(np.unique(self.data.groups))}
        found = head | self.accuracy.to_json() | {"what_if": self.sensitivity.to_json()}
        return found | ({} if self.coverage is None else {"coverage_90": self.coverage.to_json()})


def fits_to_run(folds: int) -> int:
    """How many fits ``shapes_out`` makes: without each fold, and without each pair of folds."""
    return folds + folds * (folds - 1) // 2


def shapes_out(
    data: Sequence[MeasuredRuns],
    free: Sequence[str] = COEFFICIENT_NAMES,
    folds: int = FOLDS,
    seed: int = 0,
    advance: Advance = no_progress,
) -> list[HeldOut]:
    """Every run told by a fit that saw no run of its launch shape on any GPU, with an interval from a nested split.

    The interval of a fold is the conformal quantile, data set by data set, of the errors on each of the other folds by a
    fit that saw neither of the two: nothing that is tested has touched its own interval.
    """
    fold_of = fold_of_runs(data, folds, seed)
    errors = {
        out: _errors_without(data, fold_of, out, free, advance)
        for size in (1, 2)
        for out in itertools.combinations(range(folds), size)
    }
    return [_told(one, of, index, errors, folds) for index, (one, of) in enumerate(zip(data, fold_of, strict=True))]


def _errors_without(
    data: Sequence[MeasuredRuns], fold_of: Folds, out: tuple[int, ...], free: Sequence[str], advance: Advance
) -> list[Floats]:
    """log(measured / predicted) of the runs of the folds left out, NaN elsewhere, by data set."""
    found = [np.full(len(one), np.nan) for one in data]
    held = [np.isin(of, out) for of in fold_of]
    kept = [taken_runs(one.runs, ~without) for one, without in zip(data, held, strict=True) if not without.all()]
    if kept:
        trained = fit(kept, free)
        for one, without, ratios in zip(data, held, found, strict=True):
            if without.any() and not without.all():
                ratios[without] = log_ratios(taken_runs(one.runs, without), trained)
    advance()
    return found


def _told(
    one: MeasuredRuns,
    of: NDArray[np.intp],
    index: int,
    errors: dict[tuple[int, ...], list[Floats]],
    folds: int,
) -> HeldOut:
    ratios, widths = np.full(len(one), np.nan), np.full(len(one), np.nan)
    for fold in range(folds):
        here = of == fold
        ratios[here] = errors[(fold,)][index][here]
        nested = []
        for other in range(folds):
            if other != fold:
                pair = errors[(min(fold, other), max(fold, other))][index]
                nested.append(np.abs(pair[of == other]))
        known = np.concatenate(nested)
        known = known[np.isfinite(known)]
        if len(known):
            widths[here] = conformal_quantile(known)
    usable = np.isfinite(ratios)
    if usable.sum() < 2:
        raise InputError(f"{one.runs.name}: too few launch shapes to hold out; {len(np.unique(one.groups))} are there")
    covered = np.abs(ratios) <= widths
    return HeldOut(
        data=taken(one, usable),
        predicted_s=one.runs.seconds[usable] * np.exp(-ratios[usable]),
        coverage=Coverage(
            n=int(usable.sum()),
            covered=int(covered[usable].sum()),
            median_factor=float(np.exp(np.median(widths[usable]))),
        ),
    )


def gpus_out(
    data: Sequence[MeasuredRuns], free: Sequence[str] = COEFFICIENT_NAMES, advance: Advance = no_progress
) -> list[HeldOut]:
    """Each GPU told by coefficients fitted to the other GPUs, as for a GPU that nothing was measured on."""
    return _left_out(data, lambda one: one.runs.gpu.id, "GPU", free, advance)


def architectures_out(
    data: Sequence[MeasuredRuns], free: Sequence[str] = COEFFICIENT_NAMES, advance: Advance = no_progress
) -> list[HeldOut]:
    """Each architecture told by coefficients fitted to the others: nothing but its data sheets is known of it."""
    return _left_out(data, lambda one: one.runs.gpu.architecture.name, "architecture", free, advance)


def _left_out(
    data: Sequence[MeasuredRuns],
    kind: Callable[[MeasuredRuns], str],
    word: str,
    free: Sequence[str],
    advance: Advance,
) -> list[HeldOut]:
    kinds = list(dict.fromkeys(kind(one) for one in data))
    if len(kinds) < 2:
        raise InputError(f"all runs are of one {word} ({kinds[0]}); at least two are needed to leave one out")
    trained: dict[str, Fit] = {}
    for left in kinds:
        trained[left] = fit([one.runs for one in data if kind(one) != left], free)
        advance()
    return [HeldOut(data=one, predicted_s=_raw(one, trained[kind(one)])) for one in data]


def _raw(one: MeasuredRuns, trained: Fit) -> Floats:
    """Predicted seconds without any scale."""
    ratios = log_ratios(replace(one.runs, name="left out"), replace(trained, scales={}))
    return np.asarray(one.runs.seconds * np.exp(-ratios))
