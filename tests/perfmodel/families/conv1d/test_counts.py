"""Closed forms against the published hardware profile of (1024, 1024, 4) with four channels per thread: 8,192 warps."""

import numpy as np
import pytest

from perfmodel.core.counts import Counts
from perfmodel.families.base import Batch
from perfmodel.families.conv1d import FAMILY, Conv1d, Conv1dConfiguration
from perfmodel.gpus.catalogue import load_gpu

WARPS = 1024 * 1024 // 4 // 32
BLOCKS = 1024


@pytest.fixture(scope="module")
def counts() -> Counts:
    batch = Batch.of([Conv1dConfiguration(channels_per_thread=4)])
    return FAMILY.profile(Conv1d(), batch, load_gpu("rtx-3090")).counts.at(0)


def test_global_loads_differ_from_the_profile_by_the_bias_alone(counts: Counts) -> None:
    published = 200_704  # 4 float4 of input, 20 weights, and the bias by one warp of 8 in each of 4 outputs
    assert published == WARPS * (4 + 20) + BLOCKS * 4
    assert counts.global_load_requests == WARPS * (4 + 20) + BLOCKS * 1  # the bias once a block


def test_shared_traffic_differs_from_the_profile_by_the_combination_alone(counts: Counts) -> None:
    published_stores, published_loads = 294_912, 172_032
    assert published_stores == WARPS * (16 + 20)  # four words of each float4, 20 weights
    assert published_loads == WARPS * (16 + 5)  # 16 words of input, five float4 of weights
    assert counts.shared_store_requests == published_stores + WARPS * 1  # four sums as one float4
    assert counts.shared_load_requests == published_loads + BLOCKS * 8  # a sum of each warp instead of atomics


def test_no_bank_conflicts_and_no_atomics(counts: Counts) -> None:
    assert counts.shared_bank_conflicts == 0
    assert counts.shared_load_wavefronts == WARPS * (16 + 5 * 4) + BLOCKS * 8  # a float4 takes four wavefronts
    assert counts.global_reduction_requests == 0
    assert counts.atomics == 0


def test_arithmetic(counts: Counts) -> None:
    assert counts.fp32_fma == WARPS * 4 * (3 + 4 + 4 + 3)  # four channels, taps that multiply no padding
    assert counts.shuffles == WARPS * 4 * 5  # four outputs, log2(32) steps
    assert counts.barriers == WARPS * 4


def test_dram_traffic_is_the_profiles_within_a_percent(counts: Counts) -> None:
    published = 21.02e6
    assert counts.dram_read_bytes == 4 * (1024 * 1024 * 5 + 1024 * 4 + 1024)
    assert counts.dram_read_bytes == pytest.approx(published, rel=0.01)


def test_classes_and_requests_sum_to_all_instructions() -> None:
    problem, gpu = Conv1d(in_channels=48, out_channels=3, length=7), load_gpu("h200")
    done = FAMILY.profile(problem, FAMILY.space(problem, gpu).batch(), gpu).counts
    classes = done.fp32_fma + done.fp32_other + done.integer + done.control + done.shuffles + done.barriers
    of_global = done.global_load_requests + done.global_store_requests
    of_shared = done.shared_load_requests + done.shared_store_requests
    np.testing.assert_array_equal(done.warp_instructions, classes + of_global + of_shared)
