"""Lengths over which values change, learned from scattered points."""

from __future__ import annotations

import numpy as np

from tables.learned_lengths import learned_lengths

RNG = np.random.default_rng(0)
POINTS = RNG.normal(size=(60, 2))


def test_a_coordinate_that_changes_nothing_gets_the_longest_length() -> None:
    lengths, noise = learned_lengths(POINTS, np.sin(2.0 * POINTS[:, :1]))
    assert lengths[1] > 3 * lengths[0]
    assert noise < 0.01


def test_noise_is_told_from_what_neighbours_share() -> None:
    flat = RNG.normal(size=(60, 1))
    _, noise = learned_lengths(POINTS, flat)
    assert noise > 0.3
