"""The warp that a block waits for: what each warp visits, what it waits for, how long its schedule is."""

from __future__ import annotations

import numpy as np
import pytest

from perfmodel.compiler.compiled import CompiledKernel, compile_kernel
from perfmodel.compiler.request import CompileRequest
from perfmodel.launch.launch import Buffer, KernelCall, Launch
from perfmodel.machine_code.program import read_machine_code
from perfmodel.machine_code.schedule import lone_warp_cycles, round_trips_of_blocks
from perfmodel.profiles.blocks.launch_counts import count_launch
from perfmodel.profiles.executed_profile import executable
from perfmodel.profiles.slowest_warp import SlowestWarp, slowest_warp
from perfmodel.ptx.parse import parse_module
from perfmodel.simulator.simulation import Mode, simulate

pytestmark = pytest.mark.compiler

THREADS = 256
CHAIN = """
extern "C" __global__ void chain(float *out, const float *in, const int *next, int steps, int width)
{
    if (threadIdx.x >= width) return;          // the later warps end at once
    int at = threadIdx.x;
    float sum = 0.0f;
    for (int i = 0; i < steps; i++) { at = next[at]; sum += in[at]; }
    out[threadIdx.x] = sum;
}
"""


def chain(architecture: str = "sm_90") -> CompiledKernel:
    return compile_kernel(CompileRequest(source=CHAIN, kernel="chain", file_name="chain.cu"), architecture)


def call(steps: int, width: int, stride: int) -> KernelCall:
    size = 1 << 14
    following = (np.arange(size, dtype=np.int32) + stride) % size
    return KernelCall(
        parameters=(
            Buffer(name="out", array=np.zeros(THREADS, np.float32), output=True),
            Buffer(name="in", array=np.ones(size, np.float32)),
            Buffer(name="next", array=following.astype(np.int32)),
            np.int32(steps),
            np.int32(width),
        )
    )


def of_launch(kernel: CompiledKernel, arguments: KernelCall, blocks: int = 1) -> SlowestWarp:
    counted = count_launch(executable(kernel)[0], Launch(grid_x=blocks, block_x=THREADS), arguments)
    return slowest_warp(counted.kernel, counted.watched)


def followed(
    steps: int, width: int = THREADS, stride: int = 1024, architecture: str = "sm_90", blocks: int = 1
) -> SlowestWarp:
    kernel = chain(architecture)
    return of_launch(kernel, call(steps, width, stride), blocks)


