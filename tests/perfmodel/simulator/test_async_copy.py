"""Sectors of asynchronous copies, by visible arithmetic on small kernels and lane by lane."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from perfmodel.compiler.compiled import CompiledKernel, compile_kernel
from perfmodel.compiler.request import CompileRequest
from perfmodel.core.counts import Counts
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.launch.launch import Buffer, KernelCall, Launch
from perfmodel.memory.async_copy import copy_sectors, uncached_copy_sectors
from perfmodel.memory.coalescing import WarpPatterns
from perfmodel.profiles.executed_profile import executed_profile
from perfmodel.profiles.totals import counted_run
from perfmodel.ptx.parse import parse_module
from perfmodel.simulator.simulation import Mode

WARPS, BLOCKS = 2, 3
COPY = """
extern "C" __global__ void copy(const float *a, float *out, int from, int from_of_block, int to, int to_of_block, int lanes)
{
    __shared__ __align__(16) float patch[320];
    const int thread = threadIdx.x;
    const float *const source = a + 4 * thread + from + blockIdx.x * from_of_block;
    const int first = to + blockIdx.x * to_of_block;
    const unsigned target = (unsigned)__cvta_generic_to_shared(patch + 4 * thread + first);
#if __CUDA_ARCH__ >= 800
    if (thread < lanes)
        asm volatile("cp.async.CACHE.shared.global [%0], [%1], 16;" :: "r"(target), "l"(source) : "memory");
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
    __syncthreads();
    out[blockIdx.x * 64 + thread] = patch[4 * thread + first] + patch[4 * thread + first + 3];
}
"""


def compiled(cache: str, architecture: str = "sm_90") -> CompiledKernel:
    request = CompileRequest(source=COPY.replace("CACHE", cache), kernel="copy", file_name="copy.cu")
    return compile_kernel(request, architecture)


def call(*, begins: tuple[int, int, int, int], lanes: int) -> KernelCall:
    """Words at which source and target begin, and how many of each the next block's begin further on."""
    values = np.arange(512, dtype=np.float32)
    out = Buffer(name="out", array=np.full(64 * BLOCKS, np.nan, np.float32), output=True)
    return KernelCall(parameters=(Buffer(name="a", array=values), out, *map(np.int32, begins), np.int32(lanes)))


def counted(
    begins: tuple[int, int, int, int], *, lanes: int = 64, cache: str = "cg", mode: Mode = Mode.EXECUTE
) -> Counts:
    launch = Launch(grid_x=BLOCKS, block_x=32 * WARPS)
    module = parse_module(compiled(cache).ptx)
    return counted_run(module.kernel("copy"), launch, call(begins=begins, lanes=lanes), mode=mode).counts


@pytest.mark.compiler
@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize(
    ("begins", "sectors"),
    [
        ((0, 0, 0, 0), BLOCKS * WARPS * 16),
        ((4, 0, 0, 0), BLOCKS * WARPS * 20),
        ((8, 0, 0, 0), BLOCKS * WARPS * 16),
        ((0, 0, 4, 0), BLOCKS * WARPS * 20),
        ((4, 0, 4, 0), BLOCKS * WARPS * 17),
        ((0, 4, 0, 0), WARPS * (16 + 20 + 16)),  # sources of one block after the other begin at words 0, 4, 8
        ((0, 0, 0, 4), WARPS * (16 + 20 + 16)),  # targets do: all blocks read the same
        ((0, 4, 0, 4), WARPS * (16 + 17 + 16)),  # … and both do
    ],
)
def test_sectors_follow_from_where_a_copy_reads_and_writes(
    begins: tuple[int, int, int, int], sectors: int, mode: Mode
) -> None:
    assert counted(begins, mode=mode).async_copy_read_sectors == sectors


@pytest.mark.compiler
def test_copies_through_l1_read_each_sector_of_their_source_once() -> None:
    assert counted((4, 0, 0, 0), cache="ca").async_copy_read_sectors == BLOCKS * WARPS * 17


