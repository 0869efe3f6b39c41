import copy
from typing import Any

import pytest

from perfmodel.checks.limits import DEFAULT_LIMITS, changes, parse_limits, quantities, regressions
from perfmodel.errors import InputError

BEFORE: dict[str, Any] = {
    "counts": {"global_load_sectors": 1000, "warp_instructions": 1000},
    "resources": {"registers_per_thread": 32, "spill_load_bytes": 8, "spill_store_bytes": 8, "code_bytes": 4096},
    "time": {"predicted_us": 10.0},
}


def changed(section: str, name: str, value: float) -> dict[str, Any]:
    found = copy.deepcopy(BEFORE)
    found[section][name] = value
    return found


@pytest.mark.parametrize(
    ("section", "name", "value", "limits", "worse"),
    [
        ("time", "predicted_us", 10.5, DEFAULT_LIMITS, []),  # 10 * 1.05
        ("time", "predicted_us", 10.6, DEFAULT_LIMITS, ["time"]),
        ("time", "predicted_us", 9.0, "time=0%", []),  # faster is never worse
        ("time", "predicted_us", 10.6, "time=1", []),  # 10 + 1 microseconds
        ("resources", "spill_store_bytes", 12, DEFAULT_LIMITS, ["spill"]),
        ("resources", "spill_store_bytes", 12, "spill=4", []),
        ("resources", "registers_per_thread", 40, DEFAULT_LIMITS, []),  # information
        ("resources", "registers_per_thread", 40, "registers_per_thread=0", ["registers_per_thread"]),
        ("counts", "warp_instructions", 1030, DEFAULT_LIMITS, []),  # information
        ("counts", "warp_instructions", 1030, "warp_instructions=2%", ["warp_instructions"]),
        ("resources", "code_bytes", 9999, DEFAULT_LIMITS, []),
    ],
)
def test_only_what_a_limit_names_fails(section: str, name: str, value: float, limits: str, worse: list[str]) -> None:
    found = changes(quantities(BEFORE), quantities(changed(section, name, value)))
    assert [change.name for change in regressions(found, parse_limits(limits))] == worse


def test_the_largest_relative_change_comes_first() -> None:
    now = changed("counts", "warp_instructions", 1030) | {"time": {"predicted_us": 5.0}}
    assert [change.name for change in changes(quantities(BEFORE), quantities(now))] == ["time", "warp_instructions"]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("time", "'time' must have the form"),
        ("time=-5%", "'time=-5%' must have the form"),
        ("tme=5%", "unknown quantity 'tme'; nearest: time"),
        ("spill=0,dram_read=1%", "unknown quantity 'dram_read'; nearest: dram_read_bytes"),
    ],
)
def test_a_limit_that_is_none_is_named(text: str, named: str) -> None:
    with pytest.raises(InputError, match=named):
        parse_limits(text)


@pytest.mark.parametrize("damaged", [{}, {"counts": 3}, {"time": {}}, {"counts": {"barriers": "many"}}])
def test_an_object_that_is_no_result_is_refused(damaged: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        quantities(BEFORE | damaged if damaged else {})
