"""A Gaussian process over configurations that are places on axes: what a few runs say of all others.

The covariance of two configurations is a sum of three parts: one in which every two parameters have an effect together (the
second order of an additive process: Duvenaud, Nickisch and Rasmussen 2011), one for the products of every two amounts, and one in
which all parameters act together. Along an axis it is Matérn's of order 5/2, but a part of it is an offset that each value has
of its own: what 48 threads take need not lie between what 32 and 64 take. Length scales, variances, the offsets' part and noise
maximise the posterior density: with few runs their prior keeps them from being too sure.

Libraries have no such process that is extended by one run at a time: here a further run costs n·k operations for n configurations
and k runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, cholesky, solve_triangular
from scipy.optimize import minimize

from .axes import Axis, Floats, product_axes

_SQRT5 = math.sqrt(5.0)
_LEAST_VARIANCE = 1e-10
_JITTER = 1e-8
_LEAST_CORRELATION = 1e-300
_LENGTH_PRIOR = (0.3, 0.7)
"""Mean and deviation of the logarithm of a length scale; the unit is the deviation of the axis."""
_SMOOTH_LENGTH_PRIOR = (0.0, 0.5)
"""The same where values have no offsets: a long scale would be too sure of what lies between two values."""
_VARIANCE_DEVIATION = 1.0
"""Of the logarithm of a part's variance."""
_OFFSET_PRIOR = (math.log(0.03), 1.0)
"""Of the logarithm of the part of an axis's correlation that each value has of its own."""
_NOISE_PRIOR = (math.log(1e-3), 1.0)
_LENGTH_BOUNDS = (-2.5, 4.0)
_OFFSET_BOUNDS = (-7.0, -0.7)
_NO_OFFSET = -50.0
_VARIANCE_BOUNDS = (-9.0, 3.0)
_NOISE_BOUNDS = (-12.0, -2.0)
_FIT_STEPS = 40
_FILLED_FROM = 128
"""Values from which those that are missing are worked out: enough for a trend."""


@dataclass(frozen=True, slots=True)
class _Scales:
    """Logarithms of the scales of a process of k axes, in the order of the vector that is fitted.

    The vector holds the length scales of the axes, that of products, the offsets' part, the variances of the three parts (pairs,
    products, all) and the noise.
    """

    vector: Floats

    @classmethod
    def prior(cls, axes: int, variance: float, *, offsets: bool) -> tuple[Floats, Floats]:
        """Means and deviations, where this variance is expected of each part."""
        lengths, offset = (_LENGTH_PRIOR, _OFFSET_PRIOR) if offsets else (_SMOOTH_LENGTH_PRIOR, (_NO_OFFSET, 1.0))
        of_variance = (math.log(variance), _VARIANCE_DEVIATION)
        both = np.array([lengths] * (axes + 1) + [offset] + [of_variance] * 3 + [_NOISE_PRIOR])
        return both[:, 0], both[:, 1]

    @classmethod
    def bounds(cls, axes: int, *, offsets: bool) -> list[tuple[float, float]]:
        """What each may be."""
        offset = _OFFSET_BOUNDS if offsets else (_NO_OFFSET, _NO_OFFSET)
        return [_LENGTH_BOUNDS] * (axes + 1) + [offset] + [_VARIANCE_BOUNDS] * 3 + [_NOISE_BOUNDS]

    @property
    def lengths(self) -> Floats:
        return self.vector[:-6]

    @property
    def product_length(self) -> float:
        return float(self.vector[-6])

    @property
    def offset(self) -> float:
        return math.exp(float(self.vector[-5]))

    @property
    def variances(self) -> tuple[float, float, float]:
        pairs, products, every = np.exp(self.vector[-4:-1])
        return float(pairs), float(products), float(every)

    @property
    def noise(self) -> float:
        return math.exp(float(self.vector[-1])) + _JITTER


