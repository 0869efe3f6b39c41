"""Round trips of kernels that state which of their loads wait for which."""

from __future__ import annotations

import pytest

from perfmodel.compiler.compiled import CompiledKernel, compile_kernel
from perfmodel.compiler.request import CompileRequest
from perfmodel.machine_code.program import read_machine_code
from perfmodel.machine_code.schedule import copies_ahead, loads_in_flight

TOGETHER = """
extern "C" __global__ void kernel(const int *a, const int *b, const int *c, int *out)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = a[i] + b[i] + c[i];
}
"""
CHASE = """
extern "C" __global__ void kernel(const int *a, int *out)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = a[a[a[i]]];
}
"""
BARRIER = """
extern "C" __global__ void kernel(const int *a, volatile int *b, int *out)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const int before = a[i];
    __syncthreads();
    const int after = b[i];
    out[i] = before + after;
}
"""
LOOP = """
extern "C" __global__ void kernel(const int *a, int *out, int n)
{
    int sum = 0;
#pragma unroll 4
    for (int i = 0; i < n; i++)
        sum += a[i * 1024 + threadIdx.x];
    out[threadIdx.x] = sum;
}
"""
COPIES = """
extern "C" __global__ void kernel(const float *a, float *out)
{
    __shared__ float s[2][128];
    const int i = threadIdx.x;
    const unsigned first = (unsigned)__cvta_generic_to_shared(&s[0][i]), second = (unsigned)__cvta_generic_to_shared(&s[1][i]);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(first), "l"(a + i) : "memory");
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(first + 128), "l"(a + i + 32) : "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(second), "l"(a + i + 128) : "memory");
    asm volatile("cp.async.commit_group; cp.async.wait_group GROUPS;" ::: "memory");
    out[i] = s[0][i];
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(second), "l"(a + i + 256) : "memory");
    asm volatile("cp.async.commit_group; cp.async.wait_group 0;" ::: "memory");
    out[i + 128] = s[1][i];
}
"""


def compiled(source: str, architecture: str) -> CompiledKernel:
    request = CompileRequest(
        source=source, kernel="kernel", file_name="kernel.cu", architecture_specific="cp.async" in source
    )
    return compile_kernel(request, architecture)


@pytest.mark.compiler
@pytest.mark.parametrize("architecture", ["sm_70", "sm_75", "sm_80", "sm_90", "sm_120"])
@pytest.mark.parametrize(("source", "trips"), [(TOGETHER, [0, 0, 0]), (CHASE, [0, 1, 2]), (BARRIER, [0, 1])])
def test_a_load_that_waits_for_another_is_a_round_trip_of_its_own(
    source: str, trips: list[int], architecture: str
) -> None:
    assert list(loads_in_flight(read_machine_code(compiled(source, architecture))).values()) == trips


@pytest.mark.compiler
@pytest.mark.parametrize("architecture", ["sm_75", "sm_90"])
def test_the_rounds_of_a_loop_that_is_unrolled_share_a_round_trip(architecture: str) -> None:
    trips = list(loads_in_flight(read_machine_code(compiled(LOOP, architecture))).values())
    assert trips == sorted(trips)
    assert max(trips.count(trip) for trip in trips) >= 4


@pytest.mark.compiler
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
@pytest.mark.parametrize("groups", [0, 1])
def test_copies_before_a_wait_share_a_round_trip_and_run_as_far_ahead_as_it_says(
    groups: int, architecture: str
) -> None:
    code = read_machine_code(compiled(COPIES.replace("GROUPS", str(groups)), architecture))
    assert list(loads_in_flight(code).values()) == [0, 0, 0, 1]
    assert copies_ahead(code) == groups


@pytest.mark.compiler
def test_what_copies_nothing_does_not_run_ahead() -> None:
    assert copies_ahead(read_machine_code(compiled(CHASE, "sm_90"))) == 0
