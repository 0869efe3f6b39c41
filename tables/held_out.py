"""Predictions of runs that the coefficients did not see: of their launch shape or architecture; and which way changes go."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfmodel.accuracy.metrics import Accuracy, accuracy
from perfmodel.calibration.fit import FOLDS, Errors, fold_of_runs, log_ratios
from perfmodel.calibration.fitting import Fit, fit
from perfmodel.calibration.measured_runs import MeasuredRuns, taken, taken_runs
from perfmodel.errors import InputError
from perfmodel.families.base import NONE_CODE, Batch, enum_of
from perfmodel.time_model.coefficients import COEFFICIENT_NAMES

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """How many held-out runs lay in the 90 % interval that their training data gave, and its median width as a factor.

    ``of_problems`` has the part of each problem's runs that did (shape ``(p,)``, None where a file names no problems).
    """

    n: int
    covered: int
    median_factor: float
    of_problems: Floats | None = None

    @property
    def fraction(self) -> float:
        """The part that was covered: every problem counts the same, as it does in the interval."""
        return self.covered / self.n if self.of_problems is None else float(self.of_problems.mean())


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOut:
    """Predictions of a data set by coefficients that did not see what was held out.

    ``predicted_s`` (shape ``(n,)``) goes with the runs of ``data``; after the scale that other runs of the data set gave,
    raw where all of its runs were held out. ``coverage`` is None where the training data give no interval.
    """

    data: MeasuredRuns
    predicted_s: Floats
    coverage: Coverage | None = None

    @property
    def accuracy(self) -> Accuracy:
        """Agreement over all held-out runs, in one ranking and inside problems."""
        return accuracy(self.predicted_s, self.data.runs.seconds, self.data.problem_index)


def shapes_out(data: Sequence[MeasuredRuns]) -> list[HeldOut]:
    """Every run predicted by a fit that saw no run of its launch shape on any GPU, with an interval from a nested split.

    The interval of a fold is the conformal quantile, data set by data set, of the errors on each of the other folds by a
    fit that saw neither of the two: no run has a part in its own interval.
    """
    fold_of = fold_of_runs(data, FOLDS, 0)
    fits: dict[int, Fit | None] = {}
    errors: dict[tuple[int, ...], list[Floats]] = {}
    for size in (1, 2):
        for out in itertools.combinations(range(FOLDS), size):
            held = [np.isin(of, out) for of in fold_of]
            kept = [taken_runs(one.runs, ~rows) for one, rows in zip(data, held, strict=True) if not rows.all()]
            trained = fit(kept, COEFFICIENT_NAMES, near=fits.get(out[0])) if kept else None
            fits.setdefault(out[0], trained)
            errors[out] = [_errors(one, rows, trained) for one, rows in zip(data, held, strict=True)]
    return [
        _held_out(one, of, {out: by_set[index] for out, by_set in errors.items()})
        for index, (one, of) in enumerate(zip(data, fold_of, strict=True))
    ]


def _errors(one: MeasuredRuns, held: NDArray[np.bool_], trained: Fit | None) -> Floats:
    """log(measured / predicted) of the held-out runs, NaN elsewhere and where nothing is left to fit to."""
    ratios = np.full(len(one), np.nan)
    if trained is not None and held.any() and not held.all():
        ratios[held] = log_ratios(taken_runs(one.runs, held), trained)
    return ratios


def _held_out(one: MeasuredRuns, fold_of: NDArray[np.intp], errors: Mapping[tuple[int, ...], Floats]) -> HeldOut:
    ratios, widths = np.full(len(one), np.nan), np.full(len(one), np.nan)
    for fold in range(FOLDS):
        here = fold_of == fold
        ratios[here] = errors[(fold,)][here]
        others = [other for other in range(FOLDS) if other != fold]
        nested = np.concatenate([errors[min(fold, k), max(fold, k)][fold_of == k] for k in others])
        if np.isfinite(nested).any():
            seen = taken(one, np.concatenate([np.flatnonzero(fold_of == k) for k in others]))
            widths[here] = Errors.of(seen, nested).interval
    usable = np.isfinite(ratios)
    if usable.sum() < 2:
        raise InputError(f"{one.runs.name}: too few launch shapes to hold out; {len(np.unique(one.groups))} are there")
    within = np.abs(ratios) <= widths
    of_problems = [
        within[usable & (one.problem_index == problem)].mean() for problem in np.unique(one.problem_index[usable])
    ]
    return HeldOut(
        data=taken(one, usable),
        predicted_s=one.runs.seconds[usable] * np.exp(-ratios[usable]),
        coverage=Coverage(
            n=int(usable.sum()),
            covered=int(within[usable].sum()),
            median_factor=float(np.exp(np.median(widths[usable]))),
            of_problems=np.array(of_problems),
        ),
    )


def architectures_out(data: Sequence[MeasuredRuns]) -> list[HeldOut]:
    """Each architecture predicted by coefficients fitted to the others: only its data sheets are known of it."""
    kinds = [one.runs.gpu.architecture.name for one in data]
    if len(set(kinds)) < 2:
        raise InputError(f"all runs are of one architecture ({kinds[0]}); at least two are needed to leave one out")
    fits = {
        left: fit([one.runs for one, kind in zip(data, kinds, strict=True) if kind != left], COEFFICIENT_NAMES)
        for left in dict.fromkeys(kinds)
    }
    return [HeldOut(data=one, predicted_s=raw_seconds(one, fits[kind])) for one, kind in zip(data, kinds, strict=True)]


def raw_seconds(one: MeasuredRuns, trained: Fit) -> Floats:
    """Predicted seconds of every run, without the scale of its data set."""
    ratios = log_ratios(one.runs, replace(trained, scales={}))
    return np.asarray(one.runs.seconds * np.exp(-ratios))


LEAST_CHANGE = 0.05
"""Part by which the slower of two measured times must exceed the other, so that their order is no accident."""

Rows = NDArray[np.intp]


@dataclass(frozen=True, slots=True, kw_only=True)
class SignRate:
    """Of ``pairs`` pairs of configurations, in how many the faster one was predicted to be the faster one."""

    pairs: int
    right: int


def one_step_pairs(batch: Batch[Any], problem_index: Rows) -> dict[str, tuple[Rows, Rows]]:
    """Pairs of rows that solve one problem and differ in one field: for each field with pairs, their indices.

    A number differs by one step of the values that stand in the batch, a choice by any of its values.
    """
    names = list(batch.columns)
    columns = np.stack([np.asarray(batch.columns[name], np.int64) for name in names], axis=1)
    pairs_of: dict[str, tuple[Rows, Rows]] = {}
    for place, name in enumerate(names):
        others = np.column_stack([np.delete(columns, place, axis=1), problem_index])
        pairs = _pairs(others, columns[:, place], choice=enum_of(batch.configuration_type, name) is not None)
        if len(pairs[0]):
            pairs_of[name] = pairs
    return pairs_of


def _pairs(others: NDArray[np.int64], values: NDArray[np.int64], *, choice: bool) -> tuple[Rows, Rows]:
    """Pairs within groups of equal ``others``; a configuration that was measured twice counts once."""
    group = np.unique(others, axis=0, return_inverse=True)[1].reshape(-1)
    known, rank = np.unique(values, return_inverse=True)
    rank = rank.reshape(-1)
    order = np.asarray(np.unique(group * len(known) + rank, return_index=True)[1], np.intp)
    order = order[values[order] != NONE_CODE]
    group, rank = group[order], rank[order]
    lower, upper = [np.zeros(0, np.intp)], [np.zeros(0, np.intp)]
    for distance in range(1, len(known) if choice else 2):
        together = group[:-distance] == group[distance:]
        if not choice:
            together &= rank[distance:] - rank[:-distance] == 1
        lower.append(order[:-distance][together])
        upper.append(order[distance:][together])
    return np.concatenate(lower), np.concatenate(upper)


def sign_rate(batch: Batch[Any], problem_index: Rows, predicted_s: Floats, measured_s: Floats) -> SignRate:
    """How often the predicted sign of a one-step change is the measured one, where it exceeds ``LEAST_CHANGE``."""
    pairs = right = 0
    for lower, upper in one_step_pairs(batch, problem_index).values():
        measured = np.log(measured_s[upper] / measured_s[lower])
        predicted = np.log(predicted_s[upper] / predicted_s[lower])
        large = np.abs(measured) > np.log1p(LEAST_CHANGE)
        pairs += int(large.sum())
        right += int((np.sign(predicted[large]) == np.sign(measured[large])).sum())
    return SignRate(pairs=pairs, right=right)
