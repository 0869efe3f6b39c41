"""Which launches to measure so that a few tell of many: each as unlike as can be to all that were taken before it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..prediction.launch_features import Floats, Launches, features, scales
from ..time_model.coefficients import Coefficients


def farthest_first(points: Floats, number: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Indices of points of shape ``(n, k)``, each farthest from those before it, in that order; the first is drawn.

    No set of as many points leaves less than half the distance to the point worst off (Gonzalez 1985, Clustering to minimize
    the maximum intercluster distance). Fewer than ``number`` are given where no more differ.

    >>> line = np.array([[0.0], [1.0], [5.0], [9.0], [9.0]])
    >>> sorted(farthest_first(line, 3, np.random.default_rng(0)).tolist()) in ([0, 2, 3], [0, 2, 4])
    True
    """
    chosen: list[int] = []
    distance = np.full(len(points), np.inf)
    index = int(rng.integers(len(points))) if len(points) else -1
    while len(chosen) < number and len(points) and distance[index] > 0:
        chosen.append(index)
        distance = np.minimum(distance, np.linalg.norm(points - points[index], axis=1))
        index = int(distance.argmax())
    return np.array(chosen, np.intp)


def spread(launches: Launches, coefficients: Coefficients, number: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Indices of launches that are far from one another in the features that errors are learned over.

    ``coefficients`` only say how the time of a launch is made up: those of another GPU, or priors, do, and nothing need have
    been measured.
    """
    found = features(launches, coefficients)
    centre, unit = scales(found)
    return farthest_first((found - centre) / unit, number, rng)
