"""Caches behind one another: kernels whose traffic can be told beforehand, and the fetches of code."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmodel.compiler.compiled import CompiledKernel, compile_kernel
from perfmodel.compiler.request import CompileRequest
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.launch.launch import Buffer, KernelCall, Launch
from perfmodel.memory.fitted_shares import shares
from perfmodel.memory.hierarchy import Hierarchy, executed_record, with_hierarchy
from perfmodel.memory.hierarchy import hierarchy_of as hierarchy_of_record
from perfmodel.memory.instruction_fetch import missed_bytes
from perfmodel.profiles.blocks.launch_counts import count_launch
from perfmodel.ptx.parse import parse_module

COPY = """
extern "C" __global__ void copy(const float *in, float *out)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    out[i] = in[i];
}
"""
HALO = """
extern "C" __global__ void halo(const float *in, float *out, int width)
{
    const int x = blockIdx.x * 128 + threadIdx.x, y = blockIdx.y;
    float sum = 0.0f;
    #pragma unroll
    for (int i = 0; i < 5; i++)
        sum += in[(y + i) * width + x];
    out[y * width + x] = sum;
}
"""
GUARDED = """
extern "C" __global__ void guarded(const float *in, float *out, int n)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n)
        out[i] = in[i];
}
"""
TRIANGLE = """
extern "C" __global__ void triangle(float *a, int width)
{
    const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y;
    if (x <= y)
        a[y * width + x] *= 2.0f;
}
"""
HEADS = """
extern "C" __global__ void heads(const float *in, float *out)
{
    const int block = blockIdx.x, head = block / 24, row = block % 24;
    out[block * 256 + threadIdx.x] = in[(row * 40 + head) * 256 + threadIdx.x];
}
"""
PASSES = """
extern "C" __global__ void passes(const float *in, float *out, int length)
{
    float sum = 0.0f;
    for (int pass = 0; pass < 3; pass++)
        for (int i = threadIdx.x; i < length; i += 256)
            sum += __ldcg(in + blockIdx.x * length + (i ^ pass));
    out[blockIdx.x * 256 + threadIdx.x] = sum;
}
"""
REREAD = """
extern "C" __global__ void reread(float *own, float *out)
{
    float sum = 0.0f, *mine = own + blockIdx.x * 32 * 128;
    for (int row = 0; row < 32; row++)
        mine[row * 128 + threadIdx.x] = row;
    __syncthreads();
    for (int pass = 0; pass < 8; pass++)
        for (int row = 0; row < 32; row++)
            sum += mine[(row * 128 + threadIdx.x) ^ (1 + pass)];
    out[blockIdx.x * 128 + threadIdx.x] = sum;
}
"""
IN_PARTS = """
extern "C" __global__ void in_parts(float *own)
{
    float *mine = own + blockIdx.x * 1024 + threadIdx.x / 8 * 32 + threadIdx.x % 8;
    for (int sector = 0; sector < 4; sector++) {
        mine[8 * sector] *= 2.0f;
        __syncthreads();
    }
}
"""
STACK = """
extern "C" __global__ void stack(unsigned *out, int rounds)
{
    unsigned char stack[64];
    unsigned sum = threadIdx.x;
    for (int round = 0; round < rounds; round++) {
#pragma unroll 1
        for (int at = 0; at < 64; at += sizeof(PART)) *(volatile PART *)(stack + at) = sum + at;
#pragma unroll 1
        for (int at = 0; at < 64; at += sizeof(PART)) sum += *(volatile PART *)(stack + at);
    }
    out[blockIdx.x * 128 + threadIdx.x] = sum;
}
"""
COUNTERS = """
extern "C" __global__ void counters(int *bins)
{
    atomicAdd(bins + blockIdx.x * 256 + threadIdx.x, 1);
}
"""
GATHER = """
extern "C" __global__ void gather(const int *index, const float *in, float *out)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    out[i] = in[index[i]];
}
"""
ROWS = """
extern "C" __global__ void rows(const int *begin, const float *in, float *out)
{
    float sum = 0.0f;
    for (int i = begin[blockIdx.x] + threadIdx.x; i < begin[blockIdx.x + 1]; i += 64)
        sum += in[i];
    out[blockIdx.x * 64 + threadIdx.x] = sum;
}
"""
OWN = """
extern "C" __global__ void own(const float *in, float *out)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    out[i] = in[i];
    __syncthreads();
    const float other = __ldcg(out + (i ^ 32));
    __syncthreads();
    out[i] = other;
}
"""
TOKENS = """
extern "C" __global__ void tokens(const int *token, const float *table, float *out)
{
    const int i = blockIdx.x * 256 + threadIdx.x, at = i / 1024, of = i % 1024;
    out[at * 1024 + of] = table[token[at] * 1024 + of];
}
"""
MATRICES = """
extern "C" __global__ void matrices(const float *a, const float *b, float *c, int inner, int columns)
{
    float sum = 0.0f;
    const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y;
    for (int k = 0; k < inner; k++)
        sum += a[y * inner + k] * b[k * columns + x];
    c[y * columns + x] = sum;
}
"""
AGAIN = """
extern "C" __global__ void again(const float *in, float *out, int times)
{
    float sum = 0.0f;
    for (int i = 0; i < times; i++)
        sum += LOAD(in + (blockIdx.x * 256 + (threadIdx.x + 32 * i) % 256));
    out[blockIdx.x * 256 + threadIdx.x] = sum;
}
"""
STACK_FIRST = """
extern "C" __global__ void stack_first(const unsigned *in, unsigned *out)
{
    volatile unsigned stack[16];
#pragma unroll 1
    for (int i = 0; i < 16; i++) stack[i] = i;
    unsigned sum = 0;
#pragma unroll 1
    for (int i = 0; i < 16; i++) sum += stack[in[i] & 15];
    out[blockIdx.x * 128 + threadIdx.x] = sum;
}
"""
ONE_LANE = """
extern "C" __global__ void one_lane(unsigned *own)
{
    unsigned *mine = own + blockIdx.x * 32 * 32;
    if (threadIdx.x == 0)
        for (int row = 0; row < 32; row++) mine[row * 32] = row;
    __syncthreads();
    if (threadIdx.x == 0)
        for (int row = 0; row < 32; row++) mine[row * 32 + OTHER] += 1;
}
"""


@cache
def compiled(source: str, architecture: str) -> CompiledKernel:
    name = source.split("__global__ void ")[1].split("(")[0]
    return compile_kernel(CompileRequest(source=source, kernel=name, file_name=f"{name}.cu"), architecture)


def floats(name: str, number: int, *, output: bool = False) -> Buffer:
    return Buffer(name=name, array=np.zeros(number, np.float32), output=output)


def with_code(source: str, architecture: str, data_bytes: int) -> float:
    """What is read from a DRAM that holds the code, too."""
    return data_bytes + compiled(source, architecture).resources.code_bytes + shares().beside_code_bytes


def hierarchy_of(source: str, gpu_id: str, launch: Launch, *arguments: np.generic | Buffer) -> Hierarchy:
    gpu = load_gpu(gpu_id)
    kernel = compiled(source, gpu.architecture.name)
    module, call = parse_module(kernel.ptx), KernelCall(parameters=arguments)
    counted = count_launch(module.kernel(kernel.kernel_name), launch, call)
    code = module.kernel(kernel.kernel_name)
    record = executed_record(code, launch, call, gpu, kernel.resources, shape=counted.shape)
    return hierarchy_of_record(record, launch, gpu, counted.counts, kernel.resources, shape=counted.shape)


@pytest.mark.compiler
def test_a_copy_reads_and_writes_each_sector_once() -> None:
    blocks = 40_000
    n = blocks * 256
    found = hierarchy_of(
        COPY, "rtx-2080-ti", Launch(grid_x=blocks, block_x=256), floats("in", n), floats("out", n, output=True)
    )
    assert found.l1_hit_rate == 0.0
    assert found.l2_read_sectors == found.l2_write_sectors == n * 4 / 32
    assert found.dram_read_bytes == pytest.approx(n * 4, rel=0.001)
    gpu = load_gpu("rtx-2080-ti")
    assert found.dram_write_bytes == pytest.approx(n * 4 - 0.474 * gpu.l2_bytes, rel=0.01)  # written data that L2 keeps
    assert found.exact
    assert found.relative_error == 0.0


@pytest.mark.compiler
def test_what_fits_l2_is_not_written_to_dram() -> None:
    n = 256 * 256
    found = hierarchy_of(COPY, "h200", Launch(grid_x=256, block_x=256), floats("in", n), floats("out", n, output=True))
    assert found.dram_write_bytes == 0.0
    assert found.dram_read_bytes == with_code(COPY, "sm_90", n * 4)


@pytest.mark.compiler
@pytest.mark.parametrize(("load", "reads"), [("*", 1), ("__ldcg", 8), ("__ldcv", 8)])
def test_a_load_past_l1_reads_l2_each_time(load: str, reads: int) -> None:
    n = 256 * 264
    source = AGAIN.replace("LOAD", load)
    arguments = (floats("in", n), floats("out", n, output=True), np.int32(8))
    found = hierarchy_of(source, "h200", Launch(grid_x=264, block_x=256), *arguments)
    assert found.l2_read_sectors == reads * n * 4 / 32
    assert found.l1_hit_rate == (1 - 1 / 8 if reads == 1 else 0.0)
    assert found.dram_read_bytes == with_code(source, "sm_90", n * 4)


@pytest.mark.compiler
def test_rows_of_a_halo_come_from_dram_once_and_from_l2_for_every_block() -> None:
    width, height = 128 * 30, 400
    launch = Launch(grid_x=30, grid_y=height, block_x=128)
    arguments = (floats("in", width * (height + 4)), floats("out", width * height, output=True), np.int32(width))
    found = hierarchy_of(HALO, "rtx-2080-ti", launch, *arguments)
    assert found.dram_read_bytes == pytest.approx(width * (height + 4) * 4, rel=0.005)
    requested = width * height * 5 * 4 / 32
    assert requested / 5 <= found.l2_read_sectors <= requested


@pytest.mark.compiler
def test_a_matrix_larger_than_l2_is_read_again_for_every_row_of_blocks() -> None:
    inner, columns, rows = 32, 32 * 3136, 64
    launch = Launch(grid_x=columns // 32, grid_y=rows, block_x=32)
    arguments = (
        floats("a", rows * inner),
        floats("b", inner * columns),
        floats("c", rows * columns, output=True),
        np.int32(inner),
        np.int32(columns),
    )
    small = hierarchy_of(MATRICES, "rtx-2080-ti", launch, *arguments)
    large = hierarchy_of(MATRICES, "h200", launch, *arguments)
    matrix_bytes = inner * columns * 4  # 12.8 MB, more than twice the L2 of the RTX 2080 Ti
    assert large.dram_read_bytes == pytest.approx(matrix_bytes + rows * inner * 4, rel=0.005)
    assert small.dram_read_bytes == pytest.approx(rows * matrix_bytes, rel=0.01)


@pytest.mark.compiler
def test_blocks_beyond_the_data_read_nothing() -> None:
    n = 250 * 256
    arguments = (floats("in", n), floats("out", n, output=True), np.int32(n))
    found = hierarchy_of(GUARDED, "h200", Launch(grid_x=1000, block_x=256), *arguments)
    assert found.dram_read_bytes == pytest.approx(with_code(GUARDED, "sm_90", n * 4), rel=0.01)


@pytest.mark.compiler
@pytest.mark.parametrize("gpu", ["h200", "rtx-2080-ti"])
def test_what_few_of_the_blocks_load_is_asked_for(gpu: str) -> None:
    n = 1 << 18
    arguments = floats("in", n), floats("out", n, output=True), np.int32(n)
    found = hierarchy_of(GUARDED, gpu, Launch(grid_x=16 * n // 256, block_x=256), *arguments)
    assert found.l2_read_sectors == n * 4 // 32


@pytest.mark.compiler
def test_half_a_matrix_is_read_and_written_in_place() -> None:
    width = 4096
    launch = Launch(grid_x=width // 32, grid_y=width, block_x=32)
    found = hierarchy_of(TRIANGLE, "rtx-2080-ti", launch, floats("a", width * width, output=True), np.int32(width))
    half = sum(-(-(y + 1) // 8) for y in range(width)) * 32  # sectors up to the diagonal
    assert found.dram_read_bytes == pytest.approx(half, rel=0.02)
    assert found.dram_write_bytes == pytest.approx(half - 0.474 * load_gpu("rtx-2080-ti").l2_bytes, rel=0.02)


@pytest.mark.compiler
def test_a_block_index_that_the_kernel_takes_apart() -> None:
    n = 24 * 40 * 256
    found = hierarchy_of(HEADS, "h200", Launch(grid_x=960, block_x=256), floats("in", n), floats("out", n, output=True))
    assert found.exact
    assert found.dram_read_bytes == with_code(HEADS, "sm_90", n * 4)


@pytest.mark.compiler
def test_what_a_block_has_written_it_does_not_read_from_dram() -> None:
    n = 256 * 264
    found = hierarchy_of(OWN, "h200", Launch(grid_x=264, block_x=256), floats("in", n), floats("out", n, output=True))
    assert found.l2_read_sectors == 2 * n * 4 / 32
    assert found.dram_read_bytes == with_code(OWN, "sm_90", n * 4)


@pytest.mark.compiler
def test_what_a_block_writes_later_it_reads_from_dram_first() -> None:
    n = 1024 * 264
    found = hierarchy_of(IN_PARTS, "h200", Launch(grid_x=264, block_x=256), floats("own", n, output=True))
    assert found.dram_read_bytes == with_code(IN_PARTS, "sm_90", n * 4)  # sector by sector, each line in four steps


@pytest.mark.compiler
def test_rows_of_all_lengths_that_follow_one_another_are_read_once() -> None:
    """At places drawn at random, 2,000 stretches as long together as the buffer would leave 1 / e of it out."""
    begin = np.append(0, np.cumsum(np.random.default_rng(0).integers(400, 600, 2000))).astype(np.int32)
    arguments = (Buffer(name="begin", array=begin), floats("in", int(begin[-1])), floats("out", 2000 * 64, output=True))
    found = hierarchy_of(ROWS, "h200", Launch(grid_x=2000, block_x=64), *arguments)
    assert found.dram_read_bytes == pytest.approx(with_code(ROWS, "sm_90", 4 * int(begin[-1])), rel=0.05)


@pytest.mark.compiler
def test_rows_of_a_table_lie_anywhere_and_what_they_are_copied_to_does_not() -> None:
    """4 MB are written in order with the index that reads 1,000 of 100,000 rows of 4 KB."""
    token = np.random.default_rng(0).permutation(100_000)[:1000].astype(np.int32)
    out = floats("out", 1000 * 1024, output=True)
    arguments = (Buffer(name="token", array=token), floats("table", 100_000 * 1024), out)
    launch = Launch(grid_x=4000, block_x=256)
    found = hierarchy_of(TOKENS, "rtx-2080-ti", launch, *arguments)
    assert not found.exact
    assert found.dram_read_bytes == pytest.approx(4.1e6, rel=0.03)
    written, kept = 4 * 1000 * 1024, 0.474 * load_gpu("rtx-2080-ti").l2_bytes
    assert found.dram_write_bytes == pytest.approx(written - kept, rel=0.1)


@pytest.mark.compiler
@pytest.mark.parametrize(("blocks", "reads"), [(64, 1), (544, 3)])
def test_passes_over_more_than_l2_holds_read_it_again(blocks: int, reads: int) -> None:
    length = 8192  # 32 KB a block; an RTX 2080 Ti runs 272 blocks of 256 threads at once
    arguments = (floats("in", blocks * length), floats("out", blocks * 256, output=True), np.int32(length))
    found = hierarchy_of(PASSES, "rtx-2080-ti", Launch(grid_x=blocks, block_x=256), *arguments)
    assert found.dram_read_bytes == pytest.approx(reads * blocks * length * 4, rel=0.02)


@pytest.mark.compiler
def test_a_reduction_reads_what_it_adds_to() -> None:
    n = 256 * 100
    bins = Buffer(name="bins", array=np.zeros(n, np.int32), output=True)
    found = hierarchy_of(COUNTERS, "h200", Launch(grid_x=100, block_x=256), bins)
    assert (found.dram_read_bytes, found.dram_write_bytes) == (with_code(COUNTERS, "sm_90", n * 4), 0.0)


@pytest.mark.compiler
def test_random_reads_are_estimated_and_said_to_be() -> None:
    n = 256 * 2000
    index = np.random.default_rng(3).integers(0, n, n).astype(np.int32)
    found = hierarchy_of(
        GATHER,
        "rtx-2080-ti",
        Launch(grid_x=2000, block_x=256),
        Buffer(name="index", array=index),
        floats("in", n),
        floats("out", n, output=True),
    )
    assert not found.exact
    assert "estimated" in found.notes[0]
    touched = len(np.unique(index // 8)) * 32 + n * 4  # sectors of the gathered buffer, and the indices themselves
    assert found.dram_read_bytes == pytest.approx(touched, rel=0.05)


@pytest.mark.compiler
def test_counts_take_over_what_passes_the_caches() -> None:
    n = 256 * 100
    kernel = compiled(COPY, "sm_75")
    launch, call = (
        Launch(grid_x=100, block_x=256),
        KernelCall(parameters=(floats("in", n), floats("out", n, output=True))),
    )
    module = parse_module(kernel.ptx)
    counts = count_launch(module.kernel("copy"), launch, call).counts
    record = executed_record(module.kernel("copy"), launch, call, load_gpu("t4"), kernel.resources)
    found = hierarchy_of_record(record, launch, load_gpu("t4"), counts, kernel.resources)
    joined = with_hierarchy(counts, found)
    assert joined.global_load_sectors == counts.global_load_sectors
    assert joined.l2_read_sectors == found.l2_read_sectors
    assert joined.l2_instruction_sectors == found.instruction_read_sectors
    assert found.l2_read_sectors + found.instruction_read_sectors == n * 4 / 32


@pytest.mark.compiler
def test_what_a_block_has_written_it_reads_from_its_l1_and_nobody_from_memory() -> None:
    own, out = floats("own", 264 * 32 * 128, output=True), floats("out", 264 * 128, output=True)
    found = hierarchy_of(REREAD, "h200", Launch(grid_x=264, block_x=128), own, out)
    assert found.l2_read_sectors == 0.0
    assert found.dram_read_bytes < 10_000  # the code alone


@pytest.mark.compiler
@pytest.mark.parametrize(("part", "lines"), [("unsigned", 0), ("unsigned char", 64 // 4)])
def test_stacks_that_are_written_in_parts_of_words_are_read_from_l2_once(part: str, lines: int) -> None:
    out = Buffer(name="out", array=np.zeros(128 * 132, np.uint32), output=True)
    found = hierarchy_of(STACK.replace("PART", part), "h200", Launch(grid_x=132, block_x=128), out, np.int32(5))
    # four warps a block; a line holds a word of the stacks of a warp, and nobody shares them
    assert found.l2_read_sectors == 132 * 4 * lines * 4


@pytest.mark.compiler
def test_what_is_stored_to_a_stack_before_the_first_load_is_there_after_it() -> None:
    out, indices = floats("out", 132 * 128, output=True), Buffer(name="in", array=np.arange(16, dtype=np.uint32))
    found = hierarchy_of(STACK_FIRST, "h200", Launch(grid_x=132, block_x=128), indices, out)
    assert found.l1_missed_sectors == 132 * 2  # 16 words of the buffer


@pytest.mark.compiler
@pytest.mark.parametrize(("other", "reads"), [(0, 0), (1, 132 * 32)])
def test_a_word_that_was_stored_is_in_l1_and_the_others_of_its_sector_are_not(other: int, reads: int) -> None:
    own = floats("own", 132 * 32 * 32, output=True)
    source = ONE_LANE.replace("OTHER", str(other))
    assert hierarchy_of(source, "h200", Launch(grid_x=132, block_x=32), own).l2_read_sectors == reads


@given(st.lists(st.tuples(st.integers(16, 4000), st.integers(0, 20)), min_size=1, max_size=9), st.floats(100.0, 9000.0))
def test_missed_code_lies_between_none_and_all_that_is_passed(code: list[tuple[int, int]], cache_bytes: float) -> None:
    sizes, passes = (np.array(values, np.float64) for values in zip(*code, strict=True))
    missed = missed_bytes(sizes, passes, cache_bytes)
    assert 0.0 <= missed <= float((sizes * passes).sum())
    if float(sizes[passes > 0].sum()) <= cache_bytes:
        assert missed == 0.0
