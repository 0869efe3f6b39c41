"""Pairs of one step, and whether their sign is told."""

from __future__ import annotations

import numpy as np

from perfmodel.families.base import Batch
from perfmodel.families.direct_conv2d import FAMILY as DIRECT
from perfmodel.families.direct_conv2d import Conv2d
from perfmodel.families.tiled_conv2d import TiledConv2dConfiguration
from perfmodel.gpus.catalogue import load_gpu
from tables.held_out import SignRate, one_step_pairs, sign_rate


def tiles(*shapes: tuple[int, int]) -> Batch[TiledConv2dConfiguration]:
    return Batch.of([TiledConv2dConfiguration(tile_size_x=x, tile_size_y=y) for x, y in shapes])


def alike(batch: Batch[TiledConv2dConfiguration]) -> np.ndarray:
    return np.zeros(len(batch), np.intp)


def pairs_of(batch: Batch[TiledConv2dConfiguration], problem: np.ndarray) -> dict[str, set[tuple[int, int]]]:
    pairs = one_step_pairs(batch, problem)
    return {name: set(zip(lower.tolist(), upper.tolist(), strict=True)) for name, (lower, upper) in pairs.items()}


def test_a_step_goes_to_the_next_value_that_was_measured() -> None:
    """Widths 1, 2, 4 at height 1 and 4 at height 2: 1–2 and 2–4 are steps, 1–4 is two, (2, 1)–(4, 2) changes two fields."""
    batch = tiles((1, 1), (2, 1), (4, 1), (4, 2))
    assert pairs_of(batch, alike(batch)) == {"tile_size_x": {(0, 1), (1, 2)}, "tile_size_y": {(2, 3)}}


def test_a_missing_value_between_two_is_no_step() -> None:
    """2 stands in the batch, at another height: from 1 to 4 is two steps."""
    batch = tiles((1, 1), (4, 1), (2, 3))
    assert pairs_of(batch, alike(batch)) == {}


def test_problems_are_not_mixed_and_a_configuration_counts_once() -> None:
    batch = tiles((1, 1), (2, 1), (2, 1))
    assert pairs_of(batch, alike(batch)) == {"tile_size_x": {(0, 1)}}
    assert pairs_of(batch, np.array([0, 1, 1])) == {}


def test_a_choice_may_change_to_any_of_its_values() -> None:
    problem, gpu = Conv2d(height=256, width=256, filter_height=5, filter_width=5), load_gpu("h200")
    batch = next(iter(DIRECT.space(problem, gpu).chunks()))
    for name, (lower, upper) in one_step_pairs(batch, np.zeros(len(batch), np.intp)).items():
        for other in batch.columns:
            same = batch[other][lower] == batch[other][upper]
            assert same.all() == (other != name), (name, other)


def test_signs_are_counted_where_the_change_is_larger_than_a_twentieth() -> None:
    """Steps of +10 %, +4 % (too small) and −50 %: of the two that count, the prediction has the first right."""
    batch = tiles((1, 1), (2, 1), (3, 1), (4, 1))
    measured = np.array([1.0, 1.1, 1.1 * 1.04, 1.1 * 1.04 * 0.5])
    predicted = np.array([1.0, 2.0, 1.0, 1.5])
    assert sign_rate(batch, alike(batch), predicted, measured) == SignRate(pairs=2, right=1)


def test_an_equal_prediction_is_no_sign() -> None:
    batch = tiles((1, 1), (2, 1))
    assert sign_rate(batch, alike(batch), np.ones(2), np.array([1.0, 2.0])).right == 0
