"""Convolutions on tensor cores: as exact as FP32, no faults, and the counts of which their tiles leave no doubt."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from perfmodel.errors import InputError
from perfmodel.families.base import Batch
from perfmodel.families.direct_conv2d import FAMILY, Conv2d, DirectConv2dConfiguration, Reuse
from perfmodel.families.direct_conv2d.tensor import profile, tiles
from perfmodel.families.precision import Precision
from perfmodel.gpus.catalogue import load_gpu

from ..right_results import hold_to_half_precision, hold_to_tf32, right_run, warps_on_tensor_cores


def tensor(*sizes: int, **parts: int) -> DirectConv2dConfiguration:
    return DirectConv2dConfiguration(reuse=Reuse.TENSOR, **warps_on_tensor_cores(*sizes, **parts))


def layer(
    batch: int,
    channels: tuple[int, int],
    size: tuple[int, int],
    taps: tuple[int, int],
    stride: int = 1,
    padding: int = 0,
) -> Conv2d:
    return Conv2d(
        batch=batch,
        in_channels=channels[0],
        out_channels=channels[1],
        height=size[0],
        width=size[1],
        filter_height=taps[0],
        filter_width=taps[1],
        stride=stride,
        padding=padding,
    )


CASES = {
    "whole_tiles": (layer(1, (16, 32), (8, 8), (3, 3), padding=1), tensor(16, 32, 2, 1)),
    "tiles_across_images": (layer(5, (8, 16), (7, 7), (3, 3), padding=1), tensor(16, 32, 1, 2)),
    "odd_everything": (layer(3, (9, 29), (5, 7), (3, 3), padding=1), tensor(16, 16, 2, 1, slices=2)),
    "stem": (layer(2, (3, 16), (30, 34), (7, 7), stride=2, padding=3), tensor(16, 40, 1, 4)),
    "split_over_a_cluster": (layer(1, (40, 24), (6, 10), (3, 3), padding=1), tensor(16, 16, 2, 1, slices=2, split=4)),
    "five_by_three": (layer(2, (6, 12), (9, 11), (5, 3), padding=2), tensor(16, 32, 1, 2)),
    "pointwise_with_stride": (layer(2, (24, 16), (9, 12), (1, 1), stride=2), tensor(16, 16, 1, 2)),
    "no_padding": (layer(1, (12, 16), (10, 12), (3, 3)), tensor(16, 32, 1, 2, split=2)),
    "more_padding_than_taps": (layer(1, (8, 16), (5, 6), (2, 2), padding=3), tensor(16, 32, 1, 2)),
}


@pytest.mark.compiler
@pytest.mark.parametrize("name", CASES)
def test_results(name: str) -> None:
    right_run(FAMILY, *CASES[name])


@pytest.mark.compiler
def test_counts_that_leave_no_doubt() -> None:
    problem, chosen = CASES["whole_tiles"]
    gpu = load_gpu("h200")
    counts = right_run(FAMILY, problem, chosen).counts
    estimated = profile(problem, tiles(problem, Batch.of([chosen]), gpu), gpu).counts
    # 2 tiles of 32 positions, 2 warps each, which have 1 x 4 tiles of 16 x 8; 16 channels of 9 taps are 18 products of 8 terms.
    warps, products = 2 * 2, 16 * 9 // 8
    assert counts.tensor == warps * products * 3 * 4 == estimated.tensor
    # Filters, two reads of each tile's positions, two steps; and the steps of the first product.
    assert estimated.shared_load_requests == warps * products * (1 + 4 * 2 + 2)
    assert counts.shared_load_requests == estimated.shared_load_requests + warps * 2
    assert counts.global_store_sectors == 64 * 32 // 8 == estimated.global_store_sectors


HALF_CASES = CASES | {
    "stem": (layer(2, (3, 16), (30, 34), (7, 7), stride=2, padding=3), tensor(16, 48, 1, 4)),
    "stem_of_warpgroups": (layer(2, (3, 40), (30, 33), (7, 7), stride=2, padding=3), tensor(32, 16, 1, 4)),
    "two_channels": (layer(1, (2, 24), (9, 15), (3, 5), padding=1), tensor(16, 32, 2, 1)),
    "five_channels_with_stride": (layer(3, (5, 32), (12, 10), (3, 3), stride=2), tensor(32, 16, 1, 4)),
    "warpgroups": (layer(2, (32, 64), (14, 14), (3, 3), padding=1), tensor(64, 16, 1, 8)),
    "warpgroups_with_stride": (layer(1, (24, 96), (18, 18), (3, 3), stride=2, padding=1), tensor(96, 16, 1, 4)),
    "warpgroups_split": (layer(1, (128, 128), (9, 9), (3, 3), padding=1), tensor(128, 16, 1, 4, split=2)),
    "pairs_of_taps": (layer(1, (32, 40), (9, 9), (2, 2), padding=1), tensor(32, 32, 1, 2)),
    "product_of_matrices": (layer(2, (24, 16), (9, 12), (1, 1)), tensor(16, 16, 1, 2)),
}


@pytest.mark.compiler
@pytest.mark.parametrize("name", HALF_CASES)
def test_half_precision(name: str) -> None:
    hold_to_half_precision(FAMILY, *HALF_CASES[name])


@pytest.mark.compiler
def test_counts_in_half_precision_that_leave_no_doubt() -> None:
    exact, chosen = CASES["whole_tiles"]
    problem, gpu = replace(exact, precision=Precision.FLOAT16), load_gpu("h200")
    counts = hold_to_half_precision(FAMILY, exact, chosen).counts
    tile = tiles(problem, Batch.of([chosen]), gpu)
    estimated = profile(problem, tile, gpu).counts
    # 2 tiles of 32 positions, 2 warps each, which have 2 x 2 tiles of 16 x 8; 16 channels are one product for each tap.
    warps, products = 2 * 2, 9
    assert tile.slab_channels == 16
    assert counts.tensor == warps * products * 4 == estimated.tensor
    # Two reads of positions, one of two tiles of filters; and one for each store of 16 bytes.
    stores = 64 * 32 // 8 // 32
    assert counts.shared_load_requests == warps * products * (2 + 1) + stores == estimated.shared_load_requests
    assert counts.global_store_sectors == 64 * 32 // 16 == estimated.global_store_sectors


@pytest.mark.parametrize("precision", [Precision.TF32, Precision.FLOAT16])
def test_only_tensor_cores_compute_in_half_precision_and_tf32(precision: Precision) -> None:
    problem, gpu = replace(CASES["whole_tiles"][0], precision=precision), load_gpu("h200")
    assert {mode for product in FAMILY.space(problem, gpu).products for mode in product.values["reuse"]} == {
        Reuse.TENSOR
    }
    assert len(FAMILY.space(replace(problem, out_channels=3), gpu)) > 0
    with pytest.raises(InputError, match=f"precision={precision.value} needs a dense convolution"):
        replace(problem, out_channels=16, depthwise=True)


@pytest.mark.compiler
@pytest.mark.parametrize("name", HALF_CASES)
def test_tf32(name: str) -> None:
    hold_to_tf32(FAMILY, *HALF_CASES[name])


def test_there_are_none_without_tensor_cores_for_tf32() -> None:
    problem, chosen = CASES["whole_tiles"]
    turing = load_gpu("rtx-2080-ti")
    rejected = [check for check in FAMILY.checks(problem, Batch.of([chosen]), turing) if np.any(check.rejected)]
    assert rejected[0].message(0) == "compute capability where reuse=tensor: sm_75 is not within sm_80 and newer"
    assert all(product.values["reuse"] != (Reuse.TENSOR,) for product in FAMILY.space(problem, turing).products)
