"""Counts, control flow, faults and refusals of executed machine code."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from perfmodel.core.counts import INSTRUCTION_CLASSES
from perfmodel.errors import SimulationError
from perfmodel.launch.launch import Buffer, KernelCall, Launch
from perfmodel.machine_code.program import MachineCode, Transfer, read_machine_code
from perfmodel.prediction.analyze import analyze
from perfmodel.profiles.totals import CountedRun, counted_run
from perfmodel.simulator.execution import executions
from perfmodel.simulator.faults import FaultError, FaultKind
from perfmodel.simulator.sass.program import EXECUTED

from .differential import EXECUTED_ARCHITECTURES, compiled, run_machine_code, run_ptx

pytestmark = pytest.mark.compiler

STRAIGHT = 'extern "C" __global__ void k(float *out) { out[blockIdx.x * 64 + threadIdx.x] = 2.0f * threadIdx.x; }'

TRIPS = """
extern "C" __global__ void k(float *out, const int *trips)
{
    float sum = 0.0f;
    #pragma unroll 1
    for (int i = 0; i < trips[threadIdx.x]; i++)
        sum = sum * 0.5f + rsqrtf(sum + 1.0f);
    out[threadIdx.x] = sum;
}
"""

SWITCH = """
extern "C" __global__ void k(int *out, const int *in)
{
    int v = in[threadIdx.x];
    switch (v & 7) {
    case 0: v = v * 3 + 1; break;
    case 1: v ^= 0x55; break;
    case 2: v = -v;
    case 3: v <<= 2; break;
    case 4: v = v / 7; break;
    case 5: out[threadIdx.x] = 9; return;
    case 6: v += in[(threadIdx.x + 1) & 63]; break;
    default: v |= 0xff00;
    }
    out[threadIdx.x] = v;
}
"""

JUMPS = """
extern "C" __global__ void k(int *out, const int *in)
{
    int v;
    asm volatile("{\\n\\t"
        "to: .branchtargets A, B, C, D;\\n\\t"
        "brx.idx %1, to;\\n\\t"
        "A: st.global.u32 [%2], 7; mov.u32 %0, 7; bra E;\\n\\t"
        "B: st.global.u32 [%2], 1; mov.u32 %0, 107; bra E;\\n\\t"
        "C: st.global.u32 [%2], 2; mov.u32 %0, 207; bra E;\\n\\t"
        "D: st.global.u32 [%2], 3; mov.u32 %0, 307;\\n\\t"
        "E: }" : "=r"(v) : "r"(in[threadIdx.x]), "l"(out + threadIdx.x) : "memory");
    out[threadIdx.x] = v;
}
"""

APART = """
extern "C" __global__ void k(int *out, const int *in)
{
    __shared__ int s[64];
    const int t = threadIdx.x;
    int x = in[t];
    if (t < 8)
        for (int d = 1; d < 8; d *= 2) {
            const int y = __shfl_up_sync(0xff, x, d, 8);
            x += t >= d ? y : 0;
        }
    s[t] = x;
    __syncthreads();
    out[t] = s[63 - t];
}
"""

NESTED = """
__device__ __noinline__ float root(float x) { return sqrtf(x) / (x + 0.25f); }
extern "C" __global__ void k(float *out, const int *in)
{
    __shared__ float s[64];
    const int t = threadIdx.x, v = in[t];
    float r = 0.0f;
    for (int i = 0; i < (v & 3) + 1; i++) {
        if (v & 4)
            r += root((float)(v + i));
        else
            for (int j = 0; j < ((v >> 3) & 3); j++) {
                if (((i + j + v) & 7) == 5) break;
                r += root((float)(j + 1)) * 0.5f;
            }
        __syncwarp();
    }
    s[t] = r;
    __syncthreads();
    if (v & 8) r += __shfl_xor_sync(__activemask(), r, 0);
    out[t] = r + s[63 - t];
}
"""

COPIES = """
#include <cuda_pipeline.h>
extern "C" __global__ void k(float *out, const float *in, int n)
{
    __shared__ float4 s[64];
    const int t = threadIdx.x;
    __pipeline_memcpy_async(&s[t], (const float4 *)in + (t * 5 & 63), 16, t < n ? 0 : 16);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    const float4 v = s[63 - t];
    out[t] = v.x + v.y * 2.0f + v.z * 3.0f + v.w * 4.0f;
}
"""

ATOMICS = """
extern "C" __global__ void k(unsigned *out, const unsigned *in)
{
    const unsigned v = in[blockIdx.x * 64 + threadIdx.x];
    atomicAdd(&out[v & 7], v);
    atomicMax(&out[8 + (v & 3)], v);
    atomicXor(&out[12], v);
    atomicAdd((float *)&out[13], (float)(v & 15));
    unsigned old = out[14], seen;
    do { seen = old; old = atomicCAS(&out[14], seen, seen + (v & 1)); } while (seen != old);
    atomicAdd((unsigned long long *)&out[16], (unsigned long long)v << 20);
}
"""


GENERIC_ATOMICS = """
extern "C" __global__ void k(unsigned *out, const unsigned *in, int shared)
{
    __shared__ unsigned s[64];
    s[threadIdx.x] = 0;
    __syncthreads();
    unsigned *to = shared ? s : out;
    for (int k = 0; k < TIMES; k++)
        atomicAdd(CAST&to[in[threadIdx.x] & MASK], in[threadIdx.x]);
    __syncthreads();
    if (shared)
        out[threadIdx.x] = s[threadIdx.x];
}
"""


def _generic_atomics(cast: str, mask: int, times: int) -> str:
    return GENERIC_ATOMICS.replace("CAST", cast).replace("MASK", f"{mask}").replace("TIMES", f"{times}")


def _blank(count: int, dtype: type[np.generic]) -> Buffer:
    return Buffer(name="out", array=np.zeros(count, dtype), output=True)


def _executions(simulation: CountedRun, opcode: str) -> int:
    """Warp executions of all instructions of an opcode."""
    code = simulation.kernel
    assert isinstance(code, MachineCode)
    times = executions(code, simulation.visits).tolist()
    return sum(n for i, n in zip(code.instructions, times, strict=True) if i.opcode.startswith(opcode))


@pytest.mark.parametrize("architecture", EXECUTED_ARCHITECTURES)
def test_straight_code_issues_every_instruction_once_a_warp(architecture: str) -> None:
    code = compiled(STRAIGHT, architecture)[2]
    length = next(k for k, i in enumerate(code.instructions) if i.name == "EXIT") + 1
    simulation = run_machine_code(STRAIGHT, architecture, Launch(grid_x=3, block_x=64), [_blank(192, np.float32)])
    assert simulation.counts.warp_instructions == length * 3 * 2  # blocks × warps
    assert simulation.counts.global_store_requests == 3 * 2
    assert simulation.counts.global_store_sectors == 3 * 2 * 4
    np.testing.assert_array_equal(simulation.outputs["out"], np.tile(2.0 * np.arange(64, dtype=np.float32), 3))


@pytest.mark.parametrize("architecture", ["sm_75", "sm_90"])
def test_a_divergent_loop_runs_as_often_as_its_longest_lane(architecture: str) -> None:
    trips = np.random.default_rng(3).integers(0, 12, 64).astype(np.int32)
    parameters = [_blank(64, np.float32), Buffer(name="trips", array=trips)]
    simulation = run_machine_code(TRIPS, architecture, Launch(grid_x=1, block_x=64), parameters)
    assert _executions(simulation, "MUFU.RSQ") == trips[:32].max() + trips[32:].max()
    assert simulation.diverged


@pytest.mark.parametrize("architecture", ["sm_75", "sm_90"])
@pytest.mark.parametrize("source", [SWITCH, NESTED], ids=["switch", "nested"])
def test_control_flow_gives_the_results_of_ptx(source: str, architecture: str) -> None:
    values = np.random.default_rng(4).integers(0, 1000, 64).astype(np.int32)
    dtype = np.int32 if source is SWITCH else np.float32
    parameters = [_blank(64, dtype), Buffer(name="in", array=values)]
    launch = Launch(grid_x=1, block_x=64)
    expected = run_ptx(source, architecture, launch, parameters).outputs["out"]
    np.testing.assert_array_equal(run_machine_code(source, architecture, launch, parameters).outputs["out"], expected)


def test_an_indirect_jump_is_issued_for_each_place_that_lanes_go_to() -> None:
    values = np.random.default_rng(4).integers(0, 4, 96).astype(np.int32)
    values[:32], values[32:64] = 3, values[32:64] & 1  # one place, two, and all four
    parameters = [_blank(96, np.int32), Buffer(name="in", array=values)]
    simulation = run_machine_code(JUMPS, "sm_90", Launch(grid_x=1, block_x=96), parameters)
    np.testing.assert_array_equal(simulation.outputs["out"], values * 100 + 7)
    assert _executions(simulation, "BRX") == 1 + 2 + 4


def test_lanes_that_wait_for_their_warp_are_issued_again() -> None:
    parameters = [_blank(64, np.int32), Buffer(name="in", array=np.arange(64, dtype=np.int32))]
    simulation = run_machine_code(APART, "sm_90", Launch(grid_x=1, block_x=64), parameters)
    # of the first warp 24 lanes come, then 8, and those that waited once more; the second warp comes together
    assert _executions(simulation, "WARPSYNC.ALL") == (1 + 1 + 1) + 1


TOGETHER = """
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
extern "C" __global__ void k(int *out, const int *in)
{
    const auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    const int t = threadIdx.x, x = in[t];
    const auto half = cg::binary_partition(warp, x < 12);
    if (x < 12) out[t] = cg::reduce(half, x, cg::plus<int>());
    else out[t] = -cg::reduce(half, x, cg::plus<int>());
}
"""


def test_groups_that_a_branch_parts_reduce_by_themselves() -> None:
    values = np.arange(64, dtype=np.int32) % 32
    parameters = [_blank(64, np.int32), Buffer(name="in", array=values)]
    simulation = run_machine_code(TOGETHER, "sm_90", Launch(grid_x=1, block_x=64), parameters)
    expected = np.where(values < 12, values[values < 12][:12].sum(), -values[:32][values[:32] >= 12].sum())
    np.testing.assert_array_equal(simulation.outputs["out"], expected)
    # all lanes of a group are there, so that none takes the way of groups whose lanes have been parted
    assert _executions(simulation, "WARPSYNC.COLLECTIVE") == 0
    assert _executions(simulation, "REDUX.SUM") == 2 * 2


IN_BRANCHES = """
extern "C" __global__ void k(int *out, const int *in)
{
    __shared__ int s[64];
    const int t = threadIdx.x, x = in[t];
    s[t] = x;
    switch (x & 3) {
    case 0: s[t] += 5; asm volatile("" ::: "memory"); __syncwarp(); s[t] *= 3; break;
    case 1: s[t] += 7; asm volatile("" ::: "memory"); __syncwarp(); s[t] *= 4; break;
    default: __syncwarp(); s[t] *= 9; break;
    }
    out[t] = s[t];
}
"""


def test_lanes_meet_at_barriers_of_their_warp_in_several_branches() -> None:
    values = np.random.default_rng(8).integers(0, 100, 64).astype(np.int32)
    parameters = [_blank(64, np.int32), Buffer(name="in", array=values)]
    simulation = run_machine_code(IN_BRANCHES, "sm_90", Launch(grid_x=1, block_x=64), parameters)
    expected = np.select([values & 3 == 0, values & 3 == 1], [(values + 5) * 3, (values + 7) * 4], values * 9)
    np.testing.assert_array_equal(simulation.outputs["out"], expected)
    assert _executions(simulation, "EXIT") == 2  # they go on together
    assert not simulation.faults


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
def test_asynchronous_copies(architecture: str) -> None:
    values = np.random.default_rng(5).standard_normal(256).astype(np.float32)
    parameters = [_blank(64, np.float32), Buffer(name="in", array=values), np.int32(40)]
    launch = Launch(grid_x=1, block_x=64)
    expected = run_ptx(COPIES, architecture, launch, parameters)
    simulation = run_machine_code(COPIES, architecture, launch, parameters)
    np.testing.assert_array_equal(simulation.outputs["out"], expected.outputs["out"])
    assert simulation.counts.async_copy_read_sectors == expected.counts.async_copy_read_sectors > 0


@pytest.mark.parametrize("architecture", ["sm_75", "sm_90"])
def test_atomics(architecture: str) -> None:
    values = np.random.default_rng(6).integers(0, 1000, 128).astype(np.uint32)
    parameters = [_blank(32, np.uint32), Buffer(name="in", array=values)]
    launch = Launch(grid_x=2, block_x=64)
    expected = run_ptx(ATOMICS, architecture, launch, parameters).outputs["out"]
    np.testing.assert_array_equal(run_machine_code(ATOMICS, architecture, launch, parameters).outputs["out"], expected)


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90", "sm_100"])
def test_barriers_with_computed_numbers(architecture: str) -> None:
    source = """
