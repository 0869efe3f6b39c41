import copy
import json
from pathlib import Path
from typing import Any

import pytest

from perfmodel.errors import InputError
from perfmodel.prediction.baseline import read_baseline, regressions

BASE: dict[str, Any] = {
    "kernel": "k",
    "gpu": "h200",
    "counts": {"global_load_sectors": 1000, "barriers": 0},
    "resources": {"registers_per_thread": 32, "code_bytes": 4096, "spill_store_bytes": 0},
    "time": {"predicted_us": 10.0},
}


def changed(section: str, name: str, value: float) -> dict[str, Any]:
    found = copy.deepcopy(BASE)
    found[section][name] = value
    return found


@pytest.mark.parametrize(
    ("section", "name", "value", "tolerance", "worse"),
    [
        ("counts", "global_load_sectors", 1001, 0.0, True),
        ("counts", "global_load_sectors", 1100, 0.1, False),  # 1000 * 1.1
        ("counts", "global_load_sectors", 1101, 0.1, True),
        ("counts", "global_load_sectors", 900, 0.0, False),
        ("counts", "barriers", 1, 0.5, True),  # from nothing
        ("resources", "registers_per_thread", 33, 0.0, True),
        ("resources", "spill_store_bytes", 4, 0.0, True),
        ("resources", "code_bytes", 9000, 0.0, False),  # longer code alone is not worse
        ("time", "predicted_us", 10.6, 0.05, True),
    ],
)
def test_what_grew_beyond_the_tolerance_is_named(
    section: str, name: str, value: float, tolerance: float, worse: bool
) -> None:
    assert [found.name for found in regressions(BASE, changed(section, name, value), tolerance)] == [name] * worse


def test_results_of_different_kernels_are_not_compared() -> None:
    with pytest.raises(InputError, match="of kernel 'k', this result of 'other'"):
        regressions(BASE, BASE | {"kernel": "other"}, 0.0)
    with pytest.raises(InputError, match="tolerance"):
        regressions(BASE, BASE, -0.1)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"kernel": "k"}', "\x00"])
def test_a_file_that_is_no_result_is_named(text: str, tmp_path: Path) -> None:
    path = tmp_path / "base.json"
    path.write_text(text)
    with pytest.raises(InputError, match=r"base\.json"):
        read_baseline(path)


def test_a_count_that_is_no_number_is_named(tmp_path: Path) -> None:
    path = tmp_path / "base.json"
    path.write_text(json.dumps(changed("counts", "barriers", "many")))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="barriers='many'"):
        regressions(read_baseline(path), BASE, 0.0)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[" * 100_000, "baseline"),
        (json.dumps(BASE | {"counts": 3}), "counts is 3"),
        (json.dumps(BASE | {"time": {}}), "predicted_us"),
        (json.dumps(BASE | {"counts": {"barriers": "many"}}), "barriers='many'"),
    ],
)
def test_a_damaged_baseline_is_refused_before_anything_is_analysed(tmp_path: Path, text: str, named: str) -> None:
    path = tmp_path / "before.json"
    path.write_text(text)
    with pytest.raises(InputError, match=named):
        read_baseline(path)
