"""The family behind the common interface: space, rejections, geometry, calls."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from perfmodel.families.base import Batch
from perfmodel.families.direct_conv2d import FAMILY, Accumulators, Conv2d, DirectConv2dConfiguration, Exchange, Reuse
from perfmodel.families.direct_conv2d.configuration import STRAIGHT
from perfmodel.gpus.catalogue import load_gpu

GPU = load_gpu("h200")
PROBLEM = Conv2d(height=100, width=100, filter_height=5, filter_width=5)


def all_candidates(problem: Conv2d) -> list[DirectConv2dConfiguration]:
    return [batch.configuration(i) for batch in FAMILY.space(problem, GPU).chunks() for i in range(len(batch))]


def reasons(problem: Conv2d, **changes: Any) -> list[str]:
    values: dict[str, Any] = {
        "reuse": Reuse.COLUMN_ROW,
        "exchange": Exchange.SELECT,
        "accumulators": Accumulators.UNROLLED,
        "rows_per_thread": 4,
        "block_x": 32,
        "block_y": 4,
    }
    batch = Batch.of([DirectConv2dConfiguration(**(values | changes))])
    return [check.message(0) for check in FAMILY.checks(problem, batch, GPU) if check.rejected[0]]


def test_no_candidate_stands_twice() -> None:
    candidates = all_candidates(PROBLEM)
    assert len(set(candidates)) == len(candidates)
    # 20 blocks: 4 rows without reuse; with 4 exchanges 4 rows; 4 + 6 rows shared, alone and with 4 exchanges
    assert len(candidates) == 20 * (4 + 4 * 4 + (4 + 6) + 4 * (4 + 6))


def test_narrow_filters_have_nothing_to_exchange() -> None:
    narrow = Conv2d(height=9, width=9, filter_height=3, filter_width=2)
    assert {candidate.exchange for candidate in all_candidates(narrow)} == {None}


def test_feasible_configurations_are_not_rejected() -> None:
    assert reasons(PROBLEM) == []


@pytest.mark.parametrize(
    ("problem", "changes", "message"),
    [
        (Conv2d(height=9, width=9, filter_height=3, filter_width=3, stride=2), {}, "column reuse needs stride 1: 2 exceeds 1"),
        (
            Conv2d(height=9, width=9, filter_height=5, filter_width=5),  # 5 output rows
            {"rows_per_thread": 16},
            "rows per thread: 16 exceeds 8 (output height 5 rounded up to a power of two)",
        ),
        (
            Conv2d(height=90, width=90, filter_height=15, filter_width=15),
            {"rows_per_thread": 16},
            "unrolled multiply-adds: 3600 exceeds 2048",  # 16 · 15 · 15
        ),
        (
            Conv2d(batch=65_536, height=8, width=3, filter_height=3, filter_width=3),
            {},
            "images in the grid's z: 65536 exceeds 65535",
        ),
        (
            Conv2d(out_channels=65_536, height=8, width=3, filter_height=3, filter_width=3),
            {},
            "output channels in the grid's y: 65536 exceeds 65535",
        ),
    ],
)  # fmt: skip
def test_rejections_name_value_and_limit(problem: Conv2d, changes: dict[str, Any], message: str) -> None:
    assert reasons(problem, **changes) == [message]


def test_column_reuse_at_stride_two_is_among_the_rejected_candidates() -> None:
    strided = Conv2d(height=40, width=40, filter_height=3, filter_width=3, stride=2)
    rejected = []
    for chunk in FAMILY.space(strided, GPU).chunks():
        broken = np.flatnonzero(FAMILY.checks(strided, chunk, GPU)[0].rejected)
        rejected += [chunk.configuration(int(index)) for index in broken]
    assert rejected
    assert all(candidate.reuse.columns for candidate in rejected)


def test_one_tile_for_each_block() -> None:
    problem = Conv2d(batch=2, in_channels=3, out_channels=5, height=70, width=102, filter_height=3, filter_width=3)
    chosen = DirectConv2dConfiguration(
        reuse=Reuse.ROW, exchange=None, accumulators=Accumulators.ROLLING, rows_per_thread=4, block_x=64, block_y=2
    )
    launch = FAMILY.launch(problem, Batch.of([chosen]), GPU)
    # 100 columns in 2 tiles of 64, 68 rows in 9 tiles of 2 · 4; channels and images
    assert (launch.grid_x[0], launch.grid_y, launch.grid_z) == (2 * 9, 5, 2)
    assert (launch.block_x[0], launch.block_y[0]) == (64, 2)


def test_outputs_are_poisoned_and_inputs_fresh() -> None:
    chosen = all_candidates(PROBLEM)[0]
    first, second = (FAMILY.inputs(PROBLEM, np.random.default_rng(seed)) for seed in (1, 2))
    assert not np.array_equal(first["input"], second["input"])
    call = FAMILY.call(PROBLEM, chosen, GPU, first)
    assert np.isnan(call.parameters[0].array).all()  # type: ignore[union-attr]
    assert [constant.name for constant in call.constants] == ["filter"]


def test_the_image_size_is_no_constant_of_the_code() -> None:
    chosen = all_candidates(PROBLEM)[0]
    larger = Conv2d(batch=3, height=2160, width=3840, filter_height=5, filter_width=5)
    assert FAMILY.compile_request(PROBLEM, chosen, GPU) == FAMILY.compile_request(larger, chosen, GPU)


@pytest.mark.parametrize(
    ("problem", "changes", "gpu", "note"),
    [
        (PROBLEM, {}, "h200", None),  # 96 columns fill three warps
        (
            Conv2d(out_channels=1821, height=34, width=34, filter_height=3, filter_width=3),
            {},
            "h200",
            "the filters exceed constant memory and are loaded from global memory once for a channel",
        ),
        (
            PROBLEM,
            {"exchange": Exchange.DYNAMIC_INDEX},
            "t4",
            "the compiler is expected to keep the dynamically indexed taps in local memory",
        ),
    ],
)
def test_notes(problem: Conv2d, changes: dict[str, Any], gpu: str, note: str | None) -> None:
    values: dict[str, Any] = {
        "reuse": Reuse.COLUMN,
        "exchange": Exchange.SELECT,
        "accumulators": None,
        "rows_per_thread": 1,
        "block_x": 32,
        "block_y": 4,
    }
    chosen = DirectConv2dConfiguration(**(values | changes))
    assert FAMILY.notes(problem, chosen, load_gpu(gpu)) == (() if note is None else (note,))


DENSE = Conv2d(in_channels=64, out_channels=64, height=56, width=56, filter_height=3, filter_width=3, padding=1)
DEPTHWISE = Conv2d(
    in_channels=96, out_channels=96, height=14, width=14, filter_height=3, filter_width=3, padding=1, depthwise=True
)


LARGE_FILTER = replace(DENSE, filter_height=9, filter_width=9)
FEW_CHANNELS = replace(DENSE, in_channels=2)


@pytest.mark.parametrize(
    ("problem", "reuse"),
    [
        (PROBLEM, {*STRAIGHT}),
        (DENSE, {Reuse.BLOCKED, Reuse.TENSOR}),
        (LARGE_FILTER, {*STRAIGHT, Reuse.BLOCKED, Reuse.TENSOR}),
        (FEW_CHANNELS, {*STRAIGHT, Reuse.BLOCKED, Reuse.TENSOR}),
        (DEPTHWISE, {*STRAIGHT, Reuse.PLANE}),
    ],
)
def test_layers_have_designs_of_their_own(problem: Conv2d, reuse: set[Reuse]) -> None:
    candidates = all_candidates(problem)
    assert {candidate.reuse for candidate in candidates} == reuse
    assert len(set(candidates)) == len(candidates)


def test_profiles_of_all_designs_keep_the_order_of_the_batch() -> None:
    candidates = all_candidates(FEW_CHANNELS)
    mixed = [candidates[index] for index in (-1, 0, -2, 1)]
    together, launches = (
        FAMILY.profile(FEW_CHANNELS, Batch.of(mixed), GPU),
        FAMILY.launch(FEW_CHANNELS, Batch.of(mixed), GPU),
    )
    for index, one in enumerate(mixed):
        alone = FAMILY.profile(FEW_CHANNELS, Batch.of([one]), GPU)
        assert together.counts.at(index).fp32_fma == alone.counts.at(0).fp32_fma
        assert launches.at(index) == FAMILY.launch(FEW_CHANNELS, Batch.of([one]), GPU).at(0)


def test_a_blocked_launch_has_a_block_for_each_tile() -> None:
    chosen = DirectConv2dConfiguration(
        reuse=Reuse.BLOCKED,
        exchange=None,
        accumulators=None,
        rows_per_thread=2,
        block_x=4,
        block_y=4,
        columns_per_thread=4,
        channels_per_thread=8,
        channel_threads=4,
        channel_slices=2,
    )
    launch = FAMILY.launch(DENSE, Batch.of([chosen]), GPU).at(0)
    assert launch.grid == (4 * 7, 2, 1)  # 56 columns in 4 tiles of 16, 56 rows in 7 of 8; 64 channels in 2 of 32
    assert launch.block == (4 * 4 * 4 * 2, 1, 1)
    # 64 · 64 · 9 taps for 56 rows of 4 · 16 columns, of which 56 exist, 32 at once
    assert FAMILY.profile(DENSE, Batch.of([chosen]), GPU).counts.at(0).fp32_fma == 64 * 64 * 9 * 56 * 64 / 32
