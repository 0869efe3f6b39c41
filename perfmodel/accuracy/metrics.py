"""How well predicted times agree with measured ones: errors, rank correlations, regret of choosing by prediction."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

DIGITS = 12
"""Decimal digits of tau-b and of regret that rounding leaves right, so that perfect agreement is 1."""
EQUAL = 1e-9
"""Relative difference below which two predictions are one: what rounding makes of the same formula and counts."""
LEAST_RUNS = 5
"""Runs of a problem from which their order says something."""
LEAST_CANDIDATES = 10
"""Runs of a problem from which the regret of choosing among them counts: of two, a coin is right every second time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WithinProblems:
    """Agreement inside each problem: does the order of its own candidates come out right?

    A pooled ranking of several problems asks mostly which problem is smaller. ``problems`` is the number of problems with at
    least ``LEAST_RUNS`` runs, over which tau-b is given (without those whose times are all alike); ``regret_problems`` that of
    problems with at least ``LEAST_CANDIDATES``, over which regret is given. The mean of regrets is geometric. NaN (null in
    JSON) where there is no such problem.
    """

    problems: int
    kendall_tau_mean: float
    kendall_tau_worst: float
    regret_problems: int
    regret_top1_mean: float
    regret_top1_worst: float
    regret_top5_mean: float
    regret_top5_worst: float

    def to_json(self) -> dict[str, Any]:
        """Names and numbers of the JSON contract."""
        return _plain(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """Agreement over ``n`` runs; errors are fractions of the measured time.

    ``scale`` is the median of measured / predicted, ``mape_scaled`` the error after that one factor (published files do
    not record the clock). ``kendall_tau`` is tau-b; it and ``spearman`` are NaN (null in JSON) where all times are alike and no
    order is defined. ``regret_topK`` is the fastest measured among the K predicted fastest
    over the fastest measured, over one pooled ranking; of equal predictions the mean over which of them come first.
    ``within_problems`` is None where it is not known which problem each run solves.
    """

    n: int
    mape: float
    mape_scaled: float
    median_ape: float
    p90_ape: float
    scale: float
    kendall_tau: float
    spearman: float
    regret_top1: float
    regret_top5: float
    regret_top10: float
    within_problems: WithinProblems | None = None

    def to_json(self) -> dict[str, Any]:
        """Names and numbers of the JSON contract."""
        within = None if self.within_problems is None else self.within_problems.to_json()
        return _plain(self, but="within_problems") | {"within_problems": within}


def _plain(record: Any, but: str = "") -> dict[str, Any]:
    values = {field.name: getattr(record, field.name) for field in fields(record) if field.name != but}
    return {name: None if math.isnan(value) else value for name, value in values.items()}


def regret(predicted: Floats, measured: Floats, top: int) -> float:
    """Fastest measured of the ``top`` predicted fastest over the fastest measured; 1 is perfect.

    Which of equal predictions comes first says nothing: where not all of them are among the ``top``, it is the mean over all
    choices.

    >>> regret(np.array([1.0, 2.0, 3.0]), np.array([20.0, 10.0, 30.0]), 1)
    2.0
    >>> regret(np.array([1.0, 1.0, 3.0]), np.array([20.0, 10.0, 30.0]), 1)
    1.5
    """
    number = min(top, len(predicted))
    last = np.partition(predicted, number - 1)[number - 1]
    equal = np.isclose(predicted, last, rtol=EQUAL, atol=0.0)
    before = ~equal & (predicted < last)
    drawn, tied = number - int(before.sum()), np.sort(measured[equal])
    best = np.minimum(tied, measured[before].min() if before.any() else math.inf)
    ways = [math.comb(len(tied) - 1 - rank, drawn - 1) for rank in range(len(tied))]  # to draw this one and none faster
    mean = sum(count / math.comb(len(tied), drawn) * float(time) for count, time in zip(ways, best, strict=True))
    return round(mean / float(measured.min()), DIGITS)


def accuracy(predicted: Floats, measured: Floats, problem: NDArray[np.integer] | None = None) -> Accuracy:
    """Agreement of predicted and measured seconds, arrays of shape ``(n,)`` with n ≥ 2.

    ``problem``, of the same shape, says which problem each run solves.

    >>> perfect = accuracy(np.array([1.0, 2.0, 3.0]), np.array([2.0, 4.0, 6.0]))
    >>> perfect.scale, perfect.mape_scaled, perfect.kendall_tau, perfect.regret_top1
    (2.0, 0.0, 1.0, 1.0)
    """
    from scipy.stats import kendalltau, spearmanr

    ordered = np.ptp(predicted) > 0 and np.ptp(measured) > 0
    errors = np.abs(predicted / measured - 1.0)
    scale = float(np.median(measured / predicted))
    return Accuracy(
        n=len(measured),
        mape=float(errors.mean()),
        mape_scaled=float(np.abs(predicted * scale / measured - 1.0).mean()),
        median_ape=float(np.median(errors)),
        p90_ape=float(np.quantile(errors, 0.9)),
        scale=scale,
        kendall_tau=round(float(kendalltau(predicted, measured).statistic), DIGITS),
        spearman=float(spearmanr(predicted, measured).statistic) if ordered else math.nan,
        regret_top1=regret(predicted, measured, 1),
        regret_top5=regret(predicted, measured, 5),
        regret_top10=regret(predicted, measured, 10),
        within_problems=None if problem is None else within_problems(predicted, measured, problem),
    )


def rows_by_problem(problem: NDArray[np.integer], least: int) -> list[NDArray[np.intp]]:
    """The rows of each problem that has at least so many.

    >>> rows_by_problem(np.array([7, 3, 7]), 2)
    [array([0, 2])]
    """
    known, counts = np.unique(problem, return_counts=True)
    return [np.flatnonzero(problem == one) for one in known[counts >= least]]


def taus_by_problem(predicted: Floats, measured: Floats, problem: NDArray[np.integer]) -> Floats:
    """Tau-b inside each problem of at least ``LEAST_RUNS`` runs, NaN where all times of one are alike; ``(n,)`` to ``(p,)``.

    >>> times = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    >>> taus_by_problem(np.tile(times, 2), np.r_[times, times[::-1]], np.repeat([0, 1], 5))
    array([ 1., -1.])
    """
    from scipy.stats import kendalltau

    parts = rows_by_problem(problem, LEAST_RUNS)
    return np.array([round(float(kendalltau(predicted[rows], measured[rows]).statistic), DIGITS) for rows in parts])


def regrets_by_problem(predicted: Floats, measured: Floats, problem: NDArray[np.integer], top: int) -> Floats:
    """The regret of the choice for each problem of at least ``LEAST_CANDIDATES`` runs; shapes ``(n,)`` to ``(p,)``.

    >>> times = np.arange(1.0, 11.0)
    >>> regrets_by_problem(np.tile(times, 2), np.r_[times, times[::-1]], np.repeat([0, 1], 10), 1)
    array([ 1., 10.])
    """
    return np.array(
        [regret(predicted[rows], measured[rows], top) for rows in rows_by_problem(problem, LEAST_CANDIDATES)]
    )


def within_problems(predicted: Floats, measured: Floats, problem: NDArray[np.integer]) -> WithinProblems:
    """Agreement inside problems of predicted and measured seconds, arrays of shape ``(n,)``."""
    taus = taus_by_problem(predicted, measured, problem)
    taus = taus[np.isfinite(taus)]
    first, five = (regrets_by_problem(predicted, measured, problem, top) for top in (1, 5))
    return WithinProblems(
        problems=len(taus),
        kendall_tau_mean=float(taus.mean()) if len(taus) else math.nan,
        kendall_tau_worst=float(taus.min()) if len(taus) else math.nan,
        regret_problems=len(first),
        regret_top1_mean=geometric_mean(first),
        regret_top1_worst=float(first.max()) if len(first) else math.nan,
        regret_top5_mean=geometric_mean(five),
        regret_top5_worst=float(five.max()) if len(five) else math.nan,
    )


def geometric_mean(values: Floats) -> float:
    """NaN of nothing.

    >>> geometric_mean(np.array([1.0, 4.0]))
    2.0
    """
    return round(float(np.exp(np.log(values).mean())), DIGITS) if len(values) else math.nan
