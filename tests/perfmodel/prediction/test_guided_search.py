"""A guided search finds the best of a known space in few runs, begins with what is predicted, and ends by itself."""

from itertools import product

import numpy as np
import pytest

from perfmodel.errors import InputError
from perfmodel.prediction.guided_search import UNGUIDED_RUNS, GuidedSearch

SPACE = list(product((16, 32, 64, 128, 256), (1, 2, 4, 8, 16), (1, 2, 3, 4, 5, 6, 7, 8), (0, 1)))
VALUES = {name: [one[place] for one in SPACE] for place, name in enumerate(("x", "y", "tile", "padding"))}
TIMES = np.array(
    [
        1.0
        + 0.3 * np.log2(x * y / 100) ** 2
        + 0.1 * (tile - 5.2) ** 2
        + 0.05 * np.log2(y)
        + 0.4 * (1 - padding) * (x < 32)
        for x, y, tile, padding in SPACE
    ]
)


def run(search: GuidedSearch, most: int, failing: frozenset[int] = frozenset()) -> list[int]:
    """Indices in the order in which they were measured."""
    order: list[int] = []
    while len(order) < most and (chosen := search.ask()):
        for index in chosen:
            search.tell(index, None if index in failing else float(TIMES[index]))
            order.append(index)
    return order


def test_the_best_of_400_is_found_in_40_runs() -> None:
    order = run(GuidedSearch(VALUES), 40)
    assert TIMES[order].min() < 1.02 * TIMES.min()
    assert len(set(order)) == len(order)


def test_the_predicted_fastest_runs_first() -> None:
    predicted = TIMES * np.where(np.arange(len(SPACE)) % 2, 1.1, 0.9)
    assert run(GuidedSearch(VALUES, predicted), 1) == [int(np.argmin(predicted))]


def test_the_predicted_best_of_each_variant_is_among_the_first_runs() -> None:
    padding = np.array(VALUES["padding"])
    predicted = TIMES * np.where(padding, 1.0, 20.0)  # wrong of a whole variant
    order = run(GuidedSearch(VALUES, predicted), 2)
    assert order == [
        int(np.argmin(np.where(padding == 1, predicted, np.inf))),
        int(np.argmin(np.where(padding == 0, predicted, np.inf))),
    ]


def test_a_prediction_that_means_nothing_is_learned_away() -> None:
    predicted = np.random.default_rng(0).permutation(TIMES)
    order = run(GuidedSearch(VALUES, predicted), 60)
    assert predicted[order[0]] == predicted.min()
    assert TIMES[order].min() < 1.1 * TIMES.min()


def test_a_search_ends_where_nothing_is_to_be_gained() -> None:
    search = GuidedSearch(VALUES, tolerance=0.003)
    order = run(search, len(SPACE))
    assert len(order) < len(SPACE) / 4
    assert search.best is not None
    assert search.best[1] == pytest.approx(TIMES.min())


def test_without_a_tolerance_everything_is_measured_once() -> None:
    few = GuidedSearch({name: column[:30] for name, column in VALUES.items()}, tolerance=0.0)
    assert sorted(run(few, 1000)) == list(range(30))


def test_what_cannot_run_is_never_asked_for_and_a_failure_is_no_end() -> None:
    predicted = np.where(np.arange(len(SPACE)) < 200, np.inf, np.nan)
    failing = frozenset(range(200, 260))
    search = GuidedSearch(VALUES, predicted, tolerance=0.003)
    order = run(search, 200, failing)
    assert min(order) >= 200
    assert len(failing & set(order)) < 35  # of 60, among them the fastest of all by what the others say
    assert search.best is not None
    assert search.best[1] < 1.05 * TIMES[260:].min()


def test_several_are_asked_for_at_once() -> None:
    search = GuidedSearch(VALUES)
    first = search.ask(4)
    assert len(first) == UNGUIDED_RUNS
    for index in first:
        search.tell(index, float(TIMES[index]))
    assert len(set(search.ask(4)) - set(first)) == 4


def test_the_same_seed_asks_for_the_same() -> None:
    assert run(GuidedSearch(VALUES, seed=5), 25) == run(GuidedSearch(VALUES, seed=5), 25)


def test_predictions_of_another_size_are_refused() -> None:
    with pytest.raises(InputError, match=r"predicted_s of shape \(3,\): one time for each of 400 configurations"):
        GuidedSearch(VALUES, np.ones(3))
