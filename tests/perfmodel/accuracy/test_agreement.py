"""Predicted counts beside measured ones."""

import numpy as np
import pandas as pd
import pytest

from perfmodel.accuracy.counter_metrics import CountAgreement, MeasuredCount, count_agreement, measured_counts
from perfmodel.core.counts import Counts


def measured(count: str, *launches: float) -> MeasuredCount:
    return MeasuredCount(name=count, count=count, metrics=(), launches=np.array(launches))


def test_exact_median_and_largest_error() -> None:
    predicted = Counts(shared_load_wavefronts=np.array([100.0, 102.0, 100.0, 7.0]))
    # errors 0, 2/100, 25/125; the fourth launch was not counted
    assert count_agreement(predicted, [measured("shared_load_wavefronts", 100, 100, 125, np.nan)]) == (
        CountAgreement(
            count="shared_load_wavefronts",
            n=3,
            exact_fraction=1 / 3,
            median_relative_error=0.02,
            max_relative_error=0.2,
        ),
    )


def test_nothing_counted_where_nothing_or_something_was_predicted() -> None:
    none, some = count_agreement(
        Counts(local_load_sectors=0.0, local_store_sectors=5.0),
        [measured("local_load_sectors", 0, 0), measured("local_store_sectors", 0, 5)],
    )
    assert (none.exact_fraction, none.max_relative_error) == (1.0, 0.0)
    assert (some.exact_fraction, some.max_relative_error, some.max_where_none) == (0.5, 0.0, 5.0)


def test_what_a_metric_holds_besides_is_predicted_with_it() -> None:
    frame = pd.DataFrame({"smsp__inst_executed_op_shared_ld.sum": [12.0, 20.0]})
    predicted = Counts(shared_load_requests=np.array([10.0, 20.0]), shared_load_predicated_off=np.array([2.0, 1.0]))
    (found,) = count_agreement(predicted, measured_counts(frame))
    assert (found.exact_fraction, found.max_relative_error) == (0.5, pytest.approx(1 / 20))  # 10 + 2; 20 + 1 for 20


def test_written_bytes_that_l2_may_keep_are_not_compared() -> None:
    written = measured("dram_write_bytes", 0, 70)
    (found,) = count_agreement(Counts(dram_write_bytes=np.array([50.0, 80.0])), [written], l2_bytes=60.0)
    assert (found.n, found.max_relative_error) == (1, pytest.approx(80 / 70 - 1))
    assert count_agreement(Counts(dram_write_bytes=50.0), [written], l2_bytes=60.0) == ()


def test_count_that_no_launch_has_is_left_out() -> None:
    assert count_agreement(Counts(), [measured("barriers", np.nan)]) == ()
