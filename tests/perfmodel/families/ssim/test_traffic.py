"""Closed forms of the memory accesses against an enumeration of the lanes' addresses."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfmodel.families.ssim import Ssim, Version
from perfmodel.families.ssim.design import DESIGNS, Copy, Rows
from perfmodel.families.ssim.tiling import tiling
from perfmodel.families.ssim.traffic import (
    local_accesses,
    map_stores,
    patch_sectors,
    pixel_reads,
    row_copies,
    shared_accesses,
    zero_stores,
)

problems = st.builds(
    Ssim,
    batch=st.integers(1, 2),
    channels=st.integers(1, 3),
    height=st.integers(1, 90),
    width=st.integers(1, 140),
    gradients=st.booleans(),
)
distinct = st.sampled_from([Version.NAIVE, Version.V2, Version.V3_0, Version.V4])


def warp_accesses(problem, design, halo, stride=1, first=0):
    """Columns and float addresses of every warp access to rows of tiles: (inside, address) of shape (lanes,)."""
    tiles = tiling(problem, design)
    height, width = problem.height, problem.width
    lanes = np.arange(32)
    row_length = design.tile_width + 2 * halo
    for plane in range(problem.planes):
        for tile_y in range(tiles.grid_y):
            for tile_x in range(tiles.grid_x):
                for row in range(design.tile_height + 2 * halo):
                    y = tile_y * design.tile_height - halo + row
                    for segment in range(0, row_length, 32 * stride):
                        column = segment + first + stride * lanes
                        x = tile_x * design.tile_width - halo + column
                        present = column < row_length
                        inside = present & (x >= 0) & (x < width) & (0 <= y < height)
                        yield present, inside, (plane * height + y) * width + x


def pieces(addresses, floats):
    return len(np.unique(addresses // floats))


@settings(max_examples=25, deadline=None)
@given(problems, distinct)
def test_pixel_reads_are_the_enumerated_ones(problem, version):
    design = DESIGNS[version]
    requests = sectors = lines = partly_outside = 0
    for present, inside, address in warp_accesses(problem, design, 5):
        requests += 2 * inside.any()
        sectors += 2 * pieces(address[inside], 8)
        lines += 2 * pieces(address[inside], 32)
        partly_outside += 2 * (present & ~inside).any()
    reads = pixel_reads(problem, design)
    assert (reads.requests, reads.sectors, reads.lines) == (requests, sectors, lines)
    assert zero_stores(problem, design) == (partly_outside if design.copy is Copy.GUARDED else 0)
    if design.copy is Copy.GUARDED:
        assert row_copies(problem, design, True).asynchronous == requests
        assert row_copies(problem, design, True).stores == partly_outside
        assert row_copies(problem, design, False).stores == requests + partly_outside


@settings(max_examples=25, deadline=None)
@given(problems, distinct)
def test_map_stores_are_the_enumerated_ones(problem, version):
    design = DESIGNS[version]
    parts = [(2, 0), (2, 1)] if design.neighbours else [(1, 0)]
    requests = sectors = lines = 0
    if design.neighbours and problem.width % 2 == 0:
        for (_, left, address), (_, right, _) in zip(
            warp_accesses(problem, design, 0, 2, 0), warp_accesses(problem, design, 0, 2, 1), strict=True
        ):
            assert (left == right).all()
            both = np.concatenate([address[left], address[left] + 1])
            requests, sectors, lines = requests + left.any(), sectors + pieces(both, 8), lines + pieces(both, 32)
    else:
        for stride, first in parts:
            for _, inside, address in warp_accesses(problem, design, 0, stride, first):
                requests += inside.any()
                sectors += pieces(address[inside], 8)
                lines += pieces(address[inside], 32)
    stores = map_stores(problem, design)
    maps = 4 if problem.gradients else 1
    assert (stores.requests, stores.sectors, stores.lines) == (maps * requests, maps * sectors, maps * lines)


def test_shared_accesses_of_the_naive_version_by_hand():
    shared = shared_accesses(Ssim(channels=1, height=32, width=32), DESIGNS[Version.NAIVE])
    rows, columns, product = 42 * 11, 32 * 11, 42 * 2
    assert shared.load_requests == shared.load_wavefronts == 5 * (rows + columns) + 2 * product
    assert shared.store_requests == shared.store_wavefronts == 2 * 42 * 2 + 5 * 42 + 5 * 42 + product


def test_two_columns_a_lane_load_once_for_each_multiply_add():
    shared = shared_accesses(Ssim(channels=1, height=8, width=64), DESIGNS[Version.V2])
    product = 18 * 3
    assert shared.load_requests == shared.load_wavefronts == 5 * 2 * 11 * (18 + 8) + 2 * product
    assert shared.store_requests == shared.store_wavefronts == 2 * 18 * 3 + 5 * 2 * 18 + product


@pytest.mark.parametrize("version", [Version.V3, Version.V4_1, Version.V4_Z4])
def test_walking_versions_read_twelve_pixels_of_two_images_for_each_row(version):
    shared = shared_accesses(Ssim(channels=1, height=72, width=64), DESIGNS[version])
    assert shared.load_requests == 82 * 2 * 6
    assert shared.load_wavefronts == 82 * 2 * 12
    assert shared.store_requests == 0


def test_copies_that_fill_with_zeros_are_issued_everywhere():
    problem = Ssim(batch=2, channels=3, height=73, width=65)
    assert (
        row_copies(problem, DESIGNS[Version.V4_1], True).asynchronous == (2 * 2) * 2 * 3 * 82 * 3 * 2
    )  # blocks, images, channels, rows, segments


def test_only_the_array_version_uses_local_memory():
    problem = Ssim(channels=2, height=64, width=64)
    for version, design in DESIGNS.items():
        local = local_accesses(problem, design)
        if version is Version.V3_0:
            assert local.load_sectors == 2 * 2 * 32 * 110 * 4  # blocks, channels, rows, 11 rows of 10 floats, 4 sectors
            assert local.store_sectors == 2 * 2 * 42 * 10 * 4
        else:
            assert design.rows is not Rows.LOCAL
            assert local.load_sectors == local.store_sectors == 0


def test_tiles_read_no_fewer_sectors_than_the_images_have():
    problem = Ssim(channels=1, height=144, width=128)
    for design in DESIGNS.values():
        assert patch_sectors(problem, design) >= 2 * 144 * 128 // 8
