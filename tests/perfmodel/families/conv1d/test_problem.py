"""Problem, configuration, space and launch."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from perfmodel import rank
from perfmodel.errors import InputError
from perfmodel.families.base import Batch
from perfmodel.families.conv1d import FAMILY, Conv1d, Conv1dConfiguration, Variant
from perfmodel.families.conv1d.launch import Kernel, kernel_of, tiling
from perfmodel.gpus.catalogue import load_gpu

NAIVE = Conv1dConfiguration(variant=Variant.NAIVE, channels_per_thread=None)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"in_channels": 0}, "in_channels=0"),
        ({"length": -4}, "length=-4"),
        ({"padding": -1}, "padding=-1"),
        ({"batch": 1.5}, "batch=1.5"),
        ({"filter_width": 9, "length": 4, "padding": 2}, "filter_width=9 must be at most 8"),
        ({"out_channels": 2**20, "in_channels": 2**20}, "weights of 1048576 x 1048576 x 5"),
        ({"length": 1, "padding": 2**30, "filter_width": 2**31 - 1}, "padded row of 2147483649 has more than"),
    ],
)
def test_wrong_sizes_are_named(fields: dict[str, int], named: str) -> None:
    with pytest.raises(InputError, match=named):
        Conv1d(**fields)


@given(st.integers(1, 30), st.integers(1, 12), st.integers(0, 8))
def test_products_on_padding_do_not_count(length: int, filter_width: int, padding: int) -> None:
    assume(filter_width <= length + 2 * padding)
    problem = Conv1d(length=length, filter_width=filter_width, padding=padding)
    pairs = ((t, tap) for t in range(problem.output_length) for tap in range(filter_width))
    taps = [tap for t, tap in pairs if padding <= t + tap < padding + length]
    assert problem.products_per_channel == len(taps)
    assert list(problem.used_taps) == sorted(set(taps))


def test_a_field_without_effect_would_stand_twice() -> None:
    with pytest.raises(InputError, match="channels_per_thread=2 must be none when variant=naive"):
        Conv1dConfiguration(variant=Variant.NAIVE, channels_per_thread=2)
    with pytest.raises(InputError, match="block_x=4 must be none when variant=optimized"):
        Conv1dConfiguration(block_x=4)


@given(st.integers(1, 5000), st.integers(1, 100))
def test_the_space_has_each_configuration_once_and_no_thread_without_a_channel(in_channels: int, length: int) -> None:
    problem, gpu = Conv1d(in_channels=in_channels, length=length), load_gpu("h200")
    batch = FAMILY.space(problem, gpu).batch()
    columns = np.stack(list(batch.columns.values()), axis=1)
    assert len(np.unique(columns, axis=0)) == len(batch)
    assert batch.configuration(0) == NAIVE
    check, *_ = FAMILY.checks(problem, batch, gpu)
    assert not check.rejected.any()
    beyond = Batch.of([Conv1dConfiguration(channels_per_thread=in_channels + 1)])
    check, *others = FAMILY.checks(problem, beyond, gpu)
    assert not any(other.rejected.any() for other in others)
    assert check.message(0) == f"channels_per_thread: {in_channels + 1} exceeds in_channels={in_channels}"


@pytest.mark.parametrize("gpu_id", ["rtx-2080-ti", "h200"])
@pytest.mark.parametrize(
    "fields",
    [
        {"in_channels": 1, "out_channels": 1, "length": 1, "filter_width": 1, "padding": 0},
        {"in_channels": 1, "length": 1, "filter_width": 11, "padding": 5},  # the filter is longer than the row
        {"in_channels": 4999, "out_channels": 3, "length": 20_000, "filter_width": 1, "padding": 0},  # a prime
        {"in_channels": 1025, "out_channels": 2, "length": 997, "filter_width": 501, "padding": 250, "batch": 7},
        {"in_channels": 1, "out_channels": 1, "length": 2_000_000, "filter_width": 70_000, "padding": 0},
        {"in_channels": 3_000_000, "out_channels": 1, "length": 3, "filter_width": 2, "padding": 0},
    ],
)
def test_every_problem_has_configurations_that_run(fields: dict[str, int], gpu_id: str) -> None:
    top = rank(Conv1d(**fields), gpu=gpu_id, fidelity="analytic", top=2048).top
    assert {prediction.configuration.variant for prediction in top} >= {Variant.NAIVE, Variant.OPTIMIZED}
    assert all(np.isfinite(prediction.time.predicted_s) for prediction in top)


def test_short_rows_run_as_straight_line_code_and_rows_beyond_the_registers_do_not() -> None:
    for gpu in map(load_gpu, ("rtx-2080-ti", "rtx-3090", "h200")):
        for in_channels, length, choice in ((256, 16, 2), (512, 4, 8), (1024, 8, 4), (2048, 4, 4)):
            problem = Conv1d(in_channels=in_channels, length=length)
            assert kernel_of(problem, Conv1dConfiguration(channels_per_thread=choice), gpu) is Kernel.OPTIMIZED
            assert kernel_of(problem, NAIVE, gpu) is (Kernel.NAIVE if in_channels <= 1024 else Kernel.NAIVE_ROLLED)
        beyond = Conv1dConfiguration(channels_per_thread=32)  # 32 * (4 + 5) words, 255 registers
        assert kernel_of(Conv1d(in_channels=512), beyond, gpu) is Kernel.TILED


@given(st.integers(1, 5000), st.integers(1, 300), st.integers(1, 29), st.integers(1, 8))
def test_the_tiled_kernel_covers_every_output_tap_and_channel(
    in_channels: int, length: int, filter_width: int, channels_per_thread: int
) -> None:
    problem = Conv1d(in_channels=in_channels, length=length, filter_width=filter_width, padding=14)
    cut = tiling(problem, min(channels_per_thread, in_channels))
    assert (cut.tiles - 1) * cut.tile < problem.output_length <= cut.tiles * cut.tile
    assert sum(taps for _, taps in cut.steps) == len(problem.used_taps)
    assert (cut.chunks - 1) * cut.chunk_channels < problem.in_channels <= cut.chunks * cut.chunk_channels


def test_launch_of_the_profiled_shape() -> None:
    launch = FAMILY.launch(Conv1d(), Batch.of([NAIVE, Conv1dConfiguration(channels_per_thread=4)]), load_gpu("h200"))
    assert launch.blocks.tolist() == [1024, 1024]
    assert launch.threads_per_block.tolist() == [1024, 1024 // 4]
    assert launch.static_shared_bytes.tolist() == [4 * 1024, 4 * 8 * 4]  # the tree; 4 sums of each of 8 warps
    assert launch.dynamic_shared_bytes.tolist() == [0, 4 * 1024 * 5]  # weights; the padded input is 4096 + 127 words
