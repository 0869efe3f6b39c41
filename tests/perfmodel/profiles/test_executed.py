"""Executed machine instructions: visible arithmetic on small kernels, and the published counters of the RTX 2080 Ti."""

from __future__ import annotations

import numpy as np
import pytest

from perfmodel.compiler.compiled import compile_kernel
from perfmodel.compiler.request import CompileRequest
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.launch.launch import Buffer, KernelCall, Launch
from perfmodel.profiles.blocks.launch_classes import LaunchCounts
from perfmodel.profiles.executed_profile import execute, executed_profile
from perfmodel.profiles.matching.executed_match import Match, align
from perfmodel.profiles.matching.executed_regions import Graph, region_tree

from .compiled_work import ARCHITECTURES, LOOPS, UNROLLED, classes_sum_to_all, floats, work_of

BRANCHES = """
extern "C" __global__ void branches(const float *a, float *out, int n)
{
    const int i = blockIdx.x * 64 + threadIdx.x;
    if (i >= n)
        return;
    float x = a[i];
    if (threadIdx.x < 32) {
        #pragma unroll
        for (int k = 0; k < 50; k++)
            x = x * x + 3.0f;
    }
    out[i] = x;
}
"""

ARRAY = """
extern "C" __global__ void array(const int *index, float *out, int n)
{
    float values[16];
    #pragma unroll
    for (int k = 0; k < 16; k++)
        values[k] = out[k * 32 + threadIdx.x];
    float sum = 0.0f;
    #pragma unroll 1
    for (int i = 0; i < n; i++) {
        const int j = index[i * 32 + threadIdx.x] & 15;
        sum += values[j];
        values[j ^ 1] = sum;
    }
    out[threadIdx.x] = sum;
}
"""

WIDE = """
extern "C" __global__ void wide(const float4 *a, float *out)
{
    __shared__ float4 patch[32];
    patch[threadIdx.x] = a[threadIdx.x];
    __syncthreads();
    const float *p = (const float *)&patch[31 - threadIdx.x];
    out[threadIdx.x] = p[0] + p[1] + p[2] + p[3];
}
"""

PREDICATED = """
extern "C" __global__ void predicated(const float *a, float *out, int n)
{
    __shared__ float patch[64];
    const float x = a[threadIdx.x];
    patch[threadIdx.x] = 0.0f;
    __syncthreads();
    if (threadIdx.x < n)
        patch[threadIdx.x] = x;
    __syncthreads();
    out[blockIdx.x * 64 + threadIdx.x] = patch[63 - threadIdx.x];
}
"""

COPIED = """
extern "C" __global__ void copied(const float *a, float *out, int n)
{
    __shared__ float patch[64];
    const unsigned to = (unsigned)__cvta_generic_to_shared(&patch[threadIdx.x]);
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
                 :: "r"(to), "l"(a + threadIdx.x), "r"(threadIdx.x < n ? 4 : 0));
    asm volatile("cp.async.wait_all;");
#endif
    __syncthreads();
    out[blockIdx.x * 64 + threadIdx.x] = patch[63 - threadIdx.x];
}
"""


@pytest.mark.compiler
@pytest.mark.parametrize("architecture", ["sm_75", "sm_86", "sm_90"])
def test_branches_count_for_the_warps_that_take_them(architecture: str) -> None:
    n = 64 * 10 + 40
    launch = Launch(grid_x=12, block_x=64)
    profile = work_of(BRANCHES, architecture, launch, floats("a", n), floats("out", n, output=True), np.int32(n))
    assert profile.counts.fp32_fma == 50 * 11  # the first warps of eleven blocks; the second ones branch around
    assert (
        profile.counts.global_load_requests == profile.counts.global_store_requests == 10 * 2 + 2
    )  # 40 threads: two warps
    assert profile.exact, profile.notes


@pytest.mark.compiler
@pytest.mark.parametrize("architecture", ["sm_75", "sm_90"])
def test_local_array_with_an_index_of_each_lane_has_the_sectors_of_its_addresses(architecture: str) -> None:
    index = np.tile(np.arange(32, dtype=np.int32), 5)
    launch = Launch(grid_x=1, block_x=32)
    profile = work_of(
        ARRAY, architecture, launch, Buffer(name="index", array=index), floats("out", 512, output=True), np.int32(5)
    )
    assert profile.resources.stack_bytes_per_thread == 16 * 4
    # A word's 32 lanes fill four sectors. Lane k reads word k mod 16, so that no two lanes find theirs in the same sector.
    assert profile.counts.local_load_sectors == 5 * 32
    assert profile.counts.local_store_sectors == 16 * 4 + 5 * 32


@pytest.mark.compiler
def test_vector_that_only_the_assembler_makes_is_a_disagreement() -> None:
    profile = work_of(WIDE, "sm_90", Launch(grid_x=1, block_x=32), floats("a", 128), floats("out", 32, output=True))
    named = [note for note in profile.notes.splitlines() if "disagree" in note]
    assert profile.exact == (not named)
    assert all("shared load" in note for note in named)


