"""Figures of one ranking: where the time goes, how near the roofs it comes, what a register more would cost."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from perfmodel.core.constants import WARP_SIZE
from perfmodel.gpus.gpu import Gpu
from perfmodel.gpus.occupancy import Occupancy, occupancy
from perfmodel.prediction.prediction import Prediction
from perfmodel.prediction.ranking import Ranking

from ..style import CYCLE, MARKERS
from ..time_terms import BARS, Bar, draw_time_terms
from .parts import Drawing
from .roofline_drawing import roofline
from .svg import canvas, markup, markup_of_file

WIDTH_INCHES = 4.6
SHAPES = 3
"""Block shapes whose occupancy is drawn: those of the best configurations."""
_DASHES = ("-", "--", ":")


def time_drawing(ranking: Ranking) -> Drawing:
    """Stacked terms of the first configurations and, where there are more, of the last ones of the table."""
    bars = [
        Bar(label=f"#{place}", seconds=found.time.predicted_s, terms=found.time.terms)
        for place, found in enumerate(ranking.top, 1)
    ]
    panels = [("the best configurations of the table", bars[:BARS])]
    if len(bars) > BARS:
        panels.append(("its last ones", bars[max(BARS, len(bars) - BARS) :]))
    return Drawing(
        name="figure-time",
        svg=markup_of_file(lambda folder: draw_time_terms(folder, panels), "figure-time"),
        says="stacked bars of what each resource needs, for the first and the last configurations of the table",
        caption="Every resource's time as if it worked alone, stacked; the diamond is the predicted time, in which they "
        "overlap. Numbers are those of the table.",
        wide=True,
    )


def roofline_drawing(ranking: Ranking, gpu: Gpu) -> Drawing | None:
    """First and last of the table below the roofs; None where the kernel does no FP32 work that a roof could limit."""
    shown = {1: ranking.best, len(ranking.top): ranking.top[-1]}
    return roofline(
        {f"#{place}": found for place, found in shown.items()}, gpu, "the first and the last configuration of the table"
    )


def resident_warps(found: Prediction, gpu: Gpu, registers: Sequence[int]) -> Occupancy:
    """Occupancy of a configuration's block over other numbers of registers; arrays of their shape."""
    resources, resident = found.resources, found.occupancy
    return occupancy(
        gpu,
        threads_per_block=resident.warps_per_sm // resident.blocks_per_sm * WARP_SIZE,
        registers_per_thread=np.asarray(registers, np.int64),
        shared_bytes_per_block=resources.static_shared_bytes + resources.dynamic_shared_bytes,
        static_shared_bytes_per_block=resources.static_shared_bytes,
    )


def occupancy_drawing(ranking: Ranking, gpu: Gpu) -> Drawing:
    """Resident warps by registers for the blocks of the best configurations, each configuration a mark on its line."""
    groups: dict[tuple[int, int], dict[int, Prediction]] = {}
    for place, found in enumerate(ranking.top, 1):
        resources = found.resources
        warps = found.occupancy.warps_per_sm // found.occupancy.blocks_per_sm
        groups.setdefault((warps, resources.static_shared_bytes + resources.dynamic_shared_bytes), {})[place] = found
    registers = range(16, gpu.max_registers_per_thread + 1)
    with canvas(WIDTH_INCHES, 3.0) as (drawn, axes):
        looks = zip(CYCLE, _DASHES, MARKERS, strict=False)
        for (warps, shared), (colour, dash, marker) in zip(list(groups)[:SHAPES], looks, strict=False):
            members = groups[warps, shared]
            line = resident_warps(next(iter(members.values())), gpu, registers)
            label = (
                f"{warps * WARP_SIZE:,} threads, {shared:,} bytes of shared memory: #{', #'.join(map(str, members))}"
            )
            axes.step(registers, line.warps_per_sm, dash, where="post", color=colour, label=_shortened(label))
            for found in members.values():
                axes.plot(
                    found.resources.registers_per_thread, found.occupancy.warps_per_sm, marker, color=colour, ms=6
                )
        axes.set_xlabel("registers per thread")
        axes.set_ylabel("resident warps per SM")
        axes.set_ylim(0, gpu.max_warps_per_sm * 1.05)
        axes.grid(axis="y", color="0.9", lw=0.6)
        drawn.legend(loc="outside lower left", ncols=1)
        svg = markup(drawn, "figure-occupancy")
    return Drawing(
        name="figure-occupancy",
        svg=svg,
        says="resident warps by registers per thread for the blocks of the best configurations",
        caption="Where a line steps down, one register more costs a resident block. Marks are the configurations of the table.",
    )


def _shortened(label: str, longest: int = 64) -> str:
    return label if len(label) <= longest else f"{label[:longest].rpartition(',')[0]}, …"
