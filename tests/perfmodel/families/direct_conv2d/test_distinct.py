"""Evaluating each distinct configuration once gives what evaluating all gives."""

from __future__ import annotations

import numpy as np

from perfmodel.families.base import Batch
from perfmodel.families.direct_conv2d import FAMILY, Conv2d, DirectConv2dConfiguration
from perfmodel.families.direct_conv2d.distinct import distinct
from perfmodel.gpus.catalogue import load_gpu

GPU = load_gpu("h200")
PROBLEM = Conv2d(height=50, width=90, filter_height=3, filter_width=3)


def repeated() -> Batch[DirectConv2dConfiguration]:
    columns = [chunk.columns for chunk in FAMILY.space(PROBLEM, GPU).chunks()]
    drawn = np.random.default_rng(2).integers(0, len(FAMILY.space(PROBLEM, GPU)), 20_000)
    joined = {name: np.concatenate([part[name] for part in columns])[drawn] for name in columns[0]}
    return Batch(FAMILY.configuration_type, joined)


def test_each_configuration_is_found_again() -> None:
    batch = repeated()
    found = distinct(batch)
    assert found is not None
    kept, inverse = found
    assert len(kept) <= len(FAMILY.space(PROBLEM, GPU))
    again = kept.take(inverse)
    for name, column in batch.columns.items():
        np.testing.assert_array_equal(again[name], column)


def test_work_is_that_of_each_configuration_alone() -> None:
    batch = repeated()
    work, registers = FAMILY.work(PROBLEM, batch, GPU), FAMILY.registers(PROBLEM, batch, GPU)
    for index in (0, 777, 19_999):
        one = Batch.of([batch.configuration(index)])
        alone = FAMILY.work(PROBLEM, one, GPU)
        assert registers[index] == FAMILY.registers(PROBLEM, one, GPU)[0]
        assert work.launch.grid_x[index] == alone.launch.grid_x[0]
        assert work.global_round_trips[index] == alone.global_round_trips[0]
        assert work.counts.at(index) == alone.counts.at(0)


def test_a_batch_without_repetition_is_left_alone() -> None:
    few = repeated().take(slice(0, 3))
    assert distinct(few) is None
