"""Two files of one GPU set against each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfmodel.accuracy.repeats import repeats
from perfmodel.errors import InputError
from perfmodel.families.tiled_conv2d import FAMILY
from perfmodel.records.measurements import Measurements, read_measurements


def measured(folder: Path, name: str, times: dict[int, float]) -> Measurements:
    """A file of times by tile height."""
    problem = "width,height,filter_width,filter_height"
    head = f"gpu,{problem},block_size_x,block_size_y,tile_size_x,tile_size_y,use_padding,read_only,time_ms"
    path = folder / name
    lines = [f"rtx-3090,512,512,5,5,32,4,1,{height},0,0,{time}" for height, time in times.items()]
    path.write_text("\n".join([head, *lines]) + "\n", encoding="utf-8")
    return read_measurements(path, FAMILY)


def test_only_what_both_measured_is_compared(tmp_path: Path) -> None:
    """Heights 1 and 2 are common: 10 % apart in one, equal in the other, the same order."""
    first = measured(tmp_path, "first.csv", {1: 1.1, 2: 2.0, 3: 5.0})
    second = measured(tmp_path, "second.csv", {2: 2.0, 1: 1.0, 4: 9.0})
    (repeat,) = repeats([("rtx-3090", first), ("rtx-3090", second)])
    assert (repeat.first, repeat.second, repeat.accuracy.n) == ("first.csv", "second.csv", 2)
    assert repeat.accuracy.mape == pytest.approx((0.1 + 0.0) / 2)
    assert repeat.accuracy.kendall_tau == 1
    assert repeat.to_json()["n"] == 2


def test_a_configuration_measured_twice_stands_with_its_median(tmp_path: Path) -> None:
    head, *rows = measured(tmp_path, "once.csv", {1: 1.0, 2: 2.0}).path.read_text(encoding="utf-8").splitlines()
    path = tmp_path / "twice.csv"
    path.write_text("\n".join([head, *rows, rows[0].replace("1.0", "1.4")]) + "\n", encoding="utf-8")
    once, twice = (read_measurements(tmp_path / name, FAMILY) for name in ("once.csv", "twice.csv"))
    (repeat,) = repeats([("rtx-3090", twice), ("rtx-3090", once)])
    assert repeat.accuracy.mape == pytest.approx(0.2 / 2)  # (1.0 + 1.4) / 2 against 1.0


def test_other_gpus_and_other_configurations_are_no_repeats(tmp_path: Path) -> None:
    first, second = (measured(tmp_path, f"{height}.csv", {height: 1.0, height + 1: 2.0}) for height in (1, 5))
    for gpu in ("rtx-3090", "h200"):
        with pytest.raises(InputError, match=r"repeats need two --measurements of one --gpu .* rtx-3090: 1\.csv"):
            repeats([("rtx-3090", first), (gpu, second)])
