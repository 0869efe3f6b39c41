"""A kernel compiled and executed for its counts, and the architectures that tests of executed instructions take."""

from __future__ import annotations

import numpy as np

from perfmodel.compiler.compiled import compile_kernel
from perfmodel.compiler.request import CompileRequest
from perfmodel.launch.launch import Buffer, KernelCall, Launch
from perfmodel.machine_code.opcodes import SASS_CLASSES
from perfmodel.profiles.executed_profile import executed_profile
from perfmodel.profiles.kernel_profile import KernelProfile

ARCHITECTURES = ("sm_70", "sm_75", "sm_80", "sm_86", "sm_90", "sm_100")

MEMORY_REQUESTS = (
    "global_load_requests",
    "global_store_requests",
    "shared_load_requests",
    "shared_store_requests",
    "async_copy_requests",
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

UNROLLED = """
extern "C" __global__ void unrolled(const float *a, float *out, int n)
{
    float sum = 0.0f;
    for (int i = 0; i < n; i++)
        sum = sum * a[i * 64 + threadIdx.x] + 1.0f;
    out[blockIdx.x * 64 + threadIdx.x] = sum;
}
"""


def work_of(source: str, architecture: str, launch: Launch, *arguments: np.generic | Buffer) -> KernelProfile:
    name = source.split("__global__ void ")[1].split("(")[0]
    kernel = compile_kernel(CompileRequest(source=source, kernel=name, file_name=f"{name}.cu"), architecture)
    return executed_profile(kernel, launch, KernelCall(parameters=arguments))


def floats(name: str, number: int, *, output: bool = False) -> Buffer:
    return Buffer(name=name, array=np.zeros(number, np.float32), output=output)


def classes_sum_to_all(profile: KernelProfile) -> bool:
    names = [name for name in SASS_CLASSES if hasattr(profile.counts, name)]
    requests = sum(float(getattr(profile.counts, name)) for name in MEMORY_REQUESTS)
    classes = sum(float(getattr(profile.counts, name)) for name in names)
    return float(profile.counts.warp_instructions) == classes + requests + float(profile.counts.constant_load_requests)