@pytest.mark.compiler
def test_lanes_that_take_no_part_have_no_sectors() -> None:
    """9 lanes from word 4 on: the last one is a half of the fifth sector; the fourth is from two lines."""
    found = counted((4, 0, 0, 0), lanes=9)
    assert (found.async_copy_read_requests, found.async_copy_read_sectors) == (BLOCKS, BLOCKS * (5 + 1))


@pytest.mark.compiler
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
def test_copies_without_an_active_lane_are_no_requests_but_executed(architecture: str) -> None:
    launch = Launch(grid_x=BLOCKS, block_x=32 * WARPS)
    counts = executed_profile(compiled("cg", architecture), launch, call(begins=(0, 0, 0, 0), lanes=32)).counts
    assert (counts.async_copy_requests, counts.async_copy_read_requests) == (BLOCKS, BLOCKS)
    assert counts.async_copy_predicated_off == BLOCKS  # the second warp of each block


@pytest.mark.compiler
@pytest.mark.parametrize(("first", "sectors"), [(0, 16), (4, 32)])
def test_copies_of_16_bytes_ask_l2_for_all_that_they_read(first: int, sectors: int) -> None:
    """Every block reads the same, which L1 would hold; where SMs merge requests, the three of a GPC ask once.

    That is so where each request is for whole halves of lines: one for other sectors of a half ends the merging of those before.
    """
    launch = Launch(grid_x=BLOCKS, block_x=32 * WARPS)
    arguments = call(begins=(first, 0, 0, 0), lanes=64)
    for merged, asked in ((1, BLOCKS), (4, 1)):
        gpu = replace(load_gpu("h200"), l2_requests_merged=merged)
        counts = executed_profile(compiled("cg"), launch, arguments, gpu).counts
        least = asked * WARPS * sectors
        if merged == 1 or first == 0:
            assert counts.l2_read_sectors == pytest.approx(least)
        else:
            assert least <= counts.l2_read_sectors < BLOCKS * least


@st.composite
def copies(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Source and target addresses and active lanes of some blocks' warps; the targets of one block."""
    blocks, warps = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    near = hnp.arrays(np.uint64, (blocks * warps, 32), elements=st.integers(0, draw(st.sampled_from([4, 20, 200]))))
    source, target = draw(near) * np.uint64(16), draw(near)[:warps] * np.uint64(16)
    active = draw(hnp.arrays(np.bool_, (warps, 32)))
    active[:, draw(st.integers(0, 31))] = True
    return source, target, np.tile(active, (blocks, 1))


@given(copies(), st.integers(0, 20), st.integers(0, 20))
@settings(max_examples=60, deadline=None)
def test_patterns_equal_a_count_lane_by_lane(
    case: tuple[np.ndarray, np.ndarray, np.ndarray], further: int, onto: int
) -> None:
    source, target, active = case
    found = WarpPatterns(source, active).copied(16 * further, WarpPatterns(target, active[: len(target)]), 16 * onto)
    reads = source.astype(np.int64) + 16 * further
    writes = np.tile(target.astype(np.int64) + 16 * onto, (len(source) // len(target), 1))
    rows = [
        [(int(r), int(w)) for r, w, used in zip(*row, strict=True) if used]
        for row in zip(reads, writes, active, strict=True)
    ]
    assert found.counted.tolist() == [len({(r // 128, w // 32) for r, w in row}) for row in rows]
    assert found.uncached.tolist() == [len({(r // 32, w // 32, (r - w) // 16 % 2) for r, w in row}) for row in rows]
    assert copy_sectors(reads // 4, writes // 4, active, 4).tolist() == found.counted.tolist()
    assert uncached_copy_sectors(reads // 4, writes // 4, active).tolist() == found.uncached.tolist()
    narrow = [len({r // 32 for r, _ in row}) for row in rows]
    assert copy_sectors(reads // 4, writes // 4, active, 2).tolist() == narrow


def test_no_copies_have_no_sectors() -> None:
    none = np.zeros((0, 32), np.int64)
    assert copy_sectors(none, none, none.astype(bool), 4).shape == (0,)
    assert copy_sectors(none + 1, none, none.astype(bool), 1).shape == (0,)
    nobody = np.zeros((1, 32), bool)
    assert copy_sectors(np.arange(32)[None], np.arange(32)[None], nobody, 4).tolist() == [0]
