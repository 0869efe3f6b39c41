"""Which configuration to measure next: what is predicted, corrected by what has been measured so far.

The logarithm of a time is what the model predicts plus a Gaussian process (scikit-learn, extra ``learn``) over the parameters.
The next configuration is the one with the largest expected improvement (Jones, Schonlau and Welch 1998). The search ends where
no configuration is expected to improve on the best by more than ``tolerance``.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from ..errors import InputError
from .candidates import Floats

UNGUIDED_RUNS = 16
"""Configurations at random before the first estimate, where nothing is predicted."""
_PATIENCE = 0.25
"""Runs in a row that promise too little before a search ends, as a part of all: who has seen few runs is too sure of himself."""
_LEAST_PATIENCE = 10
"""The same as a number, for short searches."""
_LEARNED_FROM = 8
"""Runs from which on the process chooses its own length scales."""
_LOOKED_AT = 8192
"""Configurations that are looked at for one step."""
_LARGEST_LOG_RATIO = 3.0
"""Runs that are e³ slower than usual count as so slow: what is that slow says little of what is fast."""
_NEIGHBOURS = 3
"""Nearest measured configurations that say whether one will run."""
_DOUBT = 0.1
"""Chance to run where no neighbour did."""


@dataclass(slots=True)
class GuidedSearch:
    """A search among n configurations: ``ask`` for some, measure them, ``tell`` their times.

    Attributes:
        points: Coordinates of the configurations, shape ``(n, k)`` (`coordinates`).
        predicted_s: Predicted seconds, shape ``(n,)``; NaN where nothing is predicted, infinite where it cannot run.
        tolerance: Expected improvement, as a part of the best time, below which the search ends; 0 goes on to the last.
        seed: Of what is chosen at random.

    Raises:
        InputError: the extra ``learn`` is not installed, or shapes differ.

    >>> from perfmodel.tuning.candidates import coordinates
    >>> times = [(block - 96) ** 2 + 500 for block in range(32, 1025, 32)]
    >>> points = coordinates({"block": list(range(32, 1025, 32))})
    >>> search = GuidedSearch(points, np.array(times) * 1.1)
    >>> (first,) = search.ask()
    >>> search.tell(first, times[first])
    >>> times[first]
    500
    """

    points: Floats
    predicted_s: Floats | None = None
    tolerance: float = 0.0
    seed: int = 0
    _rng: np.random.Generator = field(init=False)
    _expected: Floats = field(init=False)
    _guided: bool = field(init=False)
    _open: NDArray[np.bool_] = field(init=False)
    _known: list[int] = field(init=False, default_factory=list)
    _log_s: list[float] = field(init=False, default_factory=list)
    _failed: list[int] = field(init=False, default_factory=list)
    _kernel: Any = field(init=False, default=None)
    _learned_at: int = field(init=False, default=0)
    _idle: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        predicted = np.full(len(self.points), np.nan) if self.predicted_s is None else self.predicted_s
        if predicted.shape != (len(self.points),):
            raise InputError(
                f"predicted_s of shape {predicted.shape}: one time for each of {len(self.points)} configurations"
            )
        _processes()
        self._rng = np.random.default_rng(self.seed)
        self._open = ~np.isposinf(predicted)
        known = np.isfinite(predicted)
        self._guided = bool(known.any())
        self._expected = _filled(self.points, np.where(known, np.log(np.where(known, predicted, 1.0)), np.nan))
        if self._guided:
            spread = max(float(self._expected.std()), 1e-12)
            self.points = np.column_stack([self.points, (self._expected - self._expected.mean()) / spread])

    @property
    def best(self) -> tuple[int, float] | None:
        """Index and seconds of the fastest configuration so far; None before one has run."""
        if not self._known:
            return None
        place = int(np.argmin(self._log_s))
        return self._known[place], math.exp(self._log_s[place])

    @property
    def left(self) -> int:
        """How many configurations may still be measured."""
        return int(self._open.sum())

    def tell(self, index: int, seconds: float | None) -> None:
        """What was measured; None where the configuration did not run."""
        self._open[index] = False
        if seconds is None:
            self._failed.append(index)
        else:
            self._known.append(index)
            self._log_s.append(math.log(seconds))

    def ask(self, count: int = 1) -> list[int]:
        """Up to ``count`` configurations to measure next, none where all have been or no improvement is expected.

        Several are chosen one after the other, each as if those before it had taken the time that is expected of them.
        """
        left = np.flatnonzero(self._open)
        if not len(left):
            return []
        if not self._known:
            order = (
                np.argsort(self._expected[left], kind="stable") if self._guided else self._rng.permutation(len(left))
            )
            return [int(index) for index in left[order[: count if self._guided else max(count, UNGUIDED_RUNS)]]]
        chosen: list[int] = []
        known, log_s = self._known, self._log_s
        try:
            for _ in range(min(count, len(left))):
                places = self._looked_at(left[~np.isin(left, chosen)])
                expected, gains = self._expected_gains(places)
                self._idle = self._idle + 1 if gains.max() < self.tolerance else 0
                if self._idle > max(_LEAST_PATIENCE, _PATIENCE * len(known)):
                    break
                place = int(np.argmax(gains))
                chosen.append(int(places[place]))
                self._known, self._log_s = [*self._known, chosen[-1]], [*self._log_s, float(expected[place])]
        finally:
            self._known, self._log_s = known, log_s
        return chosen

    def _looked_at(self, left: NDArray[np.intp]) -> NDArray[np.intp]:
        """All that are left, or in a large space the neighbours of the best and some of the others."""
        if len(left) <= _LOOKED_AT:
            return left
        best = self.points[self._known[int(np.argmin(self._log_s))]]
        distances = ((self.points[left] - best) ** 2).sum(axis=1)
        near = left[np.argpartition(distances, _LOOKED_AT // 4)[: _LOOKED_AT // 4]]
        return np.union1d(near, self._rng.choice(left, _LOOKED_AT - len(near), replace=False))

    def _expected_gains(self, places: NDArray[np.intp]) -> tuple[Floats, Floats]:
        """Logarithms of the expected times, and expected improvements as a part of the best time, shapes as ``places``."""
        ratios = np.array(self._log_s) - self._expected[self._known]
        usual = float(ratios.mean() if self._guided else np.median(ratios))
        ratios = np.minimum(ratios - usual, _LARGEST_LOG_RATIO)
        process = self._fitted(ratios)
        mean, deviation = process.predict(self.points[places], return_std=True)
        log_s = np.asarray(mean + usual + self._expected[places], np.float64)
        gain = min(self._log_s) - log_s
        deviation = np.maximum(deviation, 1e-9)
        standard = gain / deviation
        density = np.exp(-0.5 * standard**2) / math.sqrt(2 * math.pi)
        expected = np.asarray(gain * ndtr(standard) + deviation * density, np.float64)
        if self._failed:
            expected = expected * self._chance_to_run(places)
        return log_s, expected

    def _fitted(self, ratios: Floats) -> Any:
        """The process given all runs; its length scales are chosen anew each time that the runs have grown by a tenth."""
        from sklearn.exceptions import ConvergenceWarning

        regressor, kernel = _processes()
        count = len(self._known)
        anew = count >= _LEARNED_FROM and count >= max(self._learned_at + 4, 1.1 * self._learned_at)
        if self._kernel is None or anew:
            self._kernel = kernel(self.points.shape[1], max(float(ratios.var()), 0.01))
        process = regressor(self._kernel, optimizer="fmin_l_bfgs_b" if anew else None)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # a bound is an answer: a parameter without effect
            process.fit(self.points[self._known], ratios)
        if anew:
            self._kernel, self._learned_at = process.kernel_, count
        return process

    def _chance_to_run(self, places: NDArray[np.intp]) -> Floats:
        """Part of each one's nearest measured configurations that ran, never quite 0, shape as ``places``."""
        from scipy.spatial import KDTree

        measured = [*self._known, *self._failed]
        ran = np.arange(len(measured)) < len(self._known)
        _, nearest = KDTree(self.points[measured]).query(self.points[places], k=min(_NEIGHBOURS, len(measured)))
        share = ran[nearest].reshape(len(places), -1).mean(axis=1)
        return np.asarray(np.maximum(share, _DOUBT) ** 2, np.float64)


