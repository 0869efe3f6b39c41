"""Changed profiles do the same work in other blocks, or less of it."""

from __future__ import annotations

import numpy as np
import pytest

import perfmodel as pm
from perfmodel.advice.changed_profiles import (
    with_executions,
    with_larger_blocks,
    with_more_work_per_block,
    with_smaller_blocks,
)
from perfmodel.machine_code.issue_table import Wait
from perfmodel.profiles.kernel_profile import KernelProfile

pytestmark = pytest.mark.compiler
SOURCE = """
__global__ void k(const float *in, float *out, int n) {
    float sum = 0.0f;
    for (int i = threadIdx.x; i < n; i += blockDim.x) sum += in[i];
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
"""


@pytest.fixture(scope="module")
def profile() -> KernelProfile:
    arguments = ["f32[4096]", "f32[8*128]", "i32=4096"]
    return pm.analyze(SOURCE, kernel="k", grid=8, block=128, args=arguments, gpu="h200").execution.profile


def executed(profile: KernelProfile) -> np.ndarray:
    """How often the warps of all followed blocks issue each instruction."""
    traces = profile.traces
    found = np.zeros(len(traces.table), np.int64)
    for first, length in zip(traces.first, traces.length, strict=True):
        found[first : first + length] += 1
    return found


@pytest.mark.parametrize(("groups", "pieces"), [(2, 1), (4, 1), (4, 3), (1, 5)])
def test_smaller_blocks_issue_the_same_instructions(profile: KernelProfile, groups: int, pieces: int) -> None:
    changed = with_smaller_blocks(profile, groups, pieces)
    assert int(changed.launch.blocks) == 8 * groups * pieces
    assert changed.traces.blocks == profile.traces.blocks * groups * pieces
    assert changed.traces.warps_per_block == 4 // groups
    before, after = executed(profile), executed(changed)
    loops, warps = before > profile.traces.blocks * 4, profile.traces.blocks * 4
    assert (after[loops] >= before[loops]).all()
    assert (after[loops] <= np.maximum(before[loops], warps * pieces)).all()
    assert (after[~loops] == before[~loops] * pieces).all()  # what is no loop each piece does
    assert changed.traces.instructions.sum() == pytest.approx(
        profile.traces.instructions.sum() * after.sum() / before.sum()
    )


def test_larger_blocks_issue_as_often_as_their_threads_say(profile: KernelProfile) -> None:
    changed = with_larger_blocks(profile, 4)
    assert (int(changed.launch.blocks), int(changed.launch.threads_per_block)) == (2, 512)
    assert changed.traces.blocks == profile.traces.blocks
    assert (executed(changed) == 4 * executed(profile)).all()
    of_copies = changed.traces.loads.sectors.sum()  # each copy has sectors of its own
    assert of_copies == 4 * profile.traces.loads.sectors.sum()


def test_more_work_per_block_repeats_all_but_what_a_block_does_once(profile: KernelProfile) -> None:
    before = executed(profile)
    stores = np.flatnonzero(profile.traces.table.wait == Wait.GLOBAL_STORE).tolist()
    changed = with_more_work_per_block(profile, 4, once=stores)
    after, others = executed(changed), np.setdiff1d(np.arange(len(before)), stores)
    assert (int(changed.launch.blocks), int(changed.launch.threads_per_block)) == (2, 128)
    assert (after[others] == 4 * before[others]).all()
    assert (after[stores] == before[stores]).all()
    assert changed.traces.loads.sectors.sum() == 4 * profile.traces.loads.sectors.sum()


@pytest.mark.parametrize("share", [0.0, 0.25, 0.5])
def test_fewer_executions_leave_the_others_as_they_are(profile: KernelProfile, share: float) -> None:
    before = executed(profile)
    loads = np.unique(profile.traces.loads.instruction)
    changed = with_executions(profile, dict.fromkeys(loads.tolist(), share))
    after = executed(changed)
    others = np.setdiff1d(np.arange(len(before)), loads)
    assert (after[others] == before[others]).all()
    assert after[loads].sum() == share * before[loads].sum()
    asked, left = (len(one.traces.loads.instruction) for one in (profile, changed))
    assert left == asked * share


def test_an_instruction_that_each_warp_executes_once_is_left_to_a_share_of_the_warps(profile: KernelProfile) -> None:
    stores = np.flatnonzero(profile.traces.table.wait == Wait.GLOBAL_STORE).tolist()
    assert (executed(profile)[stores] == 6 * 4).all()  # 6 followed blocks of 4 warps
    assert (executed(with_executions(profile, dict.fromkeys(stores, 0.5)))[stores] == 6 * 2).all()
