"""Problems, launches and the sums of counts of the nine versions."""

import numpy as np
import pytest

from perfmodel.core.counts import INSTRUCTION_CLASSES
from perfmodel.errors import InputError
from perfmodel.families.base import Batch
from perfmodel.families.ssim import FAMILY, Ssim, SsimConfiguration, Version
from perfmodel.families.ssim.configuration import DESIGNS, LOW_TILES, BlockChannels
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.records.columns import configuration_of_record

GPU = load_gpu("a100-sxm-80gb")
BATCH = Batch.of([SsimConfiguration(version=version) for version in Version])


def counts_of(problem):
    return FAMILY.profile(problem, BATCH, GPU).counts


def test_the_space_is_nine_versions_and_lower_tiles_of_one_with_blocks_of_all_channels_or_one():
    of_one_channel, of_three = (FAMILY.space(Ssim(channels=channels), GPU).batch() for channels in (1, 3))
    found = [of_three.configuration(index) for index in range(len(of_three))]
    assert {(c.version, c.tile_height) for c in found} == {
        *((version, None) for version in Version),
        *((Version.V4_1, rows) for rows in LOW_TILES),
    }
    assert len(found) == len(set(found)) == 2 * len(of_one_channel) == 2 * (9 + 4)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"version": Version.V2, "tile_height": 20}, "tile_height=20 must be none when version=v2"),
        ({"tile_height": 21}, "tile_height=21 must be none or one of 48, 32, 20, 12"),
    ],
)
def test_tile_heights_that_no_kernel_has_are_refused(wrong, message):
    with pytest.raises(InputError, match=message):
        SsimConfiguration(**wrong)


@pytest.mark.parametrize("field", ["batch", "channels", "height", "width"])
def test_sizes_below_one_are_refused_by_name(field):
    with pytest.raises(InputError, match=f"{field}=0 "):
        Ssim(**{field: 0})


def test_gradients_must_be_a_truth_value():
    with pytest.raises(InputError, match="gradients=2 must be true or false"):
        Ssim(gradients=2)


def test_more_images_or_rows_than_a_grid_holds_are_rejected_with_value_and_limit():
    batch = Batch.of([SsimConfiguration(version=Version.V2), SsimConfiguration(version=Version.V4)])
    rows, images = FAMILY.checks(Ssim(height=65_536 * 8, batch=65_536), batch, GPU)
    assert rows.rejected.tolist() == [True, False]
    assert rows.message(0) == "blocks in y: 65536 exceeds 65535"
    assert images.rejected.all()


def test_launch_is_the_tiling_with_the_batch_in_z():
    launch = FAMILY.launch(Ssim(batch=2, height=100, width=65), BATCH, GPU)
    assert launch.blocks.tolist() == [
        *2 * [3 * 4 * 2],  # 65 / 32, 100 / 32
        2 * 13 * 2,  # 65 / 64, 100 / 8
        2 * 4 * 2,
        *5 * [2 * 2 * 2],  # 65 / 64, 100 / 72
    ]
    assert launch.threads_per_block.tolist() == [1024, 1024, 256, *6 * [32]]


def test_records_from_before_there_were_lower_tiles_have_those_of_the_version():
    assert configuration_of_record(FAMILY, {"version": "v4"}) == SsimConfiguration(version=Version.V4)


def test_blocks_of_one_channel_are_as_many_times_more():
    problem = Ssim(batch=2, height=100, width=65)
    loop, one = (SsimConfiguration(block_channels=how, tile_height=20) for how in BlockChannels)
    batch = Batch.of([loop, one])
    launch = FAMILY.launch(problem, batch, GPU)
    assert launch.at(0).grid == (2, 5, 2)  # 65 / 64, 100 / 20, images
    assert launch.at(1).grid == (2, 5, 2 * 3)
    inputs = FAMILY.inputs(problem, np.random.default_rng(0))
    calls = [FAMILY.call(problem, configuration, GPU, inputs) for configuration in (loop, one)]
    assert [int(call.parameters[-3]) for call in calls] == [3, 1]  # channels of a block
    # blocks of one channel, maps, taps, columns of a lane, rows of both passes
    assert FAMILY.closed_counts(problem, batch, GPU).fp32_fma.tolist() == 2 * [60 * 5 * 11 * 2 * (30 + 20)]


def test_multiply_adds_and_barriers_of_the_measured_image():
    """165 · BX · (BY + 5) / 16 of a block of 3 channels; v2's flat tiles cost 39.5 % more than the first."""
    blocks = np.array([*2 * [120 * 68], 60 * 270, 60 * 68, *5 * [60 * 30]])
    width, height = np.array([(design.tile_width, design.tile_height) for design in DESIGNS.values()]).T
    counts = counts_of(Ssim(channels=3, height=2160, width=3840))
    np.testing.assert_array_equal(counts.fp32_fma, blocks * 165 * width * (height + 5) / 16)
    millions = [*2 * [99.63], 139.0, 99.63, *5 * [91.48]]
    np.testing.assert_array_equal(np.round(counts.fp32_fma / 1e6, 2), millions)
    of_channel = np.array([18 * 32, 12 * 32, 12 * 8, *6 * [0]])  # blocks of one warp need none
    np.testing.assert_array_equal(counts.barriers, blocks * 3 * of_channel)


@pytest.mark.parametrize("gradients", [False, True])
def test_instruction_classes_and_requests_sum_to_all_instructions(gradients):
    counts = counts_of(Ssim(height=75, width=131, gradients=gradients))
    kinds = ("global_load", "global_store", "shared_load", "shared_store", "async_copy")
    requests = sum(getattr(counts, f"{kind}_requests") for kind in kinds)
    local = counts.warp_instructions - requests - sum(getattr(counts, name) for name in INSTRUCTION_CLASSES)
    # a local access of a whole warp is four sectors; v3_0 alone has any
    np.testing.assert_allclose(local, np.ceil((counts.local_load_sectors + counts.local_store_sectors) / 4), atol=1e-6)
    assert np.flatnonzero(local).tolist() == [list(Version).index(Version.V3_0)]


@pytest.mark.parametrize(("gradients", "maps"), [(False, 1), (True, 4)])
def test_dram_traffic_is_both_images_and_the_maps(gradients, maps):
    counts = counts_of(Ssim(gradients=gradients))
    assert (counts.dram_read_bytes == 2 * 3 * 2160 * 3840 * 4).all()
    assert (counts.dram_write_bytes == maps * 3 * 2160 * 3840 * 4).all()


def test_output_buffers_are_poisoned_and_inputs_lie_within_the_unit_range():
    problem = Ssim(height=5, width=3, gradients=True)
    inputs = FAMILY.inputs(problem, np.random.default_rng(0))
    call = FAMILY.call(problem, SsimConfiguration(), GPU, inputs)
    outputs = [p for p in call.parameters if getattr(p, "output", False)]
    assert [buffer.name for buffer in outputs] == ["map", "dm_dmu1", "dm_dsigma1_sq", "dm_dsigma12"]
    assert all(np.isnan(buffer.array).all() for buffer in outputs)
    assert all((image >= 0).all() and (image <= 1).all() for image in inputs.values())
    assert [int(size) for size in call.parameters[-3:]] == [3, 5, 3]
