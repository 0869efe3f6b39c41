"""What an interpolation through compiled members is made with: lengths and noise learned from them, and what it misses.

Rasmussen and Williams, Gaussian Processes for Machine Learning (2006), sections 5.4.1 and 5.4.2.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from perfmodel.core.interpolation import Floats, alike, square_distance

_FIRST_LENGTH = 4.0
_FIRST_NOISE = 0.02
_LENGTH_SPREAD = 1.5
"""Standard deviation of the logarithm of a length around the first one, before anything is known."""
_LENGTHS = (0.2, 1e3)
_NOISES = (1e-4, 1.0)
_STEPS = 40


def left_out_errors(points: Floats, values: Floats, lengths: Floats, noise: float) -> Floats:
    """What the interpolation through all other points misses each point by, shape ``(m, t)``; arguments as for `through`.

    By the inverse of the covariance (Rasmussen and Williams, section 5.4.2): nothing is solved anew for each point.
    """
    from scipy.linalg import cho_factor, cho_solve

    scaled = points / lengths
    covariance = alike(square_distance(scaled)) + noise * np.eye(len(points))
    inverse = cho_solve(cho_factor(covariance, lower=True), np.eye(len(points)))
    return np.asarray(inverse @ (values - np.median(values, axis=0)) / np.diag(inverse)[:, None])


def learned_lengths(points: Floats, values: Floats) -> tuple[Floats, float]:
    """Lengths (shape ``(k,)``) and noise with which the values are most likely, each column of them with a spread of its own.

    Args:
        points: Shape ``(m, k)``.
        values: Shape ``(m, t)``.
    """
    from scipy.linalg import cho_factor, cho_solve
    from scipy.optimize import minimize

    count, width = points.shape
    wanted = values - np.median(values, axis=0)
    wanted = wanted[:, wanted.std(axis=0) > 0]
    wanted = wanted / wanted.std(axis=0)
    squares = (points.T[:, :, None] - points.T[:, None, :]) ** 2
    bounds = [tuple(np.log(_LENGTHS).tolist())] * width + [tuple(np.log(_NOISES).tolist())]
    start = np.log([*[_FIRST_LENGTH] * width, _FIRST_NOISE])

    def loss(logs: Any) -> tuple[float, Any]:
        weights, noise = np.exp(-2.0 * logs[:-1]), np.exp(logs[-1])
        square = np.tensordot(weights, squares, 1)
        near = alike(square.copy())
        factor = cho_factor(near + noise * np.eye(count), lower=True)
        solved, inverse = cho_solve(factor, wanted), cho_solve(factor, np.eye(count))
        spreads = (wanted * solved).sum(axis=0) / count
        value = count * np.log(spreads).sum() / 2 + wanted.shape[1] * np.log(np.diag(factor[0])).sum()
        slope = wanted.shape[1] * inverse - (solved / spreads) @ solved.T
        of_square = slope * 1.5 * np.exp(-np.sqrt(3.0 * square))
        by_length = weights * np.tensordot(squares, of_square, 2)
        off = (logs[:-1] - start[:-1]) / _LENGTH_SPREAD
        gradient = np.array([*(by_length + off / _LENGTH_SPREAD), noise * np.trace(slope) / 2])
        return value + (off**2).sum() / 2, gradient

    search: Any = minimize
    found = search(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": _STEPS}).x
    return np.exp(found[:-1]), float(np.exp(found[-1]))
