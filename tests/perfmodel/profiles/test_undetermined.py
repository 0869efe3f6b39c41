"""What the program and its data do not fix is never called exact; kernels that an H200 counted are in `validation/data`."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

import numpy as np
import pytest

from perfmodel.compiler.compiled import compile_kernel
from perfmodel.compiler.request import CompileRequest
from perfmodel.launch.launch import Buffer, KernelCall, Launch
from perfmodel.profiles.blocks.launch_counts import LaunchCounts, count_launch
from perfmodel.profiles.executed_profile import executable
from perfmodel.simulator.undetermined import Cause

pytestmark = pytest.mark.compiler

SOURCE = files("perfmodel").joinpath("kernels/micro/verdict.cu").read_text()
BLOCKS, THREADS = 4, 256
LOOSE = {
    "loose_clock": Cause.CLOCK,
    "loose_sm_count": Cause.DRIVER,
    "loose_warp_slot": Cause.PLACE,
    "loose_last_block": Cause.ORDER,
    "loose_global_race": Cause.ORDER,
    "loose_shared_race": Cause.SHARED_RACE,
    "loose_plain_race": Cause.THREADS,
    "loose_unwritten": Cause.UNWRITTEN,
    "loose_wait": Cause.TRIES,
    "loose_approximation": Cause.APPROXIMATION,
    "parted_calls": Cause.MEETING,
    "parted_loops": Cause.BARRIER,
}


@cache
def counted(name: str, source: str = SOURCE) -> LaunchCounts:
    compiled = compile_kernel(
        CompileRequest(source=source, kernel=name, file_name="verdict.cu", options=("-lineinfo",)), "sm_90"
    )
    code, reason = executable(compiled)
    assert reason is None
    threads = BLOCKS * THREADS
    values = np.random.default_rng(0).integers(0, 32, threads).astype(np.int32)
    out = Buffer(name="out", array=np.zeros(2 * threads + 64, np.int32), output=True)
    call = KernelCall(parameters=(out, Buffer(name="in", array=values), np.int32(threads)))
    return count_launch(code, Launch(grid_x=BLOCKS, block_x=THREADS), call)


@pytest.mark.parametrize(("name", "cause"), LOOSE.items())
def test_what_something_else_decides_is_not_exact_and_says_where(name: str, cause: Cause) -> None:
    found = counted(name)
    assert not found.exact
    (note,) = [note for note in found.notes if note.startswith(cause.value)]
    if cause is not Cause.THREADS:
        line = int(re.findall(r"verdict\.cu:(\d+)", note)[0])
        kernel = [k for k, text in enumerate(SOURCE.splitlines(), 1) if text.startswith("KERNEL(") and k <= line][-1]
        called = cause is Cause.MEETING  # the function that stands before the kernel
        assert called or SOURCE.splitlines()[kernel - 1] == f"KERNEL({name})"


@pytest.mark.parametrize(
    "name",
    ["fixed_barrier", "fixed_own_writes", "fixed_reduction", "parted_tree",
     "parted_binary", "parted_tiles", "parted_division"],
)  # fmt: skip
def test_what_the_program_fixes_is_exact(name: str) -> None:
    found = counted(name)
    assert found.notes == ()
    assert found.exact


ENDING = """
extern "C" __global__ void k(int *out, const int *in, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    int x = in[i];
    if (x < 20) {
        for (int k = 0; k < n; k += 256) asm volatile("mad.lo.s32 %0, %0, 5, 3;" : "+r"(x));
        if (in[i] & 1) {
            for (int k = 0; k < n; k += 128) asm volatile("mad.lo.s32 %0, %0, 7, 3;" : "+r"(x));
            out[i] = x;
            asm volatile("exit;");
        }
        for (int k = 0; k < n; k += 64) asm volatile("mad.lo.s32 %0, %0, 9, 3;" : "+r"(x));
    }
    out[i] = x;
}
"""


def test_lanes_that_end_while_others_wait_for_them_are_not_exact() -> None:
    found = counted("k", ENDING)
    assert any(note.startswith(Cause.ENDING.value) for note in found.notes)
    assert not found.exact