class Process:
    """A process over n configurations, given the values of some of them.

    Args:
        axes: of the configurations.
        variance: what is expected of the variance of each part before anything is known.
        offsets: whether each value of a parameter may have an effect of its own, which its neighbours do not share.

    >>> from .axes import axes_of
    >>> process = Process(axes_of({"block": [32, 64, 128, 256, 512]}))
    >>> process.add(0), process.add(4)
    (None, None)
    >>> mean, deviation = process.posterior(np.array([1.0, -1.0]))
    >>> bool(mean[0] > mean[1] > mean[3] > mean[4]), bool(deviation[2] > deviation[1] > deviation[0])
    (True, True)
    """

    def __init__(self, axes: Sequence[Axis], variance: float = 0.3, *, offsets: bool = True) -> None:
        self._axes, self._products = tuple(axes), product_axes(axes)
        self._places: list[int] = []
        self._prior = _Scales.prior(len(self._axes), variance, offsets=offsets)
        self._bounds = _Scales.bounds(len(self._axes), offsets=offsets)
        self._scales = _Scales(self._prior[0])
        self._begin()

    @property
    def places(self) -> tuple[int, ...]:
        """The configurations that were added, in order."""
        return tuple(self._places)

    def _begin(self) -> None:
        """Tables along the axes for the present scales, and no run."""
        scales = self._scales
        self._tables = [
            _correlation(a.distances, log, scales.offset)[0] for a, log in zip(self._axes, scales.lengths, strict=True)
        ]
        self._product_tables = [
            _correlation(axis.distances, scales.product_length, scales.offset)[0] for axis in self._products
        ]
        size = len(self._axes[0].codes)
        self._factor = np.zeros((0, 0))
        self._solved = np.zeros((0, size))
        pairs, products, every = scales.variances
        self._variance = np.full(size, pairs + (products if self._products else 0.0) + every)

    def together(self, place: int) -> Floats:
        """Correlation of all configurations with one in that part in which all parameters act together, shape ``(n,)``."""
        return np.asarray(np.prod(_along(self._axes, self._tables, place), axis=0), np.float64)

    def _covariance(self, place: int) -> Floats:
        """Of all configurations with one, shape ``(n,)``."""
        pairs, products, every = self._scales.variances
        rows = _along(self._axes, self._tables, place)
        found = pairs * _pairs(rows) + every * np.prod(rows, axis=0)
        if self._products:
            found = found + products * np.mean(_along(self._products, self._product_tables, place), axis=0)
        return np.asarray(found, np.float64)

    def add(self, place: int) -> None:
        """A further configuration whose value will be known."""
        covariance, before = self._covariance(place), self._solved[:, place].copy()
        pivot = math.sqrt(max(covariance[place] + self._scales.noise - before @ before, _LEAST_VARIANCE))
        row = (covariance - before @ self._solved) / pivot
        count = len(self._places)
        factor = np.zeros((count + 1, count + 1))
        factor[:count, :count], factor[count, :count], factor[count, count] = self._factor, before, pivot
        self._factor, self._solved = factor, np.vstack([self._solved, row])
        self._variance = self._variance - row**2
        self._places.append(place)

    def drop(self, count: int) -> None:
        """Forget the last configurations that were added."""
        kept = len(self._places) - count
        self._variance = self._variance + np.square(self._solved[kept:]).sum(axis=0)
        self._factor, self._solved = self._factor[:kept, :kept], self._solved[:kept]
        del self._places[kept:]

    def posterior(self, values: Floats) -> tuple[Floats, Floats]:
        """Mean and deviation of all configurations, shapes ``(n,)``, given values in the order in which places were added."""
        weights = solve_triangular(self._factor, values, lower=True)
        return weights @ self._solved, np.sqrt(np.maximum(self._variance, _LEAST_VARIANCE))

    def fit(self, values: Floats) -> None:
        """Choose the scales for the values of the configurations that were added."""
        parts, product_parts = (
            [axis.distances[np.ix_(codes, codes)] for axis in axes for codes in (axis.codes[self._places],)]
            for axes in (self._axes, self._products)
        )
        means, deviations = self._prior

        def loss(vector: Floats) -> tuple[float, Floats]:
            density, slope = _log_density(parts, product_parts, _Scales(vector), values)
            away = (vector - means) / deviations
            return 0.5 * float(away @ away) - density, away / deviations - slope

        found = minimize(
            loss,
            self._scales.vector,
            jac=True,
            method="L-BFGS-B",
            bounds=self._bounds,
            options={"maxiter": _FIT_STEPS},
        )
        self._scales = _Scales(np.asarray(found.x, np.float64))
        places, self._places = self._places, []
        self._begin()
        for place in places:
            self.add(place)


