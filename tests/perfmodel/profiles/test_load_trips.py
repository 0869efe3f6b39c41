"""Round trips of loads: from the machine code to the PTX, and from instructions to the sequence that a warp executes."""

from __future__ import annotations

import numpy as np
import pytest

from perfmodel.compiler.compiled import compile_kernel
from perfmodel.compiler.request import CompileRequest
from perfmodel.machine_code.code_profile import profile_of
from perfmodel.memory.trace import Trace
from perfmodel.profiles.matching.load_trips import load_trips
from perfmodel.program.instruction import Instruction, Space
from perfmodel.ptx.parse import parse_module
from perfmodel.simulator.access import Action, Site, WarpAccess
from perfmodel.simulator.plan import Plan

SOURCE = """
extern "C" __global__ void kernel(const int *a, const int *b, int *out)
{
    __shared__ int kept[128];
    kept[threadIdx.x] = a[threadIdx.x] + b[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = a[kept[127 - threadIdx.x]];
}
"""


@pytest.mark.compiler
def test_loads_of_the_ptx_have_the_round_trips_of_the_machine_code() -> None:
    request = CompileRequest(source=SOURCE, kernel="kernel", file_name="kernel.cu")
    turing, pascal = (compile_kernel(request, architecture) for architecture in ("sm_75", "sm_61"))
    kernel = parse_module(turing.ptx).kernel("kernel")
    trips = load_trips(kernel, profile_of(turing))
    numbered = {block.first + i: one for block in kernel.blocks for i, one in enumerate(block.instructions)}
    assert [(numbered[number].name, trip) for number, trip in sorted(trips.items())] == [
        ("ld", 0),
        ("ld", 0),
        ("ld", 1),
    ]
    assert load_trips(kernel, profile_of(pascal)) == {}
    assert load_trips(kernel, None) == {}


LOAD = Instruction("ld.global.f32", ("%f1", "[%rd1]"), None, False, 1, None)


def executed(instructions: list[int], warps: int = 1) -> Trace:
    """The loads of all warps of block 0, each of another line, one instruction after the other."""
    trace = Trace(np.zeros(0, np.int64))
    for n, instruction in enumerate(instructions):
        lane = np.arange(32 * warps)[None]
        addresses = (128 * (n * warps + lane // 32)).astype(np.uint64)
        plan = Plan(addresses, lane % 32 == 0, rows=1, threads=32 * warps)
        site = Site(n, instruction, LOAD, Action.LOAD, Space.GLOBAL, 4)
        trace.access(WarpAccess(site, plan, 0, np.zeros(1, np.int64), np.zeros(1, np.int64)))
    return trace


@pytest.mark.parametrize(
    ("instructions", "trips"),
    [
        ([3, 5, 9], [0, 0, 1]),  # 3 and 5 in flight together, then 9
        ([3, 5, 3, 5, 9], [0, 0, 1, 1, 2]),  # the same twice: a loop
        ([5, 5, 5], [0, 1, 2]),
        ([9, 3, 5], [0, 1, 1]),
        ([2, 4], [0, 1]),  # of which nothing is known: each for itself
        ([2, 2], [0, 1]),
    ],
)
def test_loads_in_flight_together_are_one_step_until_one_comes_again(instructions: list[int], trips: list[int]) -> None:
    found = executed(instructions, warps=2).lines({3: 0, 5: 0, 9: 1})
    for warp in (0, 1):
        assert found.trip[found.warp == warp].tolist() == trips


def test_loads_that_are_left_out_begin_no_round_trip() -> None:
    trace = executed([3, 7, 5])
    assert trace.lines({3: 0, 5: 0, 7: 1}).trip.tolist() == [0, 1, 2]
    assert trace.lines({3: 0, 5: 0, 7: 1}, without=frozenset({7})).trip.tolist() == [0, 0]
    assert trace.lines({3: 0, 5: 0, 7: 1}, only=frozenset({7})).trip.tolist() == [0]
    assert len(trace.lines({}, only=frozenset()).trip) == 0
