"""How well predicted times agree with measured ones: errors, rank correlations, regret of choosing by prediction."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

TAU_DIGITS = 12
"""Decimal digits of tau-b that rounding leaves right, so that perfect agreement is 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """Agreement over ``n`` runs; errors are fractions of the measured time.

    ``scale`` is the median of measured / predicted, ``mape_scaled`` the error after that one factor (published files do
    not record the clock). ``kendall_tau`` is tau-b; it and ``spearman`` are NaN (null in JSON) where all times are alike and no
    order is defined. ``regret_topK`` is the fastest measured among the K predicted fastest
    over the fastest measured, over one pooled ranking.
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

    def to_json(self) -> dict[str, Any]:
        """Names and numbers of the JSON contract."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {name: None if math.isnan(value) else value for name, value in values.items()}


def regret(predicted: Floats, measured: Floats, top: int) -> float:
    """Fastest measured of the ``top`` predicted fastest over the fastest measured; 1 is perfect.

    >>> regret(np.array([1.0, 2.0, 3.0]), np.array([20.0, 10.0, 30.0]), 1)
    2.0
    """
    chosen = np.argsort(predicted, kind="stable")[:top]
    return float(measured[chosen].min() / measured.min())


def accuracy(predicted: Floats, measured: Floats) -> Accuracy:
    """Agreement of predicted and measured seconds, arrays of shape ``(n,)`` with n ≥ 2.

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
        kendall_tau=round(float(kendalltau(predicted, measured).statistic), TAU_DIGITS),
        spearman=float(spearmanr(predicted, measured).statistic) if ordered else math.nan,
        regret_top1=regret(predicted, measured, 1),
        regret_top5=regret(predicted, measured, 5),
        regret_top10=regret(predicted, measured, 10),
    )
