"""Blocks that share: right results into poisoned outputs, no faults, and the counts of which their tiles leave no doubt."""

from __future__ import annotations

import numpy as np
import pytest

from perfmodel.compiler.compiled import compile_kernel
from perfmodel.families.base import Batch
from perfmodel.families.conv1d import FAMILY, Conv1d, Conv1dConfiguration, Variant
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.machine_code.program import read_machine_code
from perfmodel.profiles.totals import counted_run

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


def assert_right(problem: Conv1d, chosen: Conv1dConfiguration, gpu_id: str = "h200") -> None:
    gpu = load_gpu(gpu_id)
    inputs = FAMILY.inputs(problem, np.random.default_rng(0))
    compiled = compile_kernel(FAMILY.compile_request(problem, chosen, gpu), gpu.architecture.name)
    launch = FAMILY.launch(problem, Batch.of([chosen]), gpu).at(0)
    done = counted_run(
        read_machine_code(compiled), launch, FAMILY.call(problem, chosen, gpu, inputs), check=True
    )
    assert done.faults == ()
    exact = FAMILY.reference(problem, inputs)["output"]
    error = np.abs(done.outputs["output"] - exact).max()  # NaN, the poison, fails the comparison
    assert error <= FAMILY.tolerance(problem) * np.abs(exact).max()


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
    assert_right(*CASES[name])


@pytest.mark.compiler
@pytest.mark.parametrize("name", ["tiles_beyond_row_and_batch", "odd_sizes"])
def test_results_without_asynchronous_copies(name: str) -> None:
    assert_right(*CASES[name], gpu_id="rtx-2080-ti")
