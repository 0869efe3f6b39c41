"""A small file of measurements, made from predictions with a known distortion."""

import itertools
from pathlib import Path

import numpy as np
import pytest

from perfmodel.families.base import Batch
from perfmodel.families.tiled_conv2d import TiledConv2d, TiledConv2dConfiguration
from perfmodel.families.tiled_conv2d.family import FAMILY
from perfmodel.prediction.evaluation import evaluate_batch
from perfmodel.prediction.scenario import scenario_of

GPU = "rtx-3090"
FACTOR = 1.25
"""Measured over predicted time, but for the noise."""
PROBLEM = TiledConv2d(height=1024, width=1024, filter_height=7, filter_width=7)
COLUMNS = (
    "gpu,width,height,filter_width,filter_height,block_size_x,block_size_y,tile_size_x,tile_size_y,"
    "use_padding,read_only,time_ms,local_bytes_per_thread"
)


def configurations() -> list[TiledConv2dConfiguration]:
    sizes = itertools.product((32, 64), (2, 4), (1, 2), (1, 2, 3))
    return [
        TiledConv2dConfiguration(block_size_x=bx, block_size_y=by, tile_size_x=tx, tile_size_y=ty)
        for bx, by, tx, ty in sizes
    ]


@pytest.fixture(scope="session")
def made_up(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """24 runs, of which one spilled."""
    path = tmp_path_factory.mktemp("measurements") / "made-up.csv"
    chosen, rng = configurations(), np.random.default_rng(1)
    seconds = evaluate_batch(FAMILY, PROBLEM, Batch.of(chosen), scenario_of(GPU)).seconds
    measured = seconds * FACTOR * np.exp(rng.normal(0.0, 0.02, len(chosen)))
    lines = [
        f"{GPU},1024,1024,7,7,{c.block_size_x},{c.block_size_y},{c.tile_size_x},{c.tile_size_y},0,0,{s * 1e3!r},{spill}"
        for c, s, spill in zip(chosen, measured.tolist(), [96] + [0] * (len(chosen) - 1), strict=True)
    ]
    path.write_text("\n".join([COLUMNS, *lines]) + "\n")
    return path
