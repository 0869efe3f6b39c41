"""Launches of which most blocks end at once take what the others take."""

from __future__ import annotations

import pytest

import perfmodel as pm

pytestmark = pytest.mark.compiler

SOURCE = """
extern "C" __global__ void k(const unsigned char *in, const int *shifts, float *out, int working)
{
    if (blockIdx.x >= working) return;
    float sum = 0.0f;
    for (int j = 0; j < 60; j++) sum += in[j * 4096 + (int)(blockIdx.x * 0.5f * shifts[j]) + threadIdx.x];
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
"""
WORKING = 1500


@pytest.mark.parametrize("gpu", ["h200", "rtx-a4000"])
def test_blocks_that_end_at_once_take_little(gpu: str) -> None:
    args = [f"u8[{64 * 4096}]", "i32[60]=0..2", f"f32[{WORKING * 64}]", f"i32={WORKING}"]
    alone, beside = (
        pm.analyze(SOURCE, grid=grid, block=64, args=args, gpu=gpu).prediction.time.predicted_s
        for grid in (WORKING, 20 * WORKING)
    )
    assert 0.95 < beside / alone < 1.5
