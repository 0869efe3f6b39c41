"""Which candidates are compiled next, where it is known how far closed forms are off."""

from __future__ import annotations

import numpy as np
import pytest

from perfmodel.families.base import Batch, Product
from perfmodel.families.direct_conv2d import DirectConv2dConfiguration
from perfmodel.families.direct_conv2d.configuration import Accumulators, Exchange, Reuse
from perfmodel.prediction.screening import Screening, axes

VALUES = {
    "reuse": (Reuse.COLUMN_ROW,),
    "exchange": tuple(Exchange),
    "accumulators": (Accumulators.UNROLLED,),
    "rows_per_thread": (2, 4, 8),
    "block_x": (32, 64, 128, 256),
    "block_y": (1, 2, 4),
}
BATCH: Batch[DirectConv2dConfiguration] = Product(DirectConv2dConfiguration, VALUES).batch(0, 4 * 3 * 4 * 3)
SELECTS = BATCH.equals("exchange", Exchange.SELECT)


def compiled(
    seconds: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Candidates that select take half of what closed forms say, all others twice as long."""
    return np.asarray(np.where(SELECTS, 0.5, 2.0) * seconds)


def test_a_variant_that_turned_out_fast_is_looked_at_next() -> None:
    """All are thought to be alike but for the last digit; of each method one is compiled."""
    closed = 1.0 + 1e-6 * np.arange(len(BATCH))
    screening = Screening(BATCH, closed)
    first = [int(np.flatnonzero(BATCH["exchange"] == code)[0]) for code in range(4)]
    screening.note(first, compiled(closed)[first])
    chosen = screening.next(8, least=0)
    assert all(SELECTS[chosen])
    assert not set(chosen) & set(first)


def test_corrected_times_of_compiled_candidates_are_theirs() -> None:
    closed = np.linspace(1.0, 3.0, len(BATCH))
    screening = Screening(BATCH, closed)
    seen = list(range(0, len(BATCH), 3))
    screening.note(seen, compiled(closed)[seen])
    logs, deviation = screening.corrected()
    assert np.exp(logs)[seen] == pytest.approx(compiled(closed)[seen], rel=0.15)
    others = np.setdiff1d(np.arange(len(BATCH)), seen)
    assert np.corrcoef(logs[others] - np.log(closed[others]), SELECTS[others])[0, 1] < -0.8
    assert deviation[seen].max() < deviation[others].min()


def test_what_does_not_compile_is_neither_learned_from_nor_chosen_again() -> None:
    closed = np.linspace(1.0, 3.0, len(BATCH))
    screening = Screening(BATCH, closed)
    screening.note([0, 1], np.array([np.inf, np.inf]))
    assert screening.next(3, least=0) == [2, 3, 4]  # nothing is known yet: by closed forms
    assert Screening(BATCH, closed).next(len(BATCH) + 5, least=0) == list(range(len(BATCH)))


def test_where_no_other_candidate_is_likely_to_be_faster_only_the_least_number_follows() -> None:
    closed = np.where(np.arange(len(BATCH)) < 4, 1.0, 5.0)
    screening = Screening(BATCH, closed)
    screening.note([0, 1], closed[:2])
    assert screening.next(4, least=0) == [
        2,
        3,
    ]  # as fast as the seen ones but for a deviation; the rest five times as slow
    assert len(screening.next(4, least=3)) == 3


def test_a_field_without_a_second_value_has_no_axis() -> None:
    exchange, *numbers = axes(BATCH)
    assert sorted(set(exchange.row(0).tolist())) == [0.0, 1.5]  # four methods, each as far from the others
    assert len(numbers) == 3
    assert len(axes(BATCH.take([0]))) == 1
