"""A launch on memory that is there before it: what it reads, writes and may not touch, as machine code and as PTX."""

from __future__ import annotations

import numpy as np
import pytest

from perfmodel.compiler.compiled import CompiledKernel, compile_kernel
from perfmodel.compiler.request import CompileRequest
from perfmodel.errors import SimulationError
from perfmodel.launch.launch import Allocation, DeviceMemory, KernelCall, Launch
from perfmodel.machine_code.program import read_machine_code
from perfmodel.ptx.parse import parse_module
from perfmodel.simulator.execution import Code, execute_code

pytestmark = pytest.mark.compiler

BASE = 0x2000_0000_0000
SOURCE = """
__constant__ float factor[4];
__device__ unsigned int calls;
extern "C" __global__ void scale(const float *in, float *out)
{
    out[threadIdx.x] = in[threadIdx.x] * factor[threadIdx.x % 4];
    atomicAdd(&calls, 1u);
}
"""


@pytest.fixture(scope="module")
def compiled() -> CompiledKernel:
    return compile_kernel(CompileRequest(source=SOURCE, kernel="scale", file_name="scale.cu"), "sm_90")


def code_of(compiled: CompiledKernel, form: str) -> Code:
    if form == "machine code":
        return read_machine_code(compiled)
    return parse_module(compiled.ptx).kernel("scale")


def call_on(data: np.ndarray, out: int) -> KernelCall:
    places = (("in", 0, 256), ("out", 512, 256), ("factor", 1024, 16), ("calls", 1040, 4))
    memory = DeviceMemory(
        address=BASE,
        data=data,
        allocations=tuple(Allocation(name=n, address=BASE + a, size_bytes=s) for n, a, s in places),
        variables={"factor": BASE + 1024, "calls": BASE + 1040},
    )
    return KernelCall(parameters=(np.uint64(BASE), np.uint64(BASE + out)), memory=memory)


@pytest.mark.parametrize("form", ["machine code", "PTX"])
def test_a_launch_reads_and_writes_the_memory_itself(compiled: CompiledKernel, form: str) -> None:
    data = np.zeros(2048, np.uint8)
    numbers = data.view(np.float32)
    numbers[:64] = np.arange(64)
    numbers[256:260] = [1.0, 10.0, 100.0, 1000.0]  # byte 1024: factor
    execute_code(code_of(compiled, form), Launch(grid_x=2, block_x=64), call_on(data, 512))
    assert numbers[128:192].tolist() == [k * 10.0 ** (k % 4) for k in range(64)]
    assert data[1040:1044].view(np.uint32)[0] == 2 * 64  # calls: every thread of both blocks adds one


@pytest.mark.parametrize("form", ["machine code", "PTX"])
def test_what_is_not_allocated_is_out_of_bounds(compiled: CompiledKernel, form: str) -> None:
    with pytest.raises(SimulationError, match=r"out-of-bounds access by thread \(33, 0, 0\).*past the end of 'out'"):
        execute_code(
            code_of(compiled, form), Launch(grid_x=1, block_x=64), call_on(np.zeros(2048, np.uint8), 512 + 124)
        )
