"""Pages opened in Chromium from a file, without a network: tables sort, figures are seen, nothing is asked of anybody."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from PIL import Image

from perfmodel.figures.report.html import html_text
from perfmodel.figures.report.parts import Cell, Column, Facts, Page, Paragraph, Section, Table, number, percent, words

from .conftest import Browse, Ranked, Validated

pytestmark = pytest.mark.browser

HOSTILE = "</script><script>document.title = 'taken'</script><img src='x.png' onerror='document.title = 1'>"
TRICKY = Table(
    name="tricky",
    caption="numbers that text would order otherwise",
    columns=(Column(title="number"), Column(title="change"), Column(title="word", numeric=False)),
    rows=(
        (number(1000.6), percent(0.02, signed=True), words("tile 10")),
        (number(9.0), percent(-0.3, signed=True), words("tile 9")),
        (number(None), percent(None), words("Tile 2")),
        (number(-2.0), percent(0.1, signed=True), words("tile 9")),
        (number(0.00000123), percent(-0.02, signed=True), words(HOSTILE)),
    ),
)
"""Sorted as text: –, -2, 0, 1,001, 9."""


def file_of(page: Page, folder: Path) -> Path:
    path = folder / "page with spaces & ünicode.html"
    path.write_text(html_text(page), encoding="utf-8")
    return path


def cells(table: Table, column: int) -> dict[str, str]:
    """The step that reads a column's text from top to bottom."""
    rows = f"document.querySelectorAll('#table-{table.name} tbody tr')"
    return {"run": f"Array.from({rows}, row => row.cells[{column}].textContent)"}


def header(table: Table, column: int) -> str:
    return f"#table-{table.name} th:nth-child({column + 1})"


def sorted_by(table: Table, column: int, direction: str) -> dict[str, str]:
    """The step that waits until a header says how its column is sorted."""
    return {"until": f"document.querySelector('{header(table, column)}').getAttribute('aria-sort') === '{direction}'"}


def ordered(table: Table, column: int, *, descending: bool) -> list[str]:
    """A numeric column's text as it should stand after a click: absent last, equal ones as they came."""
    found = [row[column] for row in table.rows]
    present = [cell for cell in found if cell.value is not None]
    sign = -1.0 if descending else 1.0
    present.sort(key=lambda cell: sign * (cell.value or 0.0))
    return [cell.text for cell in [*present, *(cell for cell in found if cell.value is None)]]


def texts(found: Sequence[Cell]) -> list[str]:
    return [cell.text for cell in found]


def column_titled(table: Table, title: str) -> int:
    return [column.title for column in table.columns].index(title)


def tricky_page() -> Page:
    return Page(
        title=f"hostile {HOSTILE}",
        answer=HOSTILE,
        facts=Facts(pairs=((HOSTILE, HOSTILE),)),
        sections=(Section(name="only", heading=HOSTILE, blocks=(Paragraph(text=HOSTILE), TRICKY)),),
        command=HOSTILE,
    )


def test_the_browser_reports_what_a_page_asks_for_and_complains_of(tmp_path: Path, browser: Browse) -> None:
    """Without this the empty lists below would prove nothing."""
    path = tmp_path / "leaky.html"
    path.write_text(
        "<img src='http://192.0.2.1/a.png'><script src='https://example.com/b.js'></script>"
        "<script>console.error('complaint'); fetch('http://192.0.2.1/c').catch(() => { document.title = 'refused'; })</script>",
        encoding="utf-8",
    )
    seen = browser(path, {"until": "document.title === 'refused'"})
    assert seen.steps == [True]
    assert {"http://192.0.2.1/a.png", "https://example.com/b.js", "http://192.0.2.1/c"} <= set(seen.requests)
    assert any("complaint" in line for line in seen.console)


