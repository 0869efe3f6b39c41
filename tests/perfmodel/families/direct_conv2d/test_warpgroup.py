"""Convolutions by products of warpgroups: right in TF32 and in half precision, no faults, and counts that leave no doubt."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from perfmodel.families.base import Batch
from perfmodel.families.direct_conv2d import FAMILY, Conv2d, DirectConv2dConfiguration, Reuse
from perfmodel.families.direct_conv2d.warpgroup import profile, tiles
from perfmodel.families.precision import Precision
from perfmodel.gpus.catalogue import load_gpu

from ..right_results import right_run
from .test_tensor import layer


def warpgroup(filters: int, warps: int) -> DirectConv2dConfiguration:
    return DirectConv2dConfiguration(reuse=Reuse.WARPGROUP, warp_filters=filters, position_warps=warps)


CASES = {
    "whole_tiles": (layer(2, (16, 32), (8, 8), (3, 3), padding=1), warpgroup(32, 4)),
    "tiles_across_images": (layer(5, (8, 64), (7, 7), (3, 3), padding=1), warpgroup(64, 4)),
    "odd_everything": (layer(3, (9, 29), (5, 7), (3, 3), padding=1), warpgroup(32, 8)),
    "stem": (layer(2, (3, 64), (30, 34), (7, 7), stride=2, padding=3), warpgroup(64, 8)),
    "filters_beyond": (layer(1, (24, 130), (6, 10), (3, 3), padding=1), warpgroup(96, 4)),
    "many_filters": (layer(1, (40, 128), (9, 8), (3, 3), padding=1), warpgroup(128, 4)),
    "five_by_three": (layer(2, (6, 12), (9, 11), (5, 3), padding=2), warpgroup(32, 8)),
    "pointwise_with_stride": (layer(2, (24, 16), (9, 12), (1, 1), stride=2), warpgroup(32, 4)),
    "more_padding_than_taps": (layer(1, (8, 16), (5, 6), (2, 2), padding=3), warpgroup(32, 4)),
}


@pytest.mark.compiler
@pytest.mark.parametrize("precision", [Precision.TF32, Precision.FLOAT16])
@pytest.mark.parametrize("name", CASES)
def test_results(name: str, precision: Precision) -> None:
    problem, chosen = CASES[name]
    assert right_run(FAMILY, replace(problem, precision=precision), chosen).counts.tensor > 0


@pytest.mark.compiler
def test_counts_that_leave_no_doubt() -> None:
    exact, chosen = CASES["whole_tiles"]
    problem, gpu = replace(exact, precision=Precision.TF32), load_gpu("h200")
    counts = right_run(FAMILY, problem, chosen).counts
    whole = profile(problem, tiles(problem, Batch.of([chosen]), gpu), gpu)
    # 2 tiles of 64 positions, 4 warps each; 16 channels of 9 taps are 18 products of 8 terms.
    warps, products = 2 * 4, 16 * 9 // 8
    assert counts.tensor == warps * products == whole.counts.tensor
    # A warp's quarter of a product is 16 positions times 32 filters times 8 terms.
    assert whole.tensor_cycles == pytest.approx(warps * products * 2 * 16 * 32 * 8 / (gpu.tensor_tf32_per_sm / 4))
    assert counts.shared_load_requests == warps * products * (4 + 2) == whole.counts.shared_load_requests
    assert counts.global_store_requests == 128 * 32 // 32 == whole.counts.global_store_requests
    assert counts.global_store_sectors == 128 * 32 // 8 == whole.counts.global_store_sectors


def test_there_are_none_in_fp32_and_none_without_such_products() -> None:
    exact, chosen = CASES["whole_tiles"]

    def first_reason(problem: Conv2d, gpu: str) -> str:
        rejected = [
            check for check in FAMILY.checks(problem, Batch.of([chosen]), load_gpu(gpu)) if np.any(check.rejected)
        ]
        return rejected[0].message(0)

    rounded = replace(exact, precision=Precision.TF32)
    assert first_reason(exact, "h200") == "precision where reuse=warpgroup: float32 is not within tf32 and float16"
    assert (
        first_reason(rounded, "a100-sxm-80gb") == "compute capability where reuse=warpgroup: sm_80 is not within sm_90"
    )
    for problem, gpu in ((exact, "h200"), (rounded, "a100-sxm-80gb")):
        spaces = FAMILY.space(problem, load_gpu(gpu)).products
        assert all(Reuse.WARPGROUP not in product.values["reuse"] for product in spaces)
