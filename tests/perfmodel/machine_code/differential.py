"""A kernel executed as PTX and as machine code on the same input."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfmodel.compiler.compiled import CompiledKernel, compile_kernel
from perfmodel.compiler.request import CompileRequest
from perfmodel.launch.launch import Buffer, KernelCall, Launch
from perfmodel.machine_code.program import MachineCode, read_machine_code
from perfmodel.profiles.totals import CountedRun, counted_run
from perfmodel.ptx.parse import Module, parse_module
from perfmodel.simulator.simulation import Mode, Simulation

ARCHITECTURES = ("sm_75", "sm_90")
EXECUTED_ARCHITECTURES = ("sm_70", "sm_75", "sm_80", "sm_86", "sm_87", "sm_89", "sm_90", "sm_100", "sm_120")
THREADS = 64


@cache
def compiled(source: str, architecture: str) -> tuple[CompiledKernel, Module, MachineCode]:
    """The kernel ``k`` of a source: compiled, its PTX parsed, its machine code read."""
    request = CompileRequest(
        source=source, kernel="k", file_name="k.cu", options=("-lineinfo",), architecture_specific=True
    )
    kernel = compile_kernel(request, architecture)
    return kernel, parse_module(kernel.ptx), read_machine_code(kernel)


def run_machine_code(
    source: str, architecture: str, launch: Launch, parameters: Sequence[Buffer | np.generic], **options: Any
) -> CountedRun:
    """The kernel's machine code executed; tracing must count the same."""
    code = compiled(source, architecture)[2]
    call = KernelCall(parameters=tuple(parameters))
    executed = counted_run(code, launch, call, **options)
    traced = counted_run(code, launch, call, mode=Mode.TRACE, **options)
    assert traced.visits.tolist() == executed.visits.tolist()
    assert traced.instructions == executed.instructions
    return executed


def run_ptx(source: str, architecture: str, launch: Launch, parameters: Sequence[Buffer | np.generic]) -> Simulation:
    """The kernel's PTX executed."""
    kernel, module, _ = compiled(source, architecture)
    return counted_run(module.kernel(kernel.kernel_name), launch, KernelCall(parameters=tuple(parameters)))


def elementwise(statement: str, declarations: str = "", element: str = "unsigned") -> str:
    """A kernel that computes ``r`` from ``x`` and ``y``, elements of two buffers."""
    return f"""
    #include <cuda_fp16.h>
    #include <cuda_bf16.h>
    {declarations}
    extern "C" __global__ void k({element} *out, const {element} *a, const {element} *b)
    {{
        const int i = blockIdx.x * blockDim.x + threadIdx.x;
        const {element} x = a[i], y = b[i];
        {element} r;
        {statement}
        out[i] = r;
    }}
    """


def outputs(source: str, architecture: str, a: NDArray[Any], b: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """What PTX and machine code of an element-wise kernel give."""
    launch = Launch(grid_x=-(-len(a) // THREADS), block_x=THREADS)
    padded = [np.resize(values, int(launch.grid_x) * THREADS) for values in (a, b)]
    parameters = (
        Buffer(name="out", array=np.zeros_like(padded[0]), output=True),
        Buffer(name="a", array=padded[0]),
        Buffer(name="b", array=padded[1]),
    )
    expected = run_ptx(source, architecture, launch, parameters).outputs["out"]
    actual = run_machine_code(source, architecture, launch, parameters).outputs["out"]
    return expected[: len(a)], actual[: len(a)]
