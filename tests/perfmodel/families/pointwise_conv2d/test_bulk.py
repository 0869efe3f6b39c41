"""Products of warpgroups that bulk tensor copies feed: right, without faults, and the counts of which tiles leave no doubt."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from perfmodel.errors import InputError
from perfmodel.families.base import Batch
from perfmodel.families.pointwise_conv2d import FAMILY, Layout, PointwiseConfiguration
from perfmodel.families.precision import Precision
from perfmodel.gpus.catalogue import load_gpu

from ..right_results import hold_to_half_precision, hold_to_tf32
from .matrix_cases import OTHERS, layer


def bulk(filters: int, positions: int, warps: int) -> PointwiseConfiguration:
    return PointwiseConfiguration(
        layout=Layout.BULK, **OTHERS, warp_filters=filters, warp_positions=positions, position_warps=warps
    )


CASES = {
    "whole_tiles": (layer(1, 128, 64, 8, 16), bulk(64, 16, 4)),
    "edges_of_all_axes": (layer(3, 72, 50, 5, 9), bulk(48, 32, 8)),
    "an_odd_number_of_filters": (layer(1, 64, 33, 6, 11), bulk(32, 16, 8)),
    "three_warpgroups": (layer(2, 200, 104, 10, 11), bulk(96, 16, 12)),
}


@pytest.mark.compiler
@pytest.mark.parametrize("name", CASES)
def test_results(name: str) -> None:
    hold_to_half_precision(FAMILY, *CASES[name])


@pytest.mark.compiler
@pytest.mark.parametrize("name", CASES)
def test_tf32(name: str) -> None:
    hold_to_tf32(FAMILY, *CASES[name])


@pytest.mark.compiler
def test_blocks_go_through_several_tiles() -> None:
    exact, chosen = layer(1, 192, 128, 1, 1000), bulk(32, 16, 4)
    few = replace(load_gpu("h200"), sm_count=3)
    problem = replace(exact, precision=Precision.FLOAT16)
    launch = FAMILY.launch(problem, Batch.of([chosen]), few).at(0)
    assert launch.grid[0] == 3 * 7  # for 16 times 4 tiles
    hold_to_half_precision(FAMILY, exact, chosen, on=few)


@pytest.mark.compiler
def test_counts_that_leave_no_doubt() -> None:
    exact, chosen = CASES["whole_tiles"]
    counts = hold_to_half_precision(FAMILY, exact, chosen).counts
    problem = replace(exact, precision=Precision.FLOAT16)
    estimated = FAMILY.closed_counts(problem, Batch.of([chosen]), load_gpu("h200")).at(0)
    # 2 tiles of 64 positions and all filters, 4 warps each; 128 channels are 8 products.
    assert counts.tensor == 2 * 4 * 8 == estimated.tensor
    # Both factors of each tile, 64 rows of 128 channels in 8 sectors each.
    assert counts.bulk_read_sectors == 2 * 2 * 64 * 8 == estimated.bulk_read_sectors
    assert counts.global_store_sectors == 128 * 64 // 16 == estimated.global_store_sectors
    # A store of 16 bytes by each lane, and a load of it.
    assert counts.global_store_requests == 128 * 64 // 8 // 32 == estimated.global_store_requests
    assert counts.shared_load_requests == counts.global_store_requests
    assert counts.shared_bank_conflicts == 0


@pytest.mark.parametrize(
    ("changes", "where", "said"),
    [
        ({"in_channels": 100}, "h200", "input channels where layout=bulk: 100 is not within multiples of 8 from 64 on"),
        ({"in_channels": 40}, "h200", "input channels where layout=bulk: 40 is not within multiples of 8 from 64 on"),
        ({}, "b200", "compute capability where layout=bulk: sm_100 is not within sm_90"),
    ],
)
def test_what_bulk_copies_cannot_bring(changes: dict[str, int], where: str, said: str) -> None:
    exact, chosen = CASES["whole_tiles"]
    problem, gpu = replace(exact, precision=Precision.FLOAT16, **changes), load_gpu(where)
    rejected = [check for check in FAMILY.checks(problem, Batch.of([chosen]), gpu) if np.any(check.rejected)]
    assert rejected[0].message(0) == said
    assert all(product.values["layout"] != (Layout.BULK,) for product in FAMILY.space(problem, gpu).products)


def test_warps_that_multiply_come_in_fours() -> None:
    with pytest.raises(InputError, match="channel_split=2 must be none when layout=bulk"):
        replace(bulk(64, 16, 4), channel_split=2)
    problem = replace(CASES["whole_tiles"][0], precision=Precision.FLOAT16)
    checks = FAMILY.checks(problem, Batch.of([bulk(64, 16, 6)]), load_gpu("h200"))
    assert [check.reason for check in checks if np.any(check.rejected)] == ["warps along positions"]
    assert FAMILY.design_traits(problem, Batch.of([bulk(64, 16, 4)]), load_gpu("h200")) is None
