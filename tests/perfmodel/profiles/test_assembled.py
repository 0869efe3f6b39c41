"""Global loads that the assembler leaves out: visible arithmetic on kernels whose PTX repeats an address."""

from __future__ import annotations

import numpy as np
import pytest

from perfmodel.compiler.compiled import compile_kernel
from perfmodel.compiler.request import CompileRequest
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.launch.launch import Buffer, KernelCall, Launch
from perfmodel.profiles.executed_profile import executed_profile, parsed
from perfmodel.profiles.kernel_profile import KernelProfile
from perfmodel.profiles.matching.invariant_loads import with_invariant_loads_outside
from perfmodel.profiles.matching.repeated_loads import without_repeated_loads
from perfmodel.profiles.totals import counted_run

from .compiled_work import work_of

TWICE = """
extern "C" __global__ void twice(const float *a, float *out, int n)
{
    const int i = blockIdx.x * 64 + threadIdx.x;
    float first, second;
    asm volatile("ld.global.f32 %0, [%1];" : "=f"(first) : "l"(a + i));
    asm volatile("ld.global.f32 %0, [%1];" : "=f"(second) : "l"(a + i));
    out[i] = first + 2.0f * second;
}
"""

TWICE_VOLATILE = """
extern "C" __global__ void twice_volatile(const volatile float *a, float *out, int n)
{
    const int i = blockIdx.x * 64 + threadIdx.x;
    out[i] = a[i] + 2.0f * a[i];
}
"""

STORED_BETWEEN = """
extern "C" __global__ void stored_between(const float *a, float *out, int n)
{
    const int i = blockIdx.x * 64 + threadIdx.x;
    out[i] = a[i] + 1.0f;
    out[i] += a[i];
}
"""

STENCIL = """
extern "C" __global__ void stencil(const float *a, float *out, int n)
{
    const int column = threadIdx.x;
    float sum = 0.0f;
    #pragma unroll
    for (int row = 0; row < 4; row++)
        #pragma unroll
        for (int tap = 0; tap < 3; tap++)
            sum += __ldg(&a[min(blockIdx.x * 4 + row + tap, 4 * n + 1) * 64 + column]) * (row * 3 + tap);
    out[blockIdx.x * 64 + column] = sum;
}
"""

INVARIANT = """
extern "C" __global__ void invariant(const float *a, float *out, int n)
{
    const int i = blockIdx.x * 64 + threadIdx.x;
    #pragma unroll 1
    for (int j = 0; j < n; j++)
        out[i + j * 64] = __ldg(a + i) * j;
}
"""

NESTED = """
extern "C" __global__ void nested(const float *a, float *out, int n)
{
    const int i = blockIdx.x * 64 + threadIdx.x;
    float sum = 0.0f;
    #pragma unroll 1
    for (int j = 0; j < n; j++)
        #pragma unroll 1
        for (int k = 0; k < n; k++) {
            out[i + j * 64] = sum;
            sum += __ldg(a + i) * k + __ldg(a + i + j * 64);
        }
}
"""

CHANGING = """
extern "C" __global__ void changing(const float *a, float *out, int n)
{
    const int i = blockIdx.x * 64 + threadIdx.x;
    #pragma unroll 1
    for (int j = 0; j < n; j++)
        out[i + j * 64] = a[i] * j;
}
"""

AGAIN = """
extern "C" __global__ void again(const float *a, float *out, int n)
{
    const int i = blockIdx.x * 64 + threadIdx.x;
    float first, second = 0.0f;
    asm volatile("ld.global.nc.f32 %0, [%1];" : "=f"(first) : "l"(a + i));
    if (first > 0.5f) {
        asm volatile("ld.global.nc.f32 %0, [%1];" : "=f"(second) : "l"(a + i));
        #pragma unroll 1
        for (int j = 0; j < n; j++)
            second = __sinf(second);
    }
    out[i] = first + second;
}
"""

BLOCKS = 40
WARPS = BLOCKS * 2


def call_of(n: int) -> KernelCall:
    values = (np.arange(64 * (4 * BLOCKS + 4)) % 7 / 7).astype(np.float32)
    out = np.zeros(64 * (BLOCKS + 10), np.float32)
    return KernelCall(
        parameters=(Buffer(name="a", array=values), Buffer(name="out", array=out, output=True), np.int32(n))
    )


def profile_of_source(source: str, architecture: str, n: int) -> KernelProfile:
    return work_of(source, architecture, Launch(grid_x=BLOCKS, block_x=64), *call_of(n).parameters)


@pytest.mark.compiler
@pytest.mark.parametrize("architecture", ["sm_75", "sm_90"])
@pytest.mark.parametrize(
    ("source", "n", "in_ptx", "executed"),
    [
        (TWICE, 0, 2, 1),
        (STENCIL, BLOCKS, 4 * 3, 4 + 3 - 1),  # rows that overlap
        (INVARIANT, 10, 10, 1),  # iterations
        (NESTED, 6, 2 * 6 * 6, 2 * 6),  # out of the inner loop only
        (AGAIN, 2, 2, 1),  # every warp has a lane that branches
    ],
)
def test_loads_that_repeat_an_address_are_those_of_the_machine_code(
    source: str, n: int, in_ptx: int, executed: int, architecture: str
) -> None:
    profile = profile_of_source(source, architecture, n)
    assert profile.counts.global_load_requests == WARPS * executed
    assert profile.counts.global_load_sectors == WARPS * executed * 4  # 32 floats in a row
    assert f"{WARPS * in_ptx} global loads of 4 bytes in PTX" in profile.notes
    assert "disagree" not in profile.notes


@pytest.mark.compiler
@pytest.mark.parametrize("architecture", ["sm_75", "sm_90"])
@pytest.mark.parametrize(
    ("source", "n", "executed"),
    [(TWICE_VOLATILE, 0, 2), (CHANGING, 10, 10), (STORED_BETWEEN, 0, 2)],
)
def test_loads_that_must_read_again_stay(source: str, n: int, executed: int, architecture: str) -> None:
    profile = profile_of_source(source, architecture, n)
    assert profile.counts.global_load_requests == WARPS * executed
    assert profile.notes == ""


@pytest.mark.compiler
@pytest.mark.parametrize("source", [TWICE, STENCIL, INVARIANT, NESTED, AGAIN])
def test_kernels_without_repeated_loads_compute_the_same(source: str) -> None:
    name = source.split("__global__ void ")[1].split("(")[0]
    compiled = compile_kernel(CompileRequest(source=source, kernel=name, file_name="k.cu"), "sm_75")
    kernel, launch, call = parsed(compiled), Launch(grid_x=BLOCKS, block_x=64), call_of(5)
    fewer = without_repeated_loads(with_invariant_loads_outside(kernel), launch, call)
    before, after = (counted_run(version, launch, call) for version in (kernel, fewer))
    assert np.array_equal(before.outputs["out"], after.outputs["out"])
    assert after.counts.global_load_requests < before.counts.global_load_requests


@pytest.mark.compiler
def test_l1_is_asked_only_for_loads_that_are_executed() -> None:
    kernel = compile_kernel(CompileRequest(source=STENCIL, kernel="stencil", file_name="k.cu"), "sm_90")
    profile = executed_profile(kernel, Launch(grid_x=BLOCKS, block_x=64), call_of(BLOCKS), load_gpu("h200"))
    rows = 4 * BLOCKS + 2
    assert profile.counts.dram_read_bytes == rows * 64 * 4
    assert profile.counts.l2_read_sectors <= profile.counts.global_load_sectors == WARPS * 6 * 4
