"""The family behind the common interface: space, rejections, geometry, calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from perfmodel.families.base import Batch
from perfmodel.families.direct_conv2d import FAMILY, Accumulators, Conv2d, DirectConv2dConfiguration, Exchange, Reuse
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
