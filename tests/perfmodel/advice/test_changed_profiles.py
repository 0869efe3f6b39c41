"""Changed profiles do the same work in other blocks, or less of it."""

from __future__ import annotations

import numpy as np
import pytest

import perfmodel as pm
from perfmodel.advice.changed_profiles import with_fewer_executions, with_larger_blocks, with_smaller_blocks
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


@pytest.mark.parametrize("parts", [2, 4, 12])
def test_smaller_blocks_issue_the_same_instructions(profile: KernelProfile, parts: int) -> None:
    changed = with_smaller_blocks(profile, parts)
    assert int(changed.launch.blocks) == 8 * parts
    assert changed.traces.blocks == profile.traces.blocks * parts
    assert changed.traces.warps_per_block == 4 // min(parts, 4)
    assert (executed(changed) == executed(profile)).all()
    assert changed.traces.instructions.sum() == pytest.approx(profile.traces.instructions.sum())
    before, after = (one.traces.loads.instruction for one in (profile, changed))
    assert (np.bincount(after) == np.bincount(before)).all()


def test_larger_blocks_issue_as_often_as_their_threads_say(profile: KernelProfile) -> None:
    changed = with_larger_blocks(profile, 4)
    assert (int(changed.launch.blocks), int(changed.launch.threads_per_block)) == (2, 512)
    assert changed.traces.blocks == profile.traces.blocks
    assert (executed(changed) == 4 * executed(profile)).all()
    of_copies = changed.traces.loads.sectors.sum()  # each copy has sectors of its own
    assert of_copies == 4 * profile.traces.loads.sectors.sum()


@pytest.mark.parametrize("every", [0, 2])
def test_fewer_executions_leave_the_others_as_they_are(profile: KernelProfile, every: int) -> None:
    before = executed(profile)
    loads = np.unique(profile.traces.loads.instruction)
    changed = with_fewer_executions(profile, loads.tolist(), every)
    after = executed(changed)
    others = np.setdiff1d(np.arange(len(before)), loads)
    assert (after[others] == before[others]).all()
    assert before[loads].sum() == 2 * after[loads].sum() if every else after[loads].sum() == 0
    asked, left = (len(one.traces.loads.instruction) for one in (profile, changed))
    assert left == (asked / every if every else 0)
