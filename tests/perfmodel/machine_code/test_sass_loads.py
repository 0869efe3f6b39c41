"""Round trips of kernels that state which of their loads wait for which."""

from __future__ import annotations

import pytest

from perfmodel.compiler.compiled import CompiledKernel, compile_kernel
from perfmodel.compiler.request import CompileRequest
from perfmodel.machine_code.program import read_machine_code
from perfmodel.machine_code.schedule import loads_in_flight

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


def compiled(source: str, architecture: str) -> CompiledKernel:
    return compile_kernel(CompileRequest(source=source, kernel="kernel", file_name="kernel.cu"), architecture)


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
