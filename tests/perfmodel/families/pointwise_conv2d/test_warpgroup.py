"""Matrix products of warpgroups: right in TF32 and in half precision, no faults, and counts that leave no doubt."""

from dataclasses import replace

import pytest

from perfmodel.families.base import Batch
from perfmodel.families.matrix.counts import matrix_profile
from perfmodel.families.pointwise_conv2d import FAMILY, Layout, PointwiseConfiguration
from perfmodel.families.pointwise_conv2d.warpgroup import tiles, work_of
from perfmodel.families.precision import Precision
from perfmodel.gpus.catalogue import load_gpu

from ..right_results import right_run
from .matrix_cases import layer


def warpgroup(filters, warps):
    none = dict.fromkeys(("filter_split", "block_width_split", "blocks_per_sm", "channel_lanes"))
    return PointwiseConfiguration(layout=Layout.WARPGROUP, **none, warp_filters=filters, position_warps=warps)


CASES = {
    "whole_tiles": (layer(1, 64, 32, 8, 16), warpgroup(32, 4)),
    "images_within_a_tile": (layer(5, 12, 32, 2, 6), warpgroup(32, 4)),
    "odd_everything": (layer(1, 33, 29, 5, 7), warpgroup(32, 4)),
    "filters_beyond": (layer(3, 40, 100, 7, 7), warpgroup(96, 8)),
    "many_filters": (layer(2, 264, 128, 4, 6), warpgroup(128, 4)),
}


@pytest.mark.compiler
@pytest.mark.parametrize("precision", [Precision.TF32, Precision.FLOAT16])
@pytest.mark.parametrize("name", CASES)
def test_results(name, precision):
    problem, chosen = CASES[name]
    assert right_run(FAMILY, replace(problem, precision=precision), chosen).counts.tensor > 0


@pytest.mark.compiler
@pytest.mark.parametrize(("precision", "terms", "reads"), [(Precision.TF32, 8, 4), (Precision.FLOAT16, 16, 1)])
def test_counts_that_leave_no_doubt(precision, terms, reads):
    exact, chosen = CASES["whole_tiles"]
    problem, gpu = replace(exact, precision=precision), load_gpu("h200")
    counts = right_run(FAMILY, problem, chosen).counts
    tile = tiles(problem, Batch.of([chosen]), gpu)
    estimated = matrix_profile(problem, tile, work_of(problem, tile, gpu), gpu, problem.read_bytes).counts
    # 2 tiles of 64 positions, 4 warps each.
    warps, products = 2 * 4, 64 // terms
    assert counts.tensor == warps * products == estimated.tensor
    assert counts.shared_load_requests == warps * products * reads == estimated.shared_load_requests
    assert counts.shared_load_wavefronts == warps * products * 4 == estimated.shared_load_wavefronts
    assert counts.global_store_requests == 128 * 32 // 32 == estimated.global_store_requests
