import pytest

from perfmodel.errors import InputError
from perfmodel.families.pointwise_conv2d import Layout, PointwiseConfiguration, PointwiseConv2d
from perfmodel.families.pointwise_conv2d.spaces import filter_splits, full_space, source_tuples


@pytest.mark.parametrize("field", ["batch", "in_channels", "out_channels", "height", "width"])
def test_sizes_below_one_are_named(field):
    with pytest.raises(InputError, match=f"{field}=0 must be an integer of at least 1"):
        PointwiseConv2d(**{field: 0})


def test_a_tensor_beyond_32_bit_indices_is_refused():
    with pytest.raises(InputError, match="output of 1 x 65536 x 256 x 256 has more than"):
        PointwiseConv2d(in_channels=1, out_channels=65536, height=256, width=256)


@pytest.mark.parametrize(
    ("field", "value", "accepted"),
    [
        ("layout", "L1", "L1, L2"),
        ("filter_split", 3, "a power of two"),
        ("filter_split", 0, "a power of two"),
        ("block_width_split", 4, "1, 2"),
        ("blocks_per_sm", 8, "2, 4, 6"),
        ("channel_lanes", 64, "1, 2, 4, 8, 16, 32"),
        ("channel_lanes", True, "1, 2, 4, 8, 16, 32"),
    ],
)
def test_configuration_errors_name_the_value_and_what_is_accepted(field, value, accepted):
    with pytest.raises(InputError) as error:
        PointwiseConfiguration(**{field: value})
    assert f"{field}={value!r}" in str(error.value)
    assert accepted in str(error.value)


def test_the_source_has_144_tuples_and_96_in_the_restricted_set():
    assert (
        len(source_tuples()) == 2 * 2 * 2 * 3 * 6
    )  # layouts, filter extents, block widths, blocks per SM, channel lanes
    assert len(source_tuples((2, 4))) == 2 * 2 * 2 * 2 * 6


def test_finer_splits_end_at_16_filters():
    assert filter_splits(PointwiseConv2d(out_channels=1024)) == (1, 2, 4, 8, 16, 32, 64)  # 1024 / 64 = 16
    assert filter_splits(PointwiseConv2d(out_channels=3)) == (1, 2)


def test_no_tile_stands_twice_in_the_space():
    problem = PointwiseConv2d(out_channels=256)
    seen = set()
    for batch in full_space(problem).chunks():
        for index in range(len(batch)):
            chosen = batch.configuration(index)
            splits = (chosen.filter_split, chosen.block_width_split)
            along_width = chosen.layout is Layout.L1
            shape = splits[0] * splits[1] if along_width else splits[0] / splits[1]
            seen.add((chosen.layout, shape, chosen.blocks_per_sm, chosen.channel_lanes))
    assert (
        len(seen) == len(full_space(problem)) == 2 * (1 + 5) * 3 * 6
    )  # layouts · block widths (K … K/16, and one halved)
