"""Which launches need more wavefronts of shared memory than their accesses alone, by the published counters of an RTX 2080 Ti."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from perfmodel.conditions import conditions
from perfmodel.facts import Facts
from perfmodel.families.registry import family
from perfmodel.gather import gather_facts
from perfmodel.occupancy import carve_out_bytes
from perfmodel.predicting import evaluate_under
from perfmodel.records import read_measurements
from perfmodel.records.metrics import measured_counts

COUNTERS = "tiled_conv2d/rtx-2080-ti.counters.csv"
SMALLEST_BYTES = 32 * 1024

Launches = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Accesses:
    """Wavefronts of shared loads or stores: executed, counted, and the requests to global memory that run beside them."""

    executed: Launches
    counted: Launches
    beside: Launches

    def further(self) -> Launches:
        """Wavefronts counted beyond those executed."""
        return np.rint(self.counted - self.executed)

    def error(self, rate: float, share: Launches, rows: NDArray[np.bool_]) -> float:
        """Median relative error on some rows, if each request beside costs ``rate`` wavefronts in a share of shared memory."""
        told = self.executed + rate * self.beside * share
        return float(np.median(np.abs(told - self.counted)[rows] / self.counted[rows]))

    def fitted_rate(self, share: Launches, rows: NDArray[np.bool_]) -> float:
        """The least-squares rate of the relative error on some rows."""
        slope, further = (self.beside * share / self.counted)[rows], (self.further() / self.counted)[rows]
        return float(slope @ further / (slope @ slope))


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """All launches of the file: loads beside global stores, stores beside global loads, and shared memory on an SM in bytes."""

    loads: Accesses
    stores: Accesses
    carve_out_bytes: NDArray[np.int64]
    in_use_bytes: NDArray[np.int64]


@cache
def counted_launches(data: Path) -> Counted:
    under, tiled = conditions("rtx-2080-ti"), family("tiled_conv2d")
    measurements = read_measurements(data / COUNTERS, tiled)
    (problem,) = measurements.problems
    outcomes = gather_facts(tiled, problem, measurements.batch, under.gpu, equivalents=True, stored_only=True)
    facts = [outcome for outcome in outcomes if isinstance(outcome, Facts)]
    assert len(facts) == len(measurements)
    found = evaluate_under(tiled, problem, measurements.batch, under, facts)
    counted = {one.count: one for one in measured_counts(measurements.columns)}
    loads, stores = (
        Accesses(executed=counted[name].predicted(found.work.counts), counted=counted[name].launches, beside=beside)
        for name, beside in (
            ("shared_load_wavefronts", found.work.counts.global_store_requests),
            ("shared_store_wavefronts", found.work.counts.global_load_requests),
        )
    )
    in_use = np.asarray(found.occupancy.shared_bytes_per_sm, np.int64)
    return Counted(loads=loads, stores=stores, carve_out_bytes=carve_out_bytes(under.gpu, in_use), in_use_bytes=in_use)


@pytest.mark.data
def test_shared_accesses_contend_just_where_the_carve_out_is_not_the_smallest(published_data: Path) -> None:
    found = counted_launches(published_data)
    smallest = found.carve_out_bytes == SMALLEST_BYTES
    assert (smallest.sum(), (~smallest).sum()) == (330, 2310)
    assert not found.loads.further()[smallest].any()
    assert not found.stores.further()[smallest].any()
    assert (found.stores.further()[~smallest] > 0).all()
    assert (found.loads.further()[~smallest] >= 0).all()


@pytest.mark.data
def test_contention_follows_the_share_of_shared_memory_beyond_the_smallest_carve_out(published_data: Path) -> None:
    found = counted_launches(published_data)
    share = np.clip(1.0 - SMALLEST_BYTES / np.maximum(found.in_use_bytes, 1), 0.0, None)
    contend = share > 0.0
    even = np.arange(len(share)) % 2 == 0  # the file's halves differ in read_only alone, and begin at even rows
    for accesses, rate, alone, told in (
        (found.loads, 0.94, 0.0016, 0.0007),
        (found.stores, 0.086, 0.0213, 0.0095),
    ):
        fitted = accesses.fitted_rate(share, contend & even)
        assert fitted == pytest.approx(rate, rel=0.01)
        assert accesses.error(0.0, share, contend & ~even) == pytest.approx(alone, abs=5e-5)
        assert accesses.error(fitted, share, contend & ~even) == pytest.approx(told, abs=5e-5)
