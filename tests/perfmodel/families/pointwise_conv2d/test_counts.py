from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfmodel.families.base import Batch
from perfmodel.families.pointwise_conv2d import FAMILY, Layout, PointwiseConfiguration, PointwiseConv2d
from perfmodel.families.pointwise_conv2d.configuration import tile_space
from perfmodel.families.pointwise_conv2d.counts import memory_accesses
from perfmodel.families.pointwise_conv2d.launch import candidates
from perfmodel.gpus.catalogue import load_gpu

CONFIGURATION = PointwiseConfiguration(layout=Layout.L1, filter_split=2, block_width_split=2, channel_lanes=8)


@pytest.fixture(scope="module")
def gpu():
    return load_gpu("h200")


def counts_of(problem, configuration, gpu):
    return FAMILY.profile(problem, Batch.of([configuration]), gpu).counts.at(0)


def test_one_layer_by_hand(gpu):
    # 256 → 256 channels at 28×28, 132 SMs, L1, blocks of 64 filters × 12 positions, 8 channel lanes, thread tile 6 × 8:
    # ⌈784 / 12⌉ = 66 by 256 / 64 = 4 blocks of 4 warps; 256 / 8 = 32 groups of channels; slabs of 64 channels.
    problem = PointwiseConv2d(in_channels=256, out_channels=256, height=28, width=28)
    done = counts_of(problem, CONFIGURATION, gpu)
    warps = 66 * 4 * 4
    assert done.fp32_fma == warps * 32 * 48
    assert done.shuffles == warps * (24 + 12 + 6)  # halved three times
    assert done.barriers == warps * 4
    # each lane reads 8 columns word by word and 6 rows as three pairs, for each group
    assert done.shared_load_requests == warps * 32 * (8 + 3)
    # 8 bytes in two phases, served at once because four neighbouring lanes read the same
    assert done.shared_load_wavefronts == warps * 32 * (8 * 1 + 3 * 1)
    assert done.shared_bank_conflicts == 0
    # a slab, copied by a warp: 64 filters · 64 channels by fours, 8 requests of four phases; 12 positions · 64 channels in
    # pairs, 6 of 8 lanes, 4 channels a request, 4 requests of two phases
    assert done.async_copy_requests == warps * 4 * (8 + 4)
    assert done.async_copy_wavefronts == warps * 4 * (8 * 4 + 4 * 2)
    assert done.global_load_requests == done.shared_store_requests == 0
    # 64 filters × 64 channels × 4 bytes in rows of 8 sectors; a row of 12 positions lies in 2 or 3
    filter_sectors = 66 * 4 * 4 * 64 * 8
    unmerged = counts_of(problem, CONFIGURATION, replace(gpu, l2_requests_merged=1)).l2_read_sectors
    assert 66 * 4 * 256 * 3 >= unmerged - filter_sectors >= 65 * 4 * 256 * 1.5
    # rows of 66 blocks read the same filters: of two blocks on each SM one half is in step with three more of its GPC
    assert unmerged - filter_sectors / 2 * 3 / 4 - 66 * 4 * 256 * 3 / 2 < done.l2_read_sectors < unmerged
    # a warp's 48 sums of each lane end in 6 stores; of the last positions, 784 − 65 · 12 = 4, the lower warps have none
    assert done.global_store_requests == 65 * 4 * 4 * 6 + 4 * 2 * 6
    assert done.dram_read_bytes == 4 * (784 * 256 + 256 * 256)
    assert done.dram_write_bytes == 4 * 784 * 256


@pytest.mark.parametrize("gpu_id", ["rtx-2080-ti", "h200"])
def test_classes_of_instructions_and_requests_sum_to_all(gpu_id):
    gpu = load_gpu(gpu_id)
    problem = PointwiseConv2d(batch=3, in_channels=70, out_channels=40, height=9, width=7)
    done = FAMILY.profile(problem, tile_space(problem).batch(), gpu).counts
    loads = ("global_load_requests", "shared_load_requests", "async_copy_requests")
    requests = (*loads, "global_store_requests", "shared_store_requests")
    classes = ("fp32_fma", "fp32_other", "shuffles", "barriers", "integer", "control", "conversion")
    parts = (*requests, *classes)
    assert np.allclose(done.warp_instructions, sum(getattr(done, name) for name in parts))


@settings(max_examples=20, deadline=None)
@given(
    st.builds(
        PointwiseConv2d,
        batch=st.integers(1, 3),
        in_channels=st.integers(1, 40),
        out_channels=st.integers(1, 40),
        height=st.integers(1, 9),
        width=st.integers(1, 9),
    ),
    st.sampled_from(["rtx-2080-ti", "a100-sxm-80gb"]),
)
def test_every_word_is_fetched_and_stored_at_least_once(problem, gpu_id):
    gpu = load_gpu(gpu_id)
    batch = tile_space(problem).batch()
    chosen, done = candidates(problem, batch, gpu), FAMILY.profile(problem, batch, gpu).counts
    across, down = chosen.tile.grid(problem)
    reads = across * problem.out_channels * problem.in_channels + down * problem.positions * problem.in_channels
    # an asynchronous copy is no load, but its sectors come from L2
    sectors = done.l2_read_sectors if chosen.fetched.asynchronous else done.global_load_sectors
    planned = chosen.planned
    assert (8 * sectors[planned] >= reads[planned]).all()
    assert (8 * done.global_store_sectors[planned] >= problem.outputs).all()
    assert (32 * done.global_store_requests[planned] >= problem.outputs).all()
    assert np.all(done.global_load_lines <= done.global_load_sectors)


def test_copies_read_once_for_each_request_into_shared_memory(gpu):
    # counted twice: by the sectors that they read and by the banks that they write
    problem = PointwiseConv2d(batch=2, in_channels=45, out_channels=37, height=5, width=7)
    chosen = candidates(problem, tile_space(problem).batch(), gpu)
    for entry in memory_accesses(problem, chosen):
        assert entry.filters.requests + entry.inputs.requests == entry.copies.requests


def test_candidates_that_break_the_plan_are_not_enumerated(gpu):
    problem = PointwiseConv2d(in_channels=32, out_channels=64, height=112, width=112)
    batch = tile_space(problem).batch()
    planned, copies = (
        candidates(problem, batch, gpu).planned,
        FAMILY.profile(problem, batch, gpu).counts.async_copy_requests,
    )
    assert 0 < (~planned).sum() < len(batch)
    assert (copies[~planned] == 0).all()
    assert (copies[planned] > 0).all()
