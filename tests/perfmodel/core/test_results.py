"""What every result can do in a notebook: one line, a table, rows, a plot."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import perfmodel as pm
from perfmodel.core.results import html_table
from perfmodel.time_model.combine import TERM_NAMES

PROBLEM = pm.TiledConv2d(height=512, width=512)


@pytest.fixture(scope="module")
def ranking() -> pm.Ranking:
    return pm.rank(PROBLEM, gpu="h200", fidelity="analytic", top=5)


def test_a_ranking_is_a_list_of_predictions(ranking: pm.Ranking) -> None:
    assert len(ranking) == 5
    assert [prediction for prediction in ranking] == list(ranking.top)  # noqa: C416 - iteration is what is tested
    assert ranking[0] is ranking.best
    assert ranking[-1] is ranking.top[4]
    assert ranking[1:3] == ranking.top[1:3]


def test_repr_is_one_short_line(ranking: pm.Ranking) -> None:
    for result in (ranking, ranking[0]):
        assert "\n" not in repr(result)
        assert len(repr(result)) < 200
    assert repr(ranking[0]).startswith("<Prediction tiled_conv2d on h200: ")
    assert f"5 best of {ranking.candidates:,} configurations" in repr(ranking)


def test_notebooks_get_an_escaped_table(ranking: pm.Ranking) -> None:
    table = ranking._repr_html_()
    assert table.count("<tr>") == 1 + 5
    assert "<th>block_size_x</th>" in table
    assert ranking[0]._repr_html_().count("<tr>") == 1 + sum(float(v) > 0 for _, v in ranking[0].time.terms.items())
    assert html_table([{"a<b": "<&"}]) == (
        "<table><thead><tr><th>a&lt;b</th></tr></thead><tbody><tr><td>&lt;&amp;</td></tr></tbody></table>"
    )


def test_a_frame_has_times_intervals_and_terms(ranking: pm.Ranking) -> None:
    table = pm.frame(ranking)
    assert list(table["place"]) == [1, 2, 3, 4, 5]
    assert {f"{name}_s" for name in TERM_NAMES} <= set(table.columns)
    first, row = ranking[0], table.iloc[0]
    assert row["predicted_s"] == first.time.predicted_s
    assert (row["interval_low_s"], row["interval_high_s"]) == first.time.interval_s
    assert row["occupancy"] == first.occupancy.fraction
    assert row["dram_s"] == float(first.time.terms.dram)
    assert row["block_size_x"] == first.configuration.block_size_x


def test_a_frame_of_several_results_names_them(ranking: pm.Ranking) -> None:
    other = pm.predict(PROBLEM, ranking.best.configuration, gpu="t4", fidelity="analytic")
    assert list(pm.frame([ranking[0], other])["gpu"]) == ["h200", "t4"]
    assert list(pm.frame({"a": ranking[0], "b": other})["name"]) == ["a", "b"]
    assert list(pm.frame(ranking.top)["gpu"]) == ["h200"] * 5
    with pytest.raises(pm.InputError, match="3 has no rows"):
        pm.frame(3)


def test_a_plot_has_a_bar_for_each_configuration(ranking: pm.Ranking) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    axes = ranking.plot()
    assert [bar.get_width() for bar in axes.patches] == [1e6 * found.time.predicted_s for found in ranking]
    _, own = pyplot.subplots()
    assert ranking[0].plot(own) is own
    assert own.get_yticklabels()[0].get_text() == "predicted"
    pyplot.close("all")


def test_a_network_is_a_list_of_layers() -> None:
    report = pm.network("mobilenet_v1", gpu="H200", batch=2)
    assert (report.batch, report.gpu) == (2, "h200")
    assert sum(layer.seconds for layer in report) == report.total_s
    table = pm.frame(report)
    assert list(table["layer"]) == [layer.layer.name for layer in report]
    assert table["predicted_s"].sum() == pytest.approx(report.total_s)
    assert f"{len(report)} layers" in repr(report)
    assert repr(report[0]).startswith("<LayerReport conv1: ")
    assert all(len(repr(layer)) < 100 for layer in report)
    with pytest.raises(pm.InputError, match="goes with a PyTorch module"):
        pm.network("mobilenet_v1", gpu="h200", input_shape=[1, 3, 8, 8])


MEASUREMENTS = Path(__file__).parents[3] / "examples" / "h200.jsonl.gz"


def test_a_validation_shows_predicted_against_measured_times() -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    found = pm.validate("direct_conv2d", gpu="h200", measurements=MEASUREMENTS, fidelity="analytic")
    runs, agreement = found.plot().get_lines()
    assert len(runs.get_xdata()) == found.accuracy.n == 72
    assert runs.get_xdata() == pytest.approx(1e6 * found.measured_s)
    assert list(agreement.get_xdata()) == list(agreement.get_ydata())
    errors = abs(found.predicted_s / found.measured_s - 1.0)
    (row,) = pm.frame(found).to_dict("records")
    assert row["mape"] == pytest.approx(errors.mean())
    assert row["within_problems_problems"] == 1
    assert not any(isinstance(value, dict) for value in row.values())
    pyplot.close("all")


def test_a_fit_shows_the_errors_of_runs_held_out() -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    found = pm.fit("direct_conv2d", gpu="h200", measurements=MEASUREMENTS, fidelity="analytic")
    axes = found.plot()
    line = axes.get_lines()[0]
    assert len(line.get_xdata()) == 72
    assert line.get_ydata()[-1] == pytest.approx(100.0)
    assert (line.get_xdata() >= 1.0).all()
    content = json.loads(json.dumps(found.to_json()))
    assert content["held_out_log_error_90"] == found.log_error_90
    assert content["notes"] == []
    assert set(pm.frame(found)["coefficient"]) >= set(content["coefficients"])
    pyplot.close("all")


def test_a_fit_says_which_files_are_of_another_gpu() -> None:
    found = pm.fit("direct_conv2d", gpu="rtx-3090", measurements=MEASUREMENTS, fidelity="analytic")
    assert found.notes == (f"{MEASUREMENTS}: was measured on h200, not on rtx-3090",)
    assert found.notes[0] in repr(found)


def test_advice_is_a_list_of_changes() -> None:
    from perfmodel.advice.advise import Advice, Advised
    from perfmodel.advice.subject import AdviceKind

    change = Advice(
        kind=AdviceKind.BANK_CONFLICTS, places=("k.cu:11",), finding="32-way", change="padding", now_s=8e-5, then_s=4e-5
    )
    found = Advised(least_gain=0.05, changes=(change,), excess=())
    assert list(found) == [change]
    assert pm.frame(found)["gain"].tolist() == [0.5]
    assert repr(change) == "<Advice k.cu:11: 32-way; padding: 80 µs → 40 µs (-50%)>"
    assert repr(found) == "<Advised change 1: k.cu:11: 32-way; padding: 80 µs → 40 µs (-50%)>"
