"""Launches of which most blocks end at once: caches and time are those of the blocks that work."""

from __future__ import annotations

import pytest

import perfmodel as pm
from perfmodel.gpus.catalogue import load_gpu

pytestmark = pytest.mark.compiler

SOURCE = """
extern "C" __global__ void k(const float *in, const int *shifts, float *out, int columns, int rows)
{
    int x = blockIdx.x, y = blockIdx.y;
    if (x >= columns || y >= rows) return;
    float sum = 0.0f;
    for (int j = 0; j < 60; j++) sum += in[j * 16384 + x * 32 + (int)(y * 0.5f * shifts[j]) + threadIdx.x];
    out[(y * columns + x) * blockDim.x + threadIdx.x] = sum;
}
"""
COLUMNS, ROWS = 300, 5
ARGS = [
    f"f32[{64 * 16384}]",
    "i32[60]=0..64",
    f"f32[{COLUMNS * ROWS * 64}]",
    f"i32={COLUMNS}",
    f"i32={ROWS}",
]


def analyzed(grid: tuple[int, int], gpu: str) -> pm.Analysis:
    return pm.analyze(SOURCE, grid=grid, block=64, args=ARGS, gpu=gpu)


@pytest.mark.parametrize("gpu", ["h200", "rtx-a4000"])
def test_blocks_that_end_at_once_change_neither_caches_nor_time(gpu: str) -> None:
    alone, beside = (analyzed((COLUMNS * x, ROWS * y), gpu) for x, y in ((1, 1), (2, 2)))
    for name in ("l1_missed_sectors", "l2_read_sectors", "dram_read_bytes"):
        assert getattr(beside.prediction.counts, name) == pytest.approx(
            getattr(alone.prediction.counts, name), rel=0.05
        ), name
    assert alone.prediction.counts.l1_missed_sectors < 0.9 * alone.prediction.counts.global_load_sectors
    assert beside.blocks.executed < COLUMNS * ROWS + 50
    assert 0.95 < beside.prediction.time.predicted_s / alone.prediction.time.predicted_s < 1.25


def test_no_launch_is_faster_than_its_blocks_are_launched() -> None:
    grid, gpu = (COLUMNS * 6, ROWS * 10), load_gpu("h200")
    least_s = grid[0] * grid[1] * gpu.block_dispatch_cycles / gpu.boost_clock_hz
    assert analyzed(grid, "h200").prediction.time.predicted_s >= least_s
