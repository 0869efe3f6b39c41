"""The blocked design: right results into poisoned outputs, no faults, and the counts of which their tiles leave no doubt."""

from __future__ import annotations

import pytest

from perfmodel.families.direct_conv2d import FAMILY, Conv2d, DirectConv2dConfiguration, Reuse

from ..right_results import right_run

pytestmark = pytest.mark.compiler


def blocked(
    rows: int, block_x: int, block_y: int, columns: int, channels: int, channel_threads: int, slices: int
) -> DirectConv2dConfiguration:
    return DirectConv2dConfiguration(
        reuse=Reuse.BLOCKED,
        exchange=None,
        accumulators=None,
        rows_per_thread=rows,
        block_x=block_x,
        block_y=block_y,
        columns_per_thread=columns,
        channels_per_thread=channels,
        channel_threads=channel_threads,
        channel_slices=slices,
    )


LAYER = {"in_channels": 8, "out_channels": 12, "filter_height": 3, "filter_width": 3, "padding": 1}
CASES = {
    "whole_tiles": (Conv2d(height=8, width=16, **LAYER), blocked(2, 4, 4, 4, 4, 3, 2)),
    "tiles_beyond_the_image": (Conv2d(height=9, width=13, **LAYER), blocked(4, 2, 2, 4, 4, 2, 4)),
    "several_images": (Conv2d(batch=5, height=7, width=7, **LAYER), blocked(7, 7, 2, 1, 4, 2, 2)),
    "channels_beyond_both_ends": (
        Conv2d(in_channels=7, out_channels=9, height=6, width=10, filter_height=3, filter_width=3, padding=1),
        blocked(2, 3, 3, 4, 4, 4, 2),
    ),
    "stem": (
        Conv2d(in_channels=3, out_channels=16, height=30, width=30, filter_height=7, filter_width=7, stride=2, padding=3),
        blocked(1, 4, 8, 4, 8, 2, 1),
    ),
    "pointwise_with_stride": (
        Conv2d(in_channels=16, out_channels=8, height=9, width=12, filter_height=1, filter_width=1, stride=2),
        blocked(1, 6, 5, 1, 4, 1, 4),
    ),
    "five_by_three": (
        Conv2d(batch=2, in_channels=4, out_channels=5, height=7, width=9, filter_height=5, filter_width=3, padding=2),
        blocked(2, 4, 4, 2, 8, 1, 4),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_results(name: str) -> None:
    right_run(FAMILY, *CASES[name])


@pytest.mark.parametrize("name", ["tiles_beyond_the_image", "several_images"])
def test_results_without_asynchronous_copies(name: str) -> None:
    right_run(FAMILY, *CASES[name], on="rtx-2080-ti")
