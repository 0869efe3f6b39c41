import math

import pytest

from perfmodel.families.ssim import FAMILY, Ssim, SsimConfiguration, Version
from perfmodel.families.ssim.arithmetic import multiply_adds, multiply_adds_per_block, redundancy
from perfmodel.families.ssim.design import DESIGNS
from perfmodel.families.ssim.tiling import tiling

ULTRA_HIGH_DEFINITION = Ssim(batch=1, channels=3, height=2160, width=3840)


@pytest.mark.parametrize(
    ("versions", "tile_width", "tile_height", "warps"),
    [
        ((Version.NAIVE, Version.V1), 32, 32, 1024 // 32),
        ((Version.V2,), 64, 8, 256 // 32),
        ((Version.V3_0,), 64, 32, 1),
        ((Version.V3_1, Version.V3, Version.V4_1, Version.V4, Version.V4_Z4), 64, 72, 1),
    ],
)
def test_each_version_has_the_block_of_its_design(versions, tile_width, tile_height, warps):
    for version in versions:
        design = DESIGNS[version]
        assert (design.tile_width, design.tile_height, design.warps) == (tile_width, tile_height, warps)


@pytest.mark.parametrize("version", list(Version))
@pytest.mark.parametrize("channels", [1, 2, 3])
def test_multiply_adds_of_a_block_follow_the_formula(version, channels):
    design = DESIGNS[version]
    formula = 55 * channels * design.tile_width * (design.tile_height + 5) / 16  # 165 · BX · (BY + 5) / 16 for C = 3
    assert multiply_adds_per_block(design, channels) == formula


@pytest.mark.parametrize(
    ("version", "blocks", "millions"),
    [
        (Version.NAIVE, 120 * 68, 99.63),  # ⌈3840 / 32⌉ · ⌈2160 / 32⌉
        (Version.V1, 120 * 68, 99.63),
        (Version.V2, 60 * 270, 139.00),
        (Version.V3_0, 60 * 68, 99.63),
        (Version.V3_1, 60 * 30, 91.48),
        (Version.V3, 60 * 30, 91.48),
        (Version.V4_1, 60 * 30, 91.48),
        (Version.V4, 60 * 30, 91.48),
        (Version.V4_Z4, 60 * 30, 91.48),
    ],
)
def test_totals_for_the_measured_image(version, blocks, millions):
    design = DESIGNS[version]
    tiles = tiling(ULTRA_HIGH_DEFINITION, design)
    assert tiles.grid_x * tiles.grid_y == blocks
    total = multiply_adds(ULTRA_HIGH_DEFINITION, design)
    assert total == blocks * 165 * design.tile_width * (design.tile_height + 5) // 16
    assert round(total / 1e6, 2) == millions


def test_wide_flat_tiles_cost_39_percent_more():
    more = multiply_adds(ULTRA_HIGH_DEFINITION, DESIGNS[Version.V2]) / multiply_adds(
        ULTRA_HIGH_DEFINITION, DESIGNS[Version.NAIVE]
    )
    assert round(100 * (more - 1), 1) == 39.5


def test_cost_for_each_pixel_grows_as_one_plus_five_over_the_tile_height():
    for design in DESIGNS.values():
        assert math.isclose(redundancy(design), 1 + 5 / design.tile_height)


@pytest.mark.parametrize(("version", "barriers"), [(Version.NAIVE, 18), (Version.V1, 12), (Version.V2, 12)])
def test_barriers_of_a_channel(version, barriers):
    assert DESIGNS[version].barriers_per_channel == barriers


@pytest.mark.parametrize("version", [v for v in Version if DESIGNS[v].warps == 1])
def test_blocks_of_one_warp_need_no_barrier(version):
    assert DESIGNS[version].barriers_per_channel == 0


def test_launch_is_the_tiling_with_the_batch_in_z(gpu):
    from perfmodel.families.base import Batch

    batch = Batch.of([SsimConfiguration(version=version) for version in Version])
    launch = FAMILY.launch(Ssim(batch=2, height=100, width=65), batch, gpu)
    assert launch.blocks.tolist() == [
        3 * 4 * 2,  # 65 / 32, 100 / 32
        3 * 4 * 2,
        2 * 13 * 2,  # 65 / 64, 100 / 8
        2 * 4 * 2,
        *5 * [2 * 2 * 2],  # 65 / 64, 100 / 72
    ]
    assert launch.threads_per_block.tolist() == [1024, 1024, 256, *6 * [32]]
