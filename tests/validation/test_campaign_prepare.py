"""What is compiled for a machine with a GPU, of one problem."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from perfmodel.core.json_values import plain
from perfmodel.errors import InputError
from perfmodel.families.tiled_conv2d import FAMILY, TiledConv2d
from perfmodel.prediction.scenario import scenario_of
from perfmodel.validation.campaign import app
from perfmodel.validation.prepared import PreparedFolder, Purpose
from perfmodel.validation.selection import drawn, spread_out

SIZES = ("--height", "256", "--width", "256", "--filter-height", "3", "--filter-width", "3")
PROBLEM = TiledConv2d(height=256, width=256, filter_height=3, filter_width=3)


@pytest.mark.compiler
def test_spread_and_drawn_configurations_of_one_problem_are_prepared_to_be_timed(tmp_path: Path) -> None:
    command = ["prepare-problem", "tiled_conv2d", "--gpu", "h200", "--folder", str(tmp_path), *SIZES]
    app([*command, "--spread", "4", "--drawn", "3", "--seed", "5"], standalone_mode=False)
    kernels = [kernel for kernel in PreparedFolder(tmp_path).kernels() if Purpose.TIME in kernel.purposes]
    assert all(dict(kernel.problem) == plain(PROBLEM) for kernel in kernels)
    scenario = scenario_of("h200")
    chosen = [
        *spread_out(FAMILY, PROBLEM, scenario, 4, np.random.default_rng(5)),
        *drawn(FAMILY, PROBLEM, scenario, 3, np.random.default_rng(5)),
    ]
    assert [dict(kernel.configuration) for kernel in kernels] == [plain(one) for one in dict.fromkeys(chosen)]
    assert sum(Purpose.FLUSH in kernel.purposes for kernel in PreparedFolder(tmp_path).kernels()) == 1


def test_an_unknown_size_is_refused_by_name(tmp_path: Path) -> None:
    command = ["prepare-problem", "tiled_conv2d", "--gpu", "h200", "--folder", str(tmp_path), "--image-depth", "3"]
    with pytest.raises(InputError, match="image-depth"):
        app(command, standalone_mode=False)
