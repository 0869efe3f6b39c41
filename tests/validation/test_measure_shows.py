"""What `perfmodel measure` says of the records that it leaves, read from measured ones."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from perfmodel.cli.json_schema import OBJECTS
from perfmodel.families.problem_list import ListedProblem
from perfmodel.families.tiled_conv2d import TiledConv2d
from perfmodel.validation.commands import MOST_REASONS, _show, _show_list

DATA = Path(__file__).parents[2] / "validation" / "data"
RECORDS = DATA / "h200-problem.jsonl.gz"


def test_what_has_no_time_is_said_with_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    """14 configurations of the problem were rejected, for different numbers of threads and registers."""
    one = ListedProblem(name="", family="tiled_conv2d", problem=TiledConv2d())
    _show(one, RECORDS, as_json=True)
    printed = capsys.readouterr()
    found = json.loads(printed.out)["records"]
    assert sum(record["failure"] is not None for record in found) == 14
    lines = [line for line in printed.err.splitlines() if "have no time" in line]
    assert len(lines) == MOST_REASONS
    assert all("registers per thread" in line and f" of {len(found)} records" in line for line in lines)


def test_comparisons_with_libraries_follow_their_schema(capsys: pytest.CaptureFixture[str]) -> None:
    _show_list(DATA / "h200-families.jsonl.gz", as_json=True)
    found = msgspec.convert(json.loads(capsys.readouterr().out), OBJECTS["measure-problems"])
    assert {one.l2 for one in found.comparisons} == {"cold", "warm"}
    assert all(one.library_over_best > 0 for one in found.comparisons)
