"""Matrix products on tensor cores: as exact as FP32, no faults, and the counts of which their tiles leave no doubt."""

from dataclasses import replace

import numpy as np
import pytest

from perfmodel.errors import InfeasibleError
from perfmodel.families.base import Batch
from perfmodel.families.matrix.counts import matrix_profile
from perfmodel.families.pointwise_conv2d import FAMILY, Layout, PointwiseConfiguration
from perfmodel.families.pointwise_conv2d.tensor import tiles, work_of
from perfmodel.families.precision import Precision
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.prediction.ranking import rank_problem
from perfmodel.prediction.scenario import scenario_of

from ..right_results import hold_to_half_precision, hold_to_tf32, right_run
from .matrix_cases import layer, tensor

CASES = {
    "whole_tiles": (layer(1, 64, 32, 8, 8), tensor(16, 32, 2, 1)),
    "images_within_a_tile": (layer(5, 12, 16, 2, 6), tensor(16, 16, 1, 2)),
    "images_between_columns": (layer(19, 12, 16, 1, 2), tensor(16, 16, 1, 2)),
    "images_of_six": (layer(7, 12, 19, 2, 3), tensor(16, 32, 2, 1)),
    "odd_everything": (layer(1, 33, 29, 5, 7), tensor(16, 16, 2, 1, slices=2)),
    "odd_number_of_groups": (layer(3, 9, 14, 7, 7), tensor(16, 56, 1, 3)),
    "split_over_a_cluster": (layer(1, 264, 24, 4, 6), tensor(16, 16, 2, 1, slices=2, split=4)),
    "split_of_odd_images": (layer(2, 1030, 10, 3, 5), tensor(16, 32, 1, 1, slices=8, split=3)),
}


@pytest.mark.compiler
@pytest.mark.parametrize("name", CASES)
def test_results(name):
    problem, chosen = CASES[name]
    right_run(FAMILY, problem, chosen)


@pytest.mark.compiler
def test_counts_that_leave_no_doubt():
    problem, chosen = CASES["whole_tiles"]
    gpu = load_gpu("h200")
    counts = right_run(FAMILY, problem, chosen).counts
    tile = tiles(problem, Batch.of([chosen]), gpu)
    whole = matrix_profile(problem, tile, work_of(problem, tile, gpu), gpu, problem.read_bytes)
    estimated = whole.counts
    # 2 tiles of 32 positions, 2 warps each, which have 1 x 4 tiles of 16 x 8; 64 channels are 8 groups of 8.
    warps, groups = 2 * 2, 64 // 8
    assert counts.tensor == warps * groups * 3 * 4 == estimated.tensor
    operations, rate = 2 * 16 * 8 * 8, gpu.tensor_tf32_per_sm * gpu.tensor_warp_share / gpu.schedulers_per_sm
    assert whole.tensor_cycles == pytest.approx(counts.tensor * operations / rate)
    assert counts.shared_load_requests == warps * groups * (1 + 4 * 2) == estimated.shared_load_requests
    assert counts.shared_load_wavefronts == warps * groups * (4 + 4 * 2) == estimated.shared_load_wavefronts
    assert counts.async_copy_requests == 2 * (32 * 64 + 64 * 32) // 4 // 32 == estimated.async_copy_requests
    assert counts.global_store_sectors == 64 * 32 // 8 == estimated.global_store_sectors


@pytest.mark.compiler
def test_copies_beyond_the_last_position_meet_in_no_bank():
    problem, chosen = layer(1, 32, 32, 5, 13), tensor(16, 32, 2, 1)
    counts = right_run(FAMILY, problem, chosen).counts
    # 65 positions in tiles of 32: of the last one 31 of 32 lanes read others. A request has a channel's 32 words, in one pass;
    # filters are copied past L1.
    assert counts.async_copy_read_wavefronts == 3 * 32


