"""Interpolation between scattered points: a Gaussian process whose kernel is a Matérn function of order 3/2.

Rasmussen and Williams, Gaussian Processes for Machine Learning (2006), sections 2.2 and 4.2. Several values at the same
points share one kernel. Far from all points it gives the mean of the values.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_POINTS_AT_ONCE = 4096
"""So many that memory stays bounded and a product of matrices is worth several threads."""
_POINTS_IN_CACHE = 128
"""So many that what is worked out for them one step after the other stays in the cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpolation:
    """Values as functions of ``k`` coordinates.

    ``lengths`` (shape ``(k,)``) are the distances over which values change, ``points`` (shape ``(m, k)``) the known points in
    these units, ``weights`` (shape ``(m, t)``) what each contributes to the t values, ``mean`` (shape ``(t,)``) the rest.
    """

    lengths: Floats
    points: Floats
    weights: Floats
    mean: Floats

    @classmethod
    def through(cls, points: Floats, values: Floats, lengths: Floats, noise: float) -> Interpolation:
        """The interpolation between m points.

        Args:
            points: Shape ``(m, k)``.
            values: Shape ``(m, t)``.
            lengths: Shape ``(k,)``.
            noise: Part of the values' variance that points do not share with their neighbours.

        >>> known = Interpolation.through(np.array([[0.0], [1.0]]), np.array([[1.0], [3.0]]), np.array([2.0]), 1e-9)
        >>> known.at(np.array([[0.0], [0.5], [1.0]])).round(2).ravel().tolist()
        [1.0, 2.0, 3.0]
        """
        from scipy.linalg import cho_factor, cho_solve

        scaled, mean = points / lengths, np.median(values, axis=0)
        covariance = alike(square_distance(scaled))
        covariance[np.diag_indices_from(covariance)] += noise
        weights = cho_solve(cho_factor(covariance, lower=True), values - mean)
        return cls(lengths=lengths, points=scaled, weights=weights, mean=mean)

    def at(self, points: Floats) -> Floats:
        """The values at points of shape ``(n, k)``, shape ``(n, t)``."""
        one, other = _factors(points / self.lengths, self.points)
        found = np.empty((len(points), len(self.mean)))
        for start in range(0, len(points), _POINTS_AT_ONCE):
            piece = slice(start, start + _POINTS_AT_ONCE)
            near = one[piece] @ other
            for row in range(0, len(near), _POINTS_IN_CACHE):
                alike(near[row : row + _POINTS_IN_CACHE])
            found[piece] = near @ self.weights
        found += self.mean
        return found


def _factors(one: Floats, other: Floats) -> tuple[Floats, Floats]:
    """Two matrices whose product are the squared distances of all points of the one from all points of the other."""
    middle = other.mean(axis=0)
    one, other = one - middle, other - middle
    first = np.column_stack([one, (one**2).sum(axis=1), np.ones(len(one))])
    second = np.vstack([-2.0 * other.T, np.ones(len(other)), (other**2).sum(axis=1)])
    return first, second


def square_distance(points: Floats) -> Floats:
    """Squared distances of all points from one another, shape ``(m, m)``."""
    one, other = _factors(points, points)
    return np.asarray(one @ other)


def alike(square_distance: Floats) -> Floats:
    """What two points have in common, by the square of their distance, which it takes the place of."""
    distance = np.maximum(square_distance, 0.0, out=square_distance)
    distance *= 3.0
    np.sqrt(distance, out=distance)
    near: Floats = np.exp(-distance)
    distance += 1.0
    distance *= near
    return distance
