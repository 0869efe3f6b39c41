"""Pointwise convolution: does the tile with the largest arithmetic intensity M_A have the shortest time?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from perfmodel.families.pointwise_conv2d import PointwiseConv2d
from perfmodel.families.pointwise_conv2d.report import LayerReport, layer_report
from perfmodel.families.pointwise_conv2d.selection import Rule
from perfmodel.families.registry import family_of
from perfmodel.prediction.predicting import evaluate_scenario
from perfmodel.prediction.scenario import Scenario, scenario_of

from .registry import Request
from .style import CYCLE, MARKERS, PAGE_INCHES, figure, number_ticks, round_numbers, save, short_name

GPU = "rtx-2080-ti"
LAYERS = (
    PointwiseConv2d(in_channels=32, out_channels=64, height=112, width=112),
    PointwiseConv2d(in_channels=512, out_channels=512, height=14, width=14),
)
"""An early and a late layer of MobileNetV1, batch 1."""
CHOICES = {
    Rule.INTENSITY: ("largest M_A, then fewest blocks", "o"),
    Rule.REGISTERS: ("fewest registers", "s"),
    Rule.PREDICTED_TIME: ("shortest predicted time", "D"),
}


def report_of(problem: PointwiseConv2d, scenario: Scenario) -> LayerReport:
    """Every tuple of the layer's space with its intensity and predicted time; those that cannot run are infinite."""
    family = family_of(problem)
    batch = family.space(problem, scenario.gpu).batch()
    seconds = evaluate_scenario(family, problem, batch, scenario).seconds
    return layer_report(problem, batch, scenario.gpu, predicted_s=seconds)


def draw(request: Request) -> tuple[Path, Path]:
    """Two layers on the GPU of the method's authors."""
    return draw_intensity_time(request.folder, LAYERS, scenario_of(GPU))


def draw_intensity_time(
    folder: Path, layers: Sequence[PointwiseConv2d], scenario: Scenario, name: str = "intensity_time"
) -> tuple[Path, Path]:
    """One panel for each layer; large open marks show what each of three rules chooses."""
    with figure(PAGE_INCHES, 3.3, ncols=len(layers), squeeze=False) as (drawn, axes):
        for axis, problem in zip(axes[0], layers, strict=True):
            _panel(axis, report_of(problem, scenario))
            axis.set_title(
                f"{problem.in_channels} → {problem.out_channels} channels, {problem.height}×{problem.width}, "
                f"{short_name(scenario.gpu)}"
            )
        axes[0][0].set_ylabel("predicted time in µs")
        handles, labels = axes[0][0].get_legend_handles_labels()
        drawn.legend(handles, labels, loc="outside lower center", ncols=3)
        return save(drawn, folder, name)


def _panel(axis: Any, report: LayerReport) -> None:
    runs = [
        entry
        for entry in report.tuples
        if entry.rejection is None and entry.predicted_s is not None and np.isfinite(entry.predicted_s)
    ]
    for index, resident in enumerate(sorted({entry.configuration.blocks_per_sm for entry in runs})):
        some = [entry for entry in runs if entry.configuration.blocks_per_sm == resident]
        times = [(entry.predicted_s or 0.0) * 1e6 for entry in some]
        label = f"planned for {resident} blocks per SM"
        axis.plot(
            [entry.intensity for entry in some],
            times,
            MARKERS[index + 2],
            color=CYCLE[index],
            ms=3.5,
            mew=0,
            label=label,
        )
    for rule, (label, marker) in CHOICES.items():
        place = report.chosen[rule]
        if place is not None:
            entry = report.tuples[place]
            time = (entry.predicted_s or 0.0) * 1e6
            axis.plot(entry.intensity, time, marker, mfc="none", mec="black", ms=9, mew=1.2, ls="none", label=label)
    axis.set(xscale="log", yscale="log", xlabel="arithmetic intensity M_A, multiplications per word")
    number_ticks(axis.xaxis, round_numbers(*axis.get_xlim()))
    number_ticks(axis.yaxis, round_numbers(*axis.get_ylim()))
