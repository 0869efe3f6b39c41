"""Two versions of a kernel beside each other."""

from pathlib import Path

import pytest

from perfmodel.records.schema import L2State
from perfmodel.records.store import read_records
from perfmodel.validation.versions import version_ratios, version_table

from .test_ratios import kernel

DATA = Path(__file__).parent.parent.parent / "validation" / "data"


def test_the_fastest_of_each_version_are_compared():
    before = [kernel(2, 4e-6), kernel(4, 2e-6)]
    after = [kernel(2, 1e-6), kernel(4, 3e-6)]
    (one,) = version_ratios(before, after)
    assert (one.before_s, one.after_s, one.ratio) == (2e-6, 1e-6, 0.5)
    assert one.l2 is L2State.COLD
    assert "| 2.00 | 1.00 | 0.500 |" in version_table([one])


def test_what_only_one_version_measured_is_left_out():
    assert version_ratios([], [kernel(2, 1e-6)]) == ()


def test_the_pointwise_kernel_became_faster_where_l2_is_warm():
    found = version_ratios(read_records(DATA / "h200-pointwise-columns.jsonl.gz"), read_records(DATA / "h200.jsonl.gz"))
    warm = [one.ratio for one in found if one.l2 is L2State.WARM]
    assert {one.family for one in found} == {"pointwise_conv2d"}
    assert len(warm) == 59
    assert sum(ratio < 1 for ratio in warm) >= 50
    assert min(warm) == pytest.approx(0.5, abs=0.03)