def test_the_policy_of_a_page_forbids_what_is_not_in_it(tmp_path: Path, browser: Browse) -> None:
    text = html_text(tricky_page())
    path = tmp_path / "page.html"
    path.write_text(
        text.replace("</body>", "<script>document.title = 'taken'</script><img src='http://192.0.2.1/a.png'></body>"),
        encoding="utf-8",
    )
    seen = browser(path, {"run": "document.title"})
    assert seen.steps == [f"hostile {HOSTILE}"]
    assert seen.requests == []
    assert sum("Content Security Policy" in line for line in seen.console) == 2


def test_what_users_name_is_text(tmp_path: Path, browser: Browse) -> None:
    seen = browser(
        file_of(tricky_page(), tmp_path),
        {"run": "document.title"},
        {"run": "document.querySelectorAll('img, script').length"},
        {"run": "document.querySelector('.answer').textContent"},
        cells(TRICKY, 2),
    )
    assert seen.steps == [f"hostile {HOSTILE}", 1, HOSTILE, texts([row[2] for row in TRICKY.rows])]
    assert (seen.opened, seen.console, seen.requests) == (True, [], [])


def test_columns_sort_as_what_they_hold(tmp_path: Path, browser: Browse) -> None:
    steps = []
    for column in range(2):
        for direction in ("ascending", "descending"):
            steps += [
                {"click": f"{header(TRICKY, column)} button"},
                sorted_by(TRICKY, column, direction),
                cells(TRICKY, column),
            ]
    words_first = [{"click": f"{header(TRICKY, 2)} button"}, sorted_by(TRICKY, 2, "ascending"), cells(TRICKY, 2)]
    others = {"run": "document.querySelectorAll('th[aria-sort]').length"}
    told = {"run": "document.getElementById('sorted').textContent"}
    seen = browser(file_of(tricky_page(), tmp_path), *steps, *words_first, others, told)
    assert seen.steps[2] == ["-2", "0", "9", "1,001", "–"]
    assert seen.steps[2] != sorted(seen.steps[2])
    assert seen.steps[5] == ["1,001", "9", "0", "-2", "–"]
    assert seen.steps[8] == ["-30.00", "-2.00", "+2.00", "+10.00", "–"]
    assert seen.steps[11] == ["+10.00", "+2.00", "-2.00", "-30.00", "–"]
    assert seen.steps[14] == [HOSTILE, "Tile 2", "tile 9", "tile 9", "tile 10"]
    assert seen.steps[15:] == [1, "sorted by word, ascending"]
    assert [answer for answer in seen.steps if isinstance(answer, bool)] == [True] * 5
    assert seen.console == []


def test_a_header_is_worked_by_keyboard(tmp_path: Path, browser: Browse) -> None:
    focus = {"run": f"(document.querySelector('{header(TRICKY, 0)} button').focus(), document.activeElement.tagName)"}
    steps = ({"press": "Space"}, sorted_by(TRICKY, 0, "ascending"), {"press": "Return"})
    seen = browser(file_of(tricky_page(), tmp_path), focus, *steps, sorted_by(TRICKY, 0, "descending"))
    assert seen.steps == ["BUTTON", None, True, None, True]


