"""How often rows of all planes begin at each place of a line, counted one by one."""

import numpy as np
import pytest

from perfmodel.families.ssim.configuration import Version
from perfmodel.families.ssim.design import DESIGNS
from perfmodel.families.ssim.problem import Ssim
from perfmodel.families.ssim.tiling import row_alignments


@pytest.mark.parametrize("channels", [1, 31, 32, 33, 100])
@pytest.mark.parametrize("width", [33, 40, 64])
def test_alignments_are_those_of_every_row_of_every_plane(channels: int, width: int) -> None:
    problem, design, halo = Ssim(height=20, width=width, channels=channels), DESIGNS[Version.NAIVE], 5
    found = np.zeros(32, np.int64)
    for plane in range(channels):
        for first in range(0, problem.height, design.tile_height):
            for row in range(max(first - halo, 0), min(first + design.tile_height + halo, problem.height)):
                found[(plane * problem.height * width + row * width) % 32] += 1
    assert row_alignments(problem, design, halo).tolist() == found.tolist()