def _processes() -> tuple[Any, Any]:
    """The regressor of scikit-learn, and a function that makes its kernel for k axes."""
    try:
        from sklearn.gaussian_process import GaussianProcessRegressor
        from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel
    except ImportError as error:
        raise InputError("a guided search needs the extra `learn`: pip install 'perfmodel[learn]'") from error

    def kernel(axes: int, variance: float) -> Any:
        smooth = Matern([1.0] * axes, (0.2, 5.0), nu=2.5)
        return ConstantKernel(variance, (1e-4, 10.0)) * smooth + WhiteKernel(1e-3, (1e-5, 0.1))

    return GaussianProcessRegressor, kernel


def _filled(points: Floats, logs: Floats) -> Floats:
    """Predicted logarithms, and where there are none what a process makes of the others; 0 where nothing is known."""
    known = np.flatnonzero(np.isfinite(logs))
    lacking = np.flatnonzero(~np.isfinite(logs))
    if not len(known):
        return np.zeros(len(logs))
    if not len(lacking):
        return logs
    regressor, kernel = _processes()
    mean = float(logs[known].mean())
    spread = float(logs[known].var())
    process = regressor(kernel(points.shape[1], max(spread, 1e-3)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        process.fit(points[known], logs[known] - mean)
    filled = logs.copy()
    filled[lacking] = process.predict(points[lacking]) + mean
    return filled
