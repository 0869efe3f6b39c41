"""Problem, configuration, space, reference and launch."""

import numpy as np
import pytest

from perfmodel.errors import InputError
from perfmodel.families.base import Batch
from perfmodel.families.pointwise_conv2d import FAMILY, Layout, PointwiseConfiguration, PointwiseConv2d
from perfmodel.families.pointwise_conv2d.configuration import tile_space
from perfmodel.gpus.catalogue import load_gpu


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
        ("layout", "L3", "L1, L2"),
        ("filter_split", 3, "a power of two"),
        ("filter_split", 0, "a power of two"),
        ("block_width_split", 4, "1, 2"),
        ("blocks_per_sm", 8, "2, 4, 6"),
        ("channel_lanes", True, "1, 2, 4, 8, 16, 32"),
    ],
)
def test_configuration_errors_name_the_value_and_what_is_accepted(field, value, accepted):
    with pytest.raises(InputError) as error:
        PointwiseConfiguration(**{field: value})
    assert f"{field}={value!r}" in str(error.value)
    assert accepted in str(error.value)


def test_no_tile_stands_twice_in_the_space():
    problem = PointwiseConv2d(out_channels=256)
    batch, tiles = tile_space(problem).batch(), set()
    for chosen in map(batch.configuration, range(len(batch))):
        splits = (chosen.filter_split, chosen.block_width_split)
        width = splits[0] * splits[1] if chosen.layout is Layout.L1 else splits[0] / splits[1]
        tiles.add((chosen.layout, width, chosen.blocks_per_sm, chosen.channel_lanes))
    # layouts · block widths (K … K/16, and one halved)
    assert len(tiles) == len(batch) == 2 * (1 + 5) * 3 * 6


def test_reference_and_call():
    problem = PointwiseConv2d(batch=2, in_channels=5, out_channels=3, height=4, width=6)
    inputs = FAMILY.inputs(problem, np.random.default_rng(1))
    output = FAMILY.reference(problem, inputs)["output"]
    assert output.dtype == np.float64
    for n, k, h, w in ((0, 0, 0, 0), (1, 2, 3, 5), (1, 0, 2, 4)):
        by_hand = sum(float(inputs["input"][n, c, h, w]) * float(inputs["filter"][k, c]) for c in range(5))
        assert abs(output[n, k, h, w] - by_hand) < 1e-12
    poisoned, image, filters, *sizes = FAMILY.call(problem, PointwiseConfiguration(), load_gpu("t4"), inputs).parameters
    assert (poisoned.name, image.name, filters.name) == ("output", "input", "filter")
    assert poisoned.output
    assert np.isnan(poisoned.array).all()
    assert [int(size) for size in sizes] == [2, 5, 3, 24]


def test_launch_covers_the_output():
    problem = PointwiseConv2d(batch=3, in_channels=64, out_channels=100, height=9, width=11)
    launch = FAMILY.launch(problem, Batch.of([PointwiseConfiguration(channel_lanes=32)]), load_gpu("h200"))
    # K wide: 100 / 2 = 50 columns of one element, two warps: 100 filters; 3·99·100 / 132 / 2 / 100 / 2 = 0.56 → 1 row
    assert (int(launch.grid_x[0]), int(launch.grid_y[0])) == (149, 1)  # 297 positions, two rows of a position a block


def test_layers_with_the_same_tile_share_a_compiled_kernel():
    gpu, configuration = load_gpu("h200"), PointwiseConfiguration()
    first, second, tail = (
        FAMILY.compile_request(PointwiseConv2d(in_channels=channels), configuration, gpu)
        for channels in (256, 512, 257)
    )
    assert first == second != tail


def test_only_gpus_that_can_are_asked_to_copy_asynchronously():
    for gpu_id, able in (("v100-sxm2-32gb", 0), ("rtx-2080-ti", 0), ("a100-sxm-80gb", 1), ("h200", 1)):
        request = FAMILY.compile_request(PointwiseConv2d(), PointwiseConfiguration(), load_gpu(gpu_id))
        defines = dict(request.defines)
        assert defines["ASYNC_COPY"] == able
        assert defines["STAGES"] > 2 if able else defines["STAGES"] == 2