@pytest.mark.compiler
def test_several_architectures_share_one_execution() -> None:
    request = CompileRequest(source=LOOPS, kernel="loops", file_name="loops.cu")
    kernels = [compile_kernel(request, architecture) for architecture in ("sm_75", "sm_80", "sm_61")]
    call = KernelCall(parameters=(floats("a", 64), floats("out", 64, output=True), np.int32(2), np.int32(2)))
    launch = Launch(grid_x=1, block_x=64)
    counted: dict[str, LaunchCounts] = {}
    turing, ampere, pascal = (execute(one, launch, call, counted=counted).profile for one in kernels)
    assert len(counted) == 1
    assert turing == executed_profile(kernels[0], launch, call)
    assert turing.counts.fp32_fma == ampere.counts.fp32_fma == pascal.counts.fp32_fma == 2 * 2 * 2
    assert turing.exact
    assert not pascal.exact
    assert "not decoded" in pascal.notes


@pytest.mark.compiler
def test_caches_are_simulated_for_a_gpu() -> None:
    request = CompileRequest(source=UNROLLED, kernel="unrolled", file_name="unrolled.cu")
    kernel = compile_kernel(request, "sm_75")
    call = KernelCall(parameters=(floats("a", 64 * 8), floats("out", 64 * 640, output=True), np.int32(8)))
    profile = executed_profile(kernel, Launch(grid_x=640, block_x=64), call, load_gpu("rtx-2080-ti"))
    assert profile.caches_simulated
    assert profile.counts.dram_read_bytes == 64 * 8 * 4  # every block reads the same eight rows
    assert profile.counts.l2_write_sectors == 640 * 64 * 4 / 32


def features(*rows: int) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    return np.array(rows, dtype=np.int64)[:, None]


def test_if_converted_branch_belongs_to_the_block_around_it() -> None:
    machine = region_tree(Graph(edges=((0, 1),), exits=(1,), features=features(3, 1)))
    ptx = region_tree(Graph(edges=((0, 1), (0, 2), (1, 2), (2, 3)), exits=(3,), features=features(1, 2, 0, 1)))
    found = align(machine, ptx)
    assert found.matches == (Match(0, 0),)
    assert found.certain


def test_unrolled_copies_of_a_loop_share_its_iterations() -> None:
    machine = region_tree(
        Graph(edges=((0, 1), (1, 1), (1, 2), (2, 2), (2, 3)), exits=(3,), features=features(0, 8, 2, 0))
    )
    ptx = region_tree(Graph(edges=((0, 1), (1, 1), (1, 2)), exits=(2,), features=features(0, 2, 0)))
    found = align(machine, ptx)
    assert sorted(found.matches, key=lambda match: match.machine)[1:] == [Match(1, 1, 4), Match(2, 1, 1)]
    assert not found.certain


def test_regions_of_a_loop_with_a_break() -> None:
    # 0 → 1 (header) → 2 → 1 or 3 (break from 1) → 3
    regions = region_tree(Graph(edges=((0, 1), (1, 2), (1, 3), (2, 1)), exits=(3,), features=features(0, 1, 1, 0)))
    assert [(region.blocks, region.is_loop, region.parent) for region in regions] == [
        ((0, 3), False, None),
        ((1,), True, 0),
        ((2,), False, 1),
    ]
    assert regions[1].latch == 2
    assert not regions[1].tests_at_end


def test_hundreds_of_branches_that_all_became_predicates_are_aligned() -> None:
    branches = 600
    edges = [edge for b in range(branches) for edge in ((2 * b, 2 * b + 1), (2 * b, 2 * b + 2), (2 * b + 1, 2 * b + 2))]
    ptx = region_tree(Graph(edges=tuple(edges), exits=(2 * branches,), features=features(*([0, 1] * branches), 0)))
    machine = region_tree(Graph(edges=((0, 1), (0, 2), (1, 2)), exits=(2,), features=features(branches - 1, 7, 0)))
    found = align(machine, ptx)
    assert found.matches[0] == Match(0, 0)
    assert len(found.matches) == 2


@pytest.mark.compiler
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_shared_stores_without_an_active_lane_are_no_requests_but_executed(architecture: str) -> None:
    launch = Launch(grid_x=3, block_x=64)
    arguments = (floats("a", 64), floats("out", 192, output=True), np.int32(32))
    profile = work_of(PREDICATED, architecture, launch, *arguments)
    assert profile.counts.shared_store_requests == 3 * (2 + 1)  # the second warp stores 0 only
    assert profile.counts.shared_store_predicated_off == 3
    assert profile.counts.shared_load_predicated_off == 0
    assert classes_sum_to_all(profile)


@pytest.mark.compiler
@pytest.mark.parametrize(("architecture", "beside"), [("sm_80", 0), ("sm_90", 3)])
def test_asynchronous_copies_that_only_fill_read_nothing(architecture: str, beside: int) -> None:
    launch = Launch(grid_x=3, block_x=64)
    arguments = (floats("a", 64), floats("out", 192, output=True), np.int32(9))
    profile = work_of(COPIED, architecture, launch, *arguments)
    assert profile.counts.async_copy_requests == 3 * 2
    assert profile.counts.async_copy_read_requests == 3
    assert profile.counts.async_copy_read_sectors == 3 * 2  # 9 floats are 36 bytes
    assert profile.counts.global_load_requests == 0
    assert profile.counts.shared_load_predicated_off == 3 * 2 * beside  # @!PT LDS before a copy from sm_90 on
    assert classes_sum_to_all(profile)
