import numpy as np
import pytest

from perfmodel.families.base import Batch
from perfmodel.families.pointwise_conv2d import Layout, PointwiseConfiguration, PointwiseConv2d
from perfmodel.families.pointwise_conv2d.blocking import source_tiles, tiles
from perfmodel.families.pointwise_conv2d.candidates import candidates
from perfmodel.families.pointwise_conv2d.plan import SOURCE_CONSTANT, feasible, source_limits
from perfmodel.families.pointwise_conv2d.spaces import source_tuples
from perfmodel.gpus.catalogue import load_gpu

MOBILENET_V1 = [  # in_channels, out_channels, height = width
    (32, 64, 112),
    (64, 128, 56),
    (128, 128, 56),
    (128, 256, 28),
    (256, 256, 28),
    (256, 512, 14),
    (512, 512, 14),
    (512, 1024, 7),
    (1024, 1024, 7),
]
WHOLE_NUMBER_FEASIBLE = {
    "rtx-2080-ti": (44, 39, 39, 15, 15, 1, 1, 0, 0),
    "a100-sxm-80gb": (44, 35, 35, 9, 9, 0, 0, 0, 0),
    "h200": (44, 32, 32, 8, 8, 0, 0, 0, 0),
}
SM_COUNTS = {"rtx-2080-ti": 68, "a100-sxm-80gb": 108, "h200": 132}


def layer(in_channels, out_channels, size):
    return PointwiseConv2d(in_channels=in_channels, out_channels=out_channels, height=size, width=size)


def whole_number_feasible(problem, sm_count):
    tile = source_tiles(problem, source_tuples(), sm_count)
    return feasible(tile, source_limits(tile.blocks_per_sm), SOURCE_CONSTANT) & tile.whole


@pytest.mark.parametrize("gpu_id", SM_COUNTS)
def test_feasible_tuples_before_correction(gpu_id):
    assert load_gpu(gpu_id).sm_count == SM_COUNTS[gpu_id]
    counted = [int(whole_number_feasible(layer(*sizes), SM_COUNTS[gpu_id]).sum()) for sizes in MOBILENET_V1]
    assert tuple(counted) == WHOLE_NUMBER_FEASIBLE[gpu_id]


@pytest.mark.parametrize("gpu_id", SM_COUNTS)
def test_every_layer_has_feasible_tuples_after_correction(gpu_id):
    gpu = load_gpu(gpu_id)
    for sizes in MOBILENET_V1:
        found = candidates(layer(*sizes), source_tuples(), gpu)
        assert (found.planned & (found.shared_bytes <= found.limit.shared_bytes_per_block)).sum() > 60, sizes


@pytest.mark.parametrize("gpu_id", SM_COUNTS)
def test_whole_number_tiles_stay_as_they_are(gpu_id):
    for sizes in MOBILENET_V1:
        problem, batch = layer(*sizes), source_tuples()
        exact, rounded = (f(problem, batch, SM_COUNTS[gpu_id]) for f in (source_tiles, tiles))
        for name in ("thread_width", "warp_height", "warp_width", "block_width", "block_height"):
            whole = exact.whole
            assert np.allclose(getattr(exact, name)[whole], getattr(rounded, name)[whole]), name


def test_the_levels_of_one_tile_by_hand():
    # 64 filters, 12,544 positions, 132 SMs: 6,081.9 outputs an SM. L1, K filters wide, two block widths, 2 blocks an SM,
    # 8 channel lanes: block 32 wide, warp 16, 4 elements a warp, 4 columns a thread; initial height 6,081.9 / 2 / 32 = 95.03,
    # of a warp 47.5; the square rule leaves 4.
    batch = Batch.of([PointwiseConfiguration(block_width_split=2, blocks_per_sm=2, channel_lanes=8)])
    tile = tiles(layer(32, 64, 112), batch, 132)
    found = (
        tile.block_width,
        tile.warp_width,
        tile.element_lanes,
        tile.thread_width,
        tile.warp_height,
        tile.block_height,
    )
    assert [int(value[0]) for value in found] == [32, 16, 4, 4, 4, 8]
    assert float(tile.sm_width[0]) == 64
    assert float(tile.sm_height[0]) == pytest.approx(64 * 12_544 / 132 / 64)


def test_layouts_swap_the_axes():
    batch = Batch.of([PointwiseConfiguration(layout=kind, channel_lanes=8, block_width_split=2) for kind in Layout])
    tile = tiles(layer(256, 256, 28), batch, 68)
    assert tile.filter_tile.tolist() == [tile.block_width[0], tile.block_height[1]]
    assert tile.position_tile.tolist() == [tile.block_height[0], tile.block_width[1]]
    assert tile.thread_filters.tolist() == [tile.thread_width[0], tile.warp_height[1]]
    assert tile.thread_positions.tolist() == [tile.warp_height[0], tile.thread_width[1]]


def test_every_extent_is_at_least_one():
    problem = PointwiseConv2d(in_channels=1, out_channels=1, height=1, width=1)
    tile = tiles(problem, source_tuples(), 132)
    assert (tile.thread_width == 1).all()
    assert (tile.warp_height == 1).all()
