"""Kernels that nothing was fitted to: which recorded times are compared, how they are predicted, what the table says."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from perfmodel.compiler.compiled import compile_kernel
from perfmodel.compiler.request import CompileRequest
from perfmodel.errors import InputError
from perfmodel.launch.launch import L2State
from perfmodel.prediction.scenario import scenario_of
from perfmodel.records.own_records import read_records
from perfmodel.validation.campaign import app
from perfmodel.validation.unseen_kernels.benchmarks import SHORT_EVENTS_S, benchmark_launches
from perfmodel.validation.unseen_kernels.launches import (
    MAKE_CALL_BYTES,
    LeftOut,
    MeasuredTime,
    UnseenLaunch,
    predict_unseen,
)
from perfmodel.validation.unseen_kernels.table import kernel_table, order_within_problems
from perfmodel.validation.unseen_kernels.variants import variant_launches

DATA = Path(__file__).parents[2] / "validation" / "data"
RECORDS = DATA / "h200-micro.jsonl.gz"
VARIANTS = DATA / "h200-pointwise-variants.json.gz"
UNDER = scenario_of("h200")


@pytest.fixture(scope="module")
def benchmarks() -> tuple[UnseenLaunch, ...]:
    return benchmark_launches(read_records(RECORDS), UNDER.gpu)


def found(benchmarks: tuple[UnseenLaunch, ...], group: str, setting: str) -> UnseenLaunch:
    (one,) = (one for one in benchmarks if (one.group, one.setting) == (group, setting))
    return one


def test_every_benchmark_with_a_comparable_time_is_there(benchmarks: tuple[UnseenLaunch, ...]) -> None:
    groups = {one.group for one in benchmarks}
    assert {"global_read", "global_write", "global_copy", "l1_read", "shared_read", "arithmetic", "barrier"} <= groups
    assert {"chase_shared", "chase_global", "shuffle", "code_walk", "empty"} <= groups
    assert not groups & {"shared_patterns", "common_read", "copy_patterns"}  # counted, never timed
    events = [m.seconds for one in benchmarks for m in one.measured if m.way == "events"]
    assert min(events) >= SHORT_EVENTS_S


def test_a_kernel_that_reads_its_clock_is_compared_by_the_part_between_its_readings(
    benchmarks: tuple[UnseenLaunch, ...],
) -> None:
    for one in benchmarks:
        assert (one.without is not None) == (one.measured[0].way == "kernel clock")
    one = found(benchmarks, "barrier", "warps=8")
    assert one.without is not None
    assert [int(call().parameters[1]) for call in (one.call, one.without)] == [2048, 0]
    assert one.measured[0].seconds == pytest.approx(2048 * 29.3 / 1.98e9, rel=0.01)  # docs/h200.md: 29.3 cycles each


def test_launches_too_large_to_execute_are_left_out_by_rule(benchmarks: tuple[UnseenLaunch, ...]) -> None:
    one = replace(found(benchmarks, "barrier", "warps=8"), buffer_bytes=MAKE_CALL_BYTES + 1)
    outcome = predict_unseen(one, UNDER)
    assert isinstance(outcome, LeftOut)
    assert outcome.reason == "buffers of 4.0 GiB"


@pytest.mark.compiler
@pytest.mark.parametrize(
    ("group", "settings", "count", "factor"),
    [
        # measured: 13.3 cycles and 2 for each warp, 77 of 32 warps; the model of one SM takes as many cycles of any number
        ("barrier", "warps=", 6, 3),
        ("arithmetic", "float_chains=", 9, 2),  # the most off: integers of 32 warps
        ("empty", "blocks=", 4, 7 / 6),
    ],
)
def test_benchmarks_are_predicted_within_a_factor_of_all_their_settings(
    benchmarks: tuple[UnseenLaunch, ...], group: str, settings: str, count: int, factor: float
) -> None:
    launches = [one for one in benchmarks if one.group == group and one.setting.startswith(settings)]
    assert len(launches) == count
    for one in launches:
        outcome = predict_unseen(one, UNDER)
        assert not isinstance(outcome, LeftOut)
        for compared in outcome:
            assert abs(np.log(compared.ratio)) < np.log(factor), (one.setting, compared.ratio)


@pytest.mark.compiler
def test_variants_are_compiled_from_the_recorded_source_as_they_were_measured() -> None:
    runs = json.loads(gzip.decompress(VARIANTS.read_bytes()))["runs"]
    drawn = variant_launches(VARIANTS, 3, 0)
    assert [one.group for one in drawn] == ["rows x1", "rows x2", "spread"]
    assert [one.setting for one in drawn] == [one.setting for one in variant_launches(VARIANTS, 3, 0)]
    for one in drawn:
        alike = (run for run in runs if run["kind"] == one.group and run["defines"] == one.defines)
        run = next(run for run in alike if run["warm graph"] * 1e-6 == _warm(one))
        request = CompileRequest(
            source=one.source,
            kernel=one.kernel,
            file_name="variant.cu",
            defines=tuple(one.defines.items()),
            architecture_specific=True,
        )
        assert compile_kernel(request, "sm_90").resources.registers_per_thread == run["registers"]
        assert one.launch.grid == tuple(run["grid"])


def _warm(one: UnseenLaunch) -> float:
    return next(measured.seconds for measured in one.measured if measured.l2 is L2State.WARM)


@pytest.mark.compiler
def test_a_launch_is_predicted_for_both_states_of_the_cache() -> None:
    one = next(one for one in variant_launches(VARIANTS, 60, 0) if one.problem.endswith("1×1"))
    outcome = predict_unseen(one, UNDER)
    assert not isinstance(outcome, LeftOut)
    warm, cold = outcome
    assert (warm.measured.l2, cold.measured.l2) == (L2State.WARM, L2State.COLD)
    assert warm.predicted_s < cold.predicted_s
    found_in_l2, from_dram = warm.whole.time.terms, cold.whole.time.terms
    assert found_in_l2.dram == 0 < from_dram.dram
    assert found_in_l2.exposed_memory_latency < from_dram.exposed_memory_latency  # it waits for its copies
    lines = kernel_table(outcome).splitlines()
    assert len(lines) == 4
    assert lines[2].startswith(f"| {one.group} | warm | graph | 1 | {warm.ratio:.2f} |")
    halved = [replace(cold, launch=replace(one), measured=MeasuredTime(seconds=s, l2=L2State.COLD, way="graph"))
              for s in (1e-6, 2e-6)]  # fmt: skip
    ordered = [replace(entry, predicted_s=s) for entry, s in zip(halved, (3e-6, 4e-6), strict=True)]
    assert order_within_problems(ordered) == 1
    assert order_within_problems(ordered[:1]) is None


def test_a_record_without_the_kinds_is_told(tmp_path: Path) -> None:
    path = tmp_path / "none.json.gz"
    path.write_bytes(gzip.compress(json.dumps({"runs": []}).encode()))
    with pytest.raises(InputError, match="has no launches of kind 'rows x1'"):
        variant_launches(path, 3, 0)


@pytest.mark.compiler
def test_the_command_prints_a_row_for_each_benchmark() -> None:
    options = ["--gpu", "h200", "--records", str(DATA / "h200-early-exit.jsonl.gz"), "--only", "empty", "--each"]
    result = CliRunner().invoke(app, ["unseen-kernels", *options])
    assert result.exit_code == 0
    assert "| empty | warm | graph | 1 |" in result.stdout
    assert "| empty | cold | events | 4 |" in result.stdout
    assert "| empty | blocks=131072 warps=32 |" in result.stdout
