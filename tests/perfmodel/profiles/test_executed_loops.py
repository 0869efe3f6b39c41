"""Executed machine instructions of loops, whose bodies the assembler copies, guards and joins: visible arithmetic."""

from __future__ import annotations

import numpy as np
import pytest

from perfmodel.launch.launch import Buffer, Launch

from .compiled_work import ARCHITECTURES, LOOPS, UNROLLED, classes_sum_to_all, floats, work_of

POLYNOMIAL = """
extern "C" __global__ void polynomial(float *out, int n)
{
    float value = threadIdx.x;
    for (int i = 0; i < n; i++)
        value = value * value + 0.5f;
    out[blockIdx.x * 64 + threadIdx.x] = value;
}
"""

PRODUCT = """
extern "C" __global__ void product(const float *a, const float *b, float *out, int n)
{
    __shared__ float left[16][16], right[16][16];
    const int x = threadIdx.x % 16, y = threadIdx.x / 16;
    float sum = 0.0f;
    for (int i = 0; i < n; i += 16) {
        left[y][x] = a[y * n + i + x];
        right[y][x] = b[(i + y) * 16 + x];
        __syncthreads();
        for (int j = 0; j < 16; j++)
            sum += left[y][j] * right[j][x];
        __syncthreads();
    }
    out[blockIdx.x * 256 + threadIdx.x] = sum;
}
"""

GUARDED = """
extern "C" __global__ void guarded(float *out, int width, int most)
{
    const float x = 3.0f * threadIdx.x / width - 2.0f;
    float a = 0.0f;
    int n = 0;
    while (n < most && a < 1e9f) {
        a = a * a * 1e-3f + x;
        n++;
    }
    out[blockIdx.x * 64 + threadIdx.x] = n;
}
"""

SLOW_PATHS = """
extern "C" __global__ void slow_paths(const float *a, float *out, int n)
{
    for (int i = blockIdx.x * 64 + threadIdx.x; i < n; i += 640) {
        const float x = a[i] + 2.0f;
        float sum = 1.0f / x + sqrtf(x);
        for (int j = 0; j < 3; j++)
            sum = sum / (x + j) + logf(sum + 2.0f);
        out[i] = sum > 1.0f ? sum : expf(-sum);
    }
}
"""

NEAREST = """
extern "C" __global__ void nearest(const float *a, const float *b, float *out, int count, int size)
{
    const int i = blockIdx.x * 64 + threadIdx.x;
    float best = 1e30f;
    for (int k = 0; k < count; k++) {
        float sum = 0.0f;
        for (int j = 0; j < size; j++)
            sum = sum * 0.5f + a[j * 640 + i] * b[k * size + j];
        if (sum < best)
            best = sum;
    }
    out[i] = best;
}
"""

REMAINDERS = """
extern "C" __global__ void remainders(const int *a, float *out, const int *lengths, int elements)
{
    int position = threadIdx.x % elements;
    float sum = 0.0f;
    for (int step = 0; step < lengths[threadIdx.x]; step++) {
        const int value = a[position];
        if (value & 1)
            sum += a[(position + value) % elements];
        sum += value;
        position = (position + 32) % elements;
    }
    out[blockIdx.x * 64 + threadIdx.x] = sum;
}
"""


@pytest.mark.compiler
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_nested_loops_run_as_often_as_their_bounds_say(architecture: str) -> None:
    launch = Launch(grid_x=5, block_x=64)
    profile = work_of(
        LOOPS, architecture, launch, floats("a", 64), floats("out", 320, output=True), np.int32(3), np.int32(7)
    )
    warps = 5 * 2
    assert profile.exact, profile.notes
    assert profile.counts.fp32_fma == warps * 3 * 7
    assert profile.counts.barriers == warps * 3 * 2
    assert profile.counts.shared_load_requests == profile.counts.shared_store_requests == warps * 3
    assert profile.counts.global_store_requests == warps
    assert classes_sum_to_all(profile)


@pytest.mark.compiler
@pytest.mark.parametrize("architecture", ["sm_75", "sm_90"])
@pytest.mark.parametrize("trips", [1, 3, 4, 23, 64])
def test_a_loop_that_the_compiler_unrolls_does_all_its_work(architecture: str, trips: int) -> None:
    launch = Launch(grid_x=40, block_x=64)
    profile = work_of(
        UNROLLED, architecture, launch, floats("a", 64 * trips), floats("out", 40 * 64, output=True), np.int32(trips)
    )
    warps = 40 * 2
    assert "disagree" not in profile.notes
    assert profile.counts.fp32_fma == warps * trips
    assert profile.counts.global_load_requests == warps * trips


