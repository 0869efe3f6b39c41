"""Interpolation between scattered points."""

from __future__ import annotations

import numpy as np

from perfmodel.core.interpolation import Interpolation

RNG = np.random.default_rng(0)
POINTS = RNG.normal(size=(60, 2))


def test_known_points_have_their_values_and_far_ones_the_median() -> None:
    values = np.stack([np.sin(POINTS[:, 0]), POINTS[:, 1] ** 2], axis=1)
    found = Interpolation.through(POINTS, values, np.array([2.0, 2.0]), 1e-9)
    np.testing.assert_allclose(found.at(POINTS), values, atol=1e-5)
    np.testing.assert_allclose(found.at(np.array([[1e6, 1e6]]))[0], np.median(values, axis=0))
