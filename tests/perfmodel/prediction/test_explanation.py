"""Explanations: they say what predicting again would say."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from perfmodel.families.direct_conv2d import FAMILY as DIRECT
from perfmodel.families.direct_conv2d import Conv2d
from perfmodel.families.tiled_conv2d import FAMILY, TiledConv2d, TiledConv2dConfiguration
from perfmodel.prediction.differences import difference_text, noise, term_changes
from perfmodel.prediction.explanation import neighbours, sensitivity, why_first
from perfmodel.prediction.limiter_names import limiter_text
from perfmodel.prediction.predicting import predict_all
from perfmodel.prediction.prediction import Prediction
from perfmodel.prediction.ranking import rank_problem
from perfmodel.prediction.scenario import scenario_of
from perfmodel.prediction.throughput import throughput
from perfmodel.profiles.kernel_profile import Fidelity
from perfmodel.time_model.combine import LIMITER_NAMES

UNDER = scenario_of("rtx-2080-ti")
PROBLEM = TiledConv2d(height=512, width=512, filter_height=5, filter_width=5)
MIDDLE = TiledConv2dConfiguration(block_size_x=64, block_size_y=4, tile_size_x=2, tile_size_y=2)


def predicted(configuration: TiledConv2dConfiguration) -> Prediction:
    return predict_all(PROBLEM, [configuration], UNDER, Fidelity.ANALYTIC)[0]


def test_neighbours_are_one_step_away_in_one_field() -> None:
    """Steps of the space around 64 × 4 and 2 × 2; without a patch padding would have to go as well, so that is no step."""
    found = [(name, value) for name, value, _ in neighbours(FAMILY, PROBLEM, MIDDLE, UNDER.gpu)]
    assert found == [
        ("block_size_x", 48),
        ("block_size_x", 80),
        ("block_size_y", 2),
        ("block_size_y", 8),
        ("tile_size_x", 1),
        ("tile_size_x", 3),
        ("tile_size_y", 1),
        ("tile_size_y", 3),
        ("use_padding", 1),
        ("read_only", 1),
    ]


def test_every_choice_of_an_enum_is_a_neighbour() -> None:
    problem = Conv2d(height=64, width=64, filter_height=5, filter_width=5)
    best = rank_problem(problem, UNDER, Fidelity.ANALYTIC, top=1).best.configuration
    for name, value, configuration in neighbours(DIRECT, problem, best, UNDER.gpu):
        changed = [f.name for f in fields(best) if getattr(best, f.name) != getattr(configuration, f.name)]
        assert changed == [name]
        assert getattr(configuration, name) == value


def test_what_if_is_the_ratio_of_two_predictions() -> None:
    base = predicted(MIDDLE)
    changes = sensitivity(base, UNDER)
    assert len(changes) == 10
    for change in changes:
        assert change.ratio is not None
        other = predicted(change.configuration)
        assert change.ratio == pytest.approx(other.time.predicted_s / base.time.predicted_s, rel=1e-12)


def test_what_if_says_why_a_step_cannot_be_taken() -> None:
    """64 × 16 threads are as many as a block may have; 80 × 16 are 1,280 and 64 × 32 are 2,048."""
    changes = sensitivity(predicted(replace(MIDDLE, block_size_y=16)), UNDER)
    refused = {(change.field, change.value): change.rejection for change in changes if change.ratio is None}
    assert list(refused) == [("block_size_x", 80), ("block_size_y", 32)]
    assert "1280 threads" in str(refused["block_size_x", 80])
    assert "2048 threads" in str(refused["block_size_y", 32])


def test_shares_of_peak_are_work_over_time_over_peak() -> None:
    found = predicted(MIDDLE)
    gpu, seconds = UNDER.gpu, found.time.predicted_s
    reached = throughput(found, gpu)
    _, l2, dram = reached.level_shares
    additions = 32 * float(found.counts.fp32_other)
    operations = 2 * 512 * 512 * 25 + additions  # a multiply-add of a lane for each output and tap is two
    assert reached.fp32_share == pytest.approx(operations / seconds / (2 * 68 * 64 * gpu.boost_clock_hz))
    moved = 4 * 516 * 516  # the padded image is read; the output fits L2 and stays there
    assert dram == pytest.approx(moved / seconds / gpu.dram_bytes_per_s)
    assert 0 < l2 <= 1
    assert reached.intensity == pytest.approx(operations / moved)


def test_no_prediction_of_a_ranking_is_above_a_roof() -> None:
    for prediction in rank_problem(PROBLEM, UNDER, Fidelity.ANALYTIC, top=50).top:
        reached = throughput(prediction, UNDER.gpu)
        assert max(reached.fp32_share, *reached.level_shares) <= 1


def test_every_limiter_has_words() -> None:
    words = [limiter_text(name) for name in LIMITER_NAMES]
    assert len(set(words)) == len(LIMITER_NAMES)
    assert all(words)


def test_the_next_rank_is_explained_by_the_terms_that_differ() -> None:
    first, second = predicted(MIDDLE), predicted(replace(MIDDLE, block_size_x=16, tile_size_x=1))
    first, second = sorted((first, second), key=lambda prediction: prediction.time.predicted_s)
    text = why_first([first, second])
    gap = second.time.predicted_s / first.time.predicted_s - 1
    assert gap > noise().least_difference
    assert text.startswith("rank 1 is the fastest; rank 2 (")
    assert f"is {gap:.1%} slower than rank 1" in text
    assert f"tile_size_x={second.configuration.tile_size_x} instead of {first.configuration.tile_size_x}" in text
    assert limiter_text(term_changes(first, second)[0].name) in text


def test_configurations_that_the_model_cannot_tell_apart_are_called_so() -> None:
    same = predicted(MIDDLE)
    assert why_first([same]) == "one configuration; nothing to compare it with"
    assert why_first([same, same]) == "ranks 1–2 lie within 0.0%, which the model cannot tell apart"


def test_terms_that_shrink_by_more_than_they_grow_explain_nothing() -> None:
    found = predicted(MIDDLE)
    terms = found.time.terms
    slower = replace(found.time, predicted_s=2 * found.time.predicted_s)
    worse = replace(found, time=replace(slower, terms=replace(terms, dram=terms.dram + 1e-6)))
    assert difference_text(found, worse).endswith("more: +1.00 µs DRAM bandwidth")
    both = replace(terms, dram=terms.dram + 1e-6, arithmetic=terms.arithmetic - 2e-6)
    assert difference_text(found, replace(found, time=replace(slower, terms=both))).endswith("which no term explains")
