"""Repeated wavefronts of shared memory: the rule, and the published counters of an RTX 2080 Ti."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from perfmodel.accuracy.counter_metrics import measured_counts
from perfmodel.core.counts import Counts
from perfmodel.families.registry import family
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.gpus.occupancy import carve_out_bytes, occupancy
from perfmodel.launch.launch import Launch
from perfmodel.prediction.predicting import evaluate_scenario
from perfmodel.prediction.scenario import scenario_of
from perfmodel.profiles.facts import Facts
from perfmodel.profiles.gather import gather_facts
from perfmodel.records.measurements import read_measurements
from perfmodel.time_model.shared_contention import share_beside_l1, with_contention

COUNTERS = "tiled_conv2d/rtx-2080-ti.counters.csv"
TURING = load_gpu("rtx-2080-ti")

Launches = NDArray[np.float64]
Rows = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Accesses:
    """Wavefronts of shared loads or stores: executed, told with contention, counted, and what they meet beside them."""

    executed: Launches
    told: Launches
    counted: Launches
    beside: Launches

    def further(self) -> Launches:
        """Wavefronts counted beyond those executed."""
        return np.rint(self.counted - self.executed)

    def errors(self, told: Launches, rows: Rows) -> tuple[float, float, float]:
        """Median and ninth decile of the relative error on some rows, and the part of them within 1 %."""
        errors = np.abs(told - self.counted)[rows] / self.counted[rows]
        return float(np.median(errors)), float(np.quantile(errors, 0.9)), float(np.mean(errors < 0.01))

    def fitted_rate(self, share: Launches, rows: Rows) -> float:
        """The least-squares rate of the relative error on some rows."""
        slope, further = (self.beside * share / self.counted)[rows], (self.further() / self.counted)[rows]
        return float(slope @ further / (slope @ slope))


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """All launches of the file: loads beside sectors stored, stores beside global loads, and shared memory on an SM in bytes."""

    loads: Accesses
    stores: Accesses
    carve_out_bytes: NDArray[np.int64]
    in_use_bytes: NDArray[np.int64]


@cache
def counted_launches(data: Path) -> Counted:
    scenario, tiled = scenario_of("rtx-2080-ti"), family("tiled_conv2d")
    measurements = read_measurements(data / COUNTERS, tiled)
    (problem,) = measurements.problems
    outcomes = gather_facts(tiled, problem, measurements.batch, scenario.gpu, equivalents=True, stored_only=True)
    facts = [outcome for outcome in outcomes if isinstance(outcome, Facts)]
    assert len(facts) == len(measurements)
    found = evaluate_scenario(tiled, problem, measurements.batch, scenario, facts)
    counts = found.work.counts
    counted = {one.name: one for one in measured_counts(measurements.columns)}
    loads, stores = (
        Accesses(
            executed=np.asarray(getattr(counts, name), np.float64),
            told=counted[name].predicted(counts),
            counted=counted[name].launches,
            beside=np.asarray(beside, np.float64),
        )
        for name, beside in (
            ("shared_load_wavefronts", counts.global_store_sectors),
            ("shared_store_wavefronts", counts.global_load_requests),
        )
    )
    in_use = np.asarray(found.occupancy.shared_bytes_per_sm, np.int64)
    return Counted(
        loads=loads, stores=stores, carve_out_bytes=carve_out_bytes(scenario.gpu, in_use), in_use_bytes=in_use
    )


@pytest.mark.data
def test_shared_accesses_contend_just_where_the_carve_out_is_not_the_smallest(published_data: Path) -> None:
    found = counted_launches(published_data)
    smallest = found.carve_out_bytes == TURING.shared_bytes_apart_from_l1
    assert (smallest.sum(), (~smallest).sum()) == (330, 2310)
    for accesses in (found.loads, found.stores):
        assert not accesses.further()[smallest].any()
        assert not (accesses.told - accesses.executed)[smallest].any()
    assert (found.stores.further()[~smallest] > 0).all()
    assert (found.loads.further()[~smallest] >= 0).all()


@pytest.mark.data
def test_contention_is_told_to_rows_that_the_rates_were_not_fitted_to(published_data: Path) -> None:
    found = counted_launches(published_data)
    share = share_beside_l1(TURING, found.in_use_bytes)
    even = np.arange(len(share)) % 2 == 0  # the file's halves differ in read_only alone, and begin at even rows
    others = (share > 0.0) & ~even
    load_rate, store_rate = (
        TURING.shared_load_wavefronts_per_store_sector,
        TURING.shared_store_wavefronts_per_load_request,
    )
    for accesses, rate, before, after in (
        (found.loads, load_rate, (0.0016, 0.0062, 0.941), (0.0006, 0.0031, 0.962)),
        (found.stores, store_rate, (0.0213, 0.0512, 0.192), (0.0095, 0.0262, 0.528)),
    ):
        assert accesses.fitted_rate(share, (share > 0.0) & even) == pytest.approx(rate, rel=0.01)
        assert accesses.errors(accesses.executed, others) == pytest.approx(before, abs=5e-4)
        assert accesses.errors(accesses.told, others) == pytest.approx(after, abs=5e-4)


def test_a_small_grid_does_not_fill_an_sm() -> None:
    h200 = load_gpu("h200")
    counts = Counts(
        shared_load_wavefronts=1e6, shared_store_wavefronts=1e6, global_store_sectors=1e4, global_load_requests=1e4
    )
    launch = Launch(grid_x=np.array([132, 264, 1320]), block_x=256, dynamic_shared_bytes=99 * 1024)
    resident = occupancy(h200, threads_per_block=256, registers_per_thread=32, shared_bytes_per_block=[99 * 1024] * 3)
    found = with_contention(counts, launch, resident, h200)
    share = 1.0 - 128 / 200
    assert found.shared_load_contention == pytest.approx([0.0, 3600.0 * share, 3600.0 * share])
    assert found.shared_store_contention == pytest.approx([0.0, 2500.0 * share, 2500.0 * share])


def test_no_access_is_repeated_more_than_once_and_none_where_nothing_was_measured() -> None:
    launch = Launch(grid_x=1000, block_x=64, dynamic_shared_bytes=40 * 1024)
    counts = Counts(shared_load_wavefronts=10.0, global_store_sectors=1e9, global_load_requests=1e9)
    for gpu_id, most in (("rtx-2080-ti", 10.0 * (1.0 - 32 / 40)), ("rtx-3090", 0.0), ("p100-pcie-12gb", 0.0)):
        gpu = load_gpu(gpu_id)
        resident = occupancy(gpu, threads_per_block=64, registers_per_thread=32, shared_bytes_per_block=40 * 1024)
        found = with_contention(counts, launch, resident, gpu)
        assert found.shared_load_contention == pytest.approx(most)
        assert found.shared_store_contention == 0.0
