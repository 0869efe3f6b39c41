"""Counts of a launch are read off the machine code; where that is not executed they are estimates, and say so."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from perfmodel.compiler.compiled import compile_kernel
from perfmodel.compiler.request import CompileRequest
from perfmodel.core.counts import INSTRUCTION_CLASSES
from perfmodel.errors import SimulationError
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.launch.launch import Buffer, KernelCall, Launch
from perfmodel.profiles.executed_profile import executed_profile
from perfmodel.profiles.kernel_profile import KernelProfile

pytestmark = pytest.mark.compiler

MEMORY_REQUESTS = (
    "global_load_requests",
    "global_store_requests",
    "shared_load_requests",
    "shared_store_requests",
)

LOOPS = """
extern "C" __global__ void loops(const float *a, float *out, int n, int m)
{
    __shared__ float shared[64];
    float sum = a[threadIdx.x];
    for (int i = 0; i < n; i++) {
        int j = 0;
        #pragma unroll 1
        do
            sum = sum * 2.0f + (float)j;
        while (++j < m);
        shared[threadIdx.x] = sum;
        __syncthreads();
        sum += shared[63 - threadIdx.x];
        __syncthreads();
    }
    out[blockIdx.x * 64 + threadIdx.x] = sum;
}
"""

WIDE = """
extern "C" __global__ void wide(const float *a, float *out)
{
    __shared__ float tile[4 * 32];
    for (int k = 0; k < 4; k++) tile[4 * threadIdx.x + k] = a[4 * threadIdx.x + k];   // four neighbouring words a lane
    __syncthreads();
    out[threadIdx.x] = tile[127 - threadIdx.x];
}
"""


def profile_of(source: str, architecture: str, launch: Launch, *arguments: np.generic | Buffer) -> KernelProfile:
    name = source.split("__global__ void ")[1].split("(")[0]
    kernel = compile_kernel(CompileRequest(source=source, kernel=name, file_name=f"{name}.cu"), architecture)
    return executed_profile(kernel, launch, KernelCall(parameters=arguments))


def floats(name: str, count: int) -> Buffer:
    return Buffer(name=name, array=np.zeros(count, np.float32))


@pytest.mark.parametrize("architecture", ["sm_61", "sm_70", "sm_75", "sm_80", "sm_86", "sm_90", "sm_100"])
def test_nested_loops_are_counted_as_often_as_they_run(architecture: str) -> None:
    blocks, warps, outer, inner = 3, 2, 5, 4
    profile = profile_of(
        LOOPS,
        architecture,
        Launch(grid_x=blocks, block_x=32 * warps),
        floats("a", 64),
        floats("out", 64 * blocks),
        np.int32(outer),
        np.int32(inner),
    )
    counts = profile.counts
    assert counts.barriers == blocks * warps * outer * 2
    assert counts.shared_load_requests == counts.shared_store_requests == blocks * warps * outer
    assert counts.global_load_requests == counts.global_store_requests == blocks * warps
    classes = sum(getattr(counts, name) for name in INSTRUCTION_CLASSES)
    assert counts.warp_instructions == classes + sum(getattr(counts, name) for name in MEMORY_REQUESTS)
    assert counts.warp_instructions > blocks * warps * outer * inner * 2
    assert profile.exact is (architecture != "sm_61")
    assert ("counted from PTX" in profile.notes) is (architecture == "sm_61")


@pytest.mark.parametrize("architecture", ["sm_75", "sm_90"])
def test_accesses_that_the_assembler_joins_are_one_request(architecture: str) -> None:
    profile = profile_of(WIDE, architecture, Launch(grid_x=1, block_x=32), floats("a", 128), floats("out", 32))
    assert profile.counts.shared_store_requests == 1  # one of 16 bytes a lane
    assert profile.counts.shared_store_wavefronts == 4


BARRIER = """
__device__ unsigned arrived;
extern "C" __global__ void barrier(float *x, unsigned blocks)
{
    if (threadIdx.x == 0) {
        atomicAdd(&arrived, 1u);
        while (*(volatile unsigned *)&arrived < blocks) {}
    }
    __syncthreads();
    x[blockIdx.x * 64 + threadIdx.x] += 1.0f;
}
"""


def test_blocks_that_wait_for_one_another_are_executed_together() -> None:
    blocks = 100
    launch, x = Launch(grid_x=blocks, block_x=64), floats("x", blocks * 64)
    profile = profile_of(BARRIER, "sm_90", launch, x, np.uint32(blocks))
    assert profile.launch.cooperative
    assert not profile.exact
    assert profile.counts.global_store_requests == blocks * 2  # each warp stores once
    assert profile.counts.global_reduction_requests == blocks
    with pytest.raises(SimulationError, match=r"LDG.* threads wait in a loop for what no thread that is executed"):
        profile_of(BARRIER, "sm_90", launch, x, np.uint32(blocks + 1))


CHAIN = """
extern "C" __global__ void chain(unsigned *flag, unsigned *looks)
{
    if (threadIdx.x == 0) {
        unsigned count = 0;
        volatile unsigned *flags = flag;
        if (blockIdx.x)
            while (LOOK == 0) count++;
        __threadfence();
        FLAG;
        looks[blockIdx.x] = count;
    }
}
"""
MEASURED = json.loads((Path(__file__).parents[3] / "validation" / "data" / "h100-atomics.json").read_text())


BY_LOADS = ("flags[blockIdx.x - 1]", "flags[blockIdx.x] = 1")
BY_ATOMICS = ("atomicAdd(&flag[blockIdx.x - 1], 0u)", "atomicExch(&flag[blockIdx.x], 1u)")


@pytest.mark.parametrize("blocks", [2, 33, 132])
@pytest.mark.parametrize(("kind", "way"), [(0, BY_LOADS), (2, BY_ATOMICS)])
def test_a_block_looks_at_a_flag_about_as_often_as_on_a_gpu(blocks: int, kind: int, way: tuple[str, str]) -> None:
    """Of the kernel that was measured, each block of which waits for the one before."""
    measured = [
        run["polls"]
        for run in MEASURED["waiting"]
        if run["test"] == "chain" and (run["kind"], run["blocks"], run["threads"]) == (kind, blocks, 32)
    ]
    flag, looks = (Buffer(name=name, array=np.zeros(blocks, np.uint32), output=True) for name in ("flag", "looks"))
    source = CHAIN.replace("LOOK", way[0]).replace("FLAG", way[1])
    profile = profile_of(source, "sm_90", Launch(grid_x=blocks, block_x=32), flag, looks)
    assert not profile.exact
    asked = profile.counts.global_load_requests + profile.counts.global_reduction_requests
    found = float(asked) - (blocks - 1 if kind == 0 else 2 * blocks - 1)  # the last look of each finds the flag
    assert found == pytest.approx(measured[0], rel=0.3, abs=2)


IN_PLACE = """
extern "C" __global__ void scale(float *x, unsigned apart)
{
    const unsigned at = blockIdx.x * 256 + threadIdx.x;
    x[at + apart] = 2.0f * x[at];
}
"""


@pytest.mark.parametrize("in_place", [True, False])
def test_sectors_that_are_read_and_stored_are_touched_once(in_place: bool) -> None:
    apart = np.uint32(0 if in_place else 256 * 1000)
    kernel = compile_kernel(CompileRequest(source=IN_PLACE, kernel="scale", file_name="scale.cu"), "sm_90")
    launch, call = Launch(grid_x=1000, block_x=256), KernelCall(parameters=(floats("x", 2 * 256 * 1000), apart))
    profile = executed_profile(kernel, launch, call, load_gpu("h200"))
    assert profile.touched_bytes == 4 * 256 * 1000 * (1 if in_place else 2)
