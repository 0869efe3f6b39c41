"""Whole launches from classes of blocks: equal to executing every block, and honest where they cannot be."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from perfmodel.compiler.compiled import compile_kernel
from perfmodel.compiler.request import CompileRequest
from perfmodel.launch.launch import Buffer, KernelCall, Launch
from perfmodel.profiles.blocks.launch_alignment import aligned_totals
from perfmodel.profiles.blocks.launch_boxes import Box, Executed, agreeing_boxes, edge_boxes, merged_boxes
from perfmodel.profiles.blocks.launch_classes import LaunchCounts, count_launch
from perfmodel.profiles.blocks.launch_shape import launch_shape
from perfmodel.ptx.module import Module
from perfmodel.ptx.parse import parse_module

STENCIL = """
extern "C" __global__ void stencil(const float *in, float *out, int width, int height)
{
    __shared__ float patch[6][34];
    const int x0 = blockIdx.x * 32, y0 = blockIdx.y * 4;
    for (int i = threadIdx.y; i < 6; i += 4)
        for (int j = threadIdx.x; j < 34; j += 32) {
            const int y = y0 + i - 1, x = x0 + j - 1;
            patch[i][j] = y >= 0 && y < height && x >= 0 && x < width ? in[y * width + x] : 0.0f;
        }
    __syncthreads();
    const int x = x0 + threadIdx.x, y = y0 + threadIdx.y;
    if (x < width && y < height)
        out[y * width + x] = patch[threadIdx.y][threadIdx.x + 1] + patch[threadIdx.y + 2][threadIdx.x + 1];
}
"""
FLATTENED = """
extern "C" __global__ void flattened(const float *in, float *out, int width, int tiles)
{
    const int row = blockIdx.x / tiles, x = blockIdx.x % tiles * 64 + threadIdx.x;
    if (x < width)
        out[row * width + x] = 2.0f * in[row * width + x];
}
"""
DEPENDENT = """
extern "C" __global__ void dependent(const int *trips, float *out)
{
    float sum = 0.0f;
    for (int i = 0; i < trips[blockIdx.x]; i++)
        sum += out[i * 32 + threadIdx.x];
    out[blockIdx.x * 32 + threadIdx.x] = sum;
}
"""
TRIANGLE = """
extern "C" __global__ void triangle(const float *in, float *out, int n)
{
    float sum = 0.0f;
    if (blockIdx.x < n)
        for (int i = 0; i < 8; i++)
            sum += in[i * 32 + threadIdx.x];
    out[blockIdx.x * 32 + threadIdx.x] = sum;
}
"""


@cache
def module_of(source: str) -> tuple[Module, str]:
    name = source.split("__global__ void ")[1].split("(")[0]
    kernel = compile_kernel(CompileRequest(source=source, kernel=name, file_name=f"{name}.cu"), "sm_80")
    return parse_module(kernel.ptx), name


def floats(name: str, number: int, *, output: bool = False) -> Buffer:
    return Buffer(name=name, array=np.zeros(number, np.float32), output=output)


def both(
    source: str, launch: Launch, *arguments: np.generic | Buffer, seed: int = 0
) -> tuple[LaunchCounts, LaunchCounts]:
    """From classes of blocks, and from all blocks."""
    module, name = module_of(source)
    call = KernelCall(parameters=arguments)
    return (
        count_launch(module.kernel(name), launch, call, seed=seed),
        count_launch(module.kernel(name), launch, call, all_blocks=True),
    )


@pytest.mark.compiler
@settings(max_examples=12, deadline=None)
@given(width=st.integers(1, 600), height=st.integers(1, 90), seed=st.integers(0, 9))
def test_a_stencil_of_any_size_counts_as_if_every_block_ran(width: int, height: int, seed: int) -> None:
    launch = Launch(grid_x=-(-width // 32), grid_y=-(-height // 4), block_x=32, block_y=4)
    n = width * height
    arguments = (floats("in", n), floats("out", n, output=True), np.int32(width), np.int32(height))
    classes, everything = both(STENCIL, launch, *arguments, seed=seed)
    assert classes.exact
    assert classes.counts == everything.counts
    assert (classes.visits == everything.visits).all()
    assert classes.requests == everything.requests
    assert everything.blocks_executed == launch.blocks


@pytest.mark.compiler
def test_large_grid_needs_few_blocks() -> None:
    width, height = 32 * 40 + 5, 4 * 60
    launch = Launch(grid_x=41, grid_y=60, block_x=32, block_y=4)
    n = width * height
    classes, everything = both(
        STENCIL, launch, floats("in", n), floats("out", n, output=True), np.int32(width), np.int32(height)
    )
    assert classes.counts == everything.counts
    assert classes.blocks_executed < launch.blocks / 5
    assert classes.shape == (41, 60)


@pytest.mark.compiler
@pytest.mark.parametrize(("width", "rows"), [(1000, 50), (640, 33), (130, 400)])
def test_tiles_numbered_along_one_axis_are_taken_apart(width: int, rows: int) -> None:
    tiles = -(-width // 64)
    launch = Launch(grid_x=tiles * rows, block_x=64)
    n = width * rows
    classes, everything = both(
        FLATTENED, launch, floats("in", n), floats("out", n, output=True), np.int32(width), np.int32(tiles)
    )
    assert classes.counts == everything.counts
    assert classes.exact
    if width % 64:
        assert classes.shape == (tiles, rows)


@pytest.mark.compiler
@pytest.mark.parametrize("n", [1, 37, 300, 499])
def test_a_threshold_inside_the_grid_is_found(n: int) -> None:
    launch = Launch(grid_x=500, block_x=32)
    classes, everything = both(TRIANGLE, launch, floats("in", 256), floats("out", 500 * 32, output=True), np.int32(n))
    assert everything.counts.global_load_requests == 8 * n
    assert classes.counts == everything.counts
    assert classes.exact


@pytest.mark.compiler
def test_data_dependent_blocks_are_sampled_and_the_error_is_stated() -> None:
    blocks = 3000
    trips = np.random.default_rng(5).integers(0, 40, blocks).astype(np.int32)
    launch = Launch(grid_x=blocks, block_x=32)
    arguments = (Buffer(name="trips", array=trips), floats("out", blocks * 32, output=True))
    found, everything = both(DEPENDENT, launch, *arguments)
    assert everything.counts.global_load_requests == blocks + trips.sum()  # each block its bound, each trip an element
    assert everything.exact
    assert not found.exact
    assert "estimated" in found.notes[0]
    assert 0.0 < found.relative_error < 0.2
    ratio = float(found.counts.global_load_requests) / float(everything.counts.global_load_requests)
    assert abs(ratio - 1.0) < 2 * found.relative_error
    assert found.blocks_executed < blocks / 5


@pytest.mark.compiler
def test_totals_by_instruction_add_up_to_the_launch() -> None:
    width, height = 300, 60
    module, name = module_of(STENCIL)
    launch = Launch(grid_x=10, grid_y=15, block_x=32, block_y=4)
    n = width * height
    call = KernelCall(parameters=(floats("in", n), floats("out", n, output=True), np.int32(width), np.int32(height)))
    found = count_launch(module.kernel(name), launch, call, instructions=True)
    everything = count_launch(module.kernel(name), launch, call, instructions=True, all_blocks=True)
    assert [(c.instruction, c.requests, c.wavefronts) for c in found.instructions] == [
        (c.instruction, c.requests, c.wavefronts) for c in everything.instructions
    ]


@given(st.lists(st.integers(1, 9), min_size=1, max_size=4).map(tuple))
def test_edge_boxes_cover_every_block_once(grid: tuple[int, ...]) -> None:
    boxes = edge_boxes(grid)
    blocks = [tuple(block) for box in boxes for block in box.draw(box.size, np.random.default_rng(0)).tolist()]
    assert sorted(blocks) == sorted(np.ndindex(*grid))
    assert len(boxes) == np.prod([min(extent, 3) for extent in grid])


@given(st.integers(2, 4000), st.integers(0, 1), st.data())
def test_two_halves_that_differ_are_cut_apart_and_alike_parts_joined(
    extent: int, axis: int, data: st.DataObject
) -> None:
    threshold = data.draw(st.integers(1, extent - 1))
    grid = (extent, 7) if axis == 0 else (7, extent)

    def rows(blocks: NDArray[np.int64]) -> NDArray[np.float64]:
        return (blocks[:, axis : axis + 1] < threshold).astype(np.float64)

    executed = Executed(rows)
    cut = Box.of(grid).cut(axis, threshold - 1)
    agreed, disagreed = agreeing_boxes(list(cut), executed, slice(None), np.random.default_rng(0))
    assert merged_boxes(agreed, executed, slice(None)) == list(cut)
    assert disagreed == []
    found, _ = agreeing_boxes([Box.of(grid)], executed, slice(None), np.random.default_rng(0))
    if len(found) > 1:
        assert sorted(merged_boxes(found, executed, slice(None)), key=lambda box: box.low) == list(cut)


@given(
    st.tuples(st.integers(1, 70), st.integers(1, 40)),
    st.integers(0, 31),
    st.integers(0, 31),
    st.integers(0, 99),
)
def test_aligned_totals_are_the_sums_over_all_blocks(
    grid: tuple[int, int], step_x: int, step_y: int, seed: int
) -> None:
    by_offset = np.random.default_rng(seed).permutation(32).astype(np.float64)  # a count for each word offset in a line

    def rows(blocks: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.asarray(by_offset[(blocks @ [step_x, step_y]) % 32][:, None])

    box = Box.of(grid)
    (found,) = aligned_totals([box], Executed(rows), slice(None), np.random.default_rng(1))
    everywhere = rows(np.array(list(np.ndindex(*grid)))).sum()
    assert found.exact
    assert found.sums[0] == everywhere


@given(st.integers(2, 60), st.integers(2, 60), st.integers(2, 9), st.integers(1, 10**6), st.integers(1, 10**6))
def test_nested_numbering_of_tiles_is_found(
    columns: int, rows: int, planes: int, row_step: int, plane_step: int
) -> None:
    def stores(blocks: NDArray[np.int64]) -> NDArray[np.int64]:
        return blocks % columns * 128 + blocks // columns % rows * row_step + blocks // (columns * rows) * plane_step

    total = columns * rows * planes
    found = launch_shape((total, 1, 1), stores, np.random.default_rng(0))
    assert np.prod(found) == total
    linear_rows, linear_planes = row_step == columns * 128, plane_step == rows * row_step
    if total >= 32 and not linear_rows and not linear_planes and (rows - 1) * row_step + row_step != plane_step:
        assert found == (columns, rows, planes)
