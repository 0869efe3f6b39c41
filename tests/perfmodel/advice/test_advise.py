"""Advice: what it promises is what the model predicts for the kernel so changed."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

import perfmodel as pm
from perfmodel.advice.advise import Advice, Advised, advise_on
from perfmodel.advice.coalescing import uncoalesced
from perfmodel.advice.subject import AdviceKind, Subject
from perfmodel.errors import CompileError
from perfmodel.prediction.analyze import Analysis, prediction_of_launch
from perfmodel.profiles.kernel_profile import KernelProfile

pytestmark = pytest.mark.compiler

TRANSPOSE = Path(__file__).parents[3] / "examples" / "transpose.cu"
SOURCE = """
#include <cooperative_groups.h>
struct Point { float x, y, z, w; };
__global__ void scaled(const float *in, float *out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = in[i] * 2.0f;
}
__global__ void scaled_points(const Point *in, float *out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = in[i].x * 2.0f;
}
__global__ void copied(const unsigned char *in, unsigned char *out) {
    int i = (blockIdx.y * blockDim.y + threadIdx.y) * 1024 + blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = in[i];
}
__global__ void product(const float *a, const float *b, float *c, int n, int swapped) {
    int along = blockIdx.x * 16 + threadIdx.x, across = blockIdx.y * 16 + threadIdx.y;
    int x = swapped ? across : along, y = swapped ? along : across;
    float sum = 0.0f;
    for (int k = 0; k < n; k++) sum += a[y * n + k] * b[k * n + x];
    c[y * n + x] = sum;
}
__global__ void total(const float *in, float *out) {
    atomicAdd(out, in[blockIdx.x * blockDim.x + threadIdx.x]);
}
__global__ void tiles(const float *in, float *out) {
    extern __shared__ float tile[];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    tile[threadIdx.x] = in[i];
    __syncthreads();
    out[i] = tile[blockDim.x - 1 - threadIdx.x];
}
__global__ void block_totals(const float *in, float *out, int n) {
    __shared__ float part[8];
    float sum = 0.0f;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) sum += in[i];
    for (int apart = 16; apart; apart /= 2) sum += __shfl_down_sync(~0u, sum, apart);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int warp = 1; warp < 8; warp++) sum += part[warp];
        atomicAdd(out, sum);
    }
}
template <int outputs> __global__ void smoothed(const float *in, float *out, int width) {
    int x = blockIdx.x * 32 + threadIdx.x, y = (blockIdx.y * 8 + threadIdx.y) * outputs;
    float sums[outputs] = {};
    #pragma unroll
    for (int j = 0; j < 9 + outputs - 1; j++) {
        #pragma unroll
        for (int i = 0; i < 9; i++) {
            float v = in[(y + j) * (width + 8) + x + i];
            #pragma unroll
            for (int k = 0; k < outputs; k++) if (j >= k && j < k + 9) sums[k] += v;
        }
    }
    for (int k = 0; k < outputs; k++) out[(y + k) * width + x] = sums[k];
}
__global__ void gathered(const int *index, const float *in, float *out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = 0.0f;
    for (int k = 0; k < 8; k++) v += in[index[i + k * 1024]];
    out[i] = v;
}
__global__ void strode(const float *in, float *out, int n, int stride) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[i * stride];
}
__global__ void turned(const float *in, float *out, int n, int swapped) {
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    out[swapped ? x * n + y : y * n + x] = in[y * n + x];
}
template <int unrolled> __global__ void row_sums(const float *in, float *out, int n, int swapped) {
    int row = blockIdx.x * blockDim.x + threadIdx.x, rows = gridDim.x * blockDim.x;
    float sum = 0.0f;
    #pragma unroll unrolled
    for (int k = 0; k < n; k++) sum += in[swapped ? k * rows + row : row * n + k];
    out[row] = sum;
}
template <bool shuffled> __global__ void block_sums(const float *in, float *out, int rounds) {
    __shared__ float part[256];
    float sum = in[blockIdx.x * 256 + threadIdx.x];
    for (int round = 0; round < rounds; round++) {
        part[threadIdx.x] = sum;
        __syncthreads();
        for (int apart = 128; apart > (shuffled ? 32 : 0); apart /= 2) {
            if (threadIdx.x < apart) part[threadIdx.x] += part[threadIdx.x + apart];
            __syncthreads();
        }
        if (shuffled && threadIdx.x < 32) {
            float own = part[threadIdx.x] + part[threadIdx.x + 32];
            for (int apart = 16; apart; apart /= 2) own += __shfl_down_sync(~0u, own, apart);
            if (threadIdx.x == 0) part[0] = own;
        }
        if (shuffled) __syncthreads();
        sum = part[0] * 0.5f;
        __syncthreads();
    }
    out[blockIdx.x * 256 + threadIdx.x] = sum;
}
__global__ void strided(const float *in, float *out, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) out[i] = in[i] * 2.0f;
}
__global__ void two_ways(const float *in, float *out, int lanes) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = in[i];
    if (threadIdx.x / lanes % 2)
        for (int k = 0; k < 256; k++) v = v * v + 0.5f;
    else
        for (int k = 0; k < 256; k++) v = fabsf(v + 0.25f) * v;
    out[i] = v;
}
__global__ void rows(const float *in, float *out, int lanes) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = in[i];
    int length = i / lanes % 32 * 8;
    for (int k = 0; k < length; k++) v = v * in[k] + 0.5f;
    out[i] = v;
}
#ifndef WIDTH
#define WIDTH width
#endif
__global__ void wrapped(const float *in, float *out, int width) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = 0.0f;
    for (int k = 1; k < 9; k++) v += in[(i + k * k) % (WIDTH)];
    out[i] = v;
}
__global__ void summed(const float *in, float *out, int n) {
    float v = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) v += in[i];
    for (int lanes = 16; lanes; lanes /= 2) v += __shfl_down_sync(~0u, v, lanes);
    __shared__ float of_warps[8];
    if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = v;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int warp = 1; warp < 8; warp++) v += of_warps[warp];
        atomicAdd(out, v);
    }
}
__global__ void summed_by_one(const float *in, float *partial, int n) {
    float v = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) v += in[i];
    atomicAdd(partial + blockIdx.x, v);
    cooperative_groups::this_grid().sync();
    if (blockIdx.x == 0 && threadIdx.x == 0) for (int block = 1; block < gridDim.x; block++) partial[0] += partial[block];
}
__global__ void steps(float *a, float *b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int k = 0; k < n; k++) {
        b[i] = a[i] + 1.0f;
        cooperative_groups::this_grid().sync();
        a[i] = b[(i + blockDim.x) % (gridDim.x * blockDim.x)];
        cooperative_groups::this_grid().sync();
    }
}
template <typename T> __global__ void literals(const float *in, float *out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = in[i];
    for (int k = 0; k < 64; k++) v = v * T(0.999) + T(0.001);
    out[i] = v;
}
template <typename T> __global__ void one_literal(const float *in, float *out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = in[i] * T(3.14159) + T(2.71828);
}
template <int unrolled> __global__ void counted(const float *in, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = in[i];
    #pragma unroll unrolled
    for (int k = 0; k < n; k++) v = v * v - 0.5f;
    out[i] = v;
}
"""


@cache
def analysed(
    kernel: str,
    grid: int | tuple[int, int],
    block: int | tuple[int, int],
    *arguments: str,
    shared: int | None = None,
    width: str = "width",
) -> Analysis:
    return pm.analyze(
        SOURCE,
        kernel=kernel,
        grid=grid,
        block=block,
        args=list(arguments),
        gpu="h200",
        shared_bytes=shared,
        defines={"WIDTH": width},
    )


@cache
def transposed(padding: int) -> Analysis:
    return pm.analyze(
        TRANSPOSE,
        kernel="transpose",
        grid=(32, 32),
        block=(32, 8),
        args=["f32[1024*1024]", "f32[1024*1024]=0", "i32=1024"],
        gpu="h200",
        defines={"PAD": padding},
        lines=True,
    )


def streamed(kernel: str, elements: int, block: int, floats_per_element: int = 1) -> Analysis:
    return analysed(kernel, elements // block, block, f"f32[{elements * floats_per_element}]", f"f32[{elements}]")


def multiplied(swapped: int) -> Analysis:
    return pm.analyze(
        SOURCE,
        kernel="product",
        grid=(16, 16),
        block=(16, 16),
        args=[*["f32[256*256]"] * 3, "i32=256", f"i32={swapped}"],
        gpu="h200",
    )


def test_padding_gains_what_the_padded_kernel_is_predicted() -> None:
    found = pm.advise(transposed(0))
    first = found.changes[0]
    assert first.kind is AdviceKind.BANK_CONFLICTS
    assert first.places == ("transpose.cu:20",)
    assert first.finding == "32-way bank conflict"
    assert first.change == "4 bytes of padding after every 128 bytes of the shared array"
    assert first.now_s == transposed(0).prediction.time.predicted_s
    # the padded kernel's integers read other banks of registers
    assert first.then_s == pytest.approx(transposed(1).prediction.time.predicted_s, rel=0.03)
    assert found.text.startswith("change 1: transpose.cu:20: 32-way bank conflict; 4 bytes of padding")


def test_the_excess_of_a_line_has_a_time() -> None:
    (line,) = pm.advise(transposed(0)).excess
    assert (line.place, line.space) == ("transpose.cu:20", "shared")
    saved = transposed(0).prediction.time.predicted_s - transposed(1).prediction.time.predicted_s
    assert line.excess_s == pytest.approx(saved, rel=0.05)


def test_an_array_for_each_field_is_predicted_as_the_kernel_that_has_one() -> None:
    elements = 2**20
    first = pm.advise(streamed("scaled_points", elements, 256, 4)).changes[0]
    assert first.kind is AdviceKind.UNCOALESCED
    assert first.finding == "16 sectors per request where 4 would do (neighbouring lanes 16 bytes apart)"
    assert first.then_s == pytest.approx(streamed("scaled", elements, 256).prediction.time.predicted_s, rel=0.05)


@pytest.mark.parametrize("unrolled", [8, 16])
def test_a_row_for_each_thread_is_predicted_as_the_kernel_with_a_column_for_each(unrolled: int) -> None:
    """Each request then waits for DRAM, where one of eight did, and all of them together read as much as before."""
    rows, columns = (
        analysed(f"row_sums<{unrolled}>", 32, 256, "f32[8192*512]", "f32[8192]", "i32=512", f"i32={swapped}")
        for swapped in (0, 1)
    )
    change = change_of(pm.advise(rows), AdviceKind.UNCOALESCED)
    assert change.then_s == pytest.approx(columns.prediction.time.predicted_s, rel=0.05)


def test_strided_loads_are_predicted_as_the_kernel_without_a_stride() -> None:
    """Each request waits for four sectors then, not one of eight for 32."""
    wide, narrow = (
        analysed("strode", 1024, 256, "f32[262144*17]", "f32[262144]", "i32=262144", f"i32={stride}")
        for stride in (17, 1)
    )
    change = change_of(pm.advise(wide), AdviceKind.UNCOALESCED)
    assert change.then_s == pytest.approx(narrow.prediction.time.predicted_s, rel=0.03)


def test_columns_that_are_stored_are_predicted_as_the_kernel_that_stores_rows() -> None:
    """Eight warps of a block store parts of each sector: as many sectors go on to DRAM for the first time after the change."""
    columns, rows = (
        analysed("turned", (16, 64), (32, 8), "f32[512*512]", "f32[512*512]=0", "i32=512", f"i32={swapped}")
        for swapped in (1, 0)
    )
    change = change_of(pm.advise(columns), AdviceKind.UNCOALESCED)
    assert change.then_s == pytest.approx(rows.prediction.time.predicted_s, rel=0.03)


def test_swapped_indices_are_predicted_as_the_kernel_with_the_other_order() -> None:
    first = pm.advise(multiplied(1)).changes[0]
    assert first.kind is AdviceKind.UNCOALESCED
    assert first.then_s == pytest.approx(multiplied(0).prediction.time.predicted_s, rel=0.1)


def test_a_warp_that_lies_in_two_rows_is_told_to_lie_in_one() -> None:
    arguments = ("u8[1048576]", "u8[1048576]")
    two_rows, one_row = (
        analysed("copied", (64, 64), (16, 16), *arguments),
        analysed("copied", (32, 128), (32, 8), *arguments),
    )
    (change,) = uncoalesced(subject_of(two_rows))
    assert change.finding == "2 sectors per request where 1 would do (a warp covers 2 rows of 16 lanes)"
    assert change.change == "blocks whose x size is a multiple of 32, so that a warp's lanes lie in one row"
    sectors = change.profile.counts.global_load_sectors
    assert sectors == one_row.execution.profile.counts.global_load_sectors == 2**20 / 32
    assert not list(uncoalesced(subject_of(one_row)))


def test_a_kernel_that_streams_gets_no_advice() -> None:
    found = pm.advise(streamed("scaled", 2**20, 256))
    assert found.changes == ()
    assert found.text == f"changes: nothing found that would gain more than {found.least_gain:.0%}"


def test_larger_blocks_are_predicted_as_the_kernel_that_has_them() -> None:
    elements = 2**20
    first = pm.advise(streamed("scaled", elements, 32)).changes[0]
    assert first.kind is AdviceKind.BLOCK_SIZE
    threads = int(first.change.split()[2])
    changed = streamed("scaled", elements, threads)
    assert first.then_s == pytest.approx(changed.prediction.time.predicted_s, rel=0.05)


def test_atomics_on_one_word_are_added_up_in_the_block() -> None:
    first = pm.advise(analysed("total", 1024, 256, "f32[1024*256]", "f32[1]=0")).changes[0]
    assert first.kind is AdviceKind.ATOMICS
    line = 1 + SOURCE.splitlines().index("    atomicAdd(out, in[blockIdx.x * blockDim.x + threadIdx.x]);")
    assert first.places == (f"source.cu:{line}",)  # and not the line of CUDA's header that is inlined there
    assert first.finding == "256 lanes of a block add to one word"
    assert first.gain > 0.9


def test_a_grid_of_one_block_is_to_be_cut() -> None:
    found = pm.advise(analysed("product", 1, 256, *["f32[256*256]"] * 3, "i32=256", "i32=0"))
    change = next(one for one in found.changes if one.kind is AdviceKind.GRID_SIZE)
    assert change.finding == "1 block leaves 131 of 132 SMs idle"
    assert (
        change.change.split(",")[0] == "16 blocks of 256 threads"
    )  # a loop of 16 passes; more blocks of one warp gain no more
    assert change.then_s < change.now_s


@pytest.mark.parametrize(("blocks", "threads"), [(8, 256), (132, 128)])
def test_more_blocks_are_predicted_as_the_launch_that_has_them(blocks: int, threads: int) -> None:
    arguments = ("f32[1048576]", "f32[1048576]", "i32=1048576")
    first = pm.advise(analysed("strided", blocks, threads, *arguments)).changes[0]
    assert first.kind is AdviceKind.GRID_SIZE
    words = first.change.replace(",", "").split()
    assert int(words[3]) == threads
    more = analysed("strided", int(words[0]), threads, *arguments)
    assert first.then_s == pytest.approx(more.prediction.time.predicted_s, rel=0.3)
    assert AdviceKind.GRID_SIZE not in kinds(pm.advise(analysed("strided", 132 * 2048 // threads, threads, *arguments)))


def test_what_each_of_more_blocks_does_once_is_in_their_time() -> None:
    arguments = (256, "f32[1048576]", "f32[1]=0", "i32=1048576")
    now, more = (analysed("summed", blocks, *arguments) for blocks in (1024, 2048))
    assert more.prediction.time.predicted_s > now.prediction.time.predicted_s  # twice the atomics on one word
    assert AdviceKind.GRID_SIZE not in kinds(pm.advise(now))


def test_warps_that_wait_for_one_another_stay_in_one_block() -> None:
    found = pm.advise(analysed("summed", 1, 256, "f32[65536]", "f32[1]=0", "i32=65536"))
    assert " blocks of 256 threads" in change_of(found, AdviceKind.GRID_SIZE).change


def test_blocks_that_wait_for_one_another_are_not_to_be_more() -> None:
    arguments = (256, "f32[1048576]", "f32[2048]", "i32=1048576")
    assert AdviceKind.GRID_SIZE not in kinds(pm.advise(analysed("summed_by_one", 264, *arguments)))


def test_loads_that_an_unrolled_loop_repeats_are_predicted_as_the_kernel_that_has_fewer() -> None:
    arguments = ("f32[1032*1032]", "f32[1024*1024]", "i32=1024")
    first = pm.advise(analysed("smoothed<1>", (32, 128), (32, 8), *arguments)).changes[0]
    assert first.kind is AdviceKind.REDUNDANT_LOADS
    assert "twice the results per thread" in first.change
    tiled = analysed("smoothed<2>", (32, 64), (32, 8), *arguments)  # 90 loads for two results, where one takes 81
    assert first.then_s == pytest.approx(tiled.prediction.time.predicted_s, rel=0.3)


def test_values_that_data_choose_are_not_redundant() -> None:
    arguments = ("i32[262144+8192]=0..255", "f32[256]", "f32[262144]")
    found = pm.advise(analysed("gathered", 1024, 256, *arguments))
    assert AdviceKind.REDUNDANT_LOADS not in kinds(found)


def test_less_shared_memory_is_predicted_as_the_launch_with_less() -> None:
    elements = 2**20
    arguments = (elements // 128, 128, f"f32[{elements}]", f"f32[{elements}]")
    held = pm.advise(analysed("tiles", *arguments, shared=100_000))  # two blocks of four warps on an SM
    change = next(one for one in held.changes if one.kind is AdviceKind.SHARED_MEMORY)
    fewer = int(change.change.split()[2].replace(",", ""))
    assert change.finding == "100,000 bytes of shared memory per block allow 8 of 64 warps per SM"
    smaller = analysed("tiles", *arguments, shared=fewer)
    assert change.then_s == pytest.approx(smaller.prediction.time.predicted_s, rel=0.02)


def change_of(found: Advised, kind: AdviceKind) -> Advice:
    return next(one for one in found.changes if one.kind is kind)


def test_barriers_of_the_grid_are_no_atomics_to_add_up() -> None:
    changes = pm.advise(analysed("steps", 264, 128, "f32[33792]", "f32[33792]", "i32=8")).changes
    assert not [one for one in changes if one.kind is AdviceKind.ATOMICS]


def test_fewer_blocks_are_predicted_as_the_kernel_that_has_them() -> None:
    arguments = ("f32[1048576]", "f32[1048576]")
    change = change_of(pm.advise(analysed("scaled", 2**15, 32, *arguments)), AdviceKind.WORK_PER_BLOCK)
    assert change.finding.endswith("to start 32,768 blocks one after the other")
    blocks = int(change.change.split()[0].replace(",", ""))
    strided = analysed("strided", blocks, 32, *arguments, "i32=1048576")
    assert change.then_s == pytest.approx(strided.prediction.time.predicted_s, rel=0.05)


def test_one_atomic_of_each_block_is_predicted_as_the_grid_stride_loop_that_has_fewer() -> None:
    arguments = ("f32[4194304]", "f32[1]=0", "i32=4194304")
    change = change_of(pm.advise(analysed("block_totals", 2**14, 256, *arguments)), AdviceKind.ATOMICS)
    assert change.finding == "16,384 blocks add to one word, 1 atomic each"
    blocks = int(change.change.split()[0].replace(",", ""))
    fewer = analysed("block_totals", blocks, 256, *arguments).prediction.time.predicted_s
    assert fewer < change.then_s < 1.3 * fewer  # in the changed launch each part is added up in the block on its own


@pytest.mark.parametrize(("kernel", "what"), [("two_ways", "take the same branch"), ("rows", "loop equally often")])
def test_divergence_is_predicted_as_the_kernel_whose_warps_agree(kernel: str, what: str) -> None:
    arguments = (512, 1024, "f32[512*1024]", "f32[512*1024]")
    change = change_of(pm.advise(analysed(kernel, *arguments, "i32=1")), AdviceKind.DIVERGENCE)
    together = analysed(kernel, *arguments, "i32=32")
    assert change.finding.startswith("16")  # of 32 lanes
    assert what in change.change
    assert change.then_s == pytest.approx(together.prediction.time.predicted_s, rel=0.2)
    assert AdviceKind.DIVERGENCE not in kinds(pm.advise(together))


def test_shuffles_are_predicted_as_the_kernel_that_has_them() -> None:
    arguments = (1024, 256, "f32[1024*256]", "f32[1024*256]", "i32=8")
    now, shuffled = (analysed(f"block_sums<{value}>", *arguments) for value in ("false", "true"))
    change = change_of(pm.advise(now), AdviceKind.REDUCTIONS)
    line = 2 + SOURCE.splitlines().index(
        next(text for text in SOURCE.splitlines() if "part[threadIdx.x + apart]" in text)
    )
    assert change.places == (f"source.cu:{line}",)
    assert change.finding == "all warps of a block wait at a barrier after each of 6 steps that one warp does alone"
    assert change.then_s == pytest.approx(shuffled.prediction.time.predicted_s, rel=0.1)
    assert AdviceKind.REDUCTIONS not in kinds(pm.advise(shuffled))


def test_known_divisors_are_predicted_as_the_kernel_that_has_one() -> None:
    arguments = (4096, 256, "f32[4096*256]", "f32[4096*256]", "i32=1000")
    now, known = (analysed("wrapped", *arguments, width=width) for width in ("width", "1000"))
    change = change_of(pm.advise(now), AdviceKind.INTEGER)
    assert change.finding.startswith("integer division or remainder, ")
    assert change.then_s == pytest.approx(known.prediction.time.predicted_s, rel=0.2)


def test_an_unrolled_loop_is_predicted_as_the_kernel_that_has_one() -> None:
    arguments = (4096, 256, "f32[4096*256]", "f32[4096*256]", "i32=256")
    now, unrolled = (analysed(f"counted<{times}>", *arguments) for times in (1, 4))
    change = change_of(pm.advise(now), AdviceKind.INTEGER)
    assert "#pragma unroll 4" in change.change
    assert change.then_s == pytest.approx(unrolled.prediction.time.predicted_s, rel=0.1)


def test_literals_of_single_precision_are_predicted_as_the_kernel_that_has_them() -> None:
    now, single = (analysed(f"literals<{kind}>", 4096, 256, *["f32[4096*256]"] * 2) for kind in ("double", "float"))
    change = change_of(pm.advise(now), AdviceKind.DOUBLE_PRECISION)
    assert change.then_s == pytest.approx(single.prediction.time.predicted_s, rel=0.15)


def test_literals_of_a_kernel_that_waits_for_its_loads_promise_nothing() -> None:
    now, single = (analysed(f"one_literal<{kind}>", 4096, 256, *["f32[4096*256]"] * 2) for kind in ("double", "float"))
    times = [found.prediction.time.predicted_s for found in (now, single)]
    assert times[0] == pytest.approx(times[1], rel=0.1)
    assert AdviceKind.DOUBLE_PRECISION not in kinds(pm.advise(now))


def crowded(registers: int) -> Subject:
    """The launch that streams, as if its threads had so many registers."""
    found = streamed("scaled", 2**20, 256)
    profile = with_registers(found.execution.profile, registers)
    prediction = prediction_of_launch("scaled", found.configuration, profile, found.scenario)
    return replace(subject_of(found), profile=profile, prediction=prediction)


def subject_of(found: Analysis) -> Subject:
    return Subject(
        profile=found.execution.profile,
        instructions=found.execution.instructions,
        prediction=found.prediction,
        scenario=found.scenario,
    )


def with_registers(profile: KernelProfile, registers: int) -> KernelProfile:
    return replace(profile, resources=replace(profile.resources, registers_per_thread=registers))


def kinds(found: Advised) -> set[AdviceKind]:
    return {change.kind for change in found.changes}


def test_fewer_registers_are_named_where_the_compiler_makes_do_with_them() -> None:
    subject = crowded(255)  # one block of eight warps on an SM
    found = advise_on(subject, lambda registers, caches: with_registers(subject.profile, registers))
    change = next(one for one in found.changes if one.kind is AdviceKind.REGISTERS)
    assert change.finding == "255 registers per thread allow 8 of 64 warps per SM"
    assert change.change == (
        "64 registers, 32 of 64 warps per SM: __launch_bounds__(256, 4) (without spills, as compiled)"
    )
    assert change.then_s == crowded(64).prediction.time.predicted_s


def test_fewer_registers_are_not_named_where_what_the_compiler_makes_is_no_faster() -> None:
    subject = crowded(255)

    def refuse(registers: int, caches: bool) -> KernelProfile:
        raise CompileError("no PTX")

    assert AdviceKind.REGISTERS not in kinds(advise_on(subject, lambda registers, caches: subject.profile))
    assert AdviceKind.REGISTERS not in kinds(advise_on(subject, refuse))


def test_caches_of_code_with_fewer_registers_are_simulated_where_that_may_be_worth_it() -> None:
    subject = crowded(255)
    asked: list[tuple[int, bool]] = []

    def slow(registers: int, caches: bool) -> KernelProfile:
        asked.append((registers, caches))
        return subject.profile

    def quick(registers: int, caches: bool) -> KernelProfile:
        asked.append((registers, caches))
        return with_registers(subject.profile, registers)

    advise_on(subject, slow)
    assert asked
    assert not any(caches for _, caches in asked)
    asked.clear()
    advise_on(subject, quick)
    assert asked[:2] == [(64, False), (64, True)]
