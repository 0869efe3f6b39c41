"""Matrix products: right results into poisoned outputs, no faults, and the counts of which their tiles leave no doubt."""

import pytest

from perfmodel.errors import InputError
from perfmodel.families.pointwise_conv2d import FAMILY, Layout, PointwiseConfiguration

from ..right_results import right_run
from .matrix_cases import layer, product

CASES = {
    "whole_tiles": (layer(1, 32, 32, 8, 8), product(4, 4, 8, 8)),
    "images_within_a_tile": (layer(5, 12, 16, 2, 6), product(4, 8, 4, 4, slices=2)),
    "odd_everything": (layer(1, 33, 29, 5, 7), product(4, 4, 8, 8)),
    "odd_images": (layer(3, 9, 14, 7, 7), product(8, 8, 2, 13, slices=4)),
    "split_over_slices": (layer(1, 72, 16, 6, 6), product(4, 4, 4, 9, slices=4)),
    "split_over_a_cluster": (layer(1, 264, 24, 4, 6), product(4, 8, 6, 3, slices=2, split=4)),
    "split_of_odd_images": (layer(2, 130, 10, 3, 5), product(4, 4, 4, 8, slices=8, split=3)),
}  # fmt: skip


@pytest.mark.compiler
@pytest.mark.parametrize("name", CASES)
def test_results(name):
    right_run(FAMILY, *CASES[name])


@pytest.mark.compiler
@pytest.mark.parametrize("name", ["images_within_a_tile", "odd_everything"])
def test_results_without_asynchronous_copies(name):
    right_run(FAMILY, *CASES[name], on="rtx-2080-ti")


@pytest.mark.compiler
def test_counts_that_leave_no_doubt():
    problem, chosen = CASES["whole_tiles"]
    counts = right_run(FAMILY, problem, chosen).counts
    # 2 tiles of 32 positions, 2 warps each; a channel is a vector of filters and one of positions for 4 · 4 sums.
    assert counts.fp32_fma == 2 * 2 * 32 * 4 * 4
    assert counts.shared_load_requests == 2 * 2 * 32 * (1 + 1)
    assert counts.shared_load_wavefronts == 2 * counts.shared_load_requests  # lanes read what a neighbour reads
    assert counts.async_copy_requests == 2 * (32 * 32 + 32 * 32 // 4) // 32  # filters word by word, positions by four
    assert counts.global_store_sectors == 64 * 32 // 8


def test_fields_of_the_other_designs_are_refused():
    with pytest.raises(InputError, match="filters_per_thread=4 must be none when layout=L1"):
        PointwiseConfiguration(filters_per_thread=4)
    with pytest.raises(InputError, match="channel_lanes=8 must be none when layout=product"):
        PointwiseConfiguration(layout=Layout.PRODUCT, filter_split=None, block_width_split=None, blocks_per_sm=None)