extern "C" __global__ void k(int *out, const int *in)
{
    __shared__ int s[128];
    const int t = threadIdx.x, pair = t / 64;
    s[t] = in[t];
    asm volatile("bar.sync %0, %1;" :: "r"(1 + pair), "r"(in[0] + 64) : "memory");
    const int other = s[t ^ 32];
    asm volatile("bar.sync %0;" :: "r"(in[0]) : "memory");
    out[t] = other + 1000 * s[127 - t];
}
"""
    values = np.arange(128, dtype=np.int32)
    parameters = [_blank(128, np.int32), Buffer(name="in", array=values)]
    simulation = run_machine_code(source, architecture, Launch(grid_x=2, block_x=128), parameters)
    np.testing.assert_array_equal(simulation.outputs["out"], (values ^ 32) + 1000 * (127 - values))


@pytest.mark.parametrize("architecture", ["sm_75", "sm_90", "sm_100"])
@pytest.mark.parametrize("cast", ["", "(float *)", "(unsigned long long *)"])
def test_generic_atomics_on_shared_memory(cast: str, architecture: str) -> None:
    values = np.arange(64, dtype=np.uint32) * 6
    source = _generic_atomics(cast, mask=14, times=1)
    launch = Launch(grid_x=1, block_x=64)
    for shared in (0, 1):
        parameters = [_blank(64, np.uint32), Buffer(name="in", array=values), np.int32(shared)]
        expected = run_ptx(source, architecture, launch, parameters).outputs["out"]
        simulation = run_machine_code(source, architecture, launch, parameters)
        np.testing.assert_array_equal(simulation.outputs["out"], expected)
        counts = simulation.counts
        memory = ("global_load", "global_store", "global_reduction", "shared_load", "shared_store")
        requests = sum(getattr(counts, f"{name}_requests") for name in memory)
        assert requests + sum(getattr(counts, name) for name in INSTRUCTION_CLASSES) == counts.warp_instructions
        if not cast:
            # lanes of a warp share 8 words: four wavefronts, in shared memory
            on_shared = (counts.atomics, counts.shared_atomic_wavefronts, counts.global_reduction_requests)
            assert on_shared == ((2, 2 * 4, 0) if shared else (0, 0, 2))


SUMS_OF_WARPS = """
extern "C" __global__ void k(float *out) {
    __shared__ float sums[64];
    if (threadIdx.x < 64) sums[threadIdx.x] = 0.0f;
    __syncthreads();
    atomicAdd(&sums[threadIdx.x % WORDS], 1.0f);
    __syncthreads();
    if (threadIdx.x < 64) out[threadIdx.x] = sums[threadIdx.x];
}
"""


@pytest.mark.parametrize("words", [32, 64])
def test_warps_that_add_floats_to_the_same_words_do_not_spoil_each_others_tries(words: int) -> None:
    source = SUMS_OF_WARPS.replace("WORDS", str(words))
    launch = Launch(grid_x=1, block_x=256)
    simulation = run_machine_code(source, "sm_90", launch, [_blank(64, np.float32)], check=True)
    assert simulation.outputs["out"].tolist() == [256 / words] * words + [0.0] * (64 - words)
    # each of 8 warps loads and swaps once; two warps load the sums
    assert (simulation.counts.shared_load_requests, simulation.counts.atomics) == (8 + 2, 8)
    assert not simulation.faults  # the load before a swap is part of an atomic operation


def test_an_addition_of_floats_races_with_a_store_that_no_barrier_parts_from_it() -> None:
    others = SUMS_OF_WARPS.replace("x < 64) sums[threadIdx.x]", "x >= 192) sums[threadIdx.x - 192]", 1)
    source = others.replace("__syncthreads();", "", 1).replace("WORDS", "64")
    simulation = run_machine_code(source, "sm_90", Launch(grid_x=1, block_x=256), [_blank(64, np.float32)], check=True)
    assert {fault.kind for fault in simulation.faults} == {FaultKind.SHARED_RACE}


def test_an_addition_of_floats_in_shared_memory_compares_once_for_each_lane() -> None:
    source = """
