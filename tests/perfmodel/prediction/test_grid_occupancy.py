"""Occupancy with the grid: waves per SM and the warps that are resident on average, against counters."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import perfmodel as pm
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.gpus.occupancy import occupancy
from perfmodel.prediction.grid_occupancy import achieved_blocks, waves_per_sm
from perfmodel.prediction.prediction import ResidentBlocks

H200 = load_gpu("h200")


def test_waves_are_blocks_over_places() -> None:
    assert waves_per_sm(132 * 8, 8, H200) == 1
    assert waves_per_sm(1, 8, H200) == 1 / (132 * 8)


def test_a_small_grid_leaves_one_block_on_each_sm_that_has_any() -> None:
    assert achieved_blocks(1, 8, 1.0, H200) == pytest.approx(
        1, rel=1e-5
    )  # over a second the start of a block is nothing
    assert achieved_blocks(132, 8, 1.0, H200) == pytest.approx(1, rel=1e-5)


def test_no_more_blocks_are_achieved_than_fit() -> None:
    for blocks in (1, 131, 133, 1056, 1057, 10_000, 1_000_000):
        assert 0 < achieved_blocks(blocks, 8, 1.0, H200) <= 8


@pytest.mark.compiler
def test_a_grid_of_one_block_is_not_full_occupancy() -> None:
    source = "__global__ void k(float *x) { x[threadIdx.x] *= 2.0f; }"
    found: ResidentBlocks = pm.analyze(
        source, kernel="k", grid=1, block=256, args=["f32[256]"], gpu="h200"
    ).prediction.occupancy
    assert (found.fraction, found.limited_by_grid) == (1.0, True)
    assert 0 < found.achieved_warps_per_sm <= 8  # one block of eight warps
    achieved = found.achieved_warps_per_sm / H200.max_warps_per_sm
    assert f"0.00 waves per SM (limited by grid), achieved about {achieved:.0%}" in found.text
    assert ", limited by shared memory), " in replace(found, limiter="shared_memory").text


@pytest.mark.data
def test_achieved_occupancy_is_that_of_the_counters(published_data: Path) -> None:
    """`tiled_conv2d` on an RTX 2080 Ti, which the number of the model was not fitted to, with the measured times."""
    with (published_data / "tiled_conv2d" / "rtx-2080-ti.counters.csv").open() as file:
        rows = list(csv.DictReader(file))
    gpu = load_gpu("rtx-2080-ti")
    errors = []
    for row in rows:
        warps = -(-int(row["block_size_x"]) * int(row["block_size_y"]) // 32)
        resident = occupancy(
            gpu,
            threads_per_block=int(row["block_size_x"]) * int(row["block_size_y"]),
            registers_per_thread=int(row["registers_per_thread"]),
            shared_bytes_per_block=int(row["shared_bytes_per_block"]),
        )
        blocks = int(row["grid_x"]) * int(row["grid_y"])
        found = achieved_blocks(blocks, int(resident.blocks_per_sm), float(row["time_ms"]) / 1e3, gpu) * warps
        counted = float(row["sm__warps_active.avg.pct_of_peak_sustained_active"]) / 100 * gpu.max_warps_per_sm
        errors.append(abs(found / counted - 1))
    print(np.median(errors), np.quantile(errors, 0.9))
    assert np.median(errors) < 0.05
    assert np.quantile(errors, 0.9) < 0.15
