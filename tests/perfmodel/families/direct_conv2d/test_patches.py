"""Sectors of a block's patch against a walk through the elements that its outputs need."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from perfmodel.families.base import Batch
from perfmodel.families.direct_conv2d import FAMILY, Accumulators, Conv2d, DirectConv2dConfiguration, Reuse
from perfmodel.gpus.catalogue import load_gpu

GPU = load_gpu("rtx-2080-ti")


def walked(problem: Conv2d, tile_rows: int, tile_columns: int) -> int:
    """Distinct sectors of every block, summed, by the words that its outputs' windows hold."""
    words = np.arange(problem.batch * problem.in_channels * problem.height * problem.width)
    image = words.reshape(-1, problem.height, problem.width)
    total = 0
    for y in range(0, problem.output_height, tile_rows):
        for x in range(0, problem.output_width, tile_columns):
            rows = range(y, min(y + tile_rows, problem.output_height))
            columns = range(x, min(x + tile_columns, problem.output_width))
            low = max(rows[0] * problem.stride - problem.padding, 0)
            high = rows[-1] * problem.stride - problem.padding + problem.filter_height
            left = max(columns[0] * problem.stride - problem.padding, 0)
            right = columns[-1] * problem.stride - problem.padding + problem.filter_width
            for plane in image:
                total += len(np.unique(plane[low : max(high, 0), left : max(right, 0)] // 8))
    return total


@given(
    st.integers(1, 2), st.integers(1, 3), st.integers(3, 40), st.integers(3, 90), st.integers(1, 3), st.integers(1, 2),
    st.integers(0, 1), st.integers(1, 4), st.sampled_from([32, 64]), st.integers(1, 3), st.booleans(),
)  # fmt: skip
def test_patch_sectors_are_those_of_the_windows(
    batch: int, channels: int, height: int, width: int, taps: int, stride: int, padding: int,
    rows_per_thread: int, block_x: int, block_y: int, depthwise: bool,
) -> None:  # fmt: skip
    stride, padding = min(stride, taps), min(padding, taps - 1)
    problem = Conv2d(
        batch=batch, in_channels=channels, out_channels=channels if depthwise else 2, height=height, width=width,
        filter_height=taps, filter_width=taps, stride=stride, padding=padding, depthwise=depthwise,
    )  # fmt: skip
    configuration = DirectConv2dConfiguration(
        reuse=Reuse.ROW, exchange=None, accumulators=Accumulators.UNROLLED, rows_per_thread=rows_per_thread,
        block_x=block_x, block_y=block_y,
    )  # fmt: skip
    counts = FAMILY.profile(problem, Batch.of([configuration]), GPU).counts.at(0)
    times = 1 if depthwise else problem.out_channels
    assert counts.l2_read_sectors == times * walked(problem, block_y * rows_per_thread, block_x)
