"""Code that an H100 fetched, as its profiler counted it, beside what the simulator tells of GPCs that ask for all their SMs."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import perfmodel.validation
from perfmodel.definitions import INSTRUCTION_BYTES
from perfmodel.gpus import load_gpu
from perfmodel.simulator.hierarchy_fetch_merged import merged_sectors

DATA = Path(perfmodel.validation.__file__).parent / "data" / "h100-code-fetch.json.gz"
FETCHED = "lts__t_sectors_srcunit_gcc_op_read.sum"
GPU = load_gpu("h100-sxm-80gb")


@cache
def record() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(gzip.decompress(DATA.read_bytes()))
    return found


def errors(runs: list[dict[str, Any]]) -> NDArray[np.float64]:
    """Relative errors of the sectors told for launches of the micro-benchmark."""
    at = record()["run_counters"].index(FETCHED)
    told = [
        merged_sectors(np.array([float(run["code_bytes"])]), np.array([float(run["passes"])]), run["blocks"], GPU)
        for run in runs
    ]
    return np.array(told) / np.array([run["counters"][at] for run in runs]) - 1.0


def test_code_that_fits_is_fetched_once_for_each_gpc_when_the_launch_begins() -> None:
    fits = [run for run in record()["runs"] if run["code_bytes"] <= GPU.instruction_cache_l1_bytes]
    assert len(fits) == 204
    assert np.abs(errors(fits)).max() < 0.05


def test_longer_code_is_fetched_once_for_each_gpc_and_walk_where_an_sm_has_one_block() -> None:
    """Code a few lines longer than the cache is left out: of it less is missed than where what was not used for longest goes."""
    longer = [
        run
        for run in record()["runs"]
        if run["code_bytes"] > 1.2 * GPU.instruction_cache_l1_bytes and run["blocks"] <= GPU.sm_count
    ]
    assert len(longer) == 100
    found = np.abs(errors(longer))
    assert np.median(found) < 0.01
    assert found.max() < 0.1


def test_blocks_of_an_sm_that_leave_its_pipes_free_fetch_together() -> None:
    """Their number divides what is fetched, which is not told; blocks that keep a pipe busy walk one after another."""
    at = record()["run_counters"].index(FETCHED)
    runs = [run for run in record()["runs"] if run["kernel"] == "kF_256" and run["blocks"] > GPU.sm_count]
    few = [run for run in runs if run["threads"] == 64 and not run["largest_gap_cycles"]]
    for run in few:
        told = merged_sectors(np.array([float(run["code_bytes"])]), np.array([1.0]), run["blocks"], GPU)
        assert 0.9 * run["blocks_per_sm"] < told / run["counters"][at] < 1.1 * run["blocks_per_sm"]
    assert len(few) == 2


def test_a_convolution_kernel_is_told_where_its_pipes_are_busy() -> None:
    """Blocks of tiled_conv2d keep a pipe busy; by their length, those of four configurations spill and wait."""
    names = record()["tiled_counters"]
    found = []
    for run in record()["tiled"]:
        counted = dict(zip(names, run["counters"], strict=True))
        warps = run["blocks"] * run["threads"] / 32
        code = counted["smsp__inst_executed.sum"] / warps * INSTRUCTION_BYTES
        told = merged_sectors(np.array([code]), np.array([1.0]), run["blocks"], GPU)
        found.append(told / counted[FETCHED] - 1.0)
    assert len(found) == 96
    assert np.median(np.abs(found)) < 0.03
    assert np.mean(np.abs(found) < 0.2) > 0.9


def test_small_kernels_fetch_their_code_in_their_first_launch_and_nothing_of_it_in_the_next() -> None:
    """Kernels of 2 to 122 KB, tiled_conv2d as it is shipped among them; none was used for what is prefetched."""
    at = record()["launch_counters"].index(FETCHED)
    found, again = [], []
    for run in record()["launches"]:
        if run["code_bytes"] > GPU.instruction_cache_l1_bytes:
            continue
        told = merged_sectors(np.array([float(run["code_bytes"])]), np.array([1.0]), run["blocks"], GPU)
        if run["again"]:
            again.append(run["counters"][at])
        else:
            found.append(told / run["counters"][at] - 1.0)
    assert (len(found), len(again)) == (28, 10)
    assert np.median(np.abs(found)) < 0.03
    assert np.abs(found).max() < 0.11
    assert set(again) == {192}