extern "C" __global__ void k(float *out) {
    __shared__ float sum;
    if (threadIdx.x == 0) sum = 0.0f;
    __syncthreads();
    atomicAdd(&sum, 1.0f);
    __syncthreads();
    out[threadIdx.x] = sum;
}
"""
    simulation = run_machine_code(source, "sm_90", Launch(grid_x=1, block_x=32), [_blank(32, np.float32)])
    assert simulation.outputs["out"].tolist() == [32.0] * 32
    # one lane after the other succeeds; each try of the others is answered with it, in two wavefronts (counted on an H200)
    assert (simulation.counts.atomics, simulation.counts.shared_atomic_wavefronts) == (32, 32 * 2)


def test_a_generic_atomic_takes_what_the_memory_takes_that_it_reaches() -> None:
    def predicted_s(source: str) -> float:
        arguments = ["u32[65536]", "u32[64]=arange", 1]
        found = analyze(source, gpu="h200", kernel="k", grid=1024, block=64, args=arguments)
        return float(found.prediction.time.predicted_s)

    generic = _generic_atomics("", mask=1, times=64)  # 16 lanes of a warp meet at a word: the data pipe is busy
    shared = generic.replace("shared ? s : out", "s")
    assert predicted_s(generic) == pytest.approx(predicted_s(shared), rel=0.15)


@pytest.mark.parametrize("architecture", ["sm_75", "sm_90"])
def test_the_carry_of_a_long_difference_with_a_shifted_number(architecture: str) -> None:
    source = """
