"""Both kernels executed on the CPU: right results, no fault, and exactly the counts of the closed forms."""

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from perfmodel.compiler.compiled import compile_kernel
from perfmodel.core.counts import Counts
from perfmodel.families.base import Batch
from perfmodel.families.conv1d import FAMILY, Conv1d, Conv1dConfiguration, Variant
from perfmodel.families.conv1d.kernels import Kernel, kernel_of
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.launch.launch import Launch
from perfmodel.ptx.parse import parse_module
from perfmodel.simulator.simulation import Simulation, simulate

pytestmark = pytest.mark.compiler

GPU = load_gpu("a100-sxm-80gb")
EXACT = (
    *("global_load_requests", "global_load_sectors", "global_load_lines", "global_store_requests"),
    *("global_store_sectors", "shared_load_requests", "shared_store_requests", "shared_load_wavefronts"),
    *("shared_store_wavefronts", "shared_bank_conflicts", "fp32_fma", "shuffles", "barriers"),
)
NAIVE = Conv1dConfiguration(variant=Variant.NAIVE, channels_per_thread=None)


def executed(problem: Conv1d, configuration: Conv1dConfiguration) -> Simulation:
    kernel = compile_kernel(FAMILY.compile_request(problem, configuration, GPU), GPU.architecture)
    launch = FAMILY.launch(problem, Batch.of([configuration]), GPU)
    single = Launch(
        grid_x=int(launch.grid_x[0]),
        block_x=int(launch.block_x[0]),
        dynamic_shared_bytes=int(launch.dynamic_shared_bytes[0]),
    )
    inputs = FAMILY.inputs(problem, np.random.default_rng(7))
    call = FAMILY.call(problem, configuration, GPU, inputs)
    found = simulate(parse_module(kernel.ptx).kernel(kernel.kernel_name), single, call, check=True)
    assert found.completed
    assert found.faults == ()
    reference = FAMILY.reference(problem, inputs)["output"]
    error = np.abs(found.outputs["output"] - reference).max()
    assert error <= FAMILY.tolerance(problem) * np.abs(reference).max()
    return found


def closed_form(problem: Conv1d, configuration: Conv1dConfiguration) -> Counts:
    return FAMILY.work(problem, Batch.of([configuration]), GPU).counts.at(0)


def assert_equal_counts(problem: Conv1d, configuration: Conv1dConfiguration) -> None:
    counts = executed(problem, configuration).counts()
    closed = closed_form(problem, configuration)
    assert {name: float(getattr(counts, name)) for name in EXACT} == {
        name: float(getattr(closed, name)) for name in EXACT
    }


@st.composite
def problems(draw: st.DrawFn) -> Conv1d:
    length, filter_width, padding = draw(st.integers(1, 20)), draw(st.integers(1, 9)), draw(st.integers(0, 5))
    assume(filter_width <= length + 2 * padding)
    return Conv1d(
        batch=draw(st.integers(1, 3)),
        in_channels=draw(st.one_of(st.integers(1, 40), st.sampled_from([64, 67, 96, 100, 128, 131]))),
        out_channels=draw(st.integers(1, 5)),
        length=length,
        filter_width=filter_width,
        padding=padding,
    )


FEW = settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)


@FEW
@given(problems(), st.integers(1, 8))
def test_optimized_is_right_and_counted_exactly(problem: Conv1d, channels_per_thread: int) -> None:
    assume(channels_per_thread <= problem.in_channels)
    assume(channels_per_thread * (problem.length + problem.filter_width) <= 120)
    assert_equal_counts(problem, Conv1dConfiguration(channels_per_thread=channels_per_thread))


@FEW
@given(problems())
def test_naive_is_right_and_counted_exactly(problem: Conv1d) -> None:
    assert_equal_counts(problem, NAIVE)


@pytest.mark.parametrize(
    ("fields", "channels_per_thread"),
    [
        ({"in_channels": 1, "length": 1, "filter_width": 1, "padding": 0}, 1),  # one product
        ({"in_channels": 2, "length": 16}, 1),  # two threads, where the original shuffles with thirty lanes missing
        ({"in_channels": 13, "length": 7, "filter_width": 3, "padding": 1}, 4),  # channels left over, odd rows
        (
            {"in_channels": 64, "length": 15, "filter_width": 1, "padding": 1},
            5,
        ),  # pitch of 76: float4 reads of the input
        ({"in_channels": 96, "length": 11, "filter_width": 7, "padding": 3}, 3),  # period 33, no multiple of a float4
        ({"in_channels": 40, "length": 2, "filter_width": 1, "padding": 6}, 2),  # outputs that are padding alone
        ({"in_channels": 70, "length": 1, "filter_width": 5, "padding": 2}, 2),  # taps that only meet padding
        ({"in_channels": 64, "length": 60, "filter_width": 3, "padding": 1, "out_channels": 1}, 1),  # outputs > lanes
        (
            {"in_channels": 9, "length": 64, "filter_width": 2, "padding": 0},
            4,
        ),  # rows of 256 words, beyond the registers
    ],
)
def test_sizes_that_divide_nothing(fields: dict[str, int], channels_per_thread: int) -> None:
    problem = Conv1d(**{"batch": 2, "out_channels": 3} | fields)
    assert_equal_counts(problem, Conv1dConfiguration(channels_per_thread=channels_per_thread))