@pytest.mark.compiler
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("trips", [1, 3, 16, 29, 1000])
def test_copies_of_a_loop_behind_guards_of_the_assembler_do_all_its_work(architecture: str, trips: int) -> None:
    """A loop of 16 at once, code of 8, a loop of 4 and one over the rest, with guards around and between them."""
    launch = Launch(grid_x=40, block_x=64)
    profile = work_of(POLYNOMIAL, architecture, launch, floats("out", 40 * 64, output=True), np.int32(trips))
    warps = 40 * 2
    assert profile.counts.fp32_fma == warps * trips
    assert warps * trips <= float(profile.counts.warp_instructions) <= warps * (2 * trips + 60)


@pytest.mark.compiler
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("steps", [1, 2, 7, 32])
def test_copies_whose_shared_loads_the_assembler_joins_are_told_by_their_bytes(architecture: str, steps: int) -> None:
    n = 16 * steps
    launch = Launch(grid_x=10, block_x=256)
    buffers = (floats("a", 16 * n), floats("b", 16 * n), floats("out", 2560, output=True))
    profile = work_of(PRODUCT, architecture, launch, *buffers, np.int32(n))
    warps = 10 * 8
    assert profile.counts.fp32_fma == warps * n
    assert profile.counts.barriers == warps * 2 * steps
    assert profile.counts.global_load_requests == warps * 2 * steps
    rows, columns = 16 // 4, 16  # four words of a row of `left` at once, which lanes share; one of each row of `right`
    assert (
        profile.counts.shared_load_requests == profile.counts.shared_load_wavefronts == warps * steps * (rows + columns)
    )
    assert "global" not in profile.notes


@pytest.mark.compiler
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_slow_paths_that_the_assembler_adds_do_not_hide_the_loop_around_them(architecture: str) -> None:
    n = 640 * 15
    launch = Launch(grid_x=10, block_x=64)
    buffers = (floats("a", n), floats("out", n, output=True))
    profile = work_of(SLOW_PATHS, architecture, launch, *buffers, np.int32(n))
    assert profile.counts.global_load_requests == profile.counts.global_store_requests == n / 32
    assert "disagree" not in profile.notes
    assert 50 <= float(profile.counts.warp_instructions) / (20 * 15) <= 200


@pytest.mark.compiler
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("size", [1, 5, 8, 40])
def test_copies_of_an_inner_loop_do_not_hide_the_loop_around_them(architecture: str, size: int) -> None:
    launch = Launch(grid_x=10, block_x=64)
    buffers = (floats("a", 640 * size), floats("b", 12 * size), floats("out", 640, output=True))
    profile = work_of(NEAREST, architecture, launch, *buffers, np.int32(12), np.int32(size))
    assert "disagree" not in profile.notes
    assert profile.counts.global_load_requests == 20 * 12 * 2 * size
    assert 20 * 12 * 4 * size <= float(profile.counts.warp_instructions) <= 20 * (100 + 12 * (60 + 16 * size))


@pytest.mark.compiler
@pytest.mark.parametrize("architecture", ["sm_75", "sm_90"])
def test_what_stands_before_a_guarded_loop_is_executed_once(architecture: str) -> None:
    launch = Launch(grid_x=10, block_x=64)
    few, many = (
        work_of(GUARDED, architecture, launch, floats("out", 640, output=True), np.int32(64), np.int32(most))
        for most in (100, 300)
    )
    each = (float(many.counts.warp_instructions) - float(few.counts.warp_instructions)) / (20 * 200)
    assert 4 <= each <= 12  # two multiplications, a sum, a count, two tests and a jump
    assert float(few.counts.warp_instructions) / 20 < 100 * each + 120
    assert many.counts.conversion == few.counts.conversion


@pytest.mark.compiler
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_reciprocals_of_integer_divisions_do_not_hide_which_loop_is_which(architecture: str) -> None:
    steps, elements = 24, 96
    values = np.arange(elements, dtype=np.int32) * 2  # even: no second load
    arguments = (
        Buffer(name="a", array=values),
        floats("out", 192, output=True),
        Buffer(name="lengths", array=np.full(64, steps, np.int32)),
        np.int32(elements),
    )
    profile = work_of(REMAINDERS, architecture, Launch(grid_x=3, block_x=64), *arguments)
    assert profile.counts.global_load_requests == 3 * 2 * (steps + 1)
    assert "disagree" not in profile.notes
    assert profile.counts.warp_instructions > 3 * 2 * steps * 8  # at least load, add, step and a remainder each time
