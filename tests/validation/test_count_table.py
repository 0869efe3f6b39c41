"""Closed form, execution and a made hardware beside one another."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from perfmodel.accuracy.counter_metrics import MeasuredCount
from perfmodel.core.json_values import plain
from perfmodel.families.tiled_conv2d import FAMILY, TiledConv2d, TiledConv2dConfiguration
from perfmodel.prediction.predicting import predict_all
from perfmodel.prediction.scenario import scenario_of
from perfmodel.profiles.kernel_profile import Fidelity
from perfmodel.records.measurements import read_measurements
from perfmodel.records.schema import Environment, Record, RecordKind
from perfmodel.validation.campaign import app
from perfmodel.validation.count_table import (
    ALL_FAMILIES,
    PredictedCount,
    benchmark_counts,
    compared,
    count_table,
    family_counts,
)

UNDER = scenario_of("h200")
PROBLEM = TiledConv2d(height=32, width=64, filter_height=3, filter_width=3)
CONFIGURATIONS = [
    TiledConv2dConfiguration(block_size_x=32, block_size_y=2, tile_size_x=tile, tile_size_y=1) for tile in (1, 2)
]


@pytest.mark.compiler
def test_hardware_that_counts_one_request_more_is_found_out(tmp_path: Path) -> None:
    predictions = predict_all(PROBLEM, CONFIGURATIONS, UNDER, Fidelity.COMPILED)
    path = tmp_path / "counted.csv"
    with path.open("w", newline="") as stream:
        rows = [
            {
                **plain(PROBLEM),
                **plain(prediction.configuration),
                "time_ms": 1.0,
                "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": float(prediction.counts.global_load_requests) + more,
                "smsp__inst_executed_op_shared_ld.sum": float(prediction.counts.shared_load_requests),
            }
            for more, prediction in enumerate(predictions)
        ]
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    counts = family_counts(FAMILY, read_measurements(path, FAMILY), UNDER)
    found = {one.executed.count: one for one in compared(counts, UNDER.gpu)}
    requests = float(predictions[1].counts.global_load_requests)
    assert found["global_load_requests"].executed.n == 2
    assert found["global_load_requests"].executed.exact_fraction == 0.5
    assert found["global_load_requests"].executed.max_relative_error == pytest.approx(1 / (requests + 1))
    assert found["shared_load_requests"].executed.exact_fraction == 1.0
    assert found["global_load_requests"].closed_form == found["global_load_requests"].executed  # both are exact here
    assert "| tiled_conv2d | global_load_requests | 2 | 50.0% |" in count_table(list(found.values()))


def counted_benchmark(setting: dict[str, int], counters: dict[str, float]) -> Record:
    environment = Environment(
        gpu_name="", compute_capability="", driver_version="", cuda_version="", compiler_version="", commit=""
    )
    return Record(
        kind=RecordKind.MICRO_BENCHMARK,
        name="common_read",
        problem={},
        configuration=setting,
        gpu="h200",
        environment=environment,
        measured_at="",
        counters=counters,
    )


@pytest.mark.compiler
def test_micro_benchmarks_are_executed_beside_their_counters() -> None:
    setting = {"bytes": 65_536, "blocks": 2, "buffers": 1, "apart": 1}
    counters = {
        "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": 2 * 65_536 / 512,  # 32 lanes of 16 bytes
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": 2 * 65_536 / 32 + 4,
    }
    records = [counted_benchmark(setting, counters), counted_benchmark(setting | {"blocks": 3}, counters)]
    found = {one.executed.count: one for one in compared(benchmark_counts(records, UNDER.gpu), UNDER.gpu)}
    assert found["global_load_requests"].executed.n == 1  # there is no such benchmark with three blocks
    assert found["global_load_requests"].executed.exact_fraction == 1.0
    assert found["global_load_sectors"].executed.max_relative_error == pytest.approx(4 / 4100)
    assert "| common_read | global_load_requests | 1 | – | – | – | 100.0% |" in count_table(list(found.values()))


def test_file_without_counters_gives_nothing(tmp_path: Path) -> None:
    path = tmp_path / "times.csv"
    row = {**plain(PROBLEM), **plain(CONFIGURATIONS[0]), "time_ms": 1.0}
    path.write_text(",".join(row) + "\n" + ",".join(map(str, row.values())) + "\n")
    assert family_counts(FAMILY, read_measurements(path, FAMILY), UNDER) == []


def test_several_families_are_compared_together_too() -> None:
    def count(family: str, closed: float | None, executed: float) -> PredictedCount:
        measured = MeasuredCount(name="barriers", count="barriers", metrics=(), launches=np.array([100.0]))
        return PredictedCount(
            family=family,
            closed_form=None if closed is None else np.array([closed]),
            executed=np.array([executed]),
            measured=measured,
        )

    found = {one.family: one for one in compared([count("a", 90, 100), count("b", 80, 98)], UNDER.gpu)}
    assert list(found) == ["a", "b", ALL_FAMILIES]
    pooled = found[ALL_FAMILIES]
    assert pooled.closed_form is not None
    assert pooled.closed_form.median_relative_error == pytest.approx(0.15)
    assert (pooled.executed.n, pooled.executed.exact_fraction) == (2, 0.5)
    alone = compared([count("a", 90, 100), count("a micro-benchmark", None, 100)], UNDER.gpu)
    assert [one.family for one in alone] == ["a", "a micro-benchmark"]


def test_counter_file_made_elsewhere_is_printed_under_the_project_s_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "report.csv"
    path.write_text('"ID","Kernel Name","dram__bytes_read.sum"\n"","","Kbyte"\n"4","k","1,024"\n')
    app(["counters", str(path)], standalone_mode=False)
    assert json.loads(capsys.readouterr().out) == {
        "launches": [{"id": 4, "kernel": "k", "counts": {"dram_read_bytes": 1_024_000.0}}]
    }
