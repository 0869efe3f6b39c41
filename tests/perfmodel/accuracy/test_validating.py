"""Validation against files made from the predictions themselves, so that every number of the result is known."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import perfmodel as pm
from perfmodel.accuracy.validating import Validation, validate_measurements
from perfmodel.cli.app import run
from perfmodel.core.json_values import plain
from perfmodel.errors import InputError
from perfmodel.families.tiled_conv2d import FAMILY, TiledConv2d, TiledConv2dConfiguration
from perfmodel.prediction.predicting import predict_all
from perfmodel.prediction.scenario import scenario_of
from perfmodel.profiles.kernel_profile import Fidelity
from perfmodel.records.measurements import read_measurements

UNDER = scenario_of("rtx-2080-ti")
PROBLEM = TiledConv2d(height=512, width=512, filter_height=5, filter_width=5)
TOO_LARGE = TiledConv2dConfiguration(block_size_x=128, block_size_y=32)
LOADS = "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"
SCALE = 2.0

Row = dict[str, Any]


def rows_of(count: int = 8) -> list[Row]:
    """Rows whose times are those predicted, doubled, in the order of the tile sizes."""
    chosen = [TiledConv2dConfiguration(tile_size_x=1 + i % 4, tile_size_y=1 + i // 4) for i in range(count)]
    return [
        {"gpu": "rtx-2080-ti", **plain(PROBLEM), **plain(p.configuration), "time_ms": SCALE * p.time.predicted_s * 1e3}
        | {LOADS: float(p.counts.global_load_requests), "registers_per_thread": p.resources.registers_per_thread}
        for p in predict_all(PROBLEM, chosen, UNDER, Fidelity.ANALYTIC)
    ]


def file_of(folder: Path, rows: list[Row]) -> Path:
    path = folder / "measured.csv"
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def validated(folder: Path, rows: list[Row]) -> Validation:
    measured = read_measurements(file_of(folder, rows), FAMILY)
    return validate_measurements(FAMILY, measured, UNDER, Fidelity.ANALYTIC)


def test_a_common_factor_is_a_scale_and_no_disorder(tmp_path: Path) -> None:
    found = validated(tmp_path, rows_of()).accuracy
    assert found.n == 8
    assert found.scale == pytest.approx(SCALE)
    assert found.mape == pytest.approx(1 - 1 / SCALE)
    assert found.mape_scaled == pytest.approx(0, abs=1e-9)
    assert found.kendall_tau == pytest.approx(1)
    assert found.regret_top1 == 1


def test_reversed_times_reverse_the_order_and_cost_regret(tmp_path: Path) -> None:
    rows = sorted(rows_of(), key=lambda row: row["time_ms"])
    times = [row["time_ms"] for row in rows]
    backwards = [row | {"time_ms": time} for row, time in zip(rows, reversed(times), strict=True)]
    found = validated(tmp_path, backwards).accuracy
    assert found.kendall_tau == pytest.approx(-1)
    assert found.regret_top1 == pytest.approx(times[-1] / times[0])
    assert found.regret_top5 == pytest.approx(times[3] / times[0])  # of the 5 predicted fastest the 5th ran 4th fastest
    assert found.regret_top10 == 1


def test_failed_runs_are_no_part_and_impossible_ones_are_counted(tmp_path: Path) -> None:
    rows = rows_of()
    rows[0] = rows[0] | {"time_ms": ""}
    rows.append(rows[1] | plain(TOO_LARGE) | {"time_ms": 1.0})
    found = validated(tmp_path, rows)
    assert found.accuracy.n == 7
    assert found.rejected == 1
    assert found.accuracy.mape_scaled == pytest.approx(0, abs=1e-9)
    assert any("1 rows left out" in note and "do not fit" in note for note in found.notes)


def test_counters_are_compared_row_by_row(tmp_path: Path) -> None:
    """Three of four rows as predicted, one where the hardware counted a quarter more: |1 − 1.25| / 1.25 = 0.2."""
    rows = rows_of(4)
    rows[2] = rows[2] | {LOADS: rows[2][LOADS] * 1.25}
    (found,) = validated(tmp_path, rows).counts
    assert (found.count, found.n, found.exact_fraction) == ("global_load_requests", 4, 3 / 4)
    assert found.median_relative_error == 0
    assert found.max_relative_error == pytest.approx(0.2)


def test_registers_are_compared_where_they_were_recorded(tmp_path: Path) -> None:
    rows = rows_of(4)
    rows[0] = rows[0] | {"registers_per_thread": 255}
    assert "registers equal to the recorded ones in 75.0% of rows" in validated(tmp_path, rows).notes
    without = [{name: value for name, value in row.items() if name != "registers_per_thread"} for row in rows]
    assert not any("registers" in note for note in validated(tmp_path, without).notes)


def test_a_file_of_another_gpu_is_named(tmp_path: Path) -> None:
    def doubts(name: str) -> list[str]:
        notes = validated(tmp_path, [row | {"gpu": name} for row in rows_of(4)]).notes
        return [note for note in notes if "was measured on" in note]

    assert doubts("NVIDIA GeForce RTX 2080 Ti") == doubts("a card that nobody knows") == doubts("") == []
    assert doubts("rtx-3090") == [f"{tmp_path / 'measured.csv'}: was measured on rtx-3090, not on rtx-2080-ti"]


def test_a_query_that_keeps_no_row_is_named(tmp_path: Path) -> None:
    path = file_of(tmp_path, rows_of(4))
    with pytest.raises(
        InputError, match=r"--filter 'tile_size_y > 9': holds for none of the 4 rows of .*measured\.csv$"
    ):
        read_measurements(path, FAMILY).drawn("tile_size_y > 9", None, 0)


def test_several_problems_are_predicted_each_for_itself(tmp_path: Path) -> None:
    other = replace(PROBLEM, width=1024)
    (prediction,) = predict_all(other, [TiledConv2dConfiguration()], UNDER, Fidelity.ANALYTIC)
    rows = rows_of(3)
    rows.insert(
        1,
        rows[0]
        | plain(other)
        | plain(prediction.configuration)
        | {"time_ms": prediction.time.predicted_s * 1e3 * SCALE},
    )
    found = validated(tmp_path, rows).accuracy
    assert (found.n, found.scale) == (4, pytest.approx(SCALE))
    assert found.mape_scaled == pytest.approx(0, abs=1e-9)


def test_one_row_cannot_be_compared(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"measured\.csv: 1 of 1 rows can be compared; at least 2 are needed$"):
        validated(tmp_path, rows_of(1))
    lost = [rows_of(1)[0], rows_of(2)[1] | {"time_ms": ""}]
    with pytest.raises(InputError, match=r"1 of 2 rows can be compared; .*\(1 rows left out: their runs failed\)"):
        validated(tmp_path, lost)


def test_the_public_function_takes_a_query(tmp_path: Path) -> None:
    path = file_of(tmp_path, rows_of())
    found = pm.validate(
        "tiled_conv2d", gpu="rtx-2080-ti", measurements=path, fidelity="analytic", where="tile_size_y == 1"
    )
    assert found.accuracy.n == 4
    content = found.to_json()
    assert content["n"] == 4
    assert content["counts"]["global_load_requests"]["exact_fraction"] == 1
    json.dumps(content, allow_nan=False)


@pytest.mark.parametrize(
    ("bounds", "status"),
    [(("--max-mape", "0.01", "--min-tau", "0.99"), 0), (("--min-tau", "1.0"), 0), (("--max-mape", "0"), 1)],
)
def test_the_command_fails_below_its_bound(
    bounds: tuple[str, ...], status: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = rows_of()
    rows[0] = rows[0] | {"time_ms": rows[0]["time_ms"] * 1.01}
    path = file_of(tmp_path, rows)
    options = ["--gpu", "rtx-2080-ti", "--measurements", str(path), "--fidelity", "analytic", "--json"]
    assert run(["validate", "tiled_conv2d", *options, *bounds]) == status
    captured = capsys.readouterr()
    assert json.loads(captured.out)["n"] == 8
    assert ("check failed: mape_scaled" in captured.err) == (status == 1)


def test_a_check_without_an_order_to_check_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All times alike: tau is undefined, which is not above any bound."""
    path = file_of(tmp_path, [row | {"time_ms": 1.0} for row in rows_of()])
    options = ["--gpu", "rtx-2080-ti", "--measurements", str(path), "--fidelity", "analytic", "--json"]
    assert run(["validate", "tiled_conv2d", *options, "--min-tau", "-1"]) == 1
    assert json.loads(capsys.readouterr().out)["kendall_tau"] is None
