"""Which configuration to measure next: what is predicted, corrected by what has been measured so far.

The logarithm of a time is what the model predicts plus a Gaussian process over the parameters, in which the
prediction is an axis of its own: where the model misleads, runs say so. The first runs are the predicted best and the predicted
best of each variant, since a model may misjudge one as a whole. Then the next configuration is the one with the largest expected
improvement (Jones, Schonlau and Welch 1998). Of three runs one is a neighbour of the fastest so far, however sure the process is
of itself, and one is chosen as if the process were much less sure than it says: so the search leaves a valley that is not the
deepest. The search ends where no configuration is expected to improve on the best by more than ``tolerance``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from ..core.axes import Axis, Floats, axes_of, number_axis
from ..core.gaussian_process import Process, filled
from ..errors import InputError

UNGUIDED_RUNS = 4
"""Configurations, spread over the space, before the first estimate, where nothing is predicted."""
_DRAWN = 3
"""Configurations that are drawn for each of these; the one that is farthest from the others is taken."""
_CYCLE = 3
"""Of so many runs one is a neighbour of the best, and one explores."""
_EXPLORING = 3.0
"""Deviations are taken to be so many times as large where a run explores."""
_PATIENCE = 0.25
"""Runs in a row that promise too little before a search ends, as a part of all: who has seen few runs is too sure of himself."""
_LEAST_PATIENCE = 10
"""The same as a number, for short searches."""
_VARIANCE = 0.3
"""Expected variance of the logarithm of a time, of each of the process's three parts."""
_RESIDUAL_VARIANCE = 0.2
"""The same of what predictions leave."""
TOLERANCE = 0.003
"""Expected improvement, as a part of the best time, below which tuners end."""
_LEARNED_FROM = 4
"""Runs from which on the process chooses its own length scales."""
_GROWTH = 1.15
"""How much the runs have grown when it chooses them anew."""
_LARGEST_LOG_RATIO = 2.0
"""Runs that are e² slower than usual count as so slow: what is that slow says little of what is fast."""
_SOME_RAN = 0.2
"""Weight of the assumption that a configuration runs, beside the weights of measured ones."""