@st.composite
def large_problems(draw: st.DrawFn) -> tuple[Conv1d, int]:
    """Problems of the tiled kernel: rows beyond the registers, with many taps, tiles or channels."""
    length = draw(st.sampled_from([1, 2, 19, 50, 61, 100, 256]))
    filter_width = draw(st.sampled_from([1, 2, 3, 5, 8, 9, 16, 17, 25]))
    padding = draw(st.one_of(st.integers(0, 3), st.just(filter_width // 2), st.just(filter_width + 9)))
    in_channels = draw(st.sampled_from([1, 2, 3, 7, 31, 33, 64, 97, 130]))
    channels_per_thread = draw(st.sampled_from([c for c in (1, 2, 3, 4, 8, 16, 33) if c <= in_channels]))
    assume(filter_width <= length + 2 * padding)
    problem = Conv1d(
        batch=draw(st.integers(1, 3)),
        in_channels=in_channels,
        out_channels=draw(st.integers(1, 3)),
        length=length,
        filter_width=filter_width,
        padding=padding,
    )
    assume(kernel_of(problem, Conv1dConfiguration(channels_per_thread=channels_per_thread), GPU) is Kernel.TILED)
    return problem, channels_per_thread


@FEW
@given(large_problems())
def test_tiled_is_right_and_counted_exactly(chosen: tuple[Conv1d, int]) -> None:
    problem, channels_per_thread = chosen
    assert_equal_counts(problem, Conv1dConfiguration(channels_per_thread=channels_per_thread))


@pytest.mark.parametrize(
    ("fields", "channels_per_thread"),
    [
        ({"in_channels": 1, "length": 300, "filter_width": 3, "padding": 1}, 1),  # one owner: rows at known places
        ({"in_channels": 33, "length": 256, "filter_width": 25, "padding": 34}, 8),  # tiles on padding alone, 4 steps
        ({"in_channels": 256, "length": 41, "filter_width": 5, "padding": 2}, 8),  # 8 chunks, tiles of 14 and 13
        ({"in_channels": 1300, "length": 4, "filter_width": 3, "padding": 0, "out_channels": 1}, 100),  # a short chunk
        ({"in_channels": 130, "length": 1, "filter_width": 11, "padding": 11}, 33),  # outputs that are padding alone
        ({"in_channels": 5000, "length": 3, "out_channels": 1, "batch": 1}, 125),  # 40 owners
        ({"in_channels": 1, "length": 20_000, "out_channels": 1, "batch": 1}, 1),  # 1,250 tiles
    ],
)
def test_sizes_beyond_registers_and_shared_memory(fields: dict[str, int], channels_per_thread: int) -> None:
    problem = Conv1d(**{"batch": 2, "out_channels": 3} | fields)
    configuration = Conv1dConfiguration(channels_per_thread=channels_per_thread)
    assert kernel_of(problem, configuration, GPU) is Kernel.TILED
    assert_equal_counts(problem, configuration)


@pytest.mark.parametrize(
    "fields",
    [
        {"in_channels": 1025, "length": 3},  # one thread has two channels
        {"in_channels": 2500, "length": 2, "filter_width": 1, "padding": 1, "batch": 3},
        {"in_channels": 3, "length": 300, "filter_width": 7, "padding": 5, "out_channels": 2},
        {"in_channels": 40, "length": 5, "filter_width": 301, "padding": 151},  # the filter is longer than the row
    ],
)
def test_naive_sizes_that_are_not_unrolled(fields: dict[str, int]) -> None:
    problem = Conv1d(**{"out_channels": 1} | fields)
    assert kernel_of(problem, NAIVE, GPU) is Kernel.NAIVE_ROLLED
    assert_equal_counts(problem, NAIVE)


def test_the_published_shape_with_few_output_channels() -> None:
    assert_equal_counts(Conv1d(out_channels=2), Conv1dConfiguration(channels_per_thread=4))
    assert_equal_counts(Conv1d(out_channels=2), NAIVE)


def test_the_sum_over_channels_has_one_order() -> None:
    problem, configuration = Conv1d(in_channels=200, out_channels=2), Conv1dConfiguration(channels_per_thread=2)
    first, second = (executed(problem, configuration).outputs["output"] for _ in range(2))
    np.testing.assert_array_equal(first, second)
