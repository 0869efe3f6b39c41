"""The counts store beside the published runs: its registers are theirs, and its rows are what the compiler gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from perfmodel.accuracy.verification import verify_store
from perfmodel.families.profiling import stored_profiles
from perfmodel.families.registry import family
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.profiles.counts_store import load_store
from perfmodel.records.measurements import read_measurements
from tables.cases import PUBLISHED


@pytest.mark.data
def test_stored_registers_are_those_of_the_run(published_data: Path) -> None:
    """RTX 2080 Ti: equal in at least 93 % of all rows, although the compiler that built the runs is not known."""
    chosen, gpu = family("tiled_conv2d"), load_gpu("rtx-2080-ti")
    rows = read_measurements(published_data / PUBLISHED[gpu.id], chosen).take(np.arange(0, 2640, 4))
    configurations = [rows.batch.configuration(i) for i in range(len(rows))]
    facts = stored_profiles(chosen, rows.problems[0], configurations, gpu, load_store("tiled_conv2d"), equivalents=True)
    stored = np.array([fact.resources.registers_per_thread for fact in facts if fact is not None])
    assert (stored == rows.columns["registers_per_thread"].to_numpy()).mean() >= 0.93


@pytest.mark.data
@pytest.mark.compiler
def test_drawn_rows_are_computed_anew_as_they_are_stored(published_data: Path) -> None:
    """Small tiles only, because one large one compiles for as long as all of this file's other tests."""
    chosen, gpu = family("tiled_conv2d"), load_gpu("rtx-3090")
    rows = read_measurements(published_data / PUBLISHED[gpu.id], chosen)
    rows = rows.where("tile_size_x * tile_size_y < 4 and read_only == 0")
    verified = verify_store(chosen, rows.take(np.sort(np.random.default_rng(11).permutation(len(rows))[:4])), gpu)
    assert (verified.compared, verified.differences) == (4, ())