@dataclass(slots=True)
class GuidedSearch:
    """A search among n configurations: ``ask`` for some, measure them, ``tell`` their times.

    Attributes:
        values: For each parameter its value in every configuration.
        predicted_s: Predicted seconds, shape ``(n,)``; NaN where nothing is predicted, infinite where it cannot run.
        tolerance: Expected improvement, as a part of the best time, below which the search ends; 0 goes on to the last.
        seed: Of what is chosen at random.

    Raises:
        InputError: ``predicted_s`` has another shape.

    >>> times = [(block - 96) ** 2 + 500 for block in range(32, 1025, 32)]
    >>> search = GuidedSearch({"block": list(range(32, 1025, 32))}, np.array(times) * 1.1)
    >>> (first,) = search.ask()
    >>> search.tell(first, times[first])
    >>> times[first]
    500
    """

    values: Mapping[str, Sequence[Any]]
    predicted_s: Floats | None = None
    tolerance: float = 0.0
    seed: int = 0
    _rng: np.random.Generator = field(init=False)
    _axes: tuple[Axis, ...] = field(init=False)
    _process: Process = field(init=False)
    _expected: Floats = field(init=False)
    _guided: bool = field(init=False)
    _open: NDArray[np.bool_] = field(init=False)
    _known: list[int] = field(init=False, default_factory=list)
    _log_s: list[float] = field(init=False, default_factory=list)
    _failed: list[int] = field(init=False, default_factory=list)
    _first: list[int] = field(init=False, default_factory=list)
    _learned_at: int = field(init=False, default=0)
    _idle: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        count = len(next(iter(self.values.values())))
        predicted = np.full(count, np.nan) if self.predicted_s is None else self.predicted_s
        if predicted.shape != (count,):
            raise InputError(f"predicted_s of shape {predicted.shape}: one time for each of {count} configurations")
        self._rng = np.random.default_rng(self.seed)
        self._open = ~np.isposinf(predicted)
        self._axes = axes_of(self.values)
        known = np.isfinite(predicted)
        self._guided = bool(known.any())
        self._expected = filled(self._axes, np.where(known, np.log(np.where(known, predicted, 1.0)), np.nan))
        said = (number_axis(self._expected),) if self._guided and np.ptp(self._expected) else ()
        if self._guided:
            self._first = self._best_of_variants()
        variance = _RESIDUAL_VARIANCE if self._guided else _VARIANCE
        self._process = Process((*self._axes, *said), variance)

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
            self._process.add(index)

    def ask(self, count: int = 1) -> list[int]:
        """Up to ``count`` configurations to measure next, none where all have been or no improvement is expected.

        Several are chosen one after the other, each as if those before it had taken the time that is expected of them.
        """
        left = np.flatnonzero(self._open)
        if not len(left):
            return []
        self._first = [index for index in self._first if self._open[index]]
        if self._first:
            return self._first[:count]
        if not self._known:
            if self._guided:
                return [int(index) for index in left[np.argsort(self._expected[left], kind="stable")[:count]]]
            return self._spread(left, max(count, UNGUIDED_RUNS))
        self._learn()
        chosen: list[int] = []
        log_s = list(self._log_s)
        for _ in range(min(count, len(left))):
            index, expected = self._next(left[~np.isin(left, chosen)], log_s)
            if index is None:
                break
            chosen.append(index)
            log_s.append(expected)
            self._process.add(index)
        self._process.drop(len(chosen))
        return chosen

    def _best_of_variants(self) -> list[int]:
        """The configuration that is predicted fastest, then that of each value of a parameter that names variants."""
        order = np.flatnonzero(self._open)[np.argsort(self._expected[self._open], kind="stable")]
        best = [int(order[0])] if len(order) else []
        for axis in self._axes:
            if axis.names_variants:
                _, first = np.unique(axis.codes[order], return_index=True)
                best += [int(index) for index in order[np.sort(first)]]
        return list(dict.fromkeys(best))

    def _spread(self, left: NDArray[np.intp], count: int) -> list[int]:
        """Configurations that are apart from one another, though not the outermost ones."""
        chosen: list[int] = []
        away = np.full(len(self._open), np.inf)
        while len(chosen) < min(count, len(left)):
            drawn = self._rng.choice(left[~np.isin(left, chosen)], _DRAWN)
            chosen.append(int(drawn[np.argmax(away[drawn])]))
            away = np.minimum(away, sum(axis.row(chosen[-1]) ** 2 for axis in self._axes))
        return chosen

    def _ratios(self, log_s: Sequence[float]) -> tuple[Floats, float]:
        """Logarithms of measured over expected times around 0, and what was subtracted."""
        places = [*self._known, *self._process.places[len(self._known) :]]
        ratios = np.array(log_s) - self._expected[places]
        usual = float(np.median(ratios))
        ratios = np.minimum(ratios - usual, _LARGEST_LOG_RATIO)
        middle = float(ratios.mean())
        return ratios - middle, usual + middle

    def _learn(self) -> None:
        """Choose the length scales anew where the runs have grown enough."""
        count = len(self._known)
        if count >= _LEARNED_FROM and count >= max(self._learned_at + 3, _GROWTH * self._learned_at):
            self._process.fit(self._ratios(self._log_s)[0])
            self._learned_at = count

    def _next(self, left: NDArray[np.intp], log_s: Sequence[float]) -> tuple[int | None, float]:
        """The configuration to measure next and the logarithm of its expected time; None where little is to be gained."""
        ratios, usual = self._ratios(log_s)
        mean, deviation = self._process.posterior(ratios)
        expected = mean[left] + usual + self._expected[left]
        gain = min(log_s) - expected
        chances = self._chances_to_run()[left]
        gains = _expected_gains(gain, deviation[left]) * chances
        self._idle = self._idle + 1 if gains.max() < self.tolerance else 0
        if self._idle > max(_LEAST_PATIENCE, _PATIENCE * len(log_s)):
            return None, math.nan
        if len(log_s) % _CYCLE == 1:
            gains = _expected_gains(gain, _EXPLORING * deviation[left]) * chances
        place = int(np.argmax(gains))
        if len(log_s) % _CYCLE == 0:
            near = np.flatnonzero(self._is_neighbour(self._process.places[int(np.argmin(log_s))])[left])
            if len(near):
                place = int(near[np.argmin(expected[near] - np.log(chances[near]))])
        return int(left[place]), float(expected[place])

    def _is_neighbour(self, index: int) -> NDArray[np.bool_]:
        """Which configurations differ from one in a single parameter, shape ``(n,)``."""
        differing = sum((axis.codes != axis.codes[index]).astype(np.int64) for axis in self._axes)
        return np.asarray(differing == 1)

    def _chances_to_run(self) -> Floats:
        """How far the measured ones that are most like each one ran, shape ``(n,)``; squared, since a run that fails is lost."""
        ran, failed = np.full(len(self._open), _SOME_RAN), np.zeros(len(self._open))
        if self._failed:
            for index in self._known:
                ran += self._process.together(index)
            for index in self._failed:
                failed += self._process.together(index)
        return np.asarray((ran / (ran + failed)) ** 2, np.float64)


def _expected_gains(gain: Floats, deviation: Floats) -> Floats:
    """How far each is expected to fall below the best, by the gain in the mean and the deviation."""
    standard = gain / deviation
    density = np.exp(-0.5 * standard**2) / math.sqrt(2.0 * math.pi)
    return np.asarray(gain * ndtr(standard) + deviation * density, np.float64)
