"""The main claim, recomputed: how well stored counts and fitted coefficients predict runs that others measured."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perfmodel.accuracy.recounting import recount_store
from perfmodel.families.registry import family
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.profiles.counts_store import load_store
from perfmodel.profiles.gather import stored_facts
from perfmodel.records.measurements import read_measurements

from .accuracy_golden import MANUALS, read_golden, rendered, table_in, write_golden
from .accuracy_table import CASES, FILES, Case, Figures, data_of

BOUNDS: dict[str, Any] = tomllib.loads(Path(__file__).with_name("accuracy_floors.toml").read_text(encoding="utf-8"))
BETTER_ABOVE = ("kendall_tau", "what_if")
"""Figures of which more is better; of the others in the noise table less is."""


def falls_below(case: str, found: dict[str, Figures]) -> list[str]:
    """Floors of a case that its figures break."""
    broken = []
    for floor in (one for one in BOUNDS["floor"] if one["case"] == case):
        for key, bound in floor.items():
            kind, _, figure = key.partition("_")
            if kind in ("min", "max"):
                value = found[floor["gpu"]][figure]
                assert value is not None
                if not (value >= bound if kind == "min" else value <= bound):
                    broken.append(f"{case}, {floor['gpu']}: {figure} {value:.4f}, {kind} {bound}")
    return broken


def worse_than(committed: dict[str, Figures], found: dict[str, Figures]) -> list[str]:
    """Figures that got worse than the committed ones by more than their noise, or that are not there any more."""
    assert committed.keys() == found.keys()
    worse = []
    for gpu, figures in committed.items():
        for name, noise in BOUNDS["noise"].items():
            before, now = figures.get(name), found[gpu].get(name)
            if before is not None and now is not None:
                loss = before - now if name in BETTER_ABOVE else now - before
                if loss > noise:
                    worse.append(f"{gpu}: {name} {before:.4f} became {now:.4f}")
            elif before is not None or now is not None:
                worse.append(f"{gpu}: {name} {before} became {now}")
    return worse


@pytest.mark.data
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_accuracy_keeps_its_floors_and_the_committed_table(
    published_data: Path, case: Case, update_golden: bool
) -> None:
    found = case.tell(data_of(published_data, case.gpus, case.where))
    if update_golden:
        write_golden(case.name, found)
    assert falls_below(case.name, found) == []
    assert worse_than(read_golden()[case.name], found) == []


@pytest.mark.parametrize("path", MANUALS, ids=lambda path: path.name)
def test_the_manuals_show_the_committed_table(path: Path) -> None:
    assert table_in(path) == rendered(read_golden())


def test_every_floor_is_of_a_figure_that_is_committed() -> None:
    golden = read_golden()
    assert {case.name for case in CASES} == golden.keys() == {floor["case"] for floor in BOUNDS["floor"]}
    for floor in BOUNDS["floor"]:
        figures = {key.partition("_")[2] for key in floor if key.startswith(("min_", "max_"))}
        assert figures
        assert all(golden[floor["case"]][floor["gpu"]][figure] is not None for figure in figures)


def test_a_figure_that_gets_worse_by_more_than_its_noise_is_told() -> None:
    """Each figure of the table is moved to twice its noise for the worse, and found; then for the better, and not."""
    golden = read_golden()["shapes"]
    for name, noise in BOUNDS["noise"].items():
        for sign, count in ((2.0, 1), (0.5, 0), (-2.0, 0)):
            change = -sign * noise if name in BETTER_ABOVE else sign * noise
            value = golden["rtx-3090"][name]
            assert value is not None
            moved = golden | {"rtx-3090": golden["rtx-3090"] | {name: value + change}}
            assert len(worse_than(golden, moved)) == count, (name, sign)


def test_a_figure_below_its_floor_is_told() -> None:
    golden = read_golden()["shapes"]
    assert falls_below("shapes", golden) == []
    poor = golden | {"rtx-2080-ti": golden["rtx-2080-ti"] | {"kendall_tau": 0.5, "coverage": 1.0}}
    assert [text.split(": ")[1].split()[0] for text in falls_below("shapes", poor)] == ["kendall_tau", "coverage"]


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