@pytest.mark.parametrize("shows", ["ranking", "validation"])
@pytest.mark.parametrize("size", [(1200, 900), (360, 640)], ids=["desk", "phone"])
def test_a_page_is_whole(
    shows: str, size: tuple[int, int], ranked: Ranked, validated: Validated, tmp_path: Path, browser: Browse
) -> None:
    page = ranked.page if shows == "ranking" else validated.page
    table = page.table("ranking" if shows == "ranking" else "rows")
    column = column_titled(table, "predicted µs")
    button = {"click": f"{header(table, column)} button"}
    boxes = (
        "Array.from(document.querySelectorAll('figure svg'), svg => { const box = svg.getBoundingClientRect();"
        " return [svg.checkVisibility(), box.width, box.height]; })"
    )
    seen = browser(
        file_of(page, tmp_path),
        {"run": "[location.protocol, document.title]"},
        cells(table, column),
        button,
        sorted_by(table, column, "ascending"),
        cells(table, column),
        button,
        sorted_by(table, column, "descending"),
        cells(table, column),
        {"run": boxes},
        {"run": "document.documentElement.scrollWidth <= document.documentElement.clientWidth"},
        size=size,
    )
    assert seen.opened
    assert seen.steps[0] == ["file:", page.title]
    assert seen.steps[1] == texts([row[column] for row in table.rows])
    assert seen.steps[4] == ordered(table, column, descending=False)
    assert seen.steps[7] == ordered(table, column, descending=True)
    assert seen.steps[4] != seen.steps[7]
    assert (seen.steps[3], seen.steps[6], seen.steps[9]) == (True, True, True)
    assert len(seen.steps[8]) == len(page.drawings) == 3
    for visible, width, height in seen.steps[8]:
        assert visible
        assert width >= min(300, 0.8 * size[0])
        assert height > 80
    assert (seen.console, seen.requests) == ([], [])


def test_of_a_long_table_the_first_rows_are_shown(tmp_path: Path, browser: Browse) -> None:
    count = 1200
    table = Table(
        name="long",
        caption="long",
        columns=(Column(title="place", order="ascending"),),
        rows=tuple((number(place),) for place in range(count)),
    )
    section = Section(name="only", heading="only", blocks=(table,))
    page = Page(title="long", answer="", facts=Facts(pairs=()), sections=(section,), command="")
    visible = "Array.from(document.querySelectorAll('#table-long tbody tr')).filter(row => row.checkVisibility())"
    look = {"run": f"[{visible}.length, {visible}.at(0).textContent, {visible}.at(-1).textContent]"}
    more = {"run": "[document.querySelector('.more').checkVisibility(), document.querySelector('.more').textContent]"}
    steps = (look, more, {"click": f"{header(table, 0)} button"}, sorted_by(table, 0, "descending"), look)
    seen = browser(
        file_of(page, tmp_path),
        *steps,
        {"click": ".more"},
        {"until": f"{visible}.length === 1000"},
        {"click": ".more"},
        {"until": f"{visible}.length === {count}"},
        more,
    )
    assert seen.steps[0] == [500, "0", "499"]
    assert seen.steps[1] == [True, "show more (500 of 1200 rows)"]
    assert seen.steps[3:5] == [True, [500, "1,199", "700"]]
    assert seen.steps[6::2] == [True, True]
    assert seen.steps[9] == [False, "show more (1200 of 1200 rows)"]
    assert seen.console == []


def test_figures_are_painted(ranked: Ranked, tmp_path: Path, browser: Browse) -> None:
    """Each figure alone on the screen, in more than one colour of the palette beside black and white."""
    names = [drawing.name for drawing in ranked.page.drawings]
    steps = []
    for name in names:
        selector = json.dumps(f"#{name}")
        steps += [
            {"run": f"(document.querySelector({selector}).scrollIntoView(), 0)"},
            {"picture": str(tmp_path / f"{name}.png")},
        ]
    seen = browser(file_of(ranked.page, tmp_path), *steps, size=(900, 500))
    assert seen.steps[1::2] == [True] * len(names)
    for name in names:
        with Image.open(tmp_path / f"{name}.png") as picture:
            counted = picture.convert("RGB").getcolors(maxcolors=2**24) or []
        vivid = {colour for times, colour in counted if times > 20 and max(colour) - min(colour) > 60}
        assert len(vivid) >= 2, name


def test_a_table_that_is_not_sortable_stays_as_it_is(validated: Validated, tmp_path: Path, browser: Browse) -> None:
    seen = browser(
        file_of(validated.page, tmp_path), {"run": "document.querySelectorAll('#table-accuracy button').length"}
    )
    assert seen.steps == [0]
