"""Problem, configuration, space and limits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmodel.errors import InputError
from perfmodel.families.base import Batch
from perfmodel.families.conv1d import FAMILY, Conv1d, Conv1dConfiguration, Variant
from perfmodel.gpus import load_gpu

NAIVE = Conv1dConfiguration(variant=Variant.NAIVE, channels_per_thread=None)


def rejections(problem: Conv1d, configuration: Conv1dConfiguration) -> list[str]:
    checks = FAMILY.checks(problem, Batch.of([configuration]), load_gpu("h200"))
    return [check.message(0) for check in checks if np.broadcast_to(check.rejected, 1)[0]]


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"in_channels": 0}, "in_channels=0"),
        ({"length": -4}, "length=-4"),
        ({"padding": -1}, "padding=-1"),
        ({"batch": 1.5}, "batch=1.5"),
        ({"filter_width": 9, "length": 4, "padding": 2}, "filter_width=9 must be at most 8"),
        ({"out_channels": 2**20, "in_channels": 2**20}, "weights of 1048576 x 1048576 x 5"),
    ],
)
def test_wrong_sizes_are_named(fields: dict[str, int], named: str) -> None:
    with pytest.raises(InputError, match=named):
        Conv1d(**fields)


@given(st.integers(1, 30), st.integers(1, 12), st.integers(0, 8))
def test_products_on_padding_do_not_count(length: int, filter_width: int, padding: int) -> None:
    if filter_width > length + 2 * padding:
        return
    problem = Conv1d(length=length, filter_width=filter_width, padding=padding)
    meeting = [
        tap
        for t in range(problem.output_length)
        for tap in range(filter_width)
        if padding <= t + tap < padding + length
    ]
    assert problem.products_per_channel == len(meeting)
    assert list(problem.used_taps) == sorted(set(meeting))


def test_naive_with_channels_per_thread_would_stand_twice() -> None:
    with pytest.raises(InputError, match="must be none when variant=naive"):
        Conv1dConfiguration(variant=Variant.NAIVE, channels_per_thread=2)


def test_the_space_has_each_configuration_once_and_the_authors_choices() -> None:
    gpu = load_gpu("h200")
    for in_channels, length, choice in ((2, 16, 1), (512, 4, 8), (256, 16, 2), (1024, 8, 4), (2048, 4, 4)):
        problem = Conv1d(in_channels=in_channels, length=length)
        space = FAMILY.space(problem, gpu)
        found = [chunk.configuration(i) for chunk in space.chunks() for i in range(len(chunk))]
        assert len(found) == len(set(found)) == len(space)
        assert Conv1dConfiguration(channels_per_thread=choice) in found
        assert NAIVE in found


def test_naive_needs_a_thread_for_each_channel() -> None:
    assert rejections(Conv1d(in_channels=1024), NAIVE) == []
    reason = "threads of the naive variant, one for each input channel: 1025 exceeds 1024"
    assert rejections(Conv1d(in_channels=1025), NAIVE) == [reason]


def test_idle_threads_and_endless_code_are_rejected() -> None:
    assert rejections(Conv1d(in_channels=4), Conv1dConfiguration(channels_per_thread=5)) == [
        "channels_per_thread: 5 exceeds in_channels=4"
    ]
    long_row = Conv1d(in_channels=4, length=4096, filter_width=3, padding=0)
    assert rejections(long_row, Conv1dConfiguration(channels_per_thread=1)) == [
        f"unrolled instructions per thread: {4094 * 3 + 4094 * 20} exceeds 12000"
    ]


def test_launch_of_the_profiled_shape() -> None:
    launch = FAMILY.launch(Conv1d(), Batch.of([NAIVE, Conv1dConfiguration(channels_per_thread=4)]), load_gpu("h200"))
    assert launch.blocks.tolist() == [1024, 1024]
    assert launch.threads_per_block.tolist() == [1024, 1024 // 4]
    assert launch.static_shared_bytes.tolist() == [4 * 1024, 4 * 8 * 4]  # the tree; 4 sums of each of 8 warps
    assert launch.dynamic_shared_bytes.tolist() == [0, 4 * 1024 * 5]  # weights; the padded input is 4096 + 127 words
