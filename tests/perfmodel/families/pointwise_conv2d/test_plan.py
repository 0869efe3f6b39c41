import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmodel.families.pointwise_conv2d import PointwiseConv2d
from perfmodel.families.pointwise_conv2d.blocking import source_tiles, tiles
from perfmodel.families.pointwise_conv2d.plan import (
    arithmetic_intensity,
    limits,
    planned_registers,
    planned_shared_bytes,
    prefetch_registers,
    source_blocks,
    source_limits,
)
from perfmodel.families.pointwise_conv2d.spaces import source_tuples
from perfmodel.gpus.catalogue import load_gpu

BLOCKS = np.array([2, 4, 6])

problems = st.builds(
    PointwiseConv2d,
    batch=st.integers(1, 4),
    in_channels=st.integers(1, 512),
    out_channels=st.integers(1, 512),
    height=st.integers(1, 60),
    width=st.integers(1, 60),
)


@pytest.mark.parametrize("gpu_id", ["rtx-2080-ti", "a100-sxm-80gb", "h200"])
def test_register_limits(gpu_id):
    # 65,536 / 256 = 256, capped at 255; 65,536 / 512 = 128; 65,536 / 768 = 85.3, in units of 8: 80
    assert limits(BLOCKS, load_gpu(gpu_id)).registers_per_thread.tolist() == [255, 128, 80]
    assert source_limits(BLOCKS).registers_per_thread.tolist() == [255, 128, 80]


def test_shared_limits_come_from_the_gpu():
    assert limits(BLOCKS, load_gpu("rtx-2080-ti")).shared_bytes_per_block.tolist() == [32_768, 16_384, 10_922]
    # 228 KiB, of which the driver takes 1 KiB for each block
    assert limits(BLOCKS, load_gpu("h200")).shared_bytes_per_block.tolist() == [
        233_472 // 2 - 1024,
        233_472 // 4 - 1024,
        233_472 // 6 - 1024,
    ]


@given(problems, st.integers(1, 200))
def test_intensity_of_one_sub_tile_is_the_harmonic_mean_of_the_warp_tile(problem, sm_count):
    for tile in (source_tiles(problem, source_tuples(), sm_count), tiles(problem, source_tuples(), sm_count)):
        mean = 2 * tile.warp_height * tile.warp_width / (tile.warp_height + tile.warp_width)
        assert np.allclose(arithmetic_intensity(tile), mean, rtol=1e-9)


@given(problems)
def test_sub_tiles_that_keep_the_filters_raise_the_intensity_to_the_limit_of_the_height(problem):
    tile = tiles(problem, source_tuples(), 108)
    one, many = arithmetic_intensity(tile), arithmetic_intensity(tile, sub_tiles=10**9)
    _, height = prefetch_registers(tile)
    assert (many > one).all()
    assert np.allclose(many, tile.accumulators / height, rtol=1e-3)


def test_plan_of_one_tile_by_hand():
    # 256 filters wide, half of it in a block: warp 64 wide; C_num 8: 4 elements, T_num 16. 784 · 256 / 68 / 2 / 128 / 2 = 5.77,
    # so Warp_H 6 and Block_H 12. R = 96 + 6 + 16 + ⌈8 · 128 / 128⌉ + ⌈8 · 12 / 128⌉ + 20 = 147
    batch = source_tuples()
    problem = PointwiseConv2d(in_channels=256, out_channels=256, height=28, width=28)
    tile = tiles(problem, batch, 68)
    index = next(
        i
        for i in range(len(batch))
        if (c := batch.configuration(i)).layout.value == "L1"
        and (c.filter_split, c.block_width_split, c.blocks_per_sm, c.channel_lanes) == (1, 2, 2, 8)
    )
    assert planned_registers(tile, 20)[index] == 96 + 6 + 16 + 8 + 1 + 20
    assert planned_shared_bytes(tile)[index] == (128 + 12) * 8 * 4 * 2
    exact = source_tiles(problem, batch, 68)
    # SM_H / Block_H · SM_W / Block_W · 68 = blocks of the whole output, a fraction
    assert source_blocks(exact, 68)[index] == pytest.approx(784 * 256 / (128 * exact.block_height[index]))
