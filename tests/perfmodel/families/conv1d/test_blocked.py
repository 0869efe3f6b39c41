"""The blocked design: right results into poisoned outputs, no faults, and the counts of which their tiles leave no doubt."""

from __future__ import annotations

import numpy as np
import pytest

from perfmodel.compiler.compiled import compile_kernel
from perfmodel.families.base import Batch
from perfmodel.families.conv1d import FAMILY, Conv1d, Conv1dConfiguration, Variant
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.profiles.executed_profile import executed_profile

from ..right_results import right_run

GPU = load_gpu("h200")


def blocked(
    block_x: int, block_y: int, rows: int, columns: int, channels: int, channel_threads: int, slices: int
) -> Conv1dConfiguration:
    return Conv1dConfiguration(
        variant=Variant.BLOCKED,
        channels_per_thread=None,
        block_x=block_x,
        block_y=block_y,
        rows_per_thread=rows,
        columns_per_thread=columns,
        out_channels_per_thread=channels,
        channel_threads=channel_threads,
        channel_slices=slices,
    )


def test_a_launch_has_a_block_for_each_tile_and_counts_what_its_threads_add() -> None:
    problem = Conv1d(batch=6, in_channels=32, out_channels=48, length=40, filter_width=3, padding=1)
    batch = Batch.of([blocked(5, 2, 1, 8, 4, 8, 2)])
    launch = FAMILY.launch(problem, batch, GPU).at(0)
    assert launch.grid == (3, 2, 1)  # 6 batch elements in tiles of 2, all 40 columns; 48 channels in tiles of 32
    assert launch.block == (5 * 2 * 8 * 2, 1, 1)
    # 32 · 64 · 3 products for each of 6 · 40 columns, 32 at once: the second tile of channels has 16 that are no more
    counts = FAMILY.profile(problem, batch, GPU).counts.at(0)
    assert counts.fp32_fma == 32 * 64 * 3 * 6 * 40 / 32


@pytest.mark.compiler
def test_counts_of_whole_tiles_are_those_of_the_executed_launch() -> None:
    problem = Conv1d(batch=4, in_channels=16, out_channels=32, length=32, filter_width=5, padding=2)
    chosen = blocked(4, 2, 1, 8, 8, 4, 2)
    kernel = compile_kernel(FAMILY.compile_request(problem, chosen, GPU), GPU.architecture.name)
    batch, inputs = Batch.of([chosen]), FAMILY.inputs(problem, np.random.default_rng(0))
    launch = FAMILY.launch(problem, batch, GPU).at(0)
    found = executed_profile(kernel, launch, FAMILY.call(problem, chosen, GPU, inputs)).counts
    closed = FAMILY.closed_counts(problem, batch, GPU).at(0)
    for name in ("fp32_fma", "shared_load_requests", "shared_load_wavefronts", "global_store_requests", "barriers"):
        assert getattr(found, name) == getattr(closed, name), name
    for name in ("async_copy_requests", "async_copy_read_sectors"):  # at edges
        assert getattr(found, name) == pytest.approx(getattr(closed, name), rel=0.25), name


SAME = {"in_channels": 8, "out_channels": 12}
CASES = {
    "whole_tiles": (Conv1d(batch=2, length=16, filter_width=5, padding=2, **SAME), blocked(2, 2, 1, 8, 4, 3, 2)),
    "tiles_beyond_row_and_batch": (
        Conv1d(batch=3, length=36, filter_width=3, padding=1, **SAME),
        blocked(4, 1, 2, 4, 4, 4, 4),
    ),
    "odd_sizes": (
        Conv1d(batch=3, in_channels=7, out_channels=9, length=37, filter_width=4, padding=1),
        blocked(5, 3, 1, 4, 4, 4, 2),
    ),
    "groups_of_two_channels": (
        Conv1d(in_channels=10, out_channels=8, length=24, filter_width=5, padding=2),
        blocked(3, 1, 1, 8, 4, 2, 4),
    ),
    "rows_of_two_words": (Conv1d(batch=9, length=10, filter_width=7, padding=3, **SAME), blocked(5, 4, 2, 2, 4, 2, 2)),
    "no_padding": (Conv1d(batch=1, length=64, filter_width=9, padding=0, **SAME), blocked(7, 1, 1, 8, 8, 2, 8)),
    "padding_beyond_the_filter": (
        Conv1d(batch=4, length=4, filter_width=2, padding=5, **SAME),
        blocked(4, 4, 1, 4, 4, 3, 2),
    ),
    "one_tap": (Conv1d(batch=2, length=40, filter_width=1, padding=0, **SAME), blocked(5, 2, 1, 8, 4, 3, 4)),
}  # fmt: skip


@pytest.mark.compiler
@pytest.mark.parametrize("name", CASES)
def test_results(name: str) -> None:
    right_run(FAMILY, *CASES[name])


@pytest.mark.compiler
@pytest.mark.parametrize("name", ["tiles_beyond_row_and_batch", "odd_sizes"])
def test_results_without_asynchronous_copies(name: str) -> None:
    right_run(FAMILY, *CASES[name], on="rtx-2080-ti")
