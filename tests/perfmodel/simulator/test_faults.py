"""Kernels with a planted fault: kind, block, thread and source line are found, and nothing else is reported."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from perfmodel.compiler.compiled import compile_kernel
from perfmodel.compiler.front_end import compile_to_ptx
from perfmodel.compiler.request import CompileRequest
from perfmodel.launch.launch import Buffer, KernelCall, Launch
from perfmodel.machine_code.program import MachineCode, read_machine_code
from perfmodel.ptx.parse import Module, parse_module
from perfmodel.simulator.faults import FaultError, FaultKind
from perfmodel.simulator.sass.simulation import simulate_machine_code
from perfmodel.simulator.simulation import Budget, Mode, Simulation, simulate

pytestmark = pytest.mark.compiler
FOLDER = Path(__file__).parent / "faulty"
OUT = Buffer(name="out", array=np.zeros(64, np.int32), output=True)


@cache
def module(name: str) -> Module:
    request = CompileRequest(
        source=(FOLDER / f"{name}.cu").read_text(), kernel=name, file_name=f"{name}.cu", options=("-lineinfo",)
    )
    return parse_module(compile_to_ptx(request, "compute_75").text)


def fault_line(name: str) -> int:
    lines = (FOLDER / f"{name}.cu").read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if "FAULT" in line)


@cache
def machine_code(name: str) -> MachineCode:
    request = CompileRequest(
        source=(FOLDER / f"{name}.cu").read_text(), kernel=name, file_name=f"{name}.cu", options=("-lineinfo",)
    )
    return read_machine_code(compile_kernel(request, "sm_75"))


def traced(name: str, threads: int, mode: Mode = Mode.TRACE, blocks: int = 1, shared: int = 0) -> Simulation:
    """The machine code, as far as it decides addresses and control flow."""
    launch = Launch(grid_x=blocks, block_x=threads, dynamic_shared_bytes=shared)
    inputs = [Buffer(name="in", array=np.array([1] * 20 + [-1] + [1] * 43, np.int32))]
    call = KernelCall(parameters=(OUT, *inputs[: len(machine_code(name).cubin.parameters) - 1]))
    return simulate_machine_code(machine_code(name), launch, call, mode=mode, check=True)


def run(name: str, threads: int, *inputs: Buffer, blocks: int = 1, shared: int = 0, check: bool = True) -> Simulation:
    launch = Launch(grid_x=blocks, block_x=threads, dynamic_shared_bytes=shared)
    return simulate(module(name).kernel(name), launch, KernelCall(parameters=(OUT, *inputs)), check=check)


RACE, BARRIER, LANE = FaultKind.SHARED_RACE, FaultKind.DIVERGENT_BARRIER, FaultKind.INACTIVE_LANE


@pytest.mark.parametrize(
    ("name", "threads", "kind", "thread"),
    [
        ("missing_barrier", 64, RACE, 0),  # thread 0 reads what thread 40 of the other warp wrote
        ("write_after_read", 64, RACE, 0),
        ("one_place", 32, RACE, 1),  # thread 0 comes first, thread 1 differs from it
        ("within_warp", 32, RACE, 0),
        ("uninitialised", 64, FaultKind.UNINITIALISED_SHARED, 63),
        ("divergent_barrier", 64, BARRIER, 1),
        ("ended_before_barrier", 64, BARRIER, 0),
        ("inactive_shuffle", 32, LANE, 12),  # 12 + 4 is the first lane outside the mask
        ("absent_member", 32, LANE, 0),
    ],
)
def test_collected_faults(name: str, threads: int, kind: FaultKind, thread: int) -> None:
    simulation = run(name, threads)
    assert simulation.completed
    assert {fault.kind for fault in simulation.faults} == {kind}
    (found,) = [fault for fault in simulation.faults if fault.source_line == fault_line(name)]
    assert (found.block, found.thread) == ((0, 0, 0), (thread, 0, 0))
    assert f"{name}.cu:{fault_line(name)}" in found.text


@pytest.mark.parametrize(
    ("name", "threads", "kind", "thread"),
    [
        ("missing_barrier", 64, RACE, 0),
        ("write_after_read", 64, RACE, 0),
        ("within_warp", 32, RACE, 0),
        ("uninitialised", 64, FaultKind.UNINITIALISED_SHARED, 63),
        ("divergent_barrier", 64, BARRIER, 1),
        ("ended_before_barrier", 64, BARRIER, 0),
        ("inactive_shuffle", 32, LANE, 12),
        ("absent_member", 32, LANE, 0),
    ],
)
def test_addresses_of_the_machine_code_show_the_same_faults(
    name: str, threads: int, kind: FaultKind, thread: int
) -> None:
    simulation = traced(name, threads)
    assert {fault.kind for fault in simulation.faults} == {kind}
    assert (fault_line(name), (thread, 0, 0)) in {(fault.source_line, fault.thread) for fault in simulation.faults}


def test_whether_lanes_write_the_same_to_one_place_is_seen_by_execution() -> None:
    assert traced("one_place", 32).undecided
    (fault,) = traced("one_place", 32, Mode.EXECUTE).faults
    assert (fault.kind, fault.thread) == (RACE, (1, 0, 0))


def test_fatal_faults_of_machine_code() -> None:
    out_of_bounds = traced("out_of_bounds", 32, blocks=3)  # block 2 reads in[64]
    assert [fault.kind for fault in out_of_bounds.faults] == [FaultKind.OUT_OF_BOUNDS]
    assert (out_of_bounds.completed, traced("failed_assertion", 32).faults[0].kind) == (False, FaultKind.TRAP)


@pytest.mark.parametrize("name", ["incomplete_barrier", "short_barrier"])
def test_a_counted_barrier_that_is_never_filled_ends_the_simulation(name: str) -> None:
    for simulation in (run(name, 64), traced(name, 64), traced(name, 64, Mode.EXECUTE)):
        (fault,) = simulation.faults
        assert (fault.kind, fault.thread, fault.source_line) == (FaultKind.DEADLOCK, (0, 0, 0), fault_line(name))
        assert not simulation.completed


def test_the_same_kernels_run_unchecked() -> None:
    simulation = run("missing_barrier", 64, check=False)
    assert simulation.faults == ()
    assert simulation.outputs["out"].tolist() == [(t + 40) % 64 for t in range(64)]


@pytest.mark.parametrize(
    ("name", "inputs", "shared", "kind", "block", "thread"),
    [
        (
            "out_of_bounds",
            [np.zeros(64, np.int32)],
            0,
            FaultKind.OUT_OF_BOUNDS,
            1,
            31,
        ),  # block 1, thread 31 reads in[64]
        ("shared_out_of_bounds", [], 128, FaultKind.OUT_OF_BOUNDS, 0, 16),  # byte 16 * 8 is the first beyond
        ("misaligned", [np.zeros(400, np.float32)], 0, FaultKind.MISALIGNED, 0, 5),
        ("incomplete_barrier", [], 0, FaultKind.DEADLOCK, 0, 0),
        ("failed_assertion", [np.array([1] * 20 + [-1] + [1] * 40, np.int32)], 0, FaultKind.TRAP, 0, 20),
    ],
)
def test_fatal_faults(
    name: str, inputs: list[np.ndarray], shared: int, kind: FaultKind, block: int, thread: int
) -> None:
    buffers = [Buffer(name="in", array=array) for array in inputs]
    simulation = run(name, 32, *buffers, blocks=2, shared=shared)
    assert not simulation.completed
    (fault,) = simulation.faults
    assert (fault.kind, fault.block, fault.thread) == (kind, (block, 0, 0), (thread, 0, 0))
    assert fault.source_line == fault_line(name)
    with pytest.raises(FaultError, match=kind.value):
        run(name, 32, *buffers, blocks=2, shared=shared, check=False)


def test_an_access_past_a_buffer_names_it() -> None:
    with pytest.raises(FaultError, match="0 bytes past the end of 'in'"):
        run("out_of_bounds", 32, Buffer(name="in", array=np.zeros(64, np.int32)), blocks=2, check=False)


def test_the_number_of_faults_is_capped() -> None:
    simulation = simulate(
        module("missing_barrier").kernel("missing_barrier"),
        Launch(grid_x=1, block_x=64),
        KernelCall(parameters=(OUT,)),
        check=True,
        budget=Budget(faults=0),
    )
    assert simulation.faults == ()


RACE_OF_ONE_BLOCK = """
extern "C" __global__ void one_races(int *out)
{
    __shared__ int s[64];
    s[threadIdx.x] = threadIdx.x;
    int place = blockIdx.x == 3 ? 63 - threadIdx.x : threadIdx.x;
    out[threadIdx.x] = s[place];
}
"""


def test_a_race_of_one_block_among_others_is_found() -> None:
    request = CompileRequest(source=RACE_OF_ONE_BLOCK, kernel="one_races", file_name="one.cu")
    code = read_machine_code(compile_kernel(request, "sm_75"))
    launch, call = Launch(grid_x=8, block_x=64), KernelCall(parameters=(OUT,))
    (race,) = simulate_machine_code(code, launch, call, check=True).faults
    assert race.kind is FaultKind.SHARED_RACE
    assert race.block == (3, 0, 0)
    others = np.array([0, 1, 2, 4, 5])
    assert not simulate_machine_code(code, launch, call, blocks=others, check=True).faults


ONE_BLOCK_COMES_LATE = """
extern "C" __global__ void late(const float *in, float *out)
{
    __shared__ float s[128];
    s[threadIdx.x] = 3.0f / in[blockIdx.x * 128 + threadIdx.x];  // of a denormal number, by a function
    __syncthreads();
    if (threadIdx.x == 0)
        out[blockIdx.x] = s[1] + s[33] + s[65] + s[97];
}
"""


def test_a_barrier_that_the_last_block_passes_alone_orders_its_accesses() -> None:
    request = CompileRequest(source=ONE_BLOCK_COMES_LATE, kernel="late", file_name="late.cu")
    code = read_machine_code(compile_kernel(request, "sm_90"))
    values = np.ones((8, 128), np.float32)
    values[0, [5, 70]] = 1e-40
    call = KernelCall(
        parameters=(Buffer(name="in", array=values.reshape(-1)), Buffer(name="out", array=np.zeros(8, np.float32)))
    )
    found = simulate_machine_code(code, Launch(grid_x=8, block_x=128), call, check=True)
    assert found.faults == ()
