"""The kernel executed on the CPU: right, free of races, and counted exactly by the closed forms."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfmodel.compiler.compiled import compile_kernel
from perfmodel.families.base import Batch
from perfmodel.families.pointwise_conv2d import FAMILY, Layout, PointwiseConfiguration, PointwiseConv2d
from perfmodel.families.pointwise_conv2d import launch as search
from perfmodel.families.pointwise_conv2d.configuration import (
    BLOCK_WIDTH_SPLITS,
    BLOCKS_PER_SM,
    CHANNEL_LANES,
    tile_space,
)
from perfmodel.families.pointwise_conv2d.launch import candidates
from perfmodel.gpus.catalogue import load_gpu

from ..right_results import hold_to_closed_form

pytestmark = pytest.mark.compiler

SIZES = [
    # batch, in_channels, out_channels, height, width: one of everything, primes, what divides nothing, what divides all,
    # many channels for few positions
    (1, 1, 1, 1, 1),
    (3, 1, 2, 1, 1),
    (1, 13, 7, 5, 3),
    (2, 37, 19, 7, 11),
    (1, 64, 32, 8, 8),
    (3, 34, 33, 5, 5),
    (1, 522, 12, 3, 2),
]


def gpu_with(sm_count, gpu_id="h200"):
    """A GPU with another number of SMs, so that small problems get large tiles."""
    return replace(load_gpu(gpu_id), sm_count=sm_count)


def check(problem, configuration, gpu):
    hold_to_closed_form(FAMILY, problem, configuration, on=gpu)


# One GPU that copies asynchronously and one from before that, whose slabs pass through registers.
BOTH_WAYS = ("h200", "rtx-2080-ti")


@pytest.mark.parametrize("gpu_id", BOTH_WAYS)
@pytest.mark.parametrize("layout", [Layout.L1, Layout.L2])
@pytest.mark.parametrize("sizes", SIZES)
def test_result_and_counts_at_the_edges(sizes, layout, gpu_id):
    names = ("batch", "in_channels", "out_channels", "height", "width")
    problem = PointwiseConv2d(**dict(zip(names, sizes, strict=True)))
    lanes = 4 if sizes[1] % 2 else 16
    check(problem, PointwiseConfiguration(layout=layout, channel_lanes=lanes), gpu_with(2, gpu_id))


@pytest.mark.parametrize("lanes", CHANNEL_LANES)
def test_every_number_of_channel_lanes(lanes):
    layout = Layout.L2 if lanes in (1, 4, 32) else Layout.L1
    check(
        PointwiseConv2d(batch=1, in_channels=36, out_channels=24, height=6, width=6),
        PointwiseConfiguration(layout=layout, channel_lanes=lanes, filter_split=1, blocks_per_sm=2),
        gpu_with(1),
    )


@settings(max_examples=16, deadline=None, derandomize=True)
@given(
    st.builds(
        PointwiseConv2d,
        batch=st.integers(1, 3),
        in_channels=st.integers(1, 70),
        out_channels=st.integers(1, 40),
        height=st.integers(1, 9),
        width=st.integers(1, 9),
    ),
    st.builds(
        PointwiseConfiguration,
        layout=st.sampled_from([Layout.L1, Layout.L2]),
        filter_split=st.sampled_from([1, 2, 4]),
        block_width_split=st.sampled_from(BLOCK_WIDTH_SPLITS),
        blocks_per_sm=st.sampled_from(BLOCKS_PER_SM),
        channel_lanes=st.sampled_from(CHANNEL_LANES),
    ),
    st.sampled_from([1, 3, 20]),
    st.sampled_from(BOTH_WAYS),
)
def test_result_and_counts_of_random_small_problems(problem, configuration, sm_count, gpu_id):
    gpu = gpu_with(sm_count, gpu_id)
    if candidates(problem, Batch.of([configuration]), gpu).planned[0]:
        check(problem, configuration, gpu)


def waits(ptx):
    """Numbers of groups that the waits for copies leave under way, in the order of the text."""
    return [int(line.split()[1].rstrip(";")) for line in ptx.splitlines() if "cp.async.wait_group" in line]


def test_slabs_ahead_are_under_way_while_one_is_multiplied():
    # The simulator copies at once, so only the text shows that the loop waits for the oldest slab alone and the end for all.
    problem, gpu = PointwiseConv2d(in_channels=512, out_channels=512, height=7, width=7), load_gpu("h200")
    configuration = PointwiseConfiguration(filter_split=16, block_width_split=2, channel_lanes=16)
    chosen = candidates(problem, Batch.of([configuration]), gpu)
    assert chosen.stages[0] > 3
    ptx = compile_kernel(FAMILY.compile_request(problem, configuration, gpu), gpu.architecture.name).ptx
    assert waits(ptx) == [chosen.stages[0] - 2, 0]


@pytest.mark.parametrize("stages", [2, 3, 5])
def test_any_number_of_stages_gives_the_same_result(stages, monkeypatch):
    # 70 channels in slabs of at most 8: nine slabs or more walk round the ring, the last one cut
    monkeypatch.setattr(search, "MAX_STAGES", stages)
    monkeypatch.setattr(search, "WANTED_STAGES", stages)
    monkeypatch.setattr(search, "MAX_ASYNC_SLAB_CHANNELS", 8)
    problem = PointwiseConv2d(batch=2, in_channels=70, out_channels=20, height=5, width=3)
    configuration = PointwiseConfiguration(layout=Layout.L2, channel_lanes=8)
    chosen = candidates(problem, Batch.of([configuration]), gpu_with(1))
    assert (chosen.stages[0], chosen.fetched.slab_channels[0]) == (stages, 8)
    check(problem, configuration, gpu_with(1))


@pytest.mark.parametrize("gpu_id", ["rtx-2080-ti", "a100-sxm-80gb", "h200"])
def test_compiled_candidates_keep_the_plan_and_spill_nothing(gpu_id):
    gpu, rng = load_gpu(gpu_id), np.random.default_rng(4)
    for channels, filters, size in ((32, 64, 112), (128, 256, 28), (1024, 1024, 7)):
        problem = PointwiseConv2d(in_channels=channels, out_channels=filters, height=size, width=size)
        batch = tile_space(problem).batch()
        chosen = candidates(problem, batch, gpu)
        fitting = np.flatnonzero(chosen.planned & (chosen.shared_bytes <= chosen.limit.shared_bytes_per_block))
        for index in rng.choice(fitting, 5, replace=False).tolist():
            request = FAMILY.compile_request(problem, batch.configuration(index), gpu)
            resources = compile_kernel(request, gpu.architecture.name).resources
            assert resources.spill_load_bytes == resources.stack_bytes_per_thread == 0
            assert resources.registers_per_thread <= chosen.limit.registers_per_thread[index]
