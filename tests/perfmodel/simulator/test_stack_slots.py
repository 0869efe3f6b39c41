"""Registers that the compiler spills are followed as registers: what lies beside an address need not be worked out."""

from __future__ import annotations

import numpy as np
import pytest

from perfmodel.compiler.compiled import CompiledKernel, compile_kernel
from perfmodel.compiler.user_kernel import signature_of, user_request
from perfmodel.ir.instruction import Space
from perfmodel.launch.arguments import kernel_call
from perfmodel.launch.launch import Launch
from perfmodel.machine_code.program import MachineCode
from perfmodel.profiles.blocks.launch_counts import count_launch
from perfmodel.profiles.executed_profile import executable
from perfmodel.simulator.execution import execute_code
from perfmodel.simulator.sass import program as sass_program
from perfmodel.simulator.sass.simulation import kept_in_trace
from perfmodel.sources.kernel_source import read_kernel_source

pytestmark = pytest.mark.compiler

THREADS = 40 * 32
"""Of more blocks than are executed wholly at once."""
SPILLING = """
__global__ void k(const float *a, const int *steps, float *b, int n)
{
    float sums[24];
#pragma unroll
    for (int j = 0; j < 24; ++j)
        sums[j] = 0;
    const int thread = blockIdx.x * blockDim.x + threadIdx.x;
    for (int i = 0; i < n; ++i)
#pragma unroll
        for (int j = 0; j < 24; ++j)
            sums[j] += a[(thread + i * 32 + j * 7) % 4096] * a[(thread * 3 + i + j) % 4096];
    for (int i = 0; i < STEPS; ++i)
#pragma unroll
        for (int j = 0; j < 24; ++j)
            b[24 * thread + j] += sums[j];
}
"""
INDEXED = """
__global__ void k(const float *a, const int *steps, float *b, int n)
{
    float kept[64];
    for (int j = 0; j < 64; ++j)
        kept[(j * n) & 63] = a[threadIdx.x + j];
    b[threadIdx.x] = kept[n & 63] + kept[steps[threadIdx.x] & 63];
}
"""


def compiled(source: str, steps: str) -> CompiledKernel:
    request = user_request(read_kernel_source(source), "k", {"STEPS": steps}, ["--maxrregcount=24"])
    return compile_kernel(request, "sm_90")


def code_of(kernel: CompiledKernel) -> MachineCode:
    code = executable(kernel)[0]
    assert isinstance(code, MachineCode)
    return code


def without_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sass_program, "with_stack_slots", lambda instructions, effects, blocks, reached: effects)


@pytest.mark.parametrize(("steps", "decides"), [("2", False), ("steps[thread]", True)])
def test_counts_are_those_of_all_that_lies_on_the_stack(
    monkeypatch: pytest.MonkeyPatch, steps: str, decides: bool
) -> None:
    kernel = compiled(SPILLING, steps)
    assert kernel.resources.spill_load_bytes > 0
    rng = np.random.default_rng(7)
    a, numbers = rng.standard_normal(4096).astype(np.float32), rng.integers(0, 3, THREADS, np.int32)
    b = np.zeros(24 * THREADS, np.float32)
    launch = Launch.of((THREADS // 32, 1, 1), (32, 1, 1))
    code = code_of(kernel)
    assert (Space.GLOBAL in kept_in_trace(code), Space.LOCAL in kept_in_trace(code)) == (decides, False)
    call = kernel_call(signature_of(kernel), [a, numbers, b, 5], {}, rng)
    found = count_launch(code, launch, call)
    done = execute_code(code, launch, call)

    without_slots(monkeypatch)
    plain = code_of(compiled(SPILLING, steps))
    plain.translations.clear()
    assert Space.LOCAL in kept_in_trace(plain)
    expected = count_launch(plain, launch, call)
    assert found.counts == expected.counts
    assert np.array_equal(found.visits, expected.visits)
    wanted = execute_code(plain, launch, call)
    for name, array in wanted.outputs.items():
        assert np.array_equal(done.outputs[name], array)
    thread = np.arange(THREADS)[:, None, None]
    i, j = np.arange(5)[None, :, None], np.arange(24)[None, None, :]
    sums = (a[(thread + i * 32 + j * 7) % 4096].astype(float) * a[(thread * 3 + i + j) % 4096]).sum(axis=1)
    times = numbers[:, None] if decides else 2
    result = next(array for array in done.outputs.values() if array.size == b.size)
    assert np.allclose(result.reshape(THREADS, 24), times * sums, rtol=1e-4, atol=1e-4)


def test_arrays_that_are_indexed_are_no_slots() -> None:
    code = code_of(compiled(INDEXED, "1"))
    assert any(i.name == "LDL" for i in code.instructions)
    effects = sass_program.MachineProgram(code, True).effects
    assert any(effect.reads_space is Space.LOCAL for effect in effects)
