"""The page of an analysis: its numbers are those of the analysis, and it works in Chromium from one file without a network."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

import perfmodel as pm
from perfmodel.cli.app import run
from perfmodel.figures.report.analysis_page import analysis_page
from perfmodel.figures.report.html import html_text
from perfmodel.figures.report.parts import CodePane, CodeView, Page
from perfmodel.prediction.analyze import Analysis
from perfmodel.prediction.warp_times import Waiting, timeline

from .conftest import Browse

pytestmark = pytest.mark.compiler

TRANSPOSE = Path(__file__).parents[3] / "examples" / "transpose.cu"
ARGUMENTS = ("f32[256*256]", "f32[256*256]=0", "i32=256")
CONFLICT = "transpose.cu:20"


@cache
def analysed() -> Analysis:
    return pm.analyze(
        TRANSPOSE, kernel="transpose", grid=(8, 8), block=(32, 8), args=list(ARGUMENTS), gpu="h200", lines=True
    )


@cache
def page() -> Page:
    return analysis_page(analysed(), pm.advise(analysed()), "perfmodel analyze …")


def code() -> CodeView:
    return next(block for section in page().sections for block in section.blocks if isinstance(block, CodeView))


def pane(name: str) -> CodePane:
    return next(pane for pane in code().panes if pane.name == name)


def column(of: CodePane, title: str) -> list[float]:
    place = of.columns.index(title)
    return [row.numbers[place].value or 0.0 for row in of.rows]


def test_source_and_machine_code_hold_the_whole_launch() -> None:
    prediction = analysed().prediction
    for of, executed in ((pane("source-0"), "instructions"), (pane("machine"), "executed")):
        assert sum(column(of, executed)) == float(prediction.counts.warp_instructions)
        assert sum(column(of, "µs")) == pytest.approx(prediction.time.predicted_s * 1e6)


def test_lines_of_all_three_belong_together() -> None:
    assert [row.label for row in pane("source-0").rows if row.place == CONFLICT] == ["20"]
    assert any(row.text.startswith("LDS") for row in pane("machine").rows if row.place == CONFLICT)
    assert any(row.text.startswith("ld.shared") for row in pane("ptx").rows if row.place == CONFLICT)


def test_the_excess_of_a_line_is_counted_and_has_a_time() -> None:
    source = pane("source-0")
    row = next(row for row in source.rows if row.place == CONFLICT)
    wavefronts = row.numbers[source.columns.index("excess wavefronts")].value
    assert wavefronts == 64 * 32 * 31  # blocks · requests of a block · wavefronts beyond the one that would do
    assert row.numbers[source.columns.index("µs of excess")].value
    assert "excess sectors" not in source.columns  # every access is coalesced


def test_a_python_file_is_shown_beside_its_machine_code() -> None:
    pytest.importorskip("triton")
    found = pm.analyze(
        TRANSPOSE.with_name("triton_add.py"),
        kernel="add",
        grid=8,
        args=["f32[8192]", "f32[8192]", "f32[8192]=0", 8192],
        gpu="h200",
        defines={"BLOCK": 1024, "num_warps": 4},
    )
    (file,) = found.source_view.sources
    assert file.name == "triton_add.py"
    assert sum(line.instructions or 0 for line in file.lines) == float(found.prediction.counts.warp_instructions)


def test_warps_meet_at_the_barrier() -> None:
    issues = analysed().issues
    assert issues is not None
    spans = timeline(issues, analysed().execution.profile.traces.table, 1e9, 8)
    assert {span.warp for span in spans} == set(range(8))
    at_barrier = [span for span in spans if span.waiting is Waiting.BARRIER]
    assert max(span.end_s for span in at_barrier) - min(span.end_s for span in at_barrier) < 20e-9  # 20 cycles
    for warp in range(8):
        own = [span for span in spans if span.warp == warp]
        assert all(one.end_s == other.begin_s for one, other in pairwise(own))


def test_the_command_writes_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "page.html"
    launch = ["--kernel", "transpose", "--gpu", "h200", "--grid", "8,8", "--block", "32,8"]
    arguments = [word for spec in ARGUMENTS for word in ("--arg", spec)]
    assert run(["analyze", str(TRANSPOSE), *launch, *arguments, "--html", str(target)]) == 0
    assert capsys.readouterr().out.endswith(f"page written to {target}\n")
    text = target.read_text(encoding="utf-8")
    assert "32-way bank conflict" in text
    assert f"perfmodel analyze {TRANSPOSE} --gpu h200 --kernel transpose --grid 8,8" in text
    assert run(["analyze", str(TRANSPOSE), *launch, *arguments, "--gpu", "t4", "--html", str(target)]) == 2
    assert "a page shows one launch; 2 were asked for (several --gpu)" in capsys.readouterr().err


@pytest.mark.browser
@pytest.mark.parametrize("size", [(1500, 1000), (360, 640)], ids=["desk", "phone"])
def test_a_line_that_is_chosen_is_marked_in_all_panes(size: tuple[int, int], tmp_path: Path, browser: Browse) -> None:
    path = tmp_path / "page.html"
    path.write_text(html_text(page()), encoding="utf-8")
    marked = {"run": "Array.from(document.querySelectorAll('tr.chosen'), row => row.dataset.place)"}
    together = sum(row.place == CONFLICT for of in code().panes for row in of.rows)
    seen = (
        "Array.from(document.querySelectorAll('.pane'), pane => { const row = pane.querySelector('tr.chosen');"
        " return row.offsetTop >= pane.scrollTop && row.offsetTop <= pane.scrollTop + pane.clientHeight; })"
    )
    other = "transpose.cu:14"
    found = browser(
        path,
        {"run": "document.title"},
        marked,
        {"click": f"#code-machine tr[data-place='{CONFLICT}'] td.text"},
        {"until": f"document.getElementById('sorted').textContent === '{CONFLICT} is marked'"},
        marked,
        {"run": seen},
        {"run": f"(document.querySelector(\"#code-source-0 tr[data-place='{other}']\").focus(), 1)"},
        {"press": "Return"},
        {"until": f"document.getElementById('sorted').textContent === '{other} is marked'"},
        {"run": "document.documentElement.scrollWidth <= document.documentElement.clientWidth"},
        size=size,
    )
    assert found.steps[0] == "transpose on h200"
    assert found.steps[1] == []
    assert found.steps[4] == [CONFLICT] * together
    assert found.steps[5] == [True] * 3
    assert (found.steps[3], found.steps[8], found.steps[9]) == (True, True, True)
    assert (found.opened, found.console, found.requests) == (True, [], [])
