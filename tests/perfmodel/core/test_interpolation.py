"""Interpolation between scattered points."""

from __future__ import annotations

import numpy as np

from perfmodel.core.interpolation import Interpolation, learned_lengths

RNG = np.random.default_rng(0)
POINTS = RNG.normal(size=(60, 2))


def test_known_points_have_their_values_and_far_ones_the_median() -> None:
    values = np.stack([np.sin(POINTS[:, 0]), POINTS[:, 1] ** 2], axis=1)
    found = Interpolation.through(POINTS, values, np.array([2.0, 2.0]), 1e-9)
    np.testing.assert_allclose(found.at(POINTS), values, atol=1e-5)
    np.testing.assert_allclose(found.at(np.array([[1e6, 1e6]]))[0], np.median(values, axis=0))


def test_a_coordinate_that_changes_nothing_gets_the_longest_length() -> None:
    lengths, noise = learned_lengths(POINTS, np.sin(2.0 * POINTS[:, :1]))
    assert lengths[1] > 3 * lengths[0]
    assert noise < 0.01


def test_noise_is_told_from_what_neighbours_share() -> None:
    flat = RNG.normal(size=(60, 1))
    _, noise = learned_lengths(POINTS, flat)
    assert noise > 0.3
