"""The main claim, recomputed: how well stored counts and shipped coefficients predict runs that others measured."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perfmodel import validate
from perfmodel.families.registry import family
from perfmodel.gather import stored_facts
from perfmodel.gpus import load_gpu
from perfmodel.records import read_measurements
from perfmodel.recounting import recount_store
from perfmodel.store import load_store

FLOORS: list[dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("accuracy_floors.toml").read_text(encoding="utf-8")
)["floor"]
FILES = {entry["gpu"]: entry["file"] for entry in FLOORS}


@pytest.mark.data
@pytest.mark.parametrize("floor", FLOORS, ids=lambda floor: f"{floor['gpu']}: {floor['where']}")
def test_accuracy_stays_above_its_floor(published_data: Path, floor: dict[str, Any]) -> None:
    path = published_data / "tiled_conv2d" / floor["file"]
    found = validate("tiled_conv2d", gpu=floor["gpu"], measurements=path, where=floor["where"])
    assert found.rejected == 0
    assert found.accuracy.kendall_tau >= floor["min_tau"]
    assert found.accuracy.mape_scaled <= floor["max_mape_scaled"]
    assert found.accuracy.regret_top5 <= floor["max_regret_top5"]


@pytest.mark.data
@pytest.mark.parametrize("gpu", sorted(FILES))
def test_every_published_run_is_covered_by_the_store(published_data: Path, gpu: str) -> None:
    chosen = family("tiled_conv2d")
    rows = read_measurements(published_data / "tiled_conv2d" / FILES[gpu], chosen)
    configurations = [rows.batch.configuration(i) for i in range(len(rows))]
    facts = stored_facts(
        chosen, rows.problems[0], configurations, load_gpu(gpu), load_store("tiled_conv2d"), equivalents=True
    )
    assert all(fact is not None for fact in facts)


@pytest.mark.data
def test_stored_registers_are_those_of_the_run(published_data: Path) -> None:
    """RTX 2080 Ti: equal in at least 93 % of all rows, although the compiler that built the runs is not known."""
    chosen, gpu = family("tiled_conv2d"), load_gpu("rtx-2080-ti")
    rows = read_measurements(published_data / "tiled_conv2d" / FILES[gpu.id], chosen)
    configurations = [rows.batch.configuration(i) for i in range(len(rows))]
    store = load_store("tiled_conv2d")
    facts = stored_facts(chosen, rows.problems[0], configurations, gpu, store, equivalents=True)
    stored = np.array([fact.resources.registers_per_thread for fact in facts if fact is not None])
    assert (stored == rows.columns["registers_per_thread"].to_numpy()).mean() >= 0.93


@pytest.mark.data
@pytest.mark.compiler
def test_drawn_rows_recount_to_what_is_stored(published_data: Path) -> None:
    """Small tiles only, because one large one compiles for as long as all of this file's other tests."""
    chosen, gpu = family("tiled_conv2d"), load_gpu("rtx-3090")
    rows = read_measurements(published_data / "tiled_conv2d" / FILES[gpu.id], chosen)
    rows = rows.where("tile_size_x * tile_size_y < 5 and read_only == 0")
    drawn = rows.take(np.sort(np.random.default_rng(11).choice(len(rows), size=6, replace=False)))
    found = recount_store(chosen, drawn, gpu)
    assert found.compared == 6
    assert found.differences == ()
