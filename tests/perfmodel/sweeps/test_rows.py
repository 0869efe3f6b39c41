"""One row a candidate: those of the space, with the figures of a prediction; what cannot run says why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perfmodel.core.counts import COUNT_NAMES
from perfmodel.core.json_values import plain
from perfmodel.families.base import Batch
from perfmodel.families.tiled_conv2d import FAMILY, TiledConv2d
from perfmodel.families.user.family import user_problem
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.prediction.predicting import predict
from perfmodel.prediction.ranking import rank
from perfmodel.sweeps.plan import SweepPlan
from perfmodel.sweeps.rows import LEADING, TRAILING, run_task
from perfmodel.sweeps.tasks import candidates_of, tasks_of
from perfmodel.time_model.combine import TERM_NAMES

SMALL = TiledConv2d(height=64, width=64, filter_height=3, filter_width=3)
SOURCE = "__global__ void k(float *x) { x[blockIdx.x * B + threadIdx.x] = V; }"
SPACE = """
kernel = "k"
grid = "4096 // B"
block = "B"
arguments = ["f32[4096]=0"]
constraints = ["B < 512"]
[tune]
B = [64, 256, 512]
V = ["1.0f", "2.0f"]
"""


def rows_of(plan: SweepPlan) -> list[dict[str, Any]]:
    return [row for task in tasks_of(plan) for row in run_task(task).table.to_pylist()]


def of_prediction(row: dict[str, Any]) -> dict[str, Any]:
    """What a row and `Prediction.to_row` both have, by the names of the latter."""
    names = [name for name in (*LEADING, *TRAILING) if name not in ("l2", "sm_clock_hz", "place", "rejected")]
    return {name: row[name] for name in names}


def test_every_candidate_has_a_row_with_the_figures_of_its_prediction() -> None:
    plan = SweepPlan(problems=(SMALL,), gpus=("rtx-3090",), fidelity="analytic", l2="warm")
    rows = rows_of(plan)
    ranking = rank(SMALL, gpu="rtx-3090", fidelity="analytic", l2="warm", top=3)
    assert len(rows) == ranking.candidates  # programs that are the same as another one are in neither
    assert sum(row["rejected"] is not None for row in rows) == sum(ranking.rejected.values())
    assert {row["rejected"] for row in rows} - {None} == ranking.rejected.keys()
    assert all((row["predicted_s"] is None) == (row["rejected"] is not None) for row in rows)
    for found in ranking:
        wanted = {
            f"configuration_{name}": None if value == "none" else value
            for name, value in plain(found.configuration).items()
        }
        (row,) = [row for row in rows if all(row[name] == value for name, value in wanted.items())]
        expected = found.to_row()
        assert of_prediction(row) == {name: expected[name] for name in of_prediction(row)}
        assert (row["l2"], row["sm_clock_hz"]) == ("warm", load_gpu("rtx-3090").boost_clock_hz)
        assert row["problem_filter_width"] == 3


def test_the_manual_names_every_column() -> None:
    manual = (Path(__file__).parents[3] / "docs" / "sweep.md").read_text(encoding="utf-8")
    shown_by_example = {f"{name}_s" for name in TERM_NAMES} | set(COUNT_NAMES)
    assert [name for name in (*LEADING, *TRAILING) if f"`{name}`" not in manual and name not in shown_by_example] == []


def test_the_best_are_those_of_a_ranking() -> None:
    plan = SweepPlan(problems=(SMALL,), gpus=("h200",), fidelity="analytic", best=3)
    rows, ranking = rows_of(plan), rank(SMALL, gpu="h200", fidelity="analytic", top=3)
    assert [row["place"] for row in rows] == [1, 2, 3]
    assert [row["predicted_s"] for row in rows] == [found.time.predicted_s for found in ranking]
    assert [row["configuration_block_size_x"] for row in rows] == [
        found.configuration.block_size_x for found in ranking
    ]


def test_tasks_part_the_space_without_gap_or_overlap(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = SweepPlan(problems=(SMALL,), gpus=("h200",), fidelity="analytic")
    whole = tasks_of(plan)
    monkeypatch.setattr("perfmodel.sweeps.tasks.ANALYTIC_CANDIDATES", 1000)
    parts = tasks_of(plan)
    products = FAMILY.space(SMALL, load_gpu("h200")).products
    assert len(parts) == sum(-(-len(product) // 1000) for product in products) == len({task.key for task in parts})
    fine, coarse = (Batch.joined([candidates_of(task) for task in tasks]) for tasks in (parts, whole))
    assert all((fine[name] == coarse[name]).all() for name in coarse.columns)


@pytest.mark.compiler
def test_a_kernel_of_ones_own_is_executed(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(SOURCE)
    (tmp_path / "k.toml").write_text(SPACE)
    problem = user_problem(tmp_path / "k.cu", tmp_path / "k.toml")
    rows = rows_of(SweepPlan(problems=(problem,), gpus=("h200",)))
    assert [(row["configuration_B"], row["configuration_V"]) for row in rows] == [
        (block, value) for block in (64, 256, 512) for value in ("1.0f", "2.0f")
    ]
    assert [row["rejected"] for row in rows] == [None] * 4 + ["constraint B < 512"] * 2
    assert [row["global_store_requests"] for row in rows] == [4096 / 32] * 4 + [None] * 2
    first = problem.family.space(problem, load_gpu("h200")).batch().configuration(0)
    expected = predict(problem, first, gpu="h200", fidelity="simulated").to_row()
    assert of_prediction(rows[0]) == {name: expected[name] for name in of_prediction(rows[0])}
