"""Which published configurations corrupt memory, and the corrected size."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmodel.families.conv1d import FAMILY, Conv1d, Conv1dConfiguration, Variant
from perfmodel.families.conv1d.geometry import pad_period_words, staging_words
from perfmodel.families.conv1d.overflow import overrun_floats, published_overflows
from perfmodel.families.conv1d.published import PUBLISHED, PUBLISHED_SHAPES, published_choice
from perfmodel.gpus.catalogue import load_gpu


def optimized(channels_per_thread: int) -> Conv1dConfiguration:
    return Conv1dConfiguration(variant=Variant.OPTIMIZED, channels_per_thread=channels_per_thread)


@pytest.mark.parametrize(
    ("in_channels", "length", "channels_per_thread", "floats"),
    [
        (256, 16, 2, 256 * 16 - 1 + (256 * 16 - 4) // 32 + 1 - 256 * 16),  # 127
        (512, 8, 4, 512 * 8 - 1 + (512 * 8 - 4) // 32 + 1 - 512 * 8),  # 127
        (256, 8, 2, 256 * 8 - 1 + (256 * 8 - 4) // 32 + 1 - 256 * 8),  # 63
        (1024, 8, 4, 1024 * 8 - 1 + (1024 * 8 - 4) // 32 + 1 - 1024 * 8),  # 255
    ],
)
def test_the_original_overruns_by_the_pads_where_the_row_is_longer_than_the_filter(
    in_channels: int, length: int, channels_per_thread: int, floats: int
) -> None:
    problem = Conv1d(in_channels=in_channels, length=length)
    assert overrun_floats(problem, optimized(channels_per_thread)) == floats
    assert floats in (127, 63, 255)


@pytest.mark.parametrize(
    ("in_channels", "length", "channels_per_thread"), [(2, 16, 1), (512, 4, 8), (1024, 4, 4), (2048, 4, 4)]
)
def test_the_four_safe_configurations(in_channels: int, length: int, channels_per_thread: int) -> None:
    assert overrun_floats(Conv1d(in_channels=in_channels, length=length), optimized(channels_per_thread)) == 0


def test_every_published_configuration_is_reported_with_its_overrun() -> None:
    found = {
        (r.published.in_channels, r.published.length): (r.reserved_floats, r.required_floats, r.overrun_floats)
        for r in published_overflows()
    }
    assert len(found) == len(PUBLISHED) == 8
    assert found[1024, 8] == (1024 * 8, 1024 * 8 + (1024 * 8 - 1) // 32, 255)
    assert found[1024, 4] == (1024 * 5, 1024 * 5, 0)  # the weights need more than the padded input, 4096 + 127


def test_the_naive_kernel_stages_nothing() -> None:
    naive = Conv1dConfiguration(variant=Variant.NAIVE, channels_per_thread=None)
    assert overrun_floats(Conv1d(in_channels=1024, length=8), naive) == 0


@given(st.integers(1, 300), st.integers(1, 24), st.integers(1, 8), st.data())
def test_overrun_equals_the_original_enumerated_write_by_write(
    in_channels: int, length: int, channels_per_thread: int, data: st.DataObject
) -> None:
    filter_width = data.draw(st.integers(1, length + 4))
    problem = Conv1d(in_channels=in_channels, length=length, filter_width=filter_width, padding=2)
    threads = in_channels // channels_per_thread
    period = max(32, length * channels_per_thread)
    highest = -1
    passes = in_channels * length // (4 * threads) if threads else 0
    for group in range(passes * threads):
        highest = 4 * group + 4 * group // period + 3
    overrun = max(0, highest + 1 - in_channels * max(length, filter_width))
    assert overrun_floats(problem, optimized(channels_per_thread)) == overrun


@given(st.integers(1, 300), st.integers(1, 24), st.integers(1, 8))
def test_the_corrected_size_ends_just_behind_the_last_word(
    in_channels: int, length: int, channels_per_thread: int
) -> None:
    problem = Conv1d(in_channels=in_channels, length=length, filter_width=1, padding=0)
    last = in_channels * length - 1
    assert (
        staging_words(problem, channels_per_thread) == last + last // pad_period_words(length, channels_per_thread) + 1
    )


def test_a_prediction_says_what_the_published_kernel_would_do() -> None:
    problem, gpu = Conv1d(in_channels=512, out_channels=512, length=8), load_gpu("h200")
    choice, overrun = FAMILY.notes(problem, optimized(4), gpu)
    assert choice == "the published choice for this shape is channels_per_thread=4"
    assert "127 floats" in overrun
    assert FAMILY.notes(Conv1d(length=3), optimized(4), gpu) == ()  # 3 * 1024 words and pads in 5 * 1024


def test_every_layer_of_the_sources_network_has_a_published_choice() -> None:
    choices = {shape: published_choice(Conv1d(in_channels=shape[0], length=shape[2])) for shape in PUBLISHED_SHAPES}
    assert len(choices) == 9
    assert set(choices.values()) == {2, 4, 8}
    assert published_choice(Conv1d(filter_width=3, padding=1)) is None