extern "C" __global__ void k(unsigned long long *out, const unsigned long long *in)
{
    out[threadIdx.x] = in[threadIdx.x] - (in[threadIdx.x + 32] << 30);
}
"""
    values = np.random.default_rng(7).integers(0, 2**40, 64).astype(np.uint64)
    values[32:40] = 0  # nothing is borrowed where nothing is taken away
    parameters = [_blank(32, np.uint64), Buffer(name="in", array=values)]
    simulation = run_machine_code(source, architecture, Launch(grid_x=1, block_x=32), parameters)
    np.testing.assert_array_equal(simulation.outputs["out"], values[:32] - (values[32:] << np.uint64(30)))


def test_instructions_name_their_source_lines() -> None:
    simulation = run_machine_code(STRAIGHT, "sm_90", Launch(grid_x=1, block_x=32), [_blank(64, np.float32)])
    assert isinstance(simulation.kernel, MachineCode)
    assert {i.source.file for i in simulation.kernel.instructions if i.source} == {"k.cu"}
    assert all(count.source is not None for count in simulation.instructions)


def test_an_access_out_of_bounds_names_the_instruction() -> None:
    with pytest.raises(FaultError, match=r"STG.*out-of-bounds.*thread \(32, 0, 0\)") as caught:
        run_machine_code(STRAIGHT, "sm_90", Launch(grid_x=1, block_x=64), [_blank(32, np.float32)])
    assert caught.value.fault.kind is FaultKind.OUT_OF_BOUNDS


def test_an_unknown_opcode_is_refused_by_name() -> None:
    code = compiled(STRAIGHT, "sm_90")[2]
    strange = tuple(replace(i, opcode="UTCHMMA") if i.name == "STG" else i for i in code.instructions)
    with pytest.raises(SimulationError, match=r"opcode UTCHMMA is not executed"):
        counted_run(
            replace(code, instructions=strange),
            Launch(grid_x=1, block_x=32),
            KernelCall(parameters=(_blank(64, np.float32),)),
        )


def test_what_nvdisasm_does_not_read_is_refused() -> None:
    kernel = compiled(STRAIGHT, "sm_75")[0]
    with pytest.raises(SimulationError, match="executed from sm_70 on"):
        read_machine_code(replace(kernel, architecture="sm_61"))


def test_a_call_returns_behind_itself() -> None:
    blocks = compiled(NESTED, "sm_90")[2].blocks
    calls = [block for block in blocks if block.transfer is Transfer.CALL]
    behind = {block.index + 1 for block in calls}
    returns = [block for block in blocks if block.transfer is Transfer.RETURN]
    assert returns
    assert set().union(*(block.successors for block in returns)) <= behind


def test_common_opcodes_are_executed() -> None:
    common = (
        "FFMA IMAD IADD3 ISETP FADD LDG BRA LEA FMUL LDS LOP3 NOP MOV SHF VIADD LDC ULDC STS STG BSYNC BSSY MUFU DFMA"
    )
    common += (
        " UMOV FSETP SHFL S2R FSEL HFMA2 CS2R PLOP3 EXIT PRMT UIADD3 USHF DADD BAR I2F CALL DMUL SEL S2UR ULOP3 UISETP"
    )
    common += (
        " UPRMT F2I FMNMX WARPSYNC HADD2 ENDCOLLECTIVE IABS UIMAD ULEA FCHK I2FP LDGSTS R2UR F2FP DSETP RET LDL VIMNMX"
    )
    common += (
        " STL VIADDMNMX F2F R2P REDG ATOMS USEL LDGDEPBAR DEPBAR BREAK P2R FRND LEPC VOTEU UFLO REDUX HSET2 ATOMG FLO"
    )
    common += " POPC HMUL2 VIMNMX3 BPT HMMA IMMA DMMA LDSM"
    assert set(common.split()) <= EXECUTED


VOTED = """
extern "C" __global__ void k(float *out, const int *in, int n)
{
    const int t = threadIdx.x;
    float sum = 0.0f;
    #pragma unroll 1
    for (int c = 0; c < n; c++) {
        __shared__ float s[64];
        s[t] = in[c * 64 + t];
        __syncthreads();
        if (in[t] & 1) {
            float v = s[63 - t] * s[t] - 3.0f;
            v = v / (1.0f + v * v);
            if (in[t] & 2) out[64 + c * 64 + t] = v;
            sum += v;
        }
        __syncthreads();
    }
    out[t] = sum;
}
"""


@pytest.mark.parametrize("architecture", ["sm_90", "sm_100", "sm_120"])
def test_branches_that_need_all_lanes(architecture: str) -> None:
    values = np.random.default_rng(7).integers(0, 100, 192).astype(np.int32)
    parameters = [_blank(256, np.float32), Buffer(name="in", array=values), np.int32(3)]
    launch = Launch(grid_x=1, block_x=64)
    expected = run_ptx(VOTED, architecture, launch, parameters).outputs["out"]
    np.testing.assert_array_equal(run_machine_code(VOTED, architecture, launch, parameters).outputs["out"], expected)


LEFT_EARLY = """
__device__ __noinline__ void look(int *out, const int *in, int limit, int place)
{
    const int first = in[place];
    if (first == 0) return;
    if (limit) {
        const int second = in[place + 1];
        if (second == 0) return;
        out[place] = first * second;
        return;
    }
    int low = 0, high = 255;
    while (low <= high) {
        const int middle = (low + high) / 2;
        if (in[middle] == first) { out[place] = middle; return; }
        if (in[middle] < first) low = middle + 1; else high = middle - 1;
    }
}
extern "C" __global__ void k(int *out, const int *in, int limit)
{
    look(out, in, limit, threadIdx.x);
    look(out + 128, in + 128, !limit, threadIdx.x);
}
"""


@pytest.mark.parametrize("limit", [0, 1])
@pytest.mark.parametrize("architecture", ["sm_90", "sm_120"])
def test_returns_under_a_guard(architecture: str, limit: int) -> None:
    """Some lanes leave a function by ``@P0 RET``, the others go on."""
    values = np.sort(np.random.default_rng(7).integers(0, 4, 512).astype(np.int32))
    values[::5] = 0
    parameters = [_blank(256, np.int32), Buffer(name="in", array=values), np.int32(limit)]
    launch = Launch(grid_x=1, block_x=64)
    _, _, code = compiled(LEFT_EARLY, architecture)
    assert any(i.name == "RET" and i.guard is not None for i in code.instructions)
    expected = run_ptx(LEFT_EARLY, architecture, launch, parameters).outputs["out"]
    found = run_machine_code(LEFT_EARLY, architecture, launch, parameters).outputs["out"]
    np.testing.assert_array_equal(found, expected)


POINTERS = """
__device__ int squares[4] = {0, 1, 4, 9};
__device__ int cubes[4] = {0, 1, 8, 27};
__device__ int *tables[3] = {squares, cubes, cubes + 2};
__device__ const char *text = "perf";
__constant__ const char *words[2] = {"wave", "tail"};
extern "C" __global__ void k(int *out, int n)
{
    const int t = threadIdx.x;
    out[t] = tables[t % 3][t / 3 % 2] + text[t % 4] + 1000 * words[t & 1][(t + n) % 4];
}
"""


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
def test_variables_that_hold_pointers(architecture: str) -> None:
    """What a module's variables hold at first may be addresses of others, with an offset too."""
    launch = Launch(grid_x=1, block_x=32)
    found = run_machine_code(POINTERS, architecture, launch, [_blank(32, np.int32), np.int32(0)]).outputs["out"]
    tables, words = ([0, 1, 4, 9], [0, 1, 8, 27], [8, 27]), (b"wave", b"tail")
    expected = [tables[t % 3][t // 3 % 2] + b"perf"[t % 4] + 1000 * words[t & 1][t % 4] for t in range(32)]
    np.testing.assert_array_equal(found, expected)


RECURSION = """
__device__ __noinline__ int depth(const int *child, int node)
{
    if (node < 0)
        return 0;
    const int left = depth(child, child[2 * node]), right = depth(child, child[2 * node + 1]);
    return 1 + max(left, right);
}
__global__ void k(int *out, const int *child) { out[threadIdx.x] = depth(child, threadIdx.x); }
"""


def test_functions_that_call_themselves_have_the_stack_that_cuda_gives_by_default() -> None:
    """Of a complete tree of 31 nodes, node n has children 2 n + 1 and 2 n + 2; a chain of 1,000 goes too deep."""
    node = np.arange(31, dtype=np.int32)[:, None]
    tree = np.where(node < 15, 2 * node + np.array([1, 2], np.int32), -1).astype(np.int32)
    found = analyze(RECURSION, grid=1, block=31, args=[np.zeros(31, np.int32), tree.ravel()], gpu="h200")
    assert found.outputs["out"].tolist() == [5] + [4] * 2 + [3] * 4 + [2] * 8 + [1] * 16
    chain = np.full((1000, 2), -1, np.int32)
    chain[:-1, 0] = np.arange(1, 1000)
    with pytest.raises(
        FaultError, match=r"of 1024 bytes; the index into an array of the thread, or the depth of a recursion"
    ):
        analyze(RECURSION, grid=1, block=1, args=[np.zeros(1, np.int32), chain.ravel()], gpu="h200")
