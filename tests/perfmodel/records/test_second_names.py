"""The former names of the tiled convolution's problem fields are read wherever a problem is given."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from perfmodel.cli.options import problem_from
from perfmodel.families.tiled_conv2d import FAMILY, TiledConv2d
from perfmodel.records.columns import record_of_fields
from perfmodel.records.measurements import read_measurements
from perfmodel.records.own_records import append_record, read_records

from .record_examples import tiled_record

FORMER = {"image_height": 64, "image_width": 128, "filter_height": 3, "filter_width": 5}
NOW = TiledConv2d(height=64, width=128, filter_height=3, filter_width=5)
CSV = """gpu,{},{},filter_height,filter_width,block_size_x,block_size_y,tile_size_x,tile_size_y,use_padding,read_only,time_ms
h200,64,128,3,5,32,4,1,1,0,0,0.5
"""


def test_options_and_fields() -> None:
    arguments = [f"--{name.replace('_', '-')}={value}" for name, value in FORMER.items()]
    assert problem_from(TiledConv2d, TiledConv2d(), arguments) == NOW
    assert record_of_fields(TiledConv2d, FORMER) == NOW


@pytest.mark.parametrize("names", [("image_height", "image_width"), ("height", "width")])
def test_columns_and_queries_on_them(tmp_path: Path, names: tuple[str, str]) -> None:
    (tmp_path / "runs.csv").write_text(CSV.format(*names))
    measured = read_measurements(tmp_path / "runs.csv", FAMILY)
    assert measured.problems == (NOW,)
    assert len(measured.where("image_width == 2 * height")) == 1


def test_records(tmp_path: Path) -> None:
    now = replace(tiled_record(), problem={"height": 64, "width": 128, "filter_height": 3})
    former = replace(now, problem={"image_height": 64, "image_width": 128, "filter_height": 3})
    append_record(tmp_path / "runs.jsonl", former)
    (found,) = read_records(tmp_path / "runs.jsonl")
    assert (found, found.key) == (now, now.key)
