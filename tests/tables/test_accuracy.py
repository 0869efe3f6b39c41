"""The accuracy table: its figures computed anew, their errors, and the pages that show it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from perfmodel.accuracy.metrics import regret
from tables import accuracy
from tables.cases import CASES, Case, figures_of_case
from tables.figures import Figure, differences, largest_regret, part, read_table, worst, write_table
from tables.pages import filled

ROOT = Path(__file__).parents[2]
FIGURES = read_table(accuracy.FIGURES)


@pytest.mark.data
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_figure_is_the_committed_one_within_its_error(published_data: Path, case: Case) -> None:
    """Where it is not and should not be: ``make accuracy``, with the reason in the commit."""
    figures = figures_of_case(case, published_data, ROOT / "validation" / "data")
    assert differences(FIGURES[case.name], figures) == []


@pytest.mark.parametrize("page", accuracy.PAGES, ids=lambda page: page.name)
def test_the_pages_show_the_committed_table(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert "<!-- accuracy" in text
    assert filled(text, FIGURES) == text


def test_ninety_percent_of_held_out_runs_lie_in_their_intervals() -> None:
    covered = [row["coverage"] for of in FIGURES.values() for row in of.values() if "coverage" in row]
    assert len(covered) == 9
    assert [one for one in covered if abs(one.value - 0.9) > 3 * one.error] == []


def test_a_sign_more_or_less_of_27_is_no_difference_and_a_third_of_them_is() -> None:
    """24 of 27 right: √(p(1 − p)/27) = 0.066 with p = 25/29, and one sign is 1/27 = 0.037."""
    committed = {"h200": {"sensitivity": part(24, 27)}}
    assert committed["h200"]["sensitivity"].error == pytest.approx((25 / 29 * 4 / 29 / 27) ** 0.5)
    assert differences(committed, {"h200": {"sensitivity": part(23, 27)}}) == []
    assert differences(committed, {"h200": {"sensitivity": part(16, 27)}}) == ["h200: sensitivity 0.8889 became 0.5926"]
    assert differences(committed, {"h200": {}}) == ["h200: sensitivity stands in one of the two alone"]
    assert part(83, 83).error > 0


def test_a_regret_may_change_by_what_near_equal_predictions_make_of_it() -> None:
    """The two predicted fastest are 0.1 % apart, and 2 and 1 long: top-1 can be 2 or 1, of the two together 1."""
    predicted, measured = np.array([1.0, 1.001, 3.0]), np.array([1.0, 2.0, 5.0])
    assert (regret(predicted, measured, 1), largest_regret(predicted, measured, 1, 0.005)) == (1.0, 2.0)
    assert largest_regret(predicted, measured, 1, 0.0005) == 1.0
    assert largest_regret(predicted, measured, 2, 0.005) == 1.0
    assert largest_regret(predicted, measured, 9, 0.005) == 1.0


def test_figures_survive_being_written_to_four_digits(tmp_path: Path) -> None:
    write_table(tmp_path / "figures.json", {"case": {"h200": {"mape": Figure(value=0.123456, error=0.01)}}})
    assert read_table(tmp_path / "figures.json") == {"case": {"h200": {"mape": Figure(value=0.1235, error=0.01)}}}


def test_the_worst_of_several_rows_is_taken_figure_by_figure() -> None:
    def row(runs: float, mape: float, tau: float) -> dict[str, Figure]:
        values = {"n": runs, "mape_scaled": mape, "kendall_tau": tau, "regret_top1": 1.0, "regret_top5": 1.0}
        return {name: Figure(value=value, error=0.0) for name, value in values.items()}

    found = worst([row(10, 0.1, 0.8), row(5, 0.05, 0.7)])
    assert {name: one.value for name, one in found.items()} == {
        "n": 15, "mape_scaled": 0.1, "kendall_tau": 0.7, "regret_top1": 1.0, "regret_top5": 1.0,
    }  # fmt: skip
