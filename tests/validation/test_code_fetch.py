"""Code that an H100 fetched, as its profiler counted it, beside what the simulator tells of GPCs that ask for all their SMs."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import perfmodel.validation
from perfmodel.core.constants import INSTRUCTION_BYTES
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.memory.instruction_fetch import fetched_sectors

DATA = Path(perfmodel.validation.__file__).parent / "data" / "h100-code-fetch.json.gz"
FETCHED = "lts__t_sectors_srcunit_gcc_op_read.sum"
GPU = load_gpu("h100-sxm-80gb")


@cache
def launches(kind: str, counters: str) -> list[dict[str, Any]]:
    """Launches of one list of the record, with their counters by name."""
    record = json.loads(gzip.decompress(DATA.read_bytes()))
    return [{**run, "counted": dict(zip(record[counters], run["counters"], strict=True))} for run in record[kind]]


def errors(runs: list[dict[str, Any]]) -> NDArray[np.float64]:
    """Relative errors of the sectors told, shape (launches,)."""
    told = [
        fetched_sectors(np.array([float(run["code_bytes"])]), np.array([run.get("passes", 1.0)]), run["blocks"], GPU)
        for run in runs
    ]
    return np.array(told) / [run["counted"][FETCHED] for run in runs] - 1.0


def benchmark(group: str) -> list[dict[str, Any]]:
    """Launches of the micro-benchmark by what decides how they fetch: how long the code is, and who walks through it."""

    def group_of(run: dict[str, Any]) -> str:
        if run["code_bytes"] <= GPU.instruction_cache_l1_bytes:
            return "fits"
        if run["blocks"] <= GPU.sm_count:
            return "a little longer" if run["code_bytes"] <= 1.2 * GPU.instruction_cache_l1_bytes else "one block"
        return "busy" if run["kernel"].startswith("kL") and run["threads"] >= 192 else "idle"

    return [run for run in launches("runs", "run_counters") if group_of(run) == group]


@pytest.mark.parametrize(
    ("group", "count", "median", "within"),
    [
        ("fits", 204, 0.018, 1.00),
        ("a little longer", 24, 0.13, 0.42),
        ("one block", 100, 0.001, 0.93),
        ("busy", 128, 0.004, 0.78),
        ("idle", 188, 1.0, 0.15),
    ],
)
def test_the_micro_benchmark_is_told_as_the_manual_says(group: str, count: int, median: float, within: float) -> None:
    found = np.abs(errors(benchmark(group)))
    assert len(found) == count
    assert np.median(found) == pytest.approx(median, rel=0.05, abs=0.0005)
    assert np.mean(found < 0.05) == pytest.approx(within, abs=0.005)


def test_code_that_fits_is_fetched_once_for_each_gpc_when_the_launch_begins() -> None:
    fits = benchmark("fits")
    assert len(fits) == 204
    assert np.abs(errors(fits)).max() < 0.05


def test_longer_code_is_fetched_once_for_each_gpc_and_walk_where_an_sm_has_one_block() -> None:
    """Code a few lines longer than the cache is left out: of it less is missed than where what was not used for longest goes."""
    longer = benchmark("one block")
    assert len(longer) == 100
    found = np.abs(errors(longer))
    assert np.median(found) < 0.01
    assert found.max() < 0.1


def test_blocks_of_an_sm_that_leave_its_pipes_free_fetch_together() -> None:
    """Their number divides what is fetched, which is not told; blocks that keep a pipe busy walk one after another."""
    few = [
        run
        for run in benchmark("idle")
        if run["kernel"] == "kF_256" and run["threads"] == 64 and not run["largest_gap_cycles"]
    ]
    assert len(few) == 2
    for times, run in zip(errors(few) + 1.0, few, strict=True):
        assert 0.9 * run["blocks_per_sm"] < times < 1.1 * run["blocks_per_sm"]


def test_a_convolution_kernel_is_told_where_its_pipes_are_busy() -> None:
    """Blocks of tiled_conv2d keep a pipe busy; by their length, those of four configurations spill and wait."""
    runs = [
        {
            **run,
            "code_bytes": INSTRUCTION_BYTES
            * run["counted"]["smsp__inst_executed.sum"]
            / (run["blocks"] * run["threads"] / 32),
        }
        for run in launches("tiled", "tiled_counters")
    ]
    found = np.abs(errors(runs))
    assert len(found) == 96
    assert np.median(found) == pytest.approx(0.023, abs=0.0005)
    assert np.mean(found < 0.05) == pytest.approx(0.81, abs=0.005)
    assert np.mean(found < 0.2) > 0.9


def test_small_kernels_fetch_their_code_in_their_first_launch_and_nothing_of_it_in_the_next() -> None:
    """Kernels of 2 to 122 KB, tiled_conv2d as it is shipped among them; none was used for what is prefetched."""
    fits = [
        run for run in launches("launches", "launch_counters") if run["code_bytes"] <= GPU.instruction_cache_l1_bytes
    ]
    found = np.abs(errors([run for run in fits if not run["again"]]))
    again = [run["counted"][FETCHED] for run in fits if run["again"]]
    assert (len(found), len(again)) == (28, 10)
    assert np.median(found) == pytest.approx(0.020, abs=0.0005)
    assert np.mean(found < 0.05) == pytest.approx(0.86, abs=0.005)
    assert found.max() < 0.1
    assert set(again) == {192}
