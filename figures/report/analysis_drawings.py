"""The warps of a block over time, as the model of one SM follows them."""

from __future__ import annotations

from perfmodel.core.units import MICROSECONDS
from perfmodel.machine_code.issue_table import IssueTable
from perfmodel.prediction.analyze import Analysis
from perfmodel.prediction.warp_times import Waiting, WarpSpan, timeline

from .parts import Drawing
from .svg import canvas, markup

MOST_WARPS = 8
MOST_SPANS = 2_500
"""Spans beyond which the drawing ends earlier: a page is to open at once."""
_COLOURS = {
    Waiting.ISSUING: "#0072B2",
    Waiting.MEMORY: "#D55E00",
    Waiting.SHORT: "#E69F00",
    Waiting.BARRIER: "#CC79A7",
    Waiting.NOT_SELECTED: "#56B4E9",
}


def timeline_drawing(analysis: Analysis) -> Drawing | None:
    """Each warp of the SM's first block as a row; None where the model of one SM gave no time."""
    traces, issues = analysis.execution.profile.traces, analysis.issues
    if traces is None or issues is None:
        return None
    table: IssueTable = traces.table
    spans = timeline(issues, table, analysis.scenario.gpu.boost_clock_hz, MOST_WARPS)
    if not spans:
        return None
    end_s = _end(spans)
    shown = [span for span in spans if span.begin_s < end_s]
    begin_s = min(span.begin_s for span in shown)
    warps = max(span.warp for span in shown) + 1
    with canvas(8.0, 1.1 + 0.3 * warps) as (drawn, axes):
        for kind, colour in _COLOURS.items():
            for warp in range(warps):
                own = [
                    ((span.begin_s - begin_s) * MICROSECONDS, (min(span.end_s, end_s) - span.begin_s) * MICROSECONDS)
                    for span in shown
                    if span.warp == warp and span.waiting is kind
                ]
                axes.broken_barh(own, (warp - 0.4, 0.8), color=colour, lw=0)
            axes.plot([], [], color=colour, lw=5, label=kind.value)
        axes.set(xlim=(0, (end_s - begin_s) * MICROSECONDS), ylim=(warps - 0.5, -0.5), yticks=range(warps))
        axes.set_xlabel("µs from the block's first instruction")
        axes.set_ylabel("warp")
        drawn.legend(loc="outside lower center", ncols=3)
        svg = markup(drawn, "figure-warps")
    cut = "" if end_s == max(span.end_s for span in spans) else " Later instructions are not shown."
    return Drawing(
        name="figure-warps",
        svg=svg,
        says="rows of bars: what each warp of a block waits for until it issues its next instruction, over time",
        caption="The first block of an SM by the model of one SM: what each of its warps waits for until it issues its next "
        f"instruction.{cut}",
        wide=True,
    )


def _end(spans: tuple[WarpSpan, ...]) -> float:
    """When the drawing ends: with the block, or with the most spans that are drawn."""
    ends = sorted(span.end_s for span in spans)
    return ends[min(len(ends), MOST_SPANS) - 1]
