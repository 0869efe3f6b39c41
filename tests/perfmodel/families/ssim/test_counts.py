"""Closed forms of the memory accesses against an enumeration of the lanes' addresses."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfmodel.families.ssim import Ssim, Version
from perfmodel.families.ssim.configuration import DESIGNS, Copy
from perfmodel.families.ssim.counts import closed_form, shared_accesses
from perfmodel.families.ssim.launch import grid
from perfmodel.families.ssim.traffic import map_stores, patch_sectors, pixel_reads, zero_stores
from perfmodel.gpus.catalogue import load_gpu

COPYING, LOADING = load_gpu("a100-sxm-80gb"), load_gpu("rtx-2080-ti")

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
    across, down = grid(problem, design)
    height, width = problem.height, problem.width
    lanes = np.arange(32)
    row_length = design.tile_width + 2 * halo
    for plane in range(problem.planes):
        for tile_y in range(down):
            for tile_x in range(across):
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


def counts_of(problem, version, gpu=COPYING):
    return closed_form(problem, DESIGNS[version], gpu)


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
        copied, loaded = (counts_of(problem, version, gpu) for gpu in (COPYING, LOADING))
        assert copied.async_copy_requests == requests
        assert copied.shared_store_requests == partly_outside
        assert loaded.shared_store_requests == requests + partly_outside


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


@pytest.mark.parametrize(
    ("version", "height", "width", "loads", "stores"),
    [
        # 5 maps of 11 taps over patch rows and columns, the product of both images; clears and stores of the scratch
        (Version.NAIVE, 32, 32, 5 * 11 * (42 + 32) + 2 * 42 * 2, 2 * 42 * 2 + 2 * 5 * 42 + 42 * 2),
        # two columns a lane
        (Version.V2, 8, 64, 5 * 2 * 11 * (18 + 8) + 2 * 18 * 3, 2 * 18 * 3 + 5 * 2 * 18 + 18 * 3),
        # twelve pixels of two images for each row, in pairs
        *((version, 72, 64, 82 * 2 * 6, 0) for version in (Version.V3, Version.V4_1, Version.V4_Z4)),
    ],
)
def test_shared_accesses_by_hand(version, height, width, loads, stores):
    problem = Ssim(channels=1, height=height, width=width)
    assert shared_accesses(problem, DESIGNS[version]) == (loads, stores)
    wavefronts = counts_of(problem, version).shared_load_wavefronts
    assert wavefronts == loads * (1 if version in (Version.NAIVE, Version.V2) else 2)


def test_copies_that_fill_with_zeros_are_issued_everywhere():
    problem = Ssim(batch=2, channels=3, height=73, width=65)
    blocks, images, channels, rows, segments = 2 * 2, 2, 3, 82, 3
    batch = 2
    copies = counts_of(problem, Version.V4_1).async_copy_requests
    assert copies == batch * blocks * images * channels * rows * segments


@pytest.mark.parametrize("version", list(Version))
def test_tiles_read_no_fewer_sectors_than_the_images_have(version):
    assert patch_sectors(Ssim(channels=1, height=144, width=128), DESIGNS[version]) >= 2 * 144 * 128 // 8