@pytest.mark.parametrize("width", [32, 96, 256])
def test_visits_of_warps_add_up_to_those_of_the_block(width: int) -> None:
    kernel = chain()
    found = simulate(
        parse_module(kernel.ptx).kernel("chain"),
        Launch(block_x=THREADS, grid_x=3),
        call(5, width, 1024),
        mode=Mode.TRACE,
        visits_by_block=True,
        visits_by_warp=range(3),
    )
    assert found.visits_by_block is not None
    assert {visits.shape for visits in found.visits_by_warp.values()} == {(THREADS // 32, len(found.kernel.blocks))}
    assert [visits.sum(axis=0).tolist() for visits in found.visits_by_warp.values()] == found.visits_by_block.tolist()
    assert max(visits.max() for visits in found.visits_by_warp.values()) < found.visits.max()


@pytest.mark.parametrize("blocks", [3, 1000])
def test_blocks_that_run_beside_the_watched_one_change_nothing(blocks: int) -> None:
    assert followed(5, 96, blocks=blocks) == followed(5, 96)


def test_every_step_of_a_chain_of_loads_is_a_round_trip() -> None:
    """Strides of four kilobytes touch new sectors each time: the index, and the value behind it, which waits for the index.

    The loop is unrolled in PTX and again in machine code, so that the number of waits is between one for each pass
    of the PTX's loop and two for each step.
    """
    short, long = followed(4), followed(12)
    assert 1 <= short.round_trips <= 2 * 4 + 1
    assert 3 <= long.round_trips <= 2 * 12 + 1
    assert long.round_trips > short.round_trips
    assert long.cycles is not None
    assert short.cycles is not None
    assert long.cycles > short.cycles


def test_what_other_loads_of_the_block_have_touched_comes_from_l1() -> None:
    far, near = followed(12), followed(12, stride=0)
    assert near.round_trips <= 2  # the first step only: afterwards every lane reads the same again
    assert near.cycles == far.cycles  # both with L1's latency


def test_warps_that_end_at_once_do_not_shorten_the_slowest() -> None:
    assert followed(12, width=32) == followed(12, width=256)
    assert followed(12, width=1).cycles == followed(12, width=256).cycles


def test_cycles_are_at_least_one_for_each_instruction() -> None:
    code = read_machine_code(chain())
    assert (lone_warp_cycles(code) >= [len(block.instructions) for block in code.blocks]).all()
    assert round_trips_of_blocks(code).sum() >= 1


def test_code_that_is_not_decoded_has_trips_of_its_ptx_and_no_cycles() -> None:
    found = followed(4, architecture="sm_61")
    assert np.isnan(found.cycles)
    assert 1 <= found.round_trips <= 2 * 4 + 1


COPIES = """
extern "C" __global__ void copies(float *out, const float *in, int slabs)
{
    __shared__ __align__(16) float words[AHEAD + 1][4 * 256];
    const unsigned to = (unsigned)__cvta_generic_to_shared(&words[0][4 * threadIdx.x]);
    const float *from = in + 4 * threadIdx.x;
    const auto fetch = [&](int slab) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to + slab % (AHEAD + 1) * 4096), "l"(from + slab * 1024));
        asm volatile("cp.async.commit_group;");
    };
    for (int slab = 0; slab < AHEAD; slab++) fetch(slab);
    float sum = 0.0f;
#pragma unroll 1
    for (int slab = 0; slab < slabs; slab++) {
        asm volatile("cp.async.wait_group %0;" ::"n"(AHEAD - 1) : "memory");
        __syncthreads();
        sum += words[slab % (AHEAD + 1)][threadIdx.x];
        fetch(slab + AHEAD);
    }
    out[threadIdx.x] = sum;
}
"""
REPEATED = """
extern "C" __global__ void repeated(float *out, const float *in, int steps)
{
    float sum = 0.0f;
#pragma unroll 1
    for (int i = 0; i < steps; i++)
        sum += LOAD(in + threadIdx.x);
    out[threadIdx.x] = sum;
}
"""


def slowest_of(source: str, name: str, repeats: int, **defines: str | int) -> SlowestWarp:
    """The slowest warp of a block of 256 threads that reads one buffer, ``repeats`` times or slabs."""
    request = CompileRequest(
        source=source, kernel=name, file_name=f"{name}.cu", defines=tuple(defines.items()), architecture_specific=True
    )
    kernel = compile_kernel(request, "sm_90")
    buffers = (
        Buffer(name="out", array=np.zeros(THREADS, np.float32), output=True),
        Buffer(name="in", array=np.ones(1024 * 64, np.float32)),
    )
    given = KernelCall(parameters=(*buffers, np.int32(repeats)))
    return of_launch(kernel, given)


@pytest.mark.parametrize("ahead", [1, 2, 4])
def test_waits_for_copies_share_the_latency_of_the_groups_that_may_run_on(ahead: int) -> None:
    found = slowest_of(COPIES, "copies", 24, AHEAD=ahead)
    assert found.copy_round_trips == 24 / ahead
    assert found.round_trips == 0


def test_loads_past_l1_wait_for_l2_each_time() -> None:
    """A load that L1 may answer waits for L2 at its first step alone, one that passes L1 by at each step."""
    assert slowest_of(REPEATED, "repeated", 16, LOAD="*").round_trips <= 1
    assert slowest_of(REPEATED, "repeated", 16, LOAD="*(const volatile float *)").round_trips >= 4


@pytest.mark.parametrize(("load", "share"), [("*", 0.0), ("__ldg", 1.0), ("__ldg(in + 64 + steps) + *", 0.5)])
def test_the_share_of_read_only_loads_is_of_loads_as_often_as_they_are_executed(load: str, share: float) -> None:
    assert slowest_of(REPEATED, "repeated", 16, LOAD=load).read_only_share == share
