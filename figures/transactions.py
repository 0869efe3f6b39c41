"""Load requests by filter width: what column reuse, row reuse and both save, and what the shuffles cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perfmodel.core.constants import WARP_SIZE
from perfmodel.families.base import Batch
from perfmodel.families.direct_conv2d import Accumulators, Conv2d, DirectConv2dConfiguration, Exchange, Reuse
from perfmodel.families.registry import family_of
from perfmodel.gpus.catalogue import load_gpu

from .registry import Request
from .style import CYCLE, MARKERS, PAGE_INCHES, figure, number_ticks, round_numbers, save

FILTER_WIDTHS = tuple(range(1, 16))
GPU = "h200"
ROW_SHUFFLES = 1
"""Shuffles of a warp with column reuse that find its row and exchange no taps."""
FEW_REQUESTS = 50
"""Requests up to which an axis needs ticks between the powers of ten."""
NAMES = {
    Reuse.NONE: "every thread loads all its taps",
    Reuse.COLUMN: "column reuse",
    Reuse.ROW: "row reuse",
    Reuse.COLUMN_ROW: "both",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Accesses:
    """Load requests of one warp whose lanes all have outputs, and the shuffles with which it exchanges taps."""

    loads: int
    shuffles: int


def accesses(reuse: Reuse, filter_height: int, filter_width: int, rows: int) -> Accesses:
    """Of one warp that computes ``rows`` outputs in each lane, all within the image; by the family's closed forms.

    >>> [accesses(reuse, 5, 5, 1).loads for reuse in (Reuse.NONE, Reuse.COLUMN)]
    [25, 10]
    >>> [accesses(reuse, 3, 1, 3).loads for reuse in (Reuse.NONE, Reuse.ROW)]
    [9, 5]
    >>> accesses(Reuse.COLUMN, 1, 5, 1)  # 2 + 3: the exchange takes the slots that the loads leave
    Accesses(loads=2, shuffles=3)
    """
    problem = Conv2d(
        height=filter_height + rows - 1,
        width=WARP_SIZE + filter_width - 1,
        filter_height=filter_height,
        filter_width=filter_width,
    )
    configuration = DirectConv2dConfiguration(
        reuse=reuse,
        exchange=Exchange.SELECT if reuse.columns else None,
        accumulators=Accumulators.UNROLLED if reuse.rows else None,
        rows_per_thread=rows,
        block_x=WARP_SIZE,
        block_y=1,
    )
    counts = family_of(problem).profile(problem, Batch.of([configuration]), load_gpu(GPU)).counts.at(0)
    exchanges = counts.shuffles - ROW_SHUFFLES if reuse.columns else counts.shuffles
    return Accesses(loads=int(counts.global_load_requests), shuffles=int(exchanges))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Panel:
    title: str
    modes: tuple[Reuse, ...]
    sizes: Callable[[int], tuple[int, int, int]]
    """Filter height, filter width and rows of outputs for a width."""
    marked: int


_PANELS = (
    _Panel(
        title="a row of F taps",
        modes=(Reuse.NONE, Reuse.COLUMN),
        sizes=lambda width: (1, width, 1),
        marked=5,
    ),
    _Panel(
        title="a window of F×F taps",
        modes=(Reuse.NONE, Reuse.COLUMN),
        sizes=lambda width: (width, width, 1),
        marked=5,
    ),
    _Panel(
        title="a column of F taps, F outputs each",
        modes=(Reuse.NONE, Reuse.ROW),
        sizes=lambda width: (width, 1, width),
        marked=3,
    ),
    _Panel(
        title="F×F taps, F outputs each",
        modes=(Reuse.NONE, Reuse.COLUMN, Reuse.ROW, Reuse.COLUMN_ROW),
        sizes=lambda width: (width, width, width),
        marked=5,
    ),
)


def draw(request: Request) -> tuple[Path, Path]:
    """Filters of width 1 to 15."""
    return draw_transactions(request.folder, FILTER_WIDTHS)


def draw_transactions(folder: Path, widths: tuple[int, ...], name: str = "transactions") -> tuple[Path, Path]:
    """Requests of a full warp by filter width F, on a logarithmic axis; dashed: load requests and shuffles together."""
    with figure(PAGE_INCHES, 4.6, nrows=2, ncols=2, sharex=True) as (drawn, axes):
        for axis, panel in zip(axes.flat, _PANELS, strict=True):
            _draw_panel(axis, panel, widths)
        for axis in axes[1]:
            axis.set_xlabel("filter width F")
        for axis in axes[:, 0]:
            axis.set_ylabel("requests of a warp")
        handles, labels = axes[1][1].get_legend_handles_labels()
        drawn.legend(handles, labels, loc="outside lower center", ncols=3)
        return save(drawn, folder, name)


def _draw_panel(axis: Any, panel: _Panel, widths: tuple[int, ...]) -> None:
    marks = []
    for mode in panel.modes:
        style = list(Reuse).index(mode)
        found = [accesses(mode, *panel.sizes(width)) for width in widths]
        axis.plot(
            widths, [one.loads for one in found], color=CYCLE[style], marker=MARKERS[style], ms=3, label=NAMES[mode]
        )
        if mode.columns:
            together = [one.loads + one.shuffles for one in found]
            axis.plot(widths, together, "--", color=CYCLE[style], lw=1, label=f"{NAMES[mode]}: loads and shuffles")
        marks.append(accesses(mode, *panel.sizes(panel.marked)).loads)
    axis.set_yscale("log")
    axis.yaxis.set_major_formatter("{x:,.0f}")
    if axis.get_ylim()[1] < FEW_REQUESTS:
        number_ticks(axis.yaxis, round_numbers(*axis.get_ylim()))
    axis.set_xticks(range(1, widths[-1] + 1, 2))
    axis.axvline(panel.marked, color="0.8", lw=0.8, zorder=0)
    axis.set_title(f"{panel.title}; F = {panel.marked}: {' → '.join(str(mark) for mark in marks)}")
