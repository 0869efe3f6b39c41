"""The kernels executed on the CPU: right results, no fault, and exactly the counts of the closed forms."""

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from perfmodel.families.conv1d import FAMILY, Conv1d, Conv1dConfiguration, Variant
from perfmodel.families.conv1d.launch import Kernel, kernel_of
from perfmodel.gpus.catalogue import load_gpu

from ..right_results import hold_to_closed_form, right_run

pytestmark = pytest.mark.compiler

GPU = load_gpu("a100-sxm-80gb")
FEW = settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)


def of(channels_per_thread: int | None) -> Conv1dConfiguration:
    variant = Variant.NAIVE if channels_per_thread is None else Variant.OPTIMIZED
    return Conv1dConfiguration(variant=variant, channels_per_thread=channels_per_thread)


def check(problem: Conv1d, channels_per_thread: int | None, kernel: Kernel) -> None:
    """The kernel that is meant gives right results and every exact count of the closed form."""
    assert kernel_of(problem, of(channels_per_thread), GPU) is kernel
    hold_to_closed_form(FAMILY, problem, of(channels_per_thread), on=GPU, seed=7)


def sized(in_channels: int, length: int, filter_width: int = 5, padding: int = 2, **others: int) -> Conv1d:
    sizes = {"batch": 2, "out_channels": 3, "filter_width": filter_width, "padding": padding} | others
    return Conv1d(in_channels=in_channels, length=length, **sizes)


@st.composite
def problems(draw: st.DrawFn) -> Conv1d:
    length, filter_width, padding = draw(st.integers(1, 20)), draw(st.integers(1, 9)), draw(st.integers(0, 5))
    assume(filter_width <= length + 2 * padding)
    in_channels = draw(st.one_of(st.integers(1, 40), st.sampled_from([64, 67, 96, 100, 128, 131])))
    return sized(
        in_channels, length, filter_width, padding, batch=draw(st.integers(1, 3)), out_channels=draw(st.integers(1, 5))
    )


@FEW
@given(problems(), st.integers(1, 8))
@example(sized(1, 1, 1, 0), 1)  # one product
@example(sized(2, 16), 1)  # two threads
@example(sized(13, 7, 3, 1), 4)  # channels left over, odd rows
@example(sized(64, 15, 1, 1), 5)  # pitch of 76: float4 reads of the input
@example(sized(96, 11, 7, 3), 3)  # period 33, no multiple of a float4
@example(sized(40, 2, 1, 6), 2)  # outputs that are padding alone
@example(sized(70, 1), 2)  # taps that are only multiplied by padding
@example(sized(64, 60, 3, 1, out_channels=1), 1)  # more outputs than lanes
@example(Conv1d(out_channels=2), 4)  # the published shape
def test_optimized_is_right_and_counted_exactly(problem: Conv1d, channels_per_thread: int) -> None:
    assume(channels_per_thread <= problem.in_channels)
    assume(channels_per_thread * (problem.length + problem.filter_width) <= 120)
    check(problem, channels_per_thread, Kernel.OPTIMIZED)


@FEW
@given(problems())
@example(Conv1d(out_channels=2))
def test_naive_is_right_and_counted_exactly(problem: Conv1d) -> None:
    check(problem, None, Kernel.NAIVE)


@st.composite
def large_problems(draw: st.DrawFn) -> tuple[Conv1d, int]:
    """Problems of the tiled kernel: rows beyond the registers, with many taps, tiles or channels."""
    length = draw(st.sampled_from([1, 2, 19, 50, 61, 100, 256]))
    filter_width = draw(st.sampled_from([1, 2, 3, 5, 8, 9, 16, 17, 25]))
    padding = draw(st.one_of(st.integers(0, 3), st.just(filter_width // 2), st.just(filter_width + 9)))
    in_channels = draw(st.sampled_from([1, 2, 3, 7, 31, 33, 64, 97, 130]))
    channels_per_thread = draw(st.sampled_from([c for c in (1, 2, 3, 4, 8, 16, 33) if c <= in_channels]))
    assume(filter_width <= length + 2 * padding)
    batch, out_channels = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    problem = sized(in_channels, length, filter_width, padding, batch=batch, out_channels=out_channels)
    assume(kernel_of(problem, of(channels_per_thread), GPU) is Kernel.TILED)
    return problem, channels_per_thread


@FEW
@given(large_problems())
@example((sized(1, 300, 3, 1), 1))  # one owner: rows at known places
@example((sized(33, 256, 25, 34), 8))  # tiles on padding alone, 4 steps
@example((sized(256, 41), 8))  # 8 chunks, tiles of 14 and 13
@example((sized(1300, 4, 3, 0, out_channels=1), 100))  # a short chunk
@example((sized(130, 1, 11, 11), 33))  # outputs that are padding alone
@example((sized(5000, 3, out_channels=1, batch=1), 125))  # 40 owners
@example((sized(1, 20_000, out_channels=1, batch=1), 1))  # 1,250 tiles
@example((sized(9, 64, 2, 0), 4))  # rows of 256 words, beyond the registers
def test_tiled_is_right_and_counted_exactly(chosen: tuple[Conv1d, int]) -> None:
    check(*chosen, Kernel.TILED)


@pytest.mark.parametrize(
    "problem",
    [
        sized(1025, 3, out_channels=1, batch=1),  # one thread has two channels
        sized(2500, 2, 1, 1, out_channels=1, batch=3),
        sized(3, 300, 7, 5, batch=1),
        sized(40, 5, 301, 151, out_channels=1, batch=1),  # the filter is longer than the row
    ],
)
def test_rolled_naive_is_right_and_counted_exactly(problem: Conv1d) -> None:
    check(problem, None, Kernel.NAIVE_ROLLED)


def test_the_sum_over_channels_has_one_order() -> None:
    problem = Conv1d(in_channels=200, out_channels=2)
    first, second = (right_run(FAMILY, problem, of(2), on=GPU, ptx=True).outputs["output"] for _ in range(2))
    np.testing.assert_array_equal(first, second)
