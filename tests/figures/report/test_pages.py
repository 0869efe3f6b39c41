"""What stands on the pages is what the predictions and the comparison say; what is in a page needs nothing from outside."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from perfmodel.core.json_values import plain
from perfmodel.families.direct_conv2d.problem import Conv2d
from perfmodel.figures.report.html import html_text
from perfmodel.figures.report.parts import Page, Paragraph, Table
from perfmodel.figures.report.ranking_drawings import resident_warps
from perfmodel.figures.report.ranking_page import ranking_page, rival_place
from perfmodel.prediction.explanation import sensitivity
from perfmodel.prediction.prediction import Prediction
from perfmodel.prediction.ranking import rank_problem
from perfmodel.prediction.scenario import scenario_of
from perfmodel.prediction.throughput import throughput
from perfmodel.profiles.kernel_profile import Fidelity

from .conftest import GPU, Ranked, Validated

VOID = {"br", "img", "link", "meta"}


class Outline(HTMLParser):
    """Element names, attributes and whether every element is closed in order; SVG's own rules are not looked at."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: Counter[str] = Counter()
        self.targets: set[str] = set()
        self.references: list[str] = []
        self.headers: list[dict[str, str | None]] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        found = dict(attributes)
        if tag not in VOID:
            self.open.append(tag)
        self._note(tag, found)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self._note(tag, dict(attributes))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def _note(self, tag: str, found: dict[str, str | None]) -> None:
        if "id" in found:
            self.ids[str(found["id"])] += 1
        for name in ("href", "src", "xlink:href", "aria-labelledby"):
            value = found.get(name)
            if value is not None and name == "aria-labelledby":
                self.targets.add(value)
            elif value is not None and value.startswith("#"):
                self.targets.add(value[1:])
            elif value is not None:
                self.references.append(value)
        if tag == "th":
            self.headers.append(found)


def column(table: Table, title: str) -> list[str]:
    place = [column.title for column in table.columns].index(title)
    return [row[place].text for row in table.rows]


def values(table: Table, title: str) -> list[float | None]:
    place = [column.title for column in table.columns].index(title)
    return [row[place].value for row in table.rows]


def paragraphs(page: Page, section: str) -> str:
    (found,) = [part for part in page.sections if part.name == section]
    return " ".join(block.text for block in found.blocks if isinstance(block, Paragraph))


def test_the_table_holds_the_ranking(ranked: Ranked) -> None:
    table, top = ranked.page.table("ranking"), ranked.ranking.top
    assert len(table.rows) == len(top) == 40
    assert values(table, "predicted µs") == [found.time.predicted_s * 1e6 for found in top]
    assert values(table, "registers") == [found.resources.registers_per_thread for found in top]
    for name in plain(top[0].configuration):
        assert column(table, name) == [str(plain(found.configuration)[name]) for found in top]
    low, high = top[0].time.interval_s or (None, None)
    assert low is not None
    assert high is not None
    assert (values(table, "from µs")[0], values(table, "to µs")[0]) == (low * 1e6, high * 1e6)


def test_the_answer_names_the_winner_and_how_sure_it_is(ranked: Ranked) -> None:
    best = ranked.ranking.best
    for name, value in plain(best.configuration).items():
        assert (f"{name}={value}" in ranked.page.answer) == (value != "none")
    assert "90 % interval" in ranked.page.answer
    assert dict(ranked.page.facts.pairs)["calibration status"] == "calibrated GPU"
    assert best.time.calibration_status == "calibrated GPU; closed forms"
    width = ranked.scenario.calibration.log_error_90(ranked.ranking.kernel, ranked.ranking.fidelity)
    assert width is not None
    assert f"within a factor of {math.exp(width):.2f}" in paragraphs(ranked.page, "reading")


def test_terms_add_up_to_what_the_prediction_holds(ranked: Ranked) -> None:
    table, best = ranked.page.table("terms"), ranked.ranking.best
    place = rival_place(ranked.ranking.top)
    assert place is not None
    rival = ranked.ranking.top[place]
    for name, here, there, saved in zip(
        column(table, "term"),
        values(table, "#1 µs"),
        values(table, f"#{place + 1} µs"),
        values(table, "saved µs"),
        strict=True,
    ):
        term = name.replace(" ", "_")
        first, second = float(getattr(best.time.terms, term)), float(getattr(rival.time.terms, term))
        assert (here, there) == (first * 1e6, second * 1e6)
        assert saved == pytest.approx((second - first) * 1e6)


def with_time(found: Prediction, seconds: float) -> Prediction:
    return replace(found, time=replace(found.time, predicted_s=seconds))


@pytest.mark.parametrize(
    ("seconds", "rival", "text"),
    [
        ((1.0, 1.2, 1.3), 1, "Rank 1 is the fastest; rank 2 ("),
        (
            (1.0, 1.02, 1.2),
            2,
            "Ranks 1–2 lie within 2.0%, which the model cannot tell apart; rank 3 (",
        ),
        ((1.0, 1.01, 1.02), None, "Ranks 1–3 lie within 2.0%, which the model cannot tell apart."),
    ],
)
def test_a_tie_is_called_one(ranked: Ranked, seconds: tuple[float, ...], rival: int | None, text: str) -> None:
    top = tuple(with_time(found, s) for found, s in zip(ranked.ranking.top, seconds, strict=False))
    assert rival_place(top) == rival
    page = ranking_page(replace(ranked.ranking, top=top), ranked.scenario, "")
    assert text in paragraphs(page, "time")