HALF_CASES = {
    "whole_tiles": CASES["whole_tiles"],
    "images_within_a_tile": CASES["images_within_a_tile"],
    "odd_everything": CASES["odd_everything"],
    "odd_number_of_groups": (layer(3, 9, 14, 7, 7), tensor(32, 48, 1, 3)),
    "pairs_of_filters": (layer(2, 20, 46, 5, 3), tensor(32, 16, 1, 2)),
    "warpgroups": (layer(2, 40, 100, 7, 9), tensor(64, 16, 1, 4)),
    "warpgroups_with_slices": (layer(1, 160, 96, 12, 12), tensor(96, 16, 1, 4, slices=2)),
    "warpgroups_of_wide_slabs": (layer(1, 1024, 64, 4, 16), tensor(64, 16, 1, 4)),
    "warpgroups_of_two_tiles": (layer(1, 72, 256, 16, 16), tensor(128, 32, 2, 4)),
    "split_over_a_cluster": CASES["split_over_a_cluster"],
    "split_of_odd_images": CASES["split_of_odd_images"],
}


@pytest.mark.compiler
@pytest.mark.parametrize(
    "name", ["odd_everything", "pairs_of_filters", "warpgroups_with_slices", "split_over_a_cluster"]
)
def test_tf32(name):
    hold_to_tf32(FAMILY, *HALF_CASES[name])


@pytest.mark.compiler
@pytest.mark.parametrize("name", HALF_CASES)
def test_half_precision(name):
    hold_to_half_precision(FAMILY, *HALF_CASES[name])


@pytest.mark.compiler
def test_counts_in_half_precision_that_leave_no_doubt():
    exact, chosen = CASES["whole_tiles"]
    problem, gpu = replace(exact, precision=Precision.FLOAT16), load_gpu("h200")
    counts = hold_to_half_precision(FAMILY, exact, chosen).counts
    tile = tiles(problem, Batch.of([chosen]), gpu)
    whole = matrix_profile(problem, tile, work_of(problem, tile, gpu), gpu, problem.read_bytes)
    estimated = whole.counts
    # 2 tiles of 32 positions, 2 warps each, which have 2 x 2 tiles of 16 x 8; 64 channels are 4 groups of 16.
    warps, groups = 2 * 2, 64 // 16
    assert counts.tensor == warps * groups * 4 == estimated.tensor
    operations, rate = 2 * 16 * 8 * 16, gpu.tensor_f16_f32_per_sm * gpu.tensor_warp_share / gpu.schedulers_per_sm
    assert whole.tensor_cycles == pytest.approx(counts.tensor * operations / rate)
    stores = 64 * 32 // 8 // 32  # of 16 bytes, which are read from shared memory
    assert counts.global_store_requests == stores == estimated.global_store_requests
    assert counts.shared_load_requests == warps * groups * (2 + 1) + stores == estimated.shared_load_requests
    # A read of outputs has rows of 64 bytes, so that two of them meet in a bank.
    assert counts.shared_load_wavefronts == warps * groups * (2 + 1) * 4 + stores * 8
    assert estimated.shared_load_wavefronts == warps * groups * (2 + 1) * 4 + stores * 4
    assert counts.async_copy_requests == 2 * (32 * 64 + 64 * 32) // 8 // 32 == estimated.async_copy_requests
    assert counts.global_store_sectors == 64 * 32 // 16 == estimated.global_store_sectors
    assert estimated.dram_write_bytes == 64 * 32 * 2


def test_only_tensor_cores_compute_in_half_precision():
    problem, gpu = replace(CASES["whole_tiles"][0], precision=Precision.FLOAT16), load_gpu("h200")
    assert {layout for product in FAMILY.space(problem, gpu).products for layout in product.values["layout"]} == {
        Layout.TENSOR,
        Layout.BULK,
    }
    rejected = [
        check for check in FAMILY.checks(problem, Batch.of([PointwiseConfiguration()]), gpu) if np.any(check.rejected)
    ]
    assert rejected[0].message(0) == "precision where layout is neither tensor nor bulk: float16 is not within float32"
    with pytest.raises(
        InfeasibleError, match="compute capability where layout=tensor: sm_75 is not within sm_80 and newer"
    ):
        rank_problem(problem, scenario_of("rtx-2080-ti"))


def test_there_are_none_without_tensor_cores_for_tf32():
    problem, chosen = CASES["whole_tiles"]
    turing = load_gpu("rtx-2080-ti")
    rejected = [check for check in FAMILY.checks(problem, Batch.of([chosen]), turing) if np.any(check.rejected)]
    assert rejected[0].message(0) == "compute capability where layout=tensor: sm_75 is not within sm_80 and newer"
    assert "warp_filters" not in FAMILY.space(problem, turing).products[-1].values or all(
        product.values["warp_filters"] == (None,) for product in FAMILY.space(problem, turing).products
    )