def _along(axes: Sequence[Axis], tables: Sequence[Floats], place: int) -> list[Floats]:
    """For each axis the correlation of all configurations with one."""
    return [table[axis.codes[place]][axis.codes] for axis, table in zip(axes, tables, strict=True)]


def _correlation(distances: Floats, log_length: float, offset: float) -> tuple[Floats, Floats, Floats]:
    """Correlation at these distances, and its derivatives by the logarithms of the length scale and of the offsets' part."""
    scaled = _SQRT5 * distances * math.exp(-log_length)
    decay = np.exp(-scaled)
    smooth, slope = (1.0 + scaled + scaled**2 / 3.0) * decay, scaled**2 * (1.0 + scaled) / 3.0 * decay
    own = offset * ((distances == 0.0) - smooth)
    return smooth + own, (1.0 - offset) * slope, own


def _pairs(rows: Sequence[Floats]) -> Floats:
    """Mean of the products of all pairs; of a single one itself."""
    if len(rows) == 1:
        return rows[0]
    total, squares = np.sum(rows, axis=0), np.sum(np.square(rows), axis=0)
    return np.asarray((total**2 - squares) / (len(rows) * (len(rows) - 1)), np.float64)


def _log_density(
    parts: Sequence[Floats], product_parts: Sequence[Floats], scales: _Scales, values: Floats
) -> tuple[float, Floats]:
    """Logarithm of the density of values, and its derivatives by the scales, in their order."""
    count = len(parts)
    both = [_correlation(part, log, scales.offset) for part, log in zip(parts, scales.lengths, strict=True)]
    rows = [row for row, _, _ in both]
    of_products = [_correlation(part, scales.product_length, scales.offset) for part in product_parts]
    pair_variance, product_variance, every_variance = scales.variances
    pairs, every, total = _pairs(rows), np.prod(rows, axis=0), np.sum(rows, axis=0)
    zero = np.zeros_like(every)
    products = np.mean([row for row, _, _ in of_products], axis=0) if of_products else zero
    product_slope = np.mean([slope for _, slope, _ in of_products], axis=0) if of_products else zero
    product_own = np.mean([own for _, _, own in of_products], axis=0) if of_products else zero
    covariance = pair_variance * pairs + product_variance * products + every_variance * every
    covariance[np.diag_indices(len(values))] += scales.noise
    factor = cholesky(covariance, lower=True)
    weights = cho_solve((factor, True), values)
    pull = 0.5 * (np.outer(weights, weights) - cho_solve((factor, True), np.eye(len(values))))
    found = []
    by_offset = product_variance * np.sum(pull * product_own)
    for row, slope, own in both:
        by_pairs = 1.0 if count == 1 else 2.0 * (total - row) / (count * (count - 1))
        by_row = pull * (pair_variance * by_pairs + every_variance * every / np.maximum(row, _LEAST_CORRELATION))
        found.append(np.sum(by_row * slope))
        by_offset += np.sum(by_row * own)
    found.append(product_variance * np.sum(pull * product_slope))
    found.append(by_offset)
    found += [
        np.sum(pull * part) * variance
        for part, variance in zip((pairs, products, every), scales.variances, strict=True)
    ]
    found.append(np.trace(pull) * (scales.noise - _JITTER))
    return -0.5 * float(values @ weights) - float(np.log(np.diag(factor)).sum()), np.array(found)


def filled(axes: Sequence[Axis], values: Floats) -> Floats:
    """Values with those that are NaN replaced by what a process makes of the others; zeros where nothing is known."""
    known: NDArray[np.intp] = np.flatnonzero(np.isfinite(values))
    if not len(known):
        return np.zeros(len(values))
    if len(known) == len(values):
        return values
    known = known[np.linspace(0, len(known) - 1, min(len(known), _FILLED_FROM)).astype(np.intp)]
    process = Process(axes, offsets=False)
    for place in known:
        process.add(int(place))
    mean = float(values[known].mean())
    process.fit(values[known] - mean)
    said, _ = process.posterior(values[known] - mean)
    return np.where(np.isfinite(values), values, said + mean)