def test_every_field_can_be_changed(ranked: Ranked) -> None:
    changes = sensitivity(ranked.ranking.best, ranked.scenario)
    table = ranked.page.table("sensitivity")
    assert column(table, "field") == [change.field for change in changes]
    assert set(column(table, "field")) <= set(plain(ranked.ranking.best.configuration))
    shown = values(table, "time %")
    assert any(value is not None and value > 0 for value in shown)
    for value, why, change in zip(shown, column(table, "cannot run because"), changes, strict=True):
        if change.ratio is None:
            assert value is None
            assert why == change.rejection
        else:
            assert value == pytest.approx((change.ratio - 1) * 100)


def test_headroom_is_what_the_peak_rates_leave(ranked: Ranked) -> None:
    reached = throughput(ranked.ranking.best, ranked.scenario.gpu)
    shares = (reached.fp32_share, *reached.level_shares)
    table = ranked.page.table("headroom")
    assert values(table, "% of peak") == pytest.approx([100 * share for share in shares])
    assert all(
        a is not None and b is not None and a + b == pytest.approx(100)
        for a, b in zip(values(table, "% of peak"), values(table, "left %"), strict=True)
    )


def test_each_mark_lies_on_its_line_of_occupancy(ranked: Ranked) -> None:
    for found in ranked.ranking.top:
        line = resident_warps(found, ranked.scenario.gpu, [found.resources.registers_per_thread])
        assert line.warps_per_sm.tolist() == [found.occupancy.warps_per_sm]


def test_rejected_candidates_are_counted(ranked: Ranked) -> None:
    table = ranked.page.table("rejected")
    assert dict(zip(column(table, "reason"), values(table, "candidates"), strict=True)) == ranked.ranking.rejected


def test_a_field_without_effect_is_absent_among_numbers() -> None:
    scenario = scenario_of(GPU)
    ranking = rank_problem(
        Conv2d(height=64, width=64, filter_height=3, filter_width=3), scenario, Fidelity.ANALYTIC, top=60
    )
    table = ranking_page(ranking, scenario, "").table("ranking")
    assert {"none"} < set(column(table, "exchange"))
    assert not next(c for c in table.columns if c.title == "exchange").numeric
    assert next(c for c in table.columns if c.title == "block_x").numeric


def test_the_validation_shows_what_validate_says(validated: Validated) -> None:
    agreement = validated.found.accuracy
    shown = dict(
        zip(
            column(validated.page.table("accuracy"), "measure"),
            values(validated.page.table("accuracy"), "value"),
            strict=True,
        )
    )
    assert shown["MAPE %"] == pytest.approx(agreement.mape * 100)
    assert shown["MAPE after one factor %"] == pytest.approx(agreement.mape_scaled * 100)
    assert shown["factor"] == agreement.scale
    assert shown["Kendall's tau-b"] == agreement.kendall_tau
    assert shown["regret of the top 5"] == agreement.regret_top5
    assert validated.runs.accuracy == agreement


def test_every_row_is_there_and_the_worst_come_first(validated: Validated) -> None:
    rows, worst = validated.page.table("rows"), validated.page.table("worst")
    assert len(rows.rows) == 24
    measured = np.array(values(rows, "measured µs"))
    predicted = np.array(values(rows, "predicted µs"))
    np.testing.assert_allclose(values(rows, "error %"), (predicted / measured - 1) * 100, atol=1e-6)
    scale = validated.found.accuracy.scale
    np.testing.assert_allclose(
        values(rows, "error after factor %"), (predicted * scale / measured - 1) * 100, atol=1e-6
    )
    errors = np.abs(np.array(values(rows, "error after factor %")))
    assert [int(v or 0) - 1 for v in values(worst, "#")] == np.argsort(-errors, kind="stable")[:10].tolist()


def test_without_counters_it_says_so(validated: Validated) -> None:
    assert paragraphs(validated.page, "agreement") == "The file has no hardware counters."


@pytest.mark.parametrize("shows", ["ranking", "validation"])
def test_a_page_is_well_formed_and_refers_to_itself_alone(shows: str, ranked: Ranked, validated: Validated) -> None:
    page = ranked.page if shows == "ranking" else validated.page
    text = html_text(page)
    assert text == html_text(page)
    outline = Outline(text)
    assert outline.open == []
    assert [name for name, times in outline.ids.items() if times > 1] == []
    assert outline.targets <= set(outline.ids)
    assert all(reference.startswith("data:") for reference in outline.references)
    assert re.findall(r"https?://", text) == []
    assert all(header.get("scope") == "col" for header in outline.headers)
    assert [header.get("aria-sort") for header in outline.headers].count("ascending") == 1


def test_the_same_figures_are_drawn_twice(ranked: Ranked, validated: Validated) -> None:
    again = ranking_page(ranked.ranking, ranked.scenario, "perfmodel report …")
    assert again.drawings == ranked.page.drawings
    assert [drawing.name for drawing in again.drawings] == ["figure-time", "figure-roofline", "figure-occupancy"]
    assert [d.name for d in validated.page.drawings] == ["figure-measured", "figure-regret", "figure-limiter"]
    assert all("<text" in drawing.svg for drawing in again.drawings)
