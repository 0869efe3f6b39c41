"""Stored counts against the hardware's: accesses equal to the unit, without a compiler."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from perfmodel.accuracy.counter_metrics import measured_counts
from perfmodel.families.profiling import gather_profiles
from perfmodel.families.registry import family
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.prediction.evaluation import evaluate_batch
from perfmodel.prediction.scenario import scenario_of
from perfmodel.profiles.kernel_profile import KernelProfile
from perfmodel.records.measurements import read_measurements

DATA = Path(__file__).parents[2] / "validation" / "data"
FILES = ("h200.jsonl.gz", "h200-recounted.jsonl.gz")
WAVEFRONTS = ("instrumented_shared_load_wavefronts", "instrumented_shared_store_wavefronts")
"""Counted in the second file alone."""
TOO_MANY = 28
"""Sectors of 156,608,900 of local loads of one launch of `tiled_conv2d`: a guarded store is taken for its neighbour."""
ACCESSES = (
    "global_load_requests",
    "global_load_sectors",
    "global_store_requests",
    "global_store_sectors",
    "shared_load_requests",
    "shared_store_requests",
    "async_copy_requests",
    "local_load_sectors",
    "local_store_sectors",
    *WAVEFRONTS,
)


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize(
    ("name", "launches"),
    [("conv1d", 27), ("direct_conv2d", 36), ("pointwise_conv2d", 33), ("ssim", 10), ("tiled_conv2d", 30)],
)
def test_accesses_of_stored_launches_are_what_an_h200_counted(name: str, launches: int, file: str) -> None:
    chosen, scenario = family(name), scenario_of("h200")
    measurements = read_measurements(DATA / file, chosen)
    names = {one.name for one in measured_counts(measurements.columns)}
    assert set(ACCESSES) - names == (set() if file == FILES[1] else set(WAVEFRONTS))
    counted = np.any([np.isfinite(one.launches) for one in measured_counts(measurements.columns)], axis=0)
    compared = different = 0
    for index, problem in enumerate(measurements.problems):
        rows = np.flatnonzero((measurements.problem_index == index) & counted)
        batch = measurements.batch.take(rows)
        outcomes = gather_profiles(chosen, problem, batch, load_gpu("h200"), stored_only=True)
        stored = [i for i, outcome in enumerate(outcomes) if isinstance(outcome, KernelProfile)]
        profile = [outcome for outcome in outcomes if isinstance(outcome, KernelProfile)]
        if profile:
            counts = evaluate_batch(chosen, problem, batch.take(stored), scenario, profile).counts
            for one in measured_counts(measurements.columns.iloc[rows[stored]]):
                if one.name in ACCESSES:
                    off = np.abs(one.predicted(counts) - one.launches)
                    assert off.sum() == (TOO_MANY if one.name == "local_load_sectors" and off.any() else 0), one.name
                    different += int(off.any())
        compared += len(profile)
    assert compared == launches
    assert different == (1 if name == "tiled_conv2d" else 0)
